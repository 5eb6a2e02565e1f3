"""The best checkpoint -> its metrics and predictions on the test split."""

import csv
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages import command, lookup, metrics, outputs, progress, reports, scoring, splits, tasks
from stages.errors import DataError
from stages.params import Params, TestParams, load_params

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)

MOST_CLASSES_SHOWN = 20
"""Up to so many, the confusion matrix is written out in test_metrics.json."""


def predict(best: Path, rows: "Dataset", task: tasks.Task, *, batch_size: int) -> dict[str, NDArray[Any]]:
    """What the task makes of the model's logits, for all rows in their order."""
    collate = task.collator(scoring.load_tokenizer(best))
    forward = scoring.load_forward(best, task)
    with progress.shown("test", total=len(rows), unit="rows") as tell:
        return scoring.decode(forward, rows, task, collate, batch_size=batch_size, progress=tell)


def report(
    task: tasks.Task,
    names: Sequence[str],
    decoded: Mapping[str, NDArray[Any]],
    references: NDArray[Any],
    *,
    train_labels: NDArray[Any],
    slices: Mapping[str, Sequence[str | None]],
    params: TestParams,
) -> dict[str, Any]:
    """What test_metrics.json holds of a labelled split; `names` are the label names, [] where there are none."""
    scored = metrics.available(task.METRICS, len(names))
    rows = len(references)
    scores = reports.score(scored, decoded, references)
    return {
        "rows": rows,
        "metrics": reports.intervals(scores, decoded, references, params=params),
        "intervals": {
            "method": "percentile bootstrap",
            "confidence_level": params.confidence_level,
            "resamples": params.bootstrap_resamples,
        },
        "baseline": reports.score(scored, reports.baseline(train_labels, classes=len(names), rows=rows), references),
        "slices": reports.slices(scored, decoded, references, slices),
        **(by_class(decoded["predictions"], references, names) if names else {}),
    }


def by_class(predictions: NDArray[Any], references: NDArray[Any], names: Sequence[str]) -> dict[str, Any]:
    """The table of the classes, and of a few classes the confusion matrix too."""
    found: dict[str, Any] = {"per_class": reports.per_class(predictions, references, names)}
    if len(names) <= MOST_CLASSES_SHOWN:
        found["confusion"] = reports.confusion(predictions, references, names)
    return found


def without_metrics(rows: int, why: str) -> dict[str, Any]:
    """What test_metrics.json holds where there is nothing to compare predictions with."""
    return {"rows": rows, "metrics": {}, "why": why}


def with_predictions(rows: Any, columns: Mapping[str, Any]) -> Any:
    """The prepared rows with what the model made of them beside."""
    taken = [name for name in columns if name in rows.column_names]
    if taken:
        log.warning("data.columns.extra: %s not kept in the predictions, which have columns of that name", taken)
    table = rows.drop_columns(taken)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table.replace_schema_metadata(None)


def write_predictions(folder: Path, table: Any, *, classes: bool) -> None:
    """Write predictions.parquet, and confusion.csv: the actual and predicted label of each row, for DVC to count."""
    pq.write_table(table, folder / "predictions.parquet")
    pairs = table.select(["label", "prediction"]).to_pylist() if classes else []
    with (folder / "confusion.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["actual", "predicted"])
        writer.writerows(pair.values() for pair in pairs if pair["label"] is not None)


def scored_split(
    encoded: Path, prepared: Path, best: Path, task: tasks.Task, names: Sequence[str], params: Params
) -> tuple[dict[str, Any], Any]:
    """What test_metrics.json holds, and the predictions as a table.

    Raises:
        DataError: data/prepared and data/encoded are not of the same rows.
    """
    if "test" not in splits.present(encoded):
        nothing = task.decode(np.empty((0, max(1, len(names)))))
        rows = splits.read_rows(prepared, "train").slice(0, 0)
        return without_metrics(0, "there is no test split"), with_predictions(rows, task.to_columns(nothing, names))
    rows, tokens = splits.read_rows(prepared, "test"), splits.read_encoded(encoded, "test")
    if rows.num_rows != len(tokens):
        raise DataError(
            f"{encoded}: its test split has {len(tokens)} rows, and {prepared}'s has {rows.num_rows}; "
            "run the encode stage again (dvc repro --force --single-item encode)"
        )
    decoded = predict(best, tokens, task, batch_size=params.evaluate.batch_size)
    table = with_predictions(rows, task.to_columns(decoded, names))
    if not splits.has_labels(rows):
        return without_metrics(len(tokens), "the test split has no labels"), table
    found = report(
        task,
        names,
        decoded,
        scoring.references(tokens),
        train_labels=scoring.references(splits.read_encoded(encoded, "train")),
        slices={column: rows[column].to_pylist() for column in params.test.slices},
        params=params.test,
    )
    return found, table


def main(encoded: Path, prepared: Path, best: Path, test_metrics: Path, predictions: Path) -> None:
    """Score the best checkpoint on the test split and write what it predicts; without labels, only the latter."""
    params = load_params()
    task: tasks.Task = lookup.find(tasks, params.task.type)
    names = splits.read_label_names(encoded)
    found, table = scored_split(encoded, prepared, best, task, names, params)
    with outputs.folder(predictions) as folder:
        write_predictions(folder, table, classes=bool(names))
    outputs.write_json(test_metrics, found)
    if "why" in found:
        log.info("%d test rows, no metrics: %s", found["rows"], found["why"])
    for name, score in found["metrics"].items():
        shown = (score["value"], score["low"], score["high"], found["baseline"][name])
        log.info("%s %.4f (%.4f to %.4f), baseline %.4f", name, *shown)


if __name__ == "__main__":
    command.run(main)
