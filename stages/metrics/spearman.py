"""Spearman's rank correlation between predictions and labels: 1 where their orders are the same.

0 where either is constant (a single row is): there is no order. Equal values share the mean of their ranks.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = 0


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From numbers, (rows,) each; between -1 and 1."""
    from scipy.stats import spearmanr

    if np.ptp(predictions) == 0 or np.ptp(references) == 0:
        return 0.0
    return float(spearmanr(predictions, references).statistic)
