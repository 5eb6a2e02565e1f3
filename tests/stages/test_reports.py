import math

import numpy as np
import pytest

from stages import reports
from stages.params import TestParams as BootstrapParams  # under its own name pytest would take it for a test

PARAMS = BootstrapParams(slices=[], bootstrap_resamples=1000, confidence_level=0.95, seed=13)


def scored(names, decoded, references, params=PARAMS):
    scores = reports.score(names, decoded, references)
    return reports.intervals(scores, decoded, references, params=params)


def test_the_interval_of_an_accuracy_is_the_binomial_one():
    references = np.zeros(400, dtype=np.int64)
    predictions = np.repeat([0, 1], [320, 80])
    found = scored(["accuracy"], {"predictions": predictions}, references)["accuracy"]
    half = 1.96 * math.sqrt(0.8 * 0.2 / 400)
    assert found == {
        "value": 0.8,
        "low": pytest.approx(0.8 - half, abs=0.006),
        "high": pytest.approx(0.8 + half, abs=0.006),
    }


def test_a_lower_confidence_level_gives_a_narrower_interval():
    references = np.arange(100) % 2
    predictions = np.where(np.arange(100) % 5 == 0, 1 - references, references)
    narrow = PARAMS.model_copy(update={"confidence_level": 0.5})
    wide = scored(["f1_macro"], {"predictions": predictions}, references)["f1_macro"]
    inner = scored(["f1_macro"], {"predictions": predictions}, references, narrow)["f1_macro"]
    assert wide["low"] < inner["low"] < inner["high"] < wide["high"]


def test_a_prediction_stays_with_its_label_when_rows_are_drawn():
    labels = np.arange(50) % 3
    decoded = {"predictions": labels, "probabilities": np.eye(3)[labels]}
    found = scored(["accuracy", "f1_macro", "log_loss", "roc_auc"], decoded, labels)
    assert found["accuracy"] == found["f1_macro"] == found["roc_auc"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert found["log_loss"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_the_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    references = np.arange(60) % 2
    decoded = {"predictions": np.where(np.arange(60) % 7 == 0, 1 - references, references)}
    at_once = scored(["f1_macro"], decoded, references)
    monkeypatch.setattr(reports, "INDICES_AT_ONCE", 1)
    assert scored(["f1_macro"], decoded, references) == at_once


def test_draws_in_which_a_class_is_missing_have_finite_scores():
    labels = np.array([0, 1, 2, 3])  # nearly every draw of four rows lacks one
    decoded = {"predictions": np.array([0, 1, 3, 2]), "probabilities": np.full((4, 4), 0.25)}
    names = ["f1_macro", "recall_weighted", "matthews_correlation", "roc_auc", "log_loss", "expected_calibration_error"]
    for score in scored(names, decoded, labels).values():
        assert all(math.isfinite(bound) for bound in score.values())


def test_the_baseline_of_classes_predicts_the_commonest_and_the_shares():
    found = reports.baseline(np.array([2, 0, 2, 2, 0]), classes=4, rows=3)
    assert found["predictions"].tolist() == [2, 2, 2]
    assert found["probabilities"].tolist() == [[0.4, 0, 0.6, 0]] * 3


def test_the_baseline_of_equally_common_classes_is_the_first():
    assert reports.baseline(np.array([1, 0, 2]), classes=3, rows=1)["predictions"].tolist() == [0]


def test_the_baseline_of_numbers_is_their_mean():
    assert reports.baseline(np.array([1.0, 4.0]), classes=0, rows=2)["predictions"].tolist() == [2.5, 2.5]


def test_a_class_without_rows_or_predictions_stands_in_the_table_with_zeros():
    found = reports.per_class(np.array([0, 1]), np.array([0, 0]), ["a", "b", "absent"])
    assert found["a"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
    assert found["b"] == found["absent"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    assert reports.confusion(np.array([0, 1]), np.array([0, 0]), ["a", "b", "absent"])["a"] == {
        "a": 1,
        "b": 1,
        "absent": 0,
    }
