import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import summary
from stages.errors import DataError
from tests import tiny

TEST = {
    "rows": 320,
    "metrics": {
        "f1_macro": {"value": 0.8512, "low": 0.81, "high": 0.89},
        "accuracy": {"value": 0.86, "low": 0.82, "high": 0.9},
    },
    "intervals": {"method": "percentile bootstrap", "confidence_level": 0.95, "resamples": 1000},
    "baseline": {"f1_macro": 0.0312, "accuracy": 0.142},
}
SELECTION = {
    "metric": "f1_macro",
    "greater_is_better": True,
    "best": {"seed": 14, "checkpoint": "checkpoint-280", "score": 0.8765},
    "seeds": {
        "13": {"checkpoint": "checkpoint-210", "score": 0.86},
        "14": {"checkpoint": "checkpoint-280", "score": 0.8765},
    },
    "mean": 0.86825,
    "sd": 0.01167,
    "metrics": {"f1_macro": 0.8765},
}
PARITY = {
    "split": "validation",
    "rows": 160,
    "metric": "f1_macro",
    "pytorch": {"f1_macro": 0.8765},
    "model.onnx": {"max_logit_difference": 1e-6, "equal_predictions": 1.0, "f1_macro": 0.8765},
    "model.int8.onnx": {"left_out": "export.int8 is off"},
}


def remint(*arguments, cwd, **settings):
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    command = [sys.executable, "-P", "-m", "pipeline.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, **settings)


@pytest.fixture
def checkout(tmp_path):
    """A checkout that is not the one of the code under test."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline/cli.py").write_text("")
    (tmp_path / "dvc.yaml").write_text((tiny.ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    return tmp_path


def test_help_lists_the_commands():
    ran = remint("--help", cwd=tiny.ROOT)
    assert ran.returncode == 0
    for command in ("check", "predict", "summary", "verify", "clean", "version"):
        assert f"\n  {command} " in ran.stdout


def test_an_unknown_command_is_the_users_mistake(tmp_path):
    ran = remint("predcit", cwd=tmp_path)
    assert ran.returncode == 2
    assert "predict" in ran.stderr


@pytest.mark.parametrize("command", ["check", "summary", "verify", "clean"])
def test_a_command_of_another_checkout_refuses_to_run(checkout, command):
    ran = remint(command, cwd=checkout)
    assert ran.returncode == 2
    assert f"error: {checkout}: this `remint` is of another checkout, {tiny.ROOT}" in ran.stderr


@pytest.mark.parametrize("command", ["check", "summary", "verify", "clean"])
def test_a_command_outside_of_a_checkout_says_where_to_run_it(tmp_path, command):
    ran = remint(command, cwd=tmp_path)
    assert ran.returncode == 2
    assert f"error: {tmp_path}: no checkout of remint" in ran.stderr
    ran = remint(command, cwd=tiny.ROOT / "docs")
    assert ran.returncode == 2
    assert f"cd {tiny.ROOT}" in ran.stderr


def test_version_and_predict_run_anywhere(tmp_path):
    assert str(tiny.ROOT) in remint("version", cwd=tmp_path).stdout
    assert "int8" in remint("predict", "--help", cwd=tmp_path).stdout


def test_predict_hands_on_arguments_exit_code_and_errors(tmp_path):
    (tmp_path / "stages").mkdir()  # a folder of that name where the user happens to be
    (tmp_path / "stages/__init__.py").write_text("raise SystemExit('the wrong stages')")
    ran = remint("predict", "no-model", "-", "out.csv", cwd=tmp_path, input="id,text\n")
    assert ran.returncode == 2
    assert "no-model" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_predict_hands_on_standard_input_and_output(tmp_path):
    (tmp_path / "elsewhere/pipeline").mkdir(parents=True)
    for name in ("__init__", "cli", "checkout"):
        source = (tiny.ROOT / f"pipeline/{name}.py").read_text(encoding="utf-8")
        (tmp_path / f"elsewhere/pipeline/{name}.py").write_text(source)
    (tmp_path / "elsewhere/stages").mkdir()
    errors = (tiny.ROOT / "stages/errors.py").read_text(encoding="utf-8")
    (tmp_path / "elsewhere/stages/errors.py").write_text(errors)
    (tmp_path / "elsewhere/stages/predict.py").write_text(
        "import sys\nprint(sys.argv[1:], sys.stdin.read().upper())\nsys.exit(4)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "elsewhere")}
    command = [sys.executable, "-P", "-m", "pipeline.cli", "predict", "model", "-", "--int8", "--threads", "2"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, input="rows", capture_output=True, text=True)
    assert ran.returncode == 4
    assert ran.stdout == "['model', '-', '--int8', '--threads', '2'] ROWS\n"


def lines(test=TEST, selection=SELECTION, parity=PARITY):
    return summary.lines(test, selection, parity, Path("models/exported"))


def test_the_summary_says_what_a_run_has_come_to():
    text = "\n".join(lines())
    assert "checkpoint-280 of seed 14: f1_macro 0.8765 on validation" in text
    assert "f1_macro of 2 seeds: mean 0.8682, sd 0.0117" in text
    assert "320 rows" in text
    row = next(line for line in lines() if line.startswith("f1_macro"))
    assert row.split() == ["f1_macro", "0.8512", "0.8100", "to", "0.8900", "0.0312"]
    assert "model.int8.onnx  left out: export.int8 is off" in text
    assert "models/exported" in text
    assert "dvc plots show" in text
    assert "remint predict models/exported" in text


def test_the_columns_of_the_summary_stand_under_their_names():
    heading = next(line for line in lines() if "baseline" in line)
    rows = [line for line in lines() if line.startswith(("f1_macro", "accuracy"))]
    assert len(rows) == 2
    for row in rows:
        assert len(row) == len(heading)


def test_the_summary_of_one_seed_has_no_spread_and_of_an_unlabelled_split_no_metrics():
    one = {**SELECTION, "seeds": {"14": SELECTION["seeds"]["14"]}, "sd": None}
    text = "\n".join(lines(test={"rows": 5, "metrics": {}, "why": "the test split has no labels"}, selection=one))
    assert "no metrics: the test split has no labels" in text
    assert "mean" not in text


def test_what_has_not_been_written_yet_is_named(tmp_path):
    with pytest.raises(DataError, match="`dvc repro` makes it"):
        summary.read(tmp_path / "selection.json")
    (tmp_path / "selection.json").write_text(json.dumps(SELECTION))
    assert summary.read(tmp_path / "selection.json") == SELECTION


def test_the_paths_of_the_summary_are_those_of_dvc_yaml():
    paths = summary.paths(tiny.ROOT / "dvc.yaml")
    assert {"test_metrics", "selection", "exported"} <= set(paths)
