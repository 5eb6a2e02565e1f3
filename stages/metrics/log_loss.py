"""The mean of -log of the probability that was given to the true class (natural logarithm): lower is better.

A probability of 0 counts as the smallest step from 1 (2.2e-16), as in scikit-learn: a row costs 36 at most.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

greater_is_better = False
needs: Literal["probabilities"] = "probabilities"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From probabilities (rows, classes) and class ids (rows,). Which classes occur in the rows makes no difference."""
    given = predictions[np.arange(len(references)), references]
    return float(-np.log(np.clip(given, np.finfo(np.float64).eps, 1.0)).mean())
