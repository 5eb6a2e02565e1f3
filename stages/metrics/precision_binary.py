"""Precision of the positive class, label id 1: what share of the rows predicted as a class are of it.

0 where no row was predicted positive.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = 2


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return class_counts.binary(class_counts.precision, predictions, references)
