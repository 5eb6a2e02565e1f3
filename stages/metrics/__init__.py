"""The scores a checkpoint can be chosen by, one file each. A file here is a Metric."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from stages import lookup
from stages.errors import GateError

if TYPE_CHECKING:
    import evaluate


class Metric(Protocol):
    """What a file in this folder answers."""

    greater_is_better: bool
    needs: Literal["predictions", "probabilities"]
    """Which of a task's decoded arrays is scored: class ids or numbers (rows,), or probabilities (rows, classes)."""

    num_labels: int | None
    """The number of classes this metric is defined for: None for any, 0 where it scores numbers instead of classes."""

    def score(self, predictions: NDArray[Any], references: NDArray[Any]) -> float:
        """Score all rows of a split (pure: the bootstrap calls it too); a finite float, whatever is in the rows."""


def available(candidates: tuple[str, ...], num_labels: int) -> list[str]:
    """Of a task's metrics, those defined for that number of classes (0: a task without classes)."""
    import stages.metrics as package

    found = {name: lookup.find(package, name) for name in candidates}
    return [name for name, metric in found.items() if metric.num_labels in (None, num_labels)]


def score(name: str, decoded: Mapping[str, NDArray[Any]], references: NDArray[Any]) -> float:
    """Score decoded outputs by the metric of that name.

    Raises:
        GateError: an output is not a finite number, so that no score of it means anything.
    """
    import stages.metrics as package

    metric: Metric = lookup.find(package, name)
    for array in decoded.values():
        finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        if not finite.all():
            raise GateError(
                f"the model's outputs are not finite for {(~finite).sum()} of {len(finite)} rows (the first: row "
                f"{finite.argmin()} of the split); the training diverged: lower train.learning_rate, or set "
                "train.max_grad_norm"
            )
    return float(metric.score(decoded[metric.needs], references))


def as_evaluate(name: str) -> "evaluate.Metric":
    """The metric of that name for the evaluate library: add_batch(predictions=, references=), then compute().

    compute() gives {name: score}; `predictions` is what the metric `needs`. It is made in memory from the file, since
    evaluate.load copies modules into HF_HOME and asks the Hub for them; this one reads and writes no file and opens no
    socket, so that any number of processes can have one. Stages call score(), which gives the same number: evaluate
    takes seconds to import, and copies all rows into an Arrow table.
    """
    import datasets
    import evaluate

    import stages.metrics as package

    metric: Metric = lookup.find(package, name)
    number = datasets.Value("float64" if metric.num_labels == 0 else "int64")
    scored = datasets.List(datasets.Value("float64")) if metric.needs == "probabilities" else number

    class InMemory(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
        def _info(self) -> Any:
            return evaluate.MetricInfo(
                description=str(metric.__doc__),
                citation="",
                inputs_description=str(metric.score.__doc__),
                features=datasets.Features({"predictions": scored, "references": number}),
            )

        def _build_data_dir(self) -> str:
            return ""  # evaluate makes this folder, in HF_HOME, also when nothing is to lie in it

        def _compute(self, *, predictions: Any, references: Any) -> dict[str, float]:
            return {name: float(metric.score(np.asarray(predictions), np.asarray(references)))}

    return InMemory(keep_in_memory=True)
