import re
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import lock

REQUIREMENTS = Path(__file__).parents[1] / "requirements"


def pins(name):
    lines = (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith(("#", "-")))


STAGES, TOOLS = pins("stages.txt"), pins("tools.txt")


@pytest.mark.parametrize("name", ["stages.txt", "tools.txt"])
def test_a_lock_file_is_a_sorted_list_of_exact_versions(name):
    lines = (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines()
    locked = [line for line in lines if line != "-c stages.txt"]
    assert len(locked) > 50
    assert locked == sorted(locked, key=lambda line: line.partition("==")[0])
    assert all(re.fullmatch(r"[a-z0-9-]+==[^+\s]+", line) for line in locked)


def test_what_the_stages_need_is_in_their_lock_file_and_not_among_the_tools():
    wanted = {canonicalize_name(requirement.name) for requirement in lock.wanted(REQUIREMENTS / "stages.in")}
    assert len(wanted) >= 19
    assert wanted <= set(STAGES)
    assert not set(STAGES) & set(TOOLS)


def test_a_tool_is_in_the_other_lock_file():
    wanted = {canonicalize_name(requirement.name) for requirement in lock.wanted(REQUIREMENTS / "tools.in")}
    assert {"ruff", "dvc", "prefect"} <= wanted <= set(TOOLS)


def test_predicting_needs_a_part_of_the_stages_libraries():
    wanted = {canonicalize_name(requirement.name) for requirement in lock.wanted(REQUIREMENTS / "predict.in")}
    assert "onnxruntime" in wanted
    assert "torch" not in wanted
    assert wanted <= set(STAGES)


@pytest.mark.parametrize("root", ["torch", "pydantic", "typer"])
def test_the_closure_holds_what_is_needed_indirectly_at_the_release_that_is_installed(root):
    found = lock.closure([Requirement(root)])
    assert found[root] == Version(version(root)).public
    assert {"torch": "mpmath", "pydantic": "pydantic-core", "typer": "markdown-it-py"}[root] in found
    assert {name: STAGES[name] for name in found} == found


def test_what_is_not_installed_is_named_when_a_lock_is_made():
    with pytest.raises(SystemExit, match="no-such-package is not installed"):
        lock.closure([Requirement("no-such-package")])


def test_an_installed_version_that_is_not_asked_for_is_named_when_a_lock_is_made():
    with pytest.raises(SystemExit, match=r"torch.*is asked for"):
        lock.closure([Requirement("torch==1.0")])
