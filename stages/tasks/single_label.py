"""One class for each row: a text or a pair of texts -> one of the label names."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stages.sequences import TEXT_COLUMNS as TEXT_COLUMNS
from stages.sequences import collator as collator
from stages.sequences import encode as encode
from stages.sequences import onnx_inputs as onnx_inputs

AUTO_MODEL = "AutoModelForSequenceClassification"
LABEL_TYPE: Literal["string"] = "string"
IGNORED_LABEL = -100
METRICS = (
    "f1_macro",
    "accuracy",
    "precision_macro",
    "recall_macro",
    "f1_micro",
    "precision_micro",
    "recall_micro",
    "f1_weighted",
    "precision_weighted",
    "recall_weighted",
    "f1_binary",
    "precision_binary",
    "recall_binary",
    "matthews_correlation",
    "roc_auc",
    "log_loss",
    "expected_calibration_error",
)


def read_label(text: str) -> str:
    """The label is the text itself: `007` stays `007`."""
    if text == "-1":
        raise ValueError("-1 marks a row without a label (where it is a class, write it as a word)")
    return text


def label_names(labels: Sequence[str], given: Sequence[str] | None) -> list[str]:
    """The names that were given, in that order, or those in train, sorted."""
    return list(given) if given is not None else sorted(set(labels))


def label_ids(labels: Sequence[str], names: Sequence[str]) -> list[int]:
    """The place of each label among the names."""
    ids = {name: index for index, name in enumerate(names)}
    return [ids[label] for label in labels]


def config(names: Sequence[str]) -> dict[str, Any]:
    """A head with one output for each class."""
    return {
        "num_labels": len(names),
        "problem_type": "single_label_classification",
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def counted(labels: Any) -> Any:
    """All but ignored rows."""
    return labels != IGNORED_LABEL


def loss(outputs: Any, labels: Any, *, num_items: Any, label_smoothing: float) -> Any:
    """Cross entropy, summed over the rows and divided by the rows of the global batch.

    Smoothing as Szegedy et al. 2016 (https://arxiv.org/abs/1512.00567), section 7, by torch.
    """
    from torch.nn.functional import cross_entropy

    total = cross_entropy(outputs["logits"].float(), labels, reduction="sum", label_smoothing=label_smoothing)
    return total / num_items


def decode(logits: NDArray[np.floating[Any]]) -> dict[str, NDArray[Any]]:
    """Softmax in float64; the prediction is the first of the largest logits."""
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return {"predictions": wide.argmax(axis=1), "probabilities": powers / powers.sum(axis=1, keepdims=True)}


def to_columns(decoded: Mapping[str, NDArray[Any]], names: Sequence[str]) -> dict[str, Any]:
    """The predicted label's name, and the probability of every label."""
    columns: dict[str, Any] = {"prediction": [names[index] for index in decoded["predictions"]]}
    for index, name in enumerate(names):
        columns[f"probability_{name}"] = decoded["probabilities"][:, index]
    return columns
