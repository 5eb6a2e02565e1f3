"""Matthews' correlation between predicted and true classes, of any number: 1 perfect, 0 no better than chance.

0 where all rows are of one class, or all predictions are: nothing varies that could correlate.
"""

import math
from typing import Any, Literal

from numpy.typing import NDArray

from stages import class_counts

greater_is_better = True
needs: Literal["predictions"] = "predictions"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From class ids, (rows,) each; between -1 and 1.

    R_K of Gorodkin 2004, as scikit-learn's matthews_corrcoef. In Python's whole numbers, which no row count overflows.
    """
    counts = class_counts.count(predictions, references)
    rows = len(references)
    predicted, actual = counts.predicted.tolist(), counts.actual.tolist()
    covariance = int(counts.right.sum()) * rows - sum(p * a for p, a in zip(predicted, actual, strict=True))
    spread = (rows**2 - sum(p * p for p in predicted)) * (rows**2 - sum(a * a for a in actual))
    return covariance / math.sqrt(spread) if spread else 0.0
