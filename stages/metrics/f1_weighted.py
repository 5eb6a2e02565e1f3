"""F1 (the harmonic mean of precision and recall), averaged over the classes by their rows.

A class without a right prediction counts 0; one without rows has no weight.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return class_counts.weighted(class_counts.f1, predictions, references)
