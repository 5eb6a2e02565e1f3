"""The mean of the absolute differences between predictions and labels: lower is better."""

from typing import Any, Literal

from numpy.typing import NDArray

greater_is_better = False
needs: Literal["predictions"] = "predictions"
num_labels: int | None = 0


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From numbers, (rows,) each; in the labels' unit."""
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(references, predictions))
