import pytest

from stages.training.training_state import has_stopped_improving


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
