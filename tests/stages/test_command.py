"""Exit codes and messages, by running small stages as processes of their own."""

import json
import subprocess
import sys

import pytest

from tests import tiny


def run(body: str, *arguments: str, directory=tiny.ROOT, **settings: str):
    script = f"""
import errno
from pathlib import Path
from stages import command
from stages.errors import *
def main(out: Path) -> None:
    {body}
command.run(main)
"""
    command = [sys.executable, "-c", script, *arguments]
    environment = {"PYTHONPATH": str(tiny.ROOT), "PATH": "", **settings}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("raise DataError('rows.csv: no rows')", 2, "error: rows.csv: no rows\n"),
        ("raise GateError('int8 lost 0.2')", 3, "error: int8 lost 0.2\n"),
        ("raise MachineError('killed')", 4, "error: killed\n"),
        ("raise StoppedError('stopped at step 7')", 5, "error: stopped at step 7\n"),
        ("raise OSError(errno.ENOSPC, 'No space left on device', 'models/base')", 4, "error: models/base: No space"),
        ("raise PermissionError(errno.EACCES, 'Permission denied', 'models')", 4, "see to the permissions"),
        ("Path('models').touch(); Path('models/best').mkdir()", 2, "error: models/best: Not a directory; name another"),
        ("Path('a').mkdir(); Path('b').touch(); Path('b').replace('a')", 2, "error: a: Is a directory; name another"),
        ("raise MemoryError('20 GB')", 4, "lower the batch size"),
    ],
)
def test_a_foreseen_error_is_one_message_and_its_exit_code(tmp_path, body, code, message):
    result = run(body, "out", directory=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_bug_keeps_its_traceback_and_exits_with_1():
    result = run("raise KeyError('x')", "out")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "KeyError: 'x'" in result.stderr


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [("raise GateError('int8 lost 0.2')", 3, "error: int8 lost 0.2"), ("raise KeyError('x')", 1, "KeyError: 'x'")],
)
def test_who_started_dvc_is_told_how_a_stage_failed_by_a_file_that_it_names(tmp_path, body, code, message):
    file = tmp_path / "outcome.json"
    assert run(body, "out", REMINT_OUTCOME=str(file)).returncode == code
    told = json.loads(file.read_text())
    assert told["code"] == code
    assert told["message"].endswith(message)
    assert list(tmp_path.iterdir()) == [file]


def test_no_file_is_written_by_a_stage_that_succeeds_or_by_one_of_several_processes(tmp_path):
    told, errors = tmp_path / "outcome.json", tmp_path / "errors.json"
    assert run("pass", "out", REMINT_OUTCOME=str(told)).returncode == 0
    settings = {"REMINT_OUTCOME": str(told), "TORCHELASTIC_ERROR_FILE": str(errors)}
    assert run("raise GateError('x')", "out", **settings).returncode == 3
    assert errors.exists()
    assert not told.exists()


def test_a_file_that_cannot_be_written_takes_nothing_from_the_stages_own_words(tmp_path):
    result = run("raise GateError('int8 lost 0.2')", "out", REMINT_OUTCOME=str(tmp_path / "no folder" / "file"))
    assert (result.returncode, result.stderr) == (3, "error: int8 lost 0.2\n")


def test_success_is_0_and_a_missing_argument_2():
    assert run("pass", "out").returncode == 0
    assert run("pass").returncode == 2


def test_stages_are_offline_and_quiet_libraries():
    result = run("import os; print(os.environ['HF_HUB_OFFLINE'], os.environ['TRANSFORMERS_VERBOSITY'])", "out")
    assert result.stdout.split() == ["1", "error"]


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("warning", False)])
def test_the_log_level_is_the_one_in_params(tmp_path, level, shown):
    tiny.write_params(tmp_path / "params.yaml", **{"runtime.log_level": level})
    result = run("import logging; logging.getLogger('stages.x').info('hello')", "out", directory=tmp_path)
    assert (result.stderr == "hello\n") is shown


@pytest.mark.parametrize("level", ["verbose", "null", "10", "[]"])
def test_a_log_level_that_there_is_not_leaves_the_message_to_the_params(tmp_path, level):
    text = tiny.write_params(tmp_path / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text.replace("log_level: info", f"log_level: {level}"), encoding="utf-8")
    result = run("from stages.params import load_params; load_params()", "out", directory=tmp_path)
    assert result.returncode == 2
    assert "runtime.log_level: Input should be 'debug', 'info', 'warning' or 'error'" in result.stderr
    assert "Traceback" not in result.stderr
