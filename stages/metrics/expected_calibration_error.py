"""How far confidence is from accuracy: 0 where of the rows predicted with 80 % confidence 80 % are right, and so on.

Guo et al. 2017 (https://arxiv.org/abs/1706.04599), equations 2, 3 and 5: rows in 15 equally wide bins of the largest
probability; the gap between mean confidence and accuracy in each, weighed by its rows. An empty bin weighs nothing.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

greater_is_better = False
needs: Literal["probabilities"] = "probabilities"
num_labels: int | None = None
EDGES = np.linspace(0, 1, 16)[1:-1]
"""Between the bins; a bin holds its upper edge."""


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From probabilities (rows, classes) and class ids (rows,); between 0 and 1."""
    confidence = predictions.max(axis=1)
    right = predictions.argmax(axis=1) == references
    gaps = np.bincount(np.digitize(confidence, EDGES, right=True), weights=right - confidence)
    return float(np.abs(gaps).sum() / len(references))
