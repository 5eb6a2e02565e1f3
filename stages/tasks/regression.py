"""One number for each row: a text or a pair of texts -> a score."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stages.sequences import TEXT_COLUMNS as TEXT_COLUMNS
from stages.sequences import collator as collator
from stages.sequences import encode as encode
from stages.sequences import onnx_inputs as onnx_inputs

AUTO_MODEL = "AutoModelForSequenceClassification"
LABEL_TYPE: Literal["double"] = "double"
IGNORED_LABEL = math.nan
METRICS = ("pearson", "spearman", "mse", "mae")


def read_label(text: str) -> float:
    """A decimal number that float32, in which the loss is computed, can hold."""
    number = float(text)
    if not abs(number) <= np.finfo(np.float32).max:
        raise ValueError(f"{text!r} is not a number that float32 can hold")
    return number


def label_names(labels: Sequence[float], given: Sequence[str] | None) -> list[str]:
    """There are none."""
    if given is not None:
        raise ValueError("data.labels names classes, and a regression has none; set it to null")
    return []


def label_ids(labels: Sequence[float], names: Sequence[str]) -> list[float]:
    """The numbers themselves."""
    return [float(label) for label in labels]


def config(names: Sequence[str]) -> dict[str, Any]:
    """A head with a single output."""
    return {"num_labels": 1, "problem_type": "regression", "id2label": {0: "score"}, "label2id": {"score": 0}}


def counted(labels: Any) -> Any:
    """All but ignored rows: any number, -100 too, can be a label."""
    return ~labels.isnan()


def loss(outputs: Any, labels: Any, *, num_items: Any, label_smoothing: float) -> Any:
    """Squared error, summed over the rows and divided by the rows of the global batch."""
    from torch.nn.functional import mse_loss

    known = counted(labels)
    return mse_loss(outputs["logits"].float().squeeze(-1)[known], labels.float()[known], reduction="sum") / num_items


def decode(logits: NDArray[np.floating[Any]]) -> dict[str, NDArray[Any]]:
    """The single output of each row, as float64."""
    return {"predictions": logits.astype(np.float64)[:, 0]}


def to_columns(decoded: Mapping[str, NDArray[Any]], names: Sequence[str]) -> dict[str, Any]:
    """The predicted number."""
    return {"prediction": decoded["predictions"]}
