"""Whoever is killed, nobody of the run outlives it, and the next `dvc repro` goes on and ends (cases 1, 3, 4)."""

import os
import signal
import subprocess
import time

import psutil
import pytest

STEPS = 300


@pytest.fixture
def training(project):
    """`dvc repro` in a session of its own, as a terminal has it, while it trains; it is killed if it is left."""
    project.set(**{"train.max_steps": STEPS, "train.eval_strategy": "steps", "train.eval_steps": 150})
    project.set(**{"runtime.save_steps": 20})
    log = (project.home / "log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        ["dvc", "repro", "train@13"],
        cwd=project.root,
        env=project.environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    state = project.home / "state"
    deadline = time.monotonic() + 120
    while not list(state.glob("*/resume/checkpoint-*/manifest.json")):
        assert process.poll() is None, (project.home / "log").read_text(encoding="utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield process
    log.close()
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_dvc(process):
    process.kill()


def ask_dvc_to_end(process):
    process.terminate()


def press_ctrl_c(process):
    os.killpg(process.pid, signal.SIGINT)


def kill_the_launcher(process):
    launcher = next(
        one for one in psutil.Process(process.pid).children(recursive=True) if "launch" in str(one.cmdline())
    )
    launcher.kill()


SLOW = [pytest.param(stop, marks=pytest.mark.slow) for stop in (ask_dvc_to_end, kill_the_launcher)]


@pytest.mark.parametrize("stop", [kill_dvc, press_ctrl_c, *SLOW])
def test_nobody_outlives_the_run_and_the_next_one_goes_on(project, training, stop):
    family = psutil.Process(training.pid).children(recursive=True)
    assert any("stages.train" in str(one.cmdline()) for one in family)
    stop(training)
    assert training.wait(timeout=60) != 0
    _, alive = psutil.wait_procs(family, timeout=35)
    assert alive == []
    again = project.run("dvc", "repro", "train@13")
    assert "going on from step" in again.stdout + again.stderr
    assert (project.root / f"models/checkpoints/13/checkpoint-{STEPS}/manifest.json").is_file()
