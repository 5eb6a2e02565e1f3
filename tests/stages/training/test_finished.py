import csv
import subprocess

import pytest
from ruamel.yaml import YAML

from stages import checkpoints, identity
from stages.training import finished

LOG = [
    {"step": 1, "epoch": 0.5, "loss": 4.0, "learning_rate": 0.1, "grad_norm": 1.0},
    {"step": 2, "epoch": 1.0, "loss": 2.0, "learning_rate": 0.2, "grad_norm": 2.0},
    {"step": 2, "epoch": 1.0, "eval_loss": 2.5, "eval_accuracy": 0.5},
    {"step": 3, "epoch": 1.5, "loss": 1.0, "learning_rate": 0.3, "grad_norm": 3.0},
    {"step": 3, "epoch": 1.5, "train_runtime": 12.0},
]


def test_the_history_has_mean_losses_and_evaluations_by_step_and_no_clock(tmp_path):
    finished.write_history(tmp_path / "history/13.csv", LOG, logging_steps=2)
    with (tmp_path / "history/13.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["step"], row["loss"], row["eval_loss"], row["eval_accuracy"]) for row in rows] == [
        ("2", "3.0", "2.5", "0.5"),
        ("3", "1.0", "", ""),
    ]
    assert "train_runtime" not in rows[0]


def test_a_training_is_finished_only_while_its_weights_are_whole(tmp_path):
    folder = tmp_path / "weights/checkpoint-2"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    checkpoints.complete(folder)
    assert finished.log_of(tmp_path) is None
    (tmp_path / "resume").mkdir()
    finished.mark(tmp_path, LOG)
    assert finished.log_of(tmp_path) == LOG[:4]
    assert not (tmp_path / "resume").exists()
    (folder / "model.safetensors").write_bytes(b"torn")
    assert finished.log_of(tmp_path) is None


@pytest.fixture
def ended(tmp_path):
    """A state folder with a training that ended and was handed over to models/checkpoints/13."""
    state = tmp_path / "state/abc"
    for step in (2, 10):
        folder = checkpoints.checkpoint_path(state / "weights", step)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes([step]) * 50)
        checkpoints.complete(folder, step=step)
    finished.mark(state, LOG)
    finished.hand_over(state, LOG[:4], tmp_path / "models/checkpoints/13")
    return tmp_path


def test_what_is_handed_over_is_known_by_the_digest_that_dvc_gives_it(ended):
    commands = (["git", "init", "-q"], ["dvc", "init", "-q"], ["dvc", "add", "-q", "models/checkpoints/13"])
    for command in commands:
        subprocess.run(command, cwd=ended, check=True)
    (out,) = YAML(typ="safe").load(ended / "models/checkpoints/13.dvc")["outs"]
    assert finished.dvc_digest(ended / "models/checkpoints/13") == out["md5"]


def test_a_training_is_kept_until_its_output_is_in_the_lock_file(ended):
    lock = ended / "dvc.lock"
    finished.remove_recorded(ended / "state", lock, own=ended / "state/other")
    lock.write_text("md5: 00000000000000000000000000000000.dir")
    finished.remove_recorded(ended / "state", lock, own=ended / "state/other")
    assert finished.log_of(ended / "state/abc") == LOG[:4]
    lock.write_text(f"md5: {finished.dvc_digest(ended / 'models/checkpoints/13')}")
    finished.remove_recorded(ended / "state", lock, own=ended / "state/other")
    assert [path.name for path in (ended / "state/abc").iterdir()] == ["lock"]


def test_a_training_that_another_process_is_at_stays_whole(ended):
    lock = ended / "dvc.lock"
    lock.write_text(f"md5: {finished.dvc_digest(ended / 'models/checkpoints/13')}")
    with identity.claimed(ended / "state/abc"):
        finished.remove_recorded(ended / "state", lock, own=ended / "state/other")
        assert finished.log_of(ended / "state/abc") == LOG[:4]
        finished.remove_recorded(ended / "state", lock, own=ended / "state/abc")
        assert finished.log_of(ended / "state/abc") is None
