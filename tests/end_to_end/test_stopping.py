"""Whoever is killed, nobody of the run outlives it, and the next `dvc repro` goes on and ends (cases 1, 3, 4)."""

import psutil
import pytest

from tests.end_to_end import project as projects

STEPS = 300


@pytest.fixture
def training(project):
    """`dvc repro` while it trains."""
    project.set(**{"train.max_steps": STEPS, "train.eval_strategy": "steps", "train.eval_steps": 150})
    project.set(**{"runtime.save_steps": 20})
    state = project.home / "state"
    command = ["dvc", "repro", "train@13"]
    with projects.under_way(
        project, command, lambda said: bool(list(state.glob("*/resume/checkpoint-*/manifest.json")))
    ) as process:
        yield process


def kill_dvc(process):
    process.kill()


def ask_dvc_to_end(process):
    process.terminate()


def kill_the_launcher(process):
    launcher = next(
        one for one in psutil.Process(process.pid).children(recursive=True) if "launch" in str(one.cmdline())
    )
    launcher.kill()


SLOW = [pytest.param(stop, marks=pytest.mark.slow) for stop in (ask_dvc_to_end, kill_the_launcher)]


@pytest.mark.parametrize("stop", [kill_dvc, projects.press_ctrl_c, *SLOW])
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
