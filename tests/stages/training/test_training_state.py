import csv

import pytest

from stages.training.training_state import finished, has_stopped_improving, mark_finished, write_history


@pytest.mark.parametrize(
    ("scores", "greater_is_better", "stops"),
    [
        ([0.5, 0.6, 0.7], True, False),
        ([0.7, 0.6, 0.65], True, True),
        ([0.7, 0.6], True, False),
        ([1.0, 0.9, 0.95, 0.91], False, True),
        ([1.0, 0.9, 0.95, 0.89], False, False),
    ],
)
def test_training_stops_after_two_evaluations_without_an_improvement(scores, greater_is_better, stops):
    assert has_stopped_improving(scores, patience=2, min_delta=0.0, greater_is_better=greater_is_better) is stops


def test_an_improvement_below_the_threshold_counts_as_none():
    assert has_stopped_improving([0.5, 0.505], patience=1, min_delta=0.01, greater_is_better=True)
    assert not has_stopped_improving([0.5, 0.52], patience=1, min_delta=0.01, greater_is_better=True)


LOG = [
    {"step": 1, "epoch": 0.5, "loss": 4.0, "learning_rate": 0.1, "grad_norm": 1.0},
    {"step": 2, "epoch": 1.0, "loss": 2.0, "learning_rate": 0.2, "grad_norm": 2.0},
    {"step": 2, "epoch": 1.0, "eval_loss": 2.5, "eval_accuracy": 0.5},
    {"step": 3, "epoch": 1.5, "loss": 1.0, "learning_rate": 0.3, "grad_norm": 3.0},
    {"step": 3, "epoch": 1.5, "train_runtime": 12.0},
]


def test_the_history_has_mean_losses_and_evaluations_by_step_and_no_clock(tmp_path):
    write_history(tmp_path / "history.csv", LOG, logging_steps=2)
    with (tmp_path / "history.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["step"], row["loss"], row["eval_loss"], row["eval_accuracy"]) for row in rows] == [
        ("2", "3.0", "2.5", "0.5"),
        ("3", "1.0", "", ""),
    ]
    assert "train_runtime" not in rows[0]


def test_a_training_is_finished_only_while_its_weights_are_whole(tmp_path):
    from stages import checkpoints

    folder = tmp_path / "weights/checkpoint-2"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    checkpoints.complete(folder)
    assert finished(tmp_path) is None
    (tmp_path / "resume").mkdir()
    mark_finished(tmp_path, LOG)
    assert finished(tmp_path) == LOG[:4]
    assert not (tmp_path / "resume").exists()
    (folder / "model.safetensors").write_bytes(b"torn")
    assert finished(tmp_path) is None
