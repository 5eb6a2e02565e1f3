"""torchrun gives 1 for whatever its processes exit with; the launcher gives theirs."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import tiny

MODULE = """
import os, signal, sys, time
from pathlib import Path
from stages import command
from stages.errors import *
def main(how: str) -> None:
    if os.environ["RANK"] == "1":
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        error = {"user": DataError, "gate": GateError, "machine": MachineError, "bug": ValueError}[how]
        raise error("rank one says " + how)
    if how == "fine":
        print("threads", os.environ["OMP_NUM_THREADS"], os.environ["WORLD_SIZE"], flush=True)
    else:
        time.sleep(60)
command.run(main)
"""


@pytest.fixture
def launch(tmp_path):
    def start(how, **knobs):
        (tmp_path / "raw.csv").touch()
        knobs = {"data.raw": "raw.csv", "train.processes": 2, "train.threads": 3, **knobs}
        tiny.write_params(tmp_path / "params.yaml", **knobs)
        (tmp_path / "work.py").write_text(
            MODULE if how != "fine" else MODULE.replace('"RANK"] == "1"', '"RANK"] == "9"')
        )
        return subprocess.run(
            [sys.executable, "-m", "stages.launch", "work", how],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": f"{tiny.ROOT}:{tmp_path}",
                "REMINT_OUTCOME": str(tmp_path / "outcome.json"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return start


def told(tmp_path):
    """What whoever started dvc is told."""
    return json.loads((tmp_path / "outcome.json").read_text())


@pytest.mark.parametrize(("how", "code"), [("user", 2), ("gate", 3), ("machine", 4)])
def test_a_rank_s_exit_code_and_message_come_through_once(launch, how, code, tmp_path):
    result = launch(how)
    assert result.returncode == code
    assert result.stderr == f"error: rank one says {how}\n"
    assert told(tmp_path) == {"code": code, "message": f"error: rank one says {how}"}


def test_a_bug_in_a_rank_exits_with_1_and_its_traceback(launch, tmp_path):
    result = launch("bug")
    assert result.returncode == 1
    assert result.stderr.count("ValueError: rank one says bug") == 1
    assert "work.py" in result.stderr
    assert told(tmp_path)["code"] == 1
    assert told(tmp_path)["message"].endswith("ValueError: rank one says bug")


def test_a_killed_rank_is_the_machine_s_fault(launch, tmp_path):
    result = launch("killed")
    assert result.returncode == 4
    assert told(tmp_path)["code"] == 4
    assert "process 1 of work was killed by signal 9" in result.stderr


def test_threads_and_processes_are_those_in_params_and_two_at_once_need_none_of_the_usual_ports(launch):
    """Case 29."""
    with socket.socket() as first, socket.socket() as second:
        for port, taken in ((29500, first), (29400, second)):
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
        with ThreadPoolExecutor() as both:
            results = list(both.map(launch, ["fine", "fine"]))
    for result in results:
        assert result.returncode == 0, result.stderr
        assert result.stdout == "threads 3 2\n" * 2


RECOVERING = """
import os, signal, sys
from pathlib import Path
tries = Path("tries")
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
if len(tries.read_text()) < 3:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("max_restarts", "code"), [(2, 0), (1, 4)])
def test_a_training_that_the_machine_failed_is_started_again_as_often_as_params_say(tmp_path, max_restarts, code):
    (tmp_path / "raw.csv").touch()
    (tmp_path / "work.py").write_text(RECOVERING)
    tiny.write_params(tmp_path / "params.yaml", **{"data.raw": "raw.csv", "runtime.max_restarts": max_restarts})
    result = subprocess.run(
        [sys.executable, "-m", "stages.launch", "work", "again"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tiny.ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stderr
    assert (tmp_path / "tries").read_text() == "x" * (max_restarts + 1)
    assert "starting work again; 0 restart(s) left after this one" in result.stderr
