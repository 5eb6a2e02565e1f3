"""Recall (what share of the rows of a class were predicted as it), averaged over the classes by their rows.

With one label a row this is the accuracy; a class without rows has no weight.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return class_counts.weighted(class_counts.recall, predictions, references)
