import csv
import json
import logging
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn import metrics as sklearn_metrics

from stages import lookup, splits, tasks, test
from stages.errors import DataError
from tests import tiny

NAMES = ["billing", "delivery", "refund"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """A model for each task, of which a run needs no more than that it answers."""
    root = tmp_path_factory.mktemp("models")
    return {
        "single_label": tiny.model(root / "single_label", num_labels=3, seed=1),
        "regression": tiny.model(root / "regression", num_labels=1),
    }


@pytest.fixture
def workspace(tmp_path, monkeypatch, models):
    """Lay out data/prepared, data/encoded and params.yaml as prepare and encode do; give the best model's folder."""
    monkeypatch.chdir(tmp_path)

    def make(
        rows: int | None = 13,
        *,
        task: str = "single_label",
        labelled: bool = True,
        channels=None,
        pair=False,
        **overrides,
    ) -> Path:
        metric = lookup.find(tasks, task).METRICS[0]
        overrides = {"task.type": task, "select_best.metric": metric, "evaluate.batch_size": 4, **overrides}
        tiny.write_params(tmp_path / "params.yaml", **overrides)
        prepared, encoded = Path("data/prepared"), Path("data/encoded")
        names = NAMES if task == "single_label" else []
        for folder in (prepared, encoded):
            folder.mkdir(parents=True, exist_ok=True)
            splits.write_label_names(folder, names)
        write_split("train", tiny.rows(30, seed=1), task, models[task], names=names, pair=pair)
        if rows is not None:
            made = tiny.rows(rows, seed=2)
            for row, channel in zip(made, channels or [], strict=False):
                row["channel"] = channel
            write_split("test", made, task, models[task], names=names, labelled=labelled, pair=pair)
        return models[task]

    return make


def write_split(split, rows, task_name, model, *, names, labelled=True, pair=False) -> None:
    from transformers import AutoTokenizer

    task = lookup.find(tasks, task_name)
    column, stored = ("label", pa.string()) if names else ("score", pa.float64())
    labels = [task.read_label(row[column]) if labelled else None for row in rows]
    columns = {"id": [row["id"] for row in rows], "text": [row["text"] for row in rows]}
    columns |= {"text_pair": [row["text_pair"] for row in rows]} if pair else {}
    columns |= {"label": pa.array(labels, stored), "channel": pa.array([row["channel"] for row in rows], pa.string())}
    splits.write_rows(Path("data/prepared"), split, pa.table(columns))
    encoded = task.encode(columns, AutoTokenizer.from_pretrained(model), max_length=32)
    del encoded["num_tokens"]
    if labelled:
        encoded["labels"] = task.label_ids(labels, names)
    splits.write_encoded(Path("data/encoded"), split, pa.table(encoded))


def run(best: Path) -> tuple[dict, pa.Table, list[list[str]]]:
    """Run the stage: test_metrics.json, predictions.parquet, the lines of confusion.csv."""
    data, models = Path("data"), Path("models")
    test.main(data / "encoded", data / "prepared", best, models / "test_metrics.json", data / "predictions")
    found = json.loads((models / "test_metrics.json").read_text())
    with (data / "predictions/confusion.csv").open(newline="", encoding="utf-8") as stream:
        lines = list(csv.reader(stream))
    return found, pq.read_table(data / "predictions/predictions.parquet"), lines


def leaves(value) -> list:
    return [leaf for item in value.values() for leaf in leaves(item)] if isinstance(value, dict) else [value]


def test_every_row_is_predicted_once_in_the_order_of_the_input(workspace):
    best = workspace(13)
    _, whole, _ = run(best)
    assert whole["id"].to_pylist() == [row["id"] for row in tiny.rows(13, seed=2)]
    assert whole["text"].to_pylist() == [row["text"] for row in tiny.rows(13, seed=2)]
    workspace(13, **{"evaluate.batch_size": 1})
    _, one_by_one, _ = run(best)
    assert one_by_one["prediction"].to_pylist() == whole["prediction"].to_pylist()
    for name in NAMES:
        assert np.allclose(one_by_one[f"probability_{name}"], whole[f"probability_{name}"], atol=1e-6)


def test_predictions_have_the_rows_and_what_the_model_made_of_them(workspace):
    _, table, _ = run(workspace(13, pair=True))
    probabilities = [f"probability_{name}" for name in NAMES]
    assert table.column_names == ["id", "text", "text_pair", "label", "channel", "prediction", *probabilities]
    values = np.stack([table[name].to_numpy() for name in probabilities], axis=1)
    assert values.sum(axis=1) == pytest.approx(np.ones(13))
    assert [NAMES[index] for index in values.argmax(axis=1)] == table["prediction"].to_pylist()


def test_metrics_are_those_of_the_predictions(workspace):
    found, table, _ = run(workspace(40))
    labels, predictions = table["label"].to_pylist(), table["prediction"].to_pylist()
    assert found["rows"] == 40
    expected = sklearn_metrics.f1_score(labels, predictions, average="macro", zero_division=0)
    assert found["metrics"]["f1_macro"]["value"] == pytest.approx(expected)
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(sklearn_metrics.accuracy_score(labels, predictions))
    assert "f1_binary" not in found["metrics"]
    for score in found["metrics"].values():
        assert list(score) == ["value", "low", "high"]
        assert score["low"] <= score["high"]


def test_the_baseline_predicts_the_commonest_class_of_train(workspace, models):
    best = workspace(12)  # as many rows of each of the three labels
    train = [row for row in tiny.rows(30, seed=1) if row["label"] == "refund" or row["id"] < "r2"]
    write_split("train", train, "single_label", models["single_label"], names=NAMES)
    found, _, _ = run(best)
    assert found["baseline"]["accuracy"] == pytest.approx(1 / 3)
    assert found["baseline"]["recall_macro"] == pytest.approx(1 / 3)
    assert found["baseline"]["roc_auc"] == 0.5
    shares = [sum(row["label"] == name for row in train) / len(train) for name in NAMES]
    assert shares[2] > max(shares[:2])
    assert found["baseline"]["log_loss"] == pytest.approx(-np.mean(np.log(shares)))


def test_classes_and_confusion_agree_with_the_predictions(workspace):
    found, table, lines = run(workspace(40))
    labels, predictions = table["label"].to_pylist(), table["prediction"].to_pylist()
    precision, recall, f1, support = sklearn_metrics.precision_recall_fscore_support(
        labels, predictions, labels=NAMES, zero_division=0
    )
    for index, name in enumerate(NAMES):
        assert list(found["per_class"][name].values()) == pytest.approx(
            [precision[index], recall[index], f1[index], support[index]]
        )
    matrix = sklearn_metrics.confusion_matrix(labels, predictions, labels=NAMES).tolist()
    assert found["confusion"] == {a: dict(zip(NAMES, row, strict=True)) for a, row in zip(NAMES, matrix, strict=True)}
    assert lines == [["actual", "predicted"], *map(list, zip(labels, predictions, strict=True))]


def test_each_slice_is_scored_by_its_own_rows(workspace):
    found, table, _ = run(workspace(13, channels=["chat"] * 8 + ["email"] * 4 + [None]))
    assert {value: part["rows"] for value, part in found["slices"]["channel"].items()} == {
        "(none)": 1,
        "chat": 8,
        "email": 4,
    }
    right = np.array(table["label"].to_pylist()) == np.array(table["prediction"].to_pylist())
    assert found["slices"]["channel"]["chat"]["accuracy"] == pytest.approx(right[:8].mean())
    assert found["slices"]["channel"]["email"]["accuracy"] == pytest.approx(right[8:12].mean())
    assert found["slices"]["channel"]["(none)"]["accuracy"] == float(right[12])


def test_beyond_fifty_values_the_rarest_are_scored_together(workspace, caplog):
    channels = [f"c{index}" for index in range(49)] * 2 + ["rare0", "rare1", "rare2"]
    found, _, _ = run(workspace(len(channels), channels=channels))
    values = found["slices"]["channel"]
    assert len(values) == 51
    assert values["rare0"]["rows"] == 1
    assert values["(2 other values)"]["rows"] == 2
    assert "channel has 52 values" in caplog.text


def test_the_same_run_gives_the_same_bytes_and_another_seed_other_intervals(workspace):
    best = workspace(40)
    files = [
        Path("models/test_metrics.json"),
        Path("data/predictions/predictions.parquet"),
        Path("data/predictions/confusion.csv"),
    ]
    run(best)
    first = [file.read_bytes() for file in files]
    run(best)
    assert [file.read_bytes() for file in files] == first
    workspace(40, **{"test.seed": 14})
    found, _, _ = run(best)
    before = json.loads(first[0])
    assert found["metrics"] != before["metrics"]
    assert {name: score["value"] for name, score in found["metrics"].items()} == {
        name: score["value"] for name, score in before["metrics"].items()
    }


def test_a_split_without_labels_is_predicted_and_the_reason_for_no_metrics_given(workspace, caplog):
    caplog.set_level(logging.INFO)
    found, table, lines = run(workspace(13, labelled=False))
    assert found == {"rows": 13, "metrics": {}, "why": "the test split has no labels"}
    assert table.num_rows == 13
    assert table["label"].null_count == 13
    assert set(table["prediction"].to_pylist()) <= set(NAMES)
    assert lines == [["actual", "predicted"]]
    assert "13 test rows, no metrics: the test split has no labels" in caplog.text


@pytest.mark.parametrize("task", ["single_label", "regression"])
def test_without_a_test_split_the_outputs_are_empty_and_say_so(workspace, task):
    found, table, lines = run(workspace(None, task=task))
    assert found == {"rows": 0, "metrics": {}, "why": "there is no test split"}
    assert table.num_rows == 0
    assert {"id", "text", "label", "prediction"} <= set(table.column_names)
    assert lines == [["actual", "predicted"]]


def test_a_regression_is_scored_beside_the_mean_of_train(workspace):
    found, table, lines = run(workspace(13, task="regression"))
    labels, predictions = table["label"].to_numpy(), table["prediction"].to_numpy()
    assert list(found["metrics"]) == ["pearson", "spearman", "mse", "mae"]
    assert found["metrics"]["mse"]["value"] == pytest.approx(np.square(labels - predictions).mean())
    mean = np.mean([float(row["score"]) for row in tiny.rows(30, seed=1)])
    assert found["baseline"]["mae"] == pytest.approx(np.abs(labels - mean).mean())
    assert found["baseline"]["pearson"] == 0.0
    assert "per_class" not in found
    assert lines == [["actual", "predicted"]]


def test_a_single_row_has_an_interval_of_no_width(workspace):
    found, _, _ = run(workspace(1))
    for score in found["metrics"].values():
        assert score["low"] == score["high"] == score["value"]


def test_all_figures_are_numbers_that_dvc_can_show(workspace):
    found, _, _ = run(workspace(13))
    assert len(leaves(found)) > 100
    for leaf in leaves(found):
        assert isinstance(leaf, str) or math.isfinite(leaf)


def test_rows_that_were_not_encoded_are_refused_before_anything_is_written(workspace):
    best = workspace(13)
    splits.write_rows(Path("data/prepared"), "test", splits.read_rows(Path("data/prepared"), "test").slice(0, 12))
    with pytest.raises(DataError, match=r"has 13 rows, and data/prepared's has 12; run the encode stage again"):
        run(best)
    assert not Path("models").exists()
    assert not Path("data/predictions").exists()


def test_an_extra_column_named_as_one_of_the_predictions_gives_way_and_is_named(workspace, caplog):
    best = workspace(13)
    rows = splits.read_rows(Path("data/prepared"), "test")
    splits.write_rows(Path("data/prepared"), "test", rows.append_column("prediction", pa.array(["mine"] * 13)))
    _, table, _ = run(best)
    assert table.column_names.count("prediction") == 1
    assert "mine" not in table["prediction"].to_pylist()
    assert "['prediction'] not kept" in caplog.text
