"""The share of rows whose predicted class is the true one."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between 0 and 1."""
    return float(np.mean(predictions == references))
