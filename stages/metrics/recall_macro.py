"""Recall (what share of the rows of a class were predicted as it), averaged over the classes.

A class that is only predicted counts 0; one absent from labels and predictions is left out, as in scikit-learn.
"""

from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return class_counts.macro(class_counts.recall, predictions, references)
