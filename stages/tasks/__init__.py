"""The kinds of labels a model can be fine-tuned for, one file each. A file here is a Task: plain functions, no class.

torch and transformers are imported inside the functions that need them: the check stage and `remint predict` read a
task file without either.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Label = str | float


class Task(Protocol):
    """What a file in this folder answers."""

    AUTO_MODEL: str
    """The transformers Auto class with the right head, by name."""

    TEXT_COLUMNS: tuple[str, ...]
    """The columns that hold the input: those of data.columns which must or may be given, in order."""

    LABEL_TYPE: Literal["string", "double"]
    """How data/prepared stores a label, as pyarrow names it."""

    METRICS: tuple[str, ...]
    """What this task can be scored by: files in stages/metrics/, the default first."""

    IGNORED_LABEL: float
    """A label id that counts for nothing in the loss: -100, or NaN where labels are numbers."""

    def read_label(self, text: str) -> Label:
        """Turn what a data file holds into a label; ValueError says what is wrong with it."""

    def label_names(self, labels: Sequence[Label], given: Sequence[str] | None) -> list[str]:
        """The names of the classes, in the order of their ids, from the labels of TRAIN; [] where there are none."""

    def label_ids(self, labels: Sequence[Label], names: Sequence[str]) -> list[int] | list[float]:
        """What the model is trained on, for each label."""

    def config(self, names: Sequence[str]) -> dict[str, Any]:
        """The head's part of the model's config: num_labels, problem_type, id2label, label2id."""

    def encode(self, rows: Mapping[str, list[Any]], tokenizer: Any, *, max_length: int) -> dict[str, list[Any]]:
        """A batch of prepared rows -> token ids (not padded), and the length of each row before it was truncated."""

    def collator(self, tokenizer: Any) -> Any:
        """What makes a padded batch of tensors from encoded rows."""

    def counted(self, labels: Any) -> Any:
        """Which entries of a label tensor count in the loss, as a boolean tensor."""

    def loss(self, outputs: Any, labels: Any, *, num_items: Any, label_smoothing: float) -> Any:
        """The sum of the losses of what counts, over `num_items` (that count in the whole global batch): a scalar."""

    def decode(self, logits: NDArray[np.floating[Any]]) -> dict[str, NDArray[Any]]:
        """A batch of logits -> `predictions` and, for classes, `probabilities`, both with one entry a row."""

    def to_columns(self, decoded: Mapping[str, NDArray[Any]], names: Sequence[str]) -> dict[str, Any]:
        """What a person reads: column name -> one value a row."""

    def onnx_inputs(self, model_inputs: Sequence[str]) -> list[str]:
        """Of the tokenizer's model inputs, those which the exported graph takes, in order."""
