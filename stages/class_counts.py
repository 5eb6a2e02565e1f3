"""Class ids, predicted and true -> the rows of each class, and the precision, recall and F1 that follow from them.

scikit-learn's definitions, which the tests compare with, without its validation: that takes 2 ms a call, which is most
of a minute over a bootstrap of ten metrics; counting takes 20 microseconds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Counts(NamedTuple):
    """Rows of each class, (classes,) each."""

    right: NDArray[np.int64]
    """Of the class and predicted as it."""

    predicted: NDArray[np.int64]
    actual: NDArray[np.int64]


Statistic = Callable[[Counts], Floats]
"""Counts -> one number for each class."""


def count(predictions: NDArray[Any], references: NDArray[Any], *, classes: int = 0) -> Counts:
    """Count the rows of `classes` classes, or of as many as the largest id needs."""
    size = max(classes, int(predictions.max(initial=0)) + 1, int(references.max(initial=0)) + 1)
    right = references[predictions == references]
    return Counts(*(np.bincount(ids, minlength=size) for ids in (right, predictions, references)))


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Floats:
    """Divide; 0 where the whole is 0 (scikit-learn's zero_division=0)."""
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def precision(counts: Counts) -> Floats:
    """The share of the rows predicted as a class that are of it; 0 where none was predicted."""
    return _ratio(counts.right, counts.predicted)


def recall(counts: Counts) -> Floats:
    """The share of the rows of a class that were predicted as it; 0 where there is none."""
    return _ratio(counts.right, counts.actual)


def f1(counts: Counts) -> Floats:
    """The harmonic mean of precision and recall; 0 where both are, or the class is absent."""
    return _ratio(2 * counts.right, counts.predicted + counts.actual)


def binary(statistic: Statistic, predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """Of label id 1, the positive class."""
    return float(statistic(count(predictions, references, classes=2))[1])


def macro(statistic: Statistic, predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """The plain average over the classes that occur, in the labels or the predictions."""
    counts = count(predictions, references)
    return float(statistic(counts)[counts.predicted + counts.actual > 0].mean())


def weighted(statistic: Statistic, predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """The average over the classes, each weighing as many rows as it has."""
    counts = count(predictions, references)
    return float(np.average(statistic(counts), weights=counts.actual))


def micro(statistic: Statistic, predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """Over the counts of all classes together (with one label a row: the accuracy)."""
    counts = count(predictions, references)
    return float(statistic(Counts(*(values.sum(keepdims=True) for values in counts)))[0])
