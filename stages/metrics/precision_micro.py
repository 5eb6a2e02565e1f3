"""Precision over the rows of all classes together.

With one label a row this is the accuracy.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return class_counts.micro(class_counts.precision, predictions, references)
