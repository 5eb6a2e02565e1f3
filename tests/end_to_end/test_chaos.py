"""Three faults of the chaos bench at a fixed seed: the same bytes, nobody left, nothing repaired by hand (case 3)."""

import random

import pytest

from bench import chaos, chaos_workspace
from bench.chaos_faults import catalogue
from bench.chaos_workspace import SAVE_STEPS, SETTINGS, STEPS, TRAIN
from tests.end_to_end import project as projects

FAULTS = {fault.name: fault for fault in catalogue()}


@pytest.fixture(scope="module")
def workspace(first_run, tmp_path_factory):
    """The project of all tests, its settings those of the bench, and what an undisturbed training of it ends in."""
    folder = tmp_path_factory.mktemp("chaos")
    encoded = projects.copy(first_run.project, folder / "encoded/project", folder / "encoded/home")
    encoded.set(**SETTINGS)
    encoded.repro("encode")
    made, _ = chaos_workspace.at_training(encoded, folder, processes=1)
    return made


@pytest.mark.parametrize(
    ("name", "struck"),
    [
        ("SIGKILL to all", "-9"),
        ("last file truncated", "-9"),
        ("SIGKILL between training's end and dvc.lock", "-9"),
    ],
)
def test_a_run_that_is_struck_ends_in_the_same_bytes(workspace, tmp_path, name, struck):
    row = chaos.play_until_struck(1, FAULTS[name], workspace, tmp_path, random.Random(13))
    assert row.code == struck
    assert row.runs == 2
    assert row.orphans == 0
    assert row.differences == []
    # A state that is torn costs the steps since the one before it.
    assert row.repeated <= 3 * SAVE_STEPS
    assert row.repeated == 0 or "between" not in name


def test_a_run_that_ends_in_other_bytes_is_told(workspace, tmp_path):
    """What compares must be able to tell."""
    project = chaos_workspace.copy(workspace.points["encoded"], tmp_path)
    found = chaos_workspace.outcome(project)
    expected = workspace.references[TRAIN]
    assert any("models/checkpoints/13: differs" in one for one in chaos_workspace.differences(found, expected))
    assert f"models/checkpoints/13/checkpoint-{STEPS}/model.safetensors: missing" in chaos_workspace.differences(
        found, expected
    )
    assert chaos_workspace.differences({**expected, "models/.13.partial/config.json": "0"}, expected) == [
        "models/.13.partial/config.json: surplus"
    ]


def test_who_outlives_a_run_is_counted(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(chaos, "GRACE_SECONDS", 0.5)
    project = chaos_workspace.copy(workspace.points["encoded"], tmp_path)
    prefix = ["sh", "-c", 'setsid sleep 60 >/dev/null 2>&1 & exec "$@"', "sh"]
    with chaos.Run(project, tmp_path / "log", "encode", prefix=prefix) as run:
        run.process.wait(timeout=60)
        assert chaos.orphans(run) == 1
    assert run.members() == []


def test_every_fault_strikes_before_one_strikes_again():
    faults = catalogue()
    names = [fault.name for fault in chaos.schedule(faults, 50, seed=1)]
    assert len(names) == 50
    assert set(names[: len(faults)]) == {fault.name for fault in faults}
    assert names == [fault.name for fault in chaos.schedule(faults, 50, seed=1)]
    assert names != [fault.name for fault in chaos.schedule(faults, 50, seed=2)]
