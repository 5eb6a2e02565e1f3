"""An exported model as a function: texts in, predictions out. It needs ONNX Runtime, tokenizers and numpy alone."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stages import lookup, tasks
from stages.errors import ModelError
from stages.serving.onnx_session import onnx_forward
from stages.serving.text_encoder import TextEncoder

Predict = Callable[[Sequence[Sequence[str]]], dict[str, Any]]
"""One sequence of texts, or two of pairs -> column name -> one value a row, as the task's to_columns makes them."""


def load(exported: Path, *, int8: bool, threads: int, batch_size: int) -> tuple[dict[str, str], Predict]:
    """The columns of the raw data that the model reads (text, text_pair -> name), and the function that it is.

    Raises:
        ModelError: the folder is not an exported model, or a file of it is missing or broken.
    """
    settings = _settings(exported)
    file = exported / ("model.int8.onnx" if int8 else "model.onnx")
    if int8 and not file.exists():
        raise ModelError(f"{file}: there is no such file; {exported / 'parity.json'} says why. Leave out --int8")
    task: tasks.Task = lookup.find(tasks, settings["task"])
    encoder = TextEncoder(exported, settings)
    forward = onnx_forward(file, threads=threads)
    names = settings["label_names"]

    def predict(texts: Sequence[Sequence[str]]) -> dict[str, Any]:
        tokens = encoder.encode(texts)
        # Longest first: little padding, and a batch that does not fit in memory is the first.
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index].ids))
        none = task.decode(np.empty((0, len(names) or 1), np.float32))
        decoded = {name: np.empty((len(tokens), *values.shape[1:]), values.dtype) for name, values in none.items()}
        for start in range(0, len(order), batch_size):
            indices = order[start : start + batch_size]
            for name, values in task.decode(forward(encoder.pad([tokens[index] for index in indices]))).items():
                decoded[name][indices] = values
        return task.to_columns(decoded, names)

    return settings["columns"], predict


def _settings(exported: Path) -> dict[str, Any]:
    """What remint.json says."""
    file = exported / "remint.json"
    if not file.is_file():
        raise ModelError(f"{file}: there is no such file; name a folder that the export stage wrote (models/exported)")
    try:
        settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{file}: not readable as JSON ({error}); export the model again") from None
    return settings
