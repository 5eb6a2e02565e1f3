"""Pearson's correlation between predictions and labels: 1 where they lie on a rising line.

0 where either is constant (a single row is): nothing varies that could correlate.
"""

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = 0


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From numbers, (rows,) each; between -1 and 1."""
    from scipy.stats import pearsonr

    if np.ptp(predictions) == 0 or np.ptp(references) == 0:
        return 0.0
    with warnings.catch_warnings():
        # Of nearly constant values, and of the p-value, which is not asked for.
        warnings.simplefilter("ignore")
        value = float(pearsonr(predictions, references).statistic)
    return value if np.isfinite(value) else 0.0
