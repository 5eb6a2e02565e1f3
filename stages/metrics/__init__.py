"""The scores a checkpoint can be chosen by, one file each. A file here is a Metric."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from stages import lookup


class Metric(Protocol):
    """What a file in this folder answers."""

    greater_is_better: bool
    needs: Literal["predictions", "probabilities"]
    """Which of a task's decoded arrays is scored: class ids or numbers (rows,), or probabilities (rows, classes)."""

    num_labels: int | None
    """The number of classes this metric is defined for, or None for any."""

    def score(self, predictions: NDArray[Any], references: NDArray[Any]) -> float:
        """Score all rows of a split (pure: the bootstrap calls it too); a finite float, whatever is in the rows."""


def available(candidates: tuple[str, ...], num_labels: int) -> list[str]:
    """Of a task's metrics, those defined for that number of classes (0: a task without classes)."""
    import stages.metrics as package

    found = {name: lookup.find(package, name) for name in candidates}
    return [name for name, metric in found.items() if metric.num_labels in (None, num_labels)]


def score(name: str, decoded: Mapping[str, NDArray[Any]], references: NDArray[Any]) -> float:
    """Score decoded outputs by the metric of that name."""
    import stages.metrics as package

    metric: Metric = lookup.find(package, name)
    return float(metric.score(decoded[metric.needs], references))
