"""How near exported models are to the one in PyTorch, on all rows of a split, and whether that is near enough."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stages import lookup, metrics, progress, scoring, tasks
from stages.errors import GateError

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)

FP32 = "model.onnx"
INT8 = "model.int8.onnx"
PYTORCH = "pytorch"

Report = dict[str, Any]
"""What parity.json holds: how the models were compared, and under each one's name what was found."""


def measure(
    forwards: Mapping[str, scoring.Forward],
    rows: "Dataset",
    task: tasks.Task,
    collate: Callable[[list[Any]], Any],
    *,
    metric: str,
    batch_size: int,
) -> Report:
    """Compare models with the one under PYTORCH, on the same padded batches, one at a time.

    `equal_predictions` is a share of the rows, and None where predictions are numbers rather than classes.
    """
    decoded: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in forwards}
    differences = {name: 0.0 for name in forwards if name != PYTORCH}
    with progress.shown("parity", total=len(rows), unit="rows") as tell:
        for indices, batch in scoring.batches(rows, collate, batch_size=batch_size):
            logits = {name: forward(batch) for name, forward in forwards.items()}
            for name, values in logits.items():
                scoring.place(decoded[name], task.decode(values), indices, num_rows=len(rows))
            for name in differences:
                largest = np.abs(logits[name].astype(np.float64) - logits[PYTORCH]).max()
                differences[name] = float(np.maximum(differences[name], largest))  # a NaN stays one
            tell(len(indices))
    references = scoring.references(rows)
    scores = {name: metrics.score(metric, values, references) for name, values in decoded.items()}
    expected = decoded[PYTORCH]["predictions"]
    report: Report = {"split": "validation", "rows": len(rows), "metric": metric, PYTORCH: {metric: scores[PYTORCH]}}
    for name, difference in differences.items():
        equal = (decoded[name]["predictions"] == expected).mean() if expected.dtype.kind == "i" else None
        report[name] = {
            "max_logit_difference": difference,
            "equal_predictions": None if equal is None else float(equal),
            metric: scores[name],
        }
    return report


def check_fp32(report: Report, *, tolerance: float) -> None:
    """The fp32 ONNX model computes what PyTorch does.

    Raises:
        GateError: a logit differs by more than `tolerance`.
    """
    found = report[FP32]["max_logit_difference"]
    if not found <= tolerance:
        raise GateError(
            f"{FP32}: on the {report['rows']} rows of {report['split']} a logit differs from PyTorch's by {found:.3g}, "
            f"which is over export.tolerance {tolerance:g} ({_summary(report, FP32)}); try another export.opset, or "
            "raise export.tolerance if that difference is harmless"
        )


def int8_loss(report: Report) -> float:
    """How much worse int8's metric is than PyTorch's, in the metric's own unit; below 0 where it is better."""
    name = report["metric"]
    metric: metrics.Metric = lookup.find(metrics, name)
    loss: float = report[PYTORCH][name] - report[INT8][name]
    return loss if metric.greater_is_better else -loss


def check_int8(report: Report, *, max_metric_drop: float, optional: bool) -> bool:
    """Whether the int8 model is good enough to be handed over; if not, and `optional`, the report says why.

    Raises:
        GateError: it loses more than `max_metric_drop`, and is not optional.
    """
    loss = int8_loss(report)
    if loss <= max_metric_drop:
        return True
    reason = (
        f"it loses {loss:.4g} of {report['metric']} on the {report['rows']} rows of {report['split']}, which is over "
        f"export.max_metric_drop {max_metric_drop:g} ({_summary(report, INT8)})"
    )
    if not optional:
        raise GateError(
            f"{INT8}: {reason}; set export.int8 to optional (it is then left out) or off, or raise "
            "export.max_metric_drop"
        )
    log.warning("%s is left out: %s", INT8, reason)
    report[INT8]["left_out"] = reason
    return False


def _summary(report: Report, name: str) -> str:
    """The metric beside PyTorch's, and how many predictions are equal."""
    metric, found = report["metric"], report[name]
    equal = found["equal_predictions"]
    shares = "" if equal is None else f", {equal:.2%} of the predictions are equal"
    return f"{metric} {found[metric]:.4f}, PyTorch's {report[PYTORCH][metric]:.4f}{shares}"


def describe(report: Report, name: str) -> str:
    """One line about a model: how near it is."""
    difference = report[name]["max_logit_difference"]
    return f"{name}: logits within {difference:.2g} of PyTorch's on {report['rows']} rows; {_summary(report, name)}"
