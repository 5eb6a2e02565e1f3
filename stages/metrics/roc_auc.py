"""The chance that a row of a class gets a higher probability of it than a row of another class: 0.5 is guessing.

Of two classes, for label id 1. Of more, each class against the rest, averaged over the classes that some rows are of
and some are not; the others have no such pair, and are left out. 0.5 where no class has: nothing shows an order.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

greater_is_better = True
needs: Literal["probabilities"] = "probabilities"
num_labels: int | None = None


def score(predictions: NDArray[Any], references: NDArray[Any]) -> float:
    """From probabilities (rows, classes) and class ids (rows,); between 0 and 1. Ties count one half.

    The Mann-Whitney statistic (Hanley & McNeil 1982). Only the probabilities of each class are sorted, and its own rows
    looked up: scikit-learn's curve for each class takes ten times as long.
    """
    rows, classes = predictions.shape
    areas = []
    for label in (1,) if classes == 2 else range(classes):
        column = np.sort(predictions[:, label])
        own = predictions[references == label, label]
        others = rows - len(own)
        if len(own) and others:
            below = np.searchsorted(column, own, side="left") + np.searchsorted(column, own, side="right")
            # Of each other, own rows are below as often as above: that half of their pairs is taken off.
            areas.append((below.sum() / 2 - len(own) ** 2 / 2) / (len(own) * others))
    return float(np.mean(areas)) if areas else 0.5
