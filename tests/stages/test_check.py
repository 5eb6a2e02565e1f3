import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from stages import check, code_files
from stages.errors import DataError
from stages.params import load_params
from tests import tiny

GRAPH = YAML(typ="safe").load(tiny.ROOT / "dvc.yaml")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of what the stage reads."""
    shutil.copytree(tiny.ROOT / "stages", tmp_path / "stages", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(tiny.ROOT / "dvc.yaml", tmp_path)
    tiny.write_csv(tmp_path / "data/raw/tickets.csv", tiny.rows(4))
    tiny.write_params(tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome(project):
    """Run the stage as DVC does, in a process of its own; its exit code, and what it said."""
    command = [
        sys.executable,
        "-m",
        "stages.check",
        "data/code",
        "models/checkpoints",
        "models/history",
        "models/scores",
    ]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True)
    return ran.returncode, ran.stderr


def run(project):
    """Run the stage; what it wrote, by stage."""
    code, said = outcome(project)
    assert code == 0, said
    return {file.stem: file.read_text(encoding="utf-8") for file in (project / "data/code").iterdir()}


def edit(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def changed(before, after):
    assert before.keys() == after.keys()
    return {stage for stage in before if before[stage] != after[stage]}


def test_each_stage_but_the_first_gets_a_file_of_digests(project):
    written = run(project)
    assert set(written) == set(GRAPH["stages"]) - {"check"}
    digests = json.loads(written["evaluate"])
    assert list(digests) == sorted(digests)
    assert {"stages/evaluate.py", "stages/tasks/single_label.py", "stages/metrics/f1_macro.py"} <= set(digests)
    assert "stages/tasks/regression.py" not in digests
    assert all(len(digest) == 64 for digest in digests.values())


def test_the_same_code_and_params_give_the_same_bytes(project):
    assert run(project) == run(project)


def test_files_of_no_use_in_this_run_change_nothing(project):
    before = run(project)
    for folder in ("tasks", "metrics", "sources"):
        (project / f"stages/{folder}/unused.py").write_text('"""Unused."""\n')
    edit(project / "stages/tasks/regression.py", '"""', '"""Really: ')
    assert run(project) == before


def test_a_change_of_code_reaches_only_the_stages_that_use_it(project):
    before = run(project)
    edit(project / "stages/metrics/accuracy.py", '"""', '"""Really: ')
    metric = run(project)
    assert changed(before, metric) == {"evaluate", "test"}
    edit(project / "stages/export.py", '"""', '"""Really: ')
    assert changed(metric, run(project)) == {"export"}


def test_a_file_that_a_chosen_file_imports_counts_even_if_imported_in_a_function(project):
    (project / "stages/rounding.py").write_text('"""How to round."""\n')
    task = project / "stages/tasks/single_label.py"
    task.write_text(task.read_text(encoding="utf-8") + "\n\ndef later():\n    from stages import rounding\n")
    before = run(project)
    assert "stages/rounding.py" in json.loads(before["encode"])
    (project / "stages/rounding.py").write_text('"""How to round, really."""\n')
    after = run(project)
    assert changed(before, after) == {name for name in before if "stages/tasks/single_label.py" in before[name]}


def test_a_metric_that_stops_early_is_code_of_train(project):
    before = run(project)
    assert "stages/metrics/accuracy.py" not in before["train"]
    stopping = {"metric": "accuracy", "patience": 1, "min_delta": 0.0}
    tiny.write_params(project / "params.yaml", **{"train.early_stopping": stopping})
    after = run(project)
    assert "stages/metrics/accuracy.py" in after["train"]
    assert changed(before, after) == {"train"}


def test_how_a_stage_is_told_and_how_it_reports_is_no_reason_to_run_it_again(project):
    before = run(project)
    for name in sorted(code_files.NOT_DECIDING - {"__init__.py"}):
        assert (project / "stages" / name).is_file()
        edit(project / "stages" / name, '"""', '"""Really: ')
    assert run(project) == before


def test_what_only_a_type_checker_imports_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(code_files, "ROOT", tmp_path)
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("from . import inner")
    (tmp_path / "package/inner.py").write_text("from ..d import anything")
    (tmp_path / "a.py").write_text(
        "from typing import TYPE_CHECKING\nimport json\nimport stages.b as x\n"
        "if TYPE_CHECKING:\n    from stages import c\nelse:\n    from stages.package.inner import y\n"
    )
    assert code_files.closure(["a.py"]) == {"a.py", "b.py", "package/__init__.py", "package/inner.py", "d.py"}


def test_a_file_in_use_that_is_not_python_is_named(project):
    (project / "stages/metrics/accuracy.py").write_text("def score(:\n")
    code, said = outcome(project)
    assert code == 2
    assert "stages/metrics/accuracy.py, line 1: invalid syntax; mend the file" in said


def test_a_mistake_in_params_is_named_and_nothing_is_written(project):
    before = run(project)
    tiny.write_params(project / "params.yaml", **{"train.learning_rate": "abc"})
    code, said = outcome(project)
    assert code == 2
    assert "train.learning_rate: Input should be a valid number, not 'abc'" in said
    assert {file.stem: file.read_text() for file in (project / "data/code").iterdir()} == before


def inputs(**overrides):
    tiny.write_params(Path("params.yaml"), **overrides)
    check.check_inputs(GRAPH, load_params())


def test_raw_data_that_are_not_there_are_named_with_the_nearest_name(project):
    inputs()
    with pytest.raises(DataError, match=r"no data/raw/ticket\.csv, which prepare reads; did you mean tickets\.csv"):
        inputs(**{"data.raw": "data/raw/ticket.csv"})


def test_raw_data_that_a_stage_will_write_need_not_be_there(project):
    hub = {"name": "owner/name", "config": None, "revision": "main"}
    inputs(**{"data.hub": hub, "data.raw": "data/fetched", "data.format": "parquet"})
    with pytest.raises(DataError, match=r"with data\.hub it is what fetch_data writes"):
        inputs(**{"data.hub": hub, "data.format": "parquet"})
    with pytest.raises(DataError, match="which is null"):
        inputs(**{"data.raw": "data/fetched"})


def test_what_seeds_that_are_gone_have_left_is_removed_and_nothing_else(tmp_path, caplog):
    checkpoints, scores = tmp_path / "checkpoints", tmp_path / "scores"
    for seed in (13, 14, 15):
        (checkpoints / str(seed)).mkdir(parents=True)
        (checkpoints / str(seed) / "weights").write_text("w")
    scores.mkdir()
    for name in ("13.json", "14.json", "notes.txt", ".13.json.partial"):
        (scores / name).write_text("{}")
    (checkpoints / "15/weights").chmod(0o444)
    with caplog.at_level(logging.INFO, "stages"):
        check.remove_leftovers([checkpoints, scores, tmp_path / "nowhere"], [13])
    assert sorted(path.name for path in checkpoints.iterdir()) == ["13"]
    assert sorted(path.name for path in scores.iterdir()) == [".13.json.partial", "13.json", "notes.txt"]
    removed = [record.args[0] for record in caplog.records if record.levelno == logging.INFO]
    assert removed == [checkpoints / "14", checkpoints / "15", scores / "14.json"]
    assert "notes.txt is of no seed" in caplog.text


def test_what_a_leftover_link_points_to_is_not_touched(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/weights").write_text("w")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/14").symlink_to(tmp_path / "elsewhere")
    check.remove_leftovers([tmp_path / "checkpoints"], [13])
    assert list((tmp_path / "checkpoints").iterdir()) == []
    assert (tmp_path / "elsewhere/weights").is_file()


SMALL_GRAPH = """
vars:
  - path: {code: data/code, checkpoints: models/checkpoints, history: models/history, scores: models/scores}
