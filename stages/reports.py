"""What a model made of a labelled split -> the figures that a person judges it by."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages import class_counts, lookup, metrics, progress
from stages.params import TestParams

log = logging.getLogger(__name__)

Decoded = Mapping[str, NDArray[Any]]
"""What a task's decode() makes of all rows: name -> one entry a row."""

Scores = dict[str, float]

INDICES_AT_ONCE = 1_000_000
MOST_SLICES = 50


def score(names: Sequence[str], decoded: Decoded, references: NDArray[Any]) -> Scores:
    """All of these metrics."""
    return {name: metrics.score(name, decoded, references) for name in names}


def intervals(scores: Scores, decoded: Decoded, references: NDArray[Any], *, params: TestParams) -> dict[str, Scores]:
    """Each score with the bounds between which it would lie, were the rows drawn anew: {value, low, high}.

    The percentile bootstrap (Efron & Tibshirani 1993, chapter 13): rows are drawn with replacement, a row's prediction
    together with its label, the same draws for all metrics. Not BCa, which needs each metric once more without each row
    (hours for a large split), and has no bounds where all draws agree, as they do for a perfect model.
    """
    from scipy.stats import bootstrap

    rows = len(references)
    if rows < 2:
        return {name: {"value": value, "low": value, "high": value} for name, value in scores.items()}
    found: dict[str, metrics.Metric] = {name: lookup.find(metrics, name) for name in scores}
    with progress.shown("bootstrap", total=params.bootstrap_resamples, unit="resamples") as tell:

        def resampled(indices: NDArray[np.int64]) -> NDArray[np.float64]:
            drawn = {name: values[indices] for name, values in decoded.items()}
            labels = references[indices]
            tell(1)
            return np.array([metric.score(drawn[metric.needs], labels) for metric in found.values()])

        bounds = bootstrap(
            (np.arange(rows),),
            resampled,
            vectorized=False,
            n_resamples=params.bootstrap_resamples,
            batch=max(1, INDICES_AT_ONCE // rows),
            confidence_level=params.confidence_level,
            method="percentile",
            rng=np.random.default_rng(params.seed),
        ).confidence_interval
    return {
        name: {"value": scores[name], "low": float(low), "high": float(high)}
        for name, low, high in zip(scores, bounds.low, bounds.high, strict=True)
    }


def baseline(train_labels: NDArray[Any], *, classes: int, rows: int) -> dict[str, NDArray[Any]]:
    """What a model decodes to that has not read a text: train's commonest class for each row, or its mean label.

    Its probabilities are the shares of the classes in train. Of equally common classes, the first.
    """
    if not classes:
        return {"predictions": np.full(rows, train_labels.mean())}
    shares = np.bincount(train_labels, minlength=classes) / len(train_labels)
    return {"predictions": np.full(rows, shares.argmax()), "probabilities": np.tile(shares, (rows, 1))}


def per_class(predictions: NDArray[Any], references: NDArray[Any], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Label name -> precision, recall, f1, and support (the rows of that label)."""
    counts = class_counts.count(predictions, references, classes=len(names))
    columns = [statistic(counts) for statistic in (class_counts.precision, class_counts.recall, class_counts.f1)]
    return {
        name: {
            **{key: float(values[label]) for key, values in zip(("precision", "recall", "f1"), columns, strict=True)},
            "support": int(counts.actual[label]),
        }
        for label, name in enumerate(names)
    }


def confusion(predictions: NDArray[Any], references: NDArray[Any], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Label name -> the label name that was predicted -> rows."""
    from sklearn.metrics import confusion_matrix

    matrix = confusion_matrix(references, predictions, labels=range(len(names))).tolist()
    return {actual: dict(zip(names, row, strict=True)) for actual, row in zip(names, matrix, strict=True)}


def by_value(column: str, values: Sequence[str | None]) -> dict[str, list[int]]:
    """The rows of each value, values sorted; beyond the commonest 50, all others together, with a warning."""
    named = ["(none)" if value is None else value for value in values]
    counts = Counter(named)
    kept = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_SLICES]
    others = f"({len(counts) - len(kept)} other values)"
    if len(counts) > len(kept):
        log.warning(
            "test.slices: %s has %d values in the test split; the commonest %d are scored apart, the others together",
            column,
            len(counts),
            len(kept),
        )
    rows: dict[str, list[int]] = {value: [] for value in sorted(kept)}
    for index, value in enumerate(named):
        rows.setdefault(value if value in rows else others, []).append(index)
    return rows


def slices(
    names: Sequence[str], decoded: Decoded, references: NDArray[Any], columns: Mapping[str, Sequence[str | None]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Column -> value -> how many rows have it, and the metrics of those rows."""
    return {
        column: {
            value: {
                "rows": len(rows),
                **score(names, {name: array[rows] for name, array in decoded.items()}, references[rows]),
            }
            for value, rows in by_value(column, values).items()
        }
        for column, values in columns.items()
    }
