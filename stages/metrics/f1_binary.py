"""F1 of the positive class, label id 1: the harmonic mean of precision and recall.

0 where no row is both positive and predicted so, also where none is either.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = 2


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return class_counts.binary(class_counts.f1, predictions, references)