stages:
  check: CHECK
  train:
    matrix: {seed: "${seeds}"}
    cmd: mkdir -p ${path.checkpoints} && echo weights > ${path.checkpoints}/${item.seed}  # stages.train
    deps: ["${path.code}/train.json"]
    outs: ["${path.checkpoints}/${item.seed}"]
  select_best:
    cmd: ls ${path.checkpoints} > models/best  # stages.select_best
    deps: ["${path.checkpoints}", "${path.code}/select_best.json"]
    outs: [models/best]
"""


def test_a_seed_that_was_dropped_leaves_nothing_behind_where_dvc_has_seen_these_params_before(project):
    """DVC's run-cache would restore what check wrote without running it: its output is therefore not cached."""
    entry = {**GRAPH["stages"]["check"], "desc": "x"}
    entry["cmd"] = entry["cmd"].replace("exec python", f"exec {sys.executable}")
    (project / "dvc.yaml").write_text(SMALL_GRAPH.replace("CHECK", json.dumps(entry)))
    (project / ".dvcignore").write_text("__pycache__\n*.partial\n")
    (project / ".gitignore").write_text("data\nmodels\n")

    def dvc(*arguments):
        subprocess.run([sys.executable, "-m", "dvc", *arguments], check=True, capture_output=True)

    def selected_from(*seeds):
        tiny.write_params(project / "params.yaml", seeds=list(seeds))
        dvc("repro", "-q")
        lock = YAML(typ="safe").load(project / "dvc.lock")["stages"]["select_best"]
        return (project / "models/best").read_text().split(), lock

    subprocess.run(["git", "init", "-q"], check=True)
    dvc("init", "-q", "-f")
    first = selected_from(13)
    assert first[0] == ["13"]
    assert selected_from(13, 14)[0] == ["13", "14"]
    assert selected_from(13) == first
