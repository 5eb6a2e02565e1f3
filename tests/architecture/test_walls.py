"""Who may import whom: pyproject.toml's contracts hold, and the light commands stay light."""

import json
import subprocess
import sys

import pytest

from tests import tiny


def test_the_contracts_of_import_linter_hold():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tiny.ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.count(" KEPT") >= 3


HEAVY = {"torch", "transformers", "datasets", "evaluate", "pandas", "sklearn", "scipy", "onnx", "dvc", "prefect"}


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("stages.check", {"grimp", "pyarrow"}),
        ("stages.params", {"pyarrow"}),
        ("stages.predict", set()),
        ("pipeline.cli", {"numpy", "pydantic", "rich"}),
    ],
)
def test_what_must_start_quickly_loads_nothing_heavy(module, forbidden):
    code = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tiny.ROOT, capture_output=True, text=True, check=True)
    loaded = json.loads(ran.stdout)
    assert module in loaded
    assert (HEAVY | forbidden) & set(loaded) == set()


@pytest.mark.parametrize("file", sorted((tiny.ROOT / "stages").glob("*.py")), ids=lambda file: file.stem)
def test_no_name_in_stages_shadows_the_standard_library_where_it_would_break(file):
    assert file.stem not in {"select", "tokenize", "code", "types", "token", "copy", "operator", "io", "logging"}
