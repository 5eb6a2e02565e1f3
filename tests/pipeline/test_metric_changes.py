import json

import pytest
from ruamel.yaml import YAML

from pipeline import metric_changes
from pipeline.metric_changes import described, numbers, shown
from tests import tiny

FOUND = {
    "rows": 10,
    "metrics": {"accuracy": {"value": 0.75, "low": 0.5}, "mcc": {"value": None}, "auc": {"value": float("nan")}},
    "best": {"score": 0.5, "seed": 13, "kept": True},
    "per_class": [{"f1": 1.0}],
}


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["metrics.*.value"], {"accuracy": 0.75}),
        (["metrics.accuracy.*"], {"value": 0.75, "low": 0.5}),
        (["best.score"], {"best.score": 0.5}),
        (["best.*", "rows"], {"score": 0.5, "seed": 13, "rows": 10}),
        (["*"], {"rows": 10}),
        (["metrics.*.value.deeper", "none.*", "per_class.*"], {}),
    ],
)
def test_the_numbers_at_a_pattern_are_named_by_what_varies(patterns, found):
    assert numbers(FOUND, patterns) == found
    assert numbers(None, patterns) == {}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ((0.9094, 0.9125), "0.9094 -> 0.9125 (+0.0031)"),
        ((0.5, 0.25), "0.5000 -> 0.2500 (-0.2500)"),
        ((0.5, 0.5), "0.5000 (unchanged)"),
        ((None, 0.5), "0.5000 (new)"),
        ((0.5, None), "0.5000 -> none"),
        ((100, 120), "100 -> 120 (+20)"),
        ((0.0001, 0.0), "0.0001 -> 0.0000 (-0.0001)"),
        ((1e-7, 2e-7), "1e-07 -> 2e-07 (+1e-07)"),
    ],
)
def test_a_change_is_said_in_a_few_digits(change, text):
    assert described(change) == text
    assert shown(0.123456) == "0.1235"


def test_the_metrics_of_the_last_stage_come_first_with_what_they_were(toy):
    toy.write("models/selection.json", json.dumps({"best": {"score": 0.7}, "metrics": {"mcc": 0.4}}))
    toy.write("models/scores/13.json", "not JSON")
    assert metric_changes.since(toy.root) == {
        "best.mcc": (None, 0.4),
        "best.f1": (0.5, None),
        "best.best.score": (0.026, 0.7),
        "score@14.accuracy": (0.013, 0.013),
        "score@13.accuracy": (0.013, None),
    }


def test_before_the_first_run_there_are_none(toy):
    (toy.root / "dvc.lock").unlink()
    assert metric_changes.since(toy.root) == {}


def test_the_graph_of_the_repository_marks_what_its_stages_write():
    stages = YAML(typ="safe").load(tiny.ROOT / "dvc.yaml")["stages"]
    marks = {
        name: stage["meta"][metric_changes.REPORTS]
        for name, stage in stages.items()
        if "reports" in stage.get("meta", {})
    }
    assert marks == {"select_best": ["metrics.*"], "test": ["metrics.*.value"]}
    for name in marks:
        assert any("cache" in settings for entry in stages[name]["metrics"] for settings in entry.values())
