"""An ONNX file as a function: a padded batch of token ids in, logits out. Needs ONNX Runtime and numpy alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.errors import ModelError

OUTPUT = "logits"


def onnx_forward(file: Path, *, threads: int = 0) -> Callable[[Mapping[str, Any]], NDArray[np.floating[Any]]]:
    """Load an ONNX file on the CPU; it is fed exactly the inputs that its graph has, by name.

    `threads` are those within one operator; 0: as many as ONNX Runtime finds cores.

    Raises:
        ModelError: the file is missing or broken, or its graph takes an input that a batch doesn't have.
    """
    import onnxruntime

    if not file.is_file():
        raise ModelError(f"{file}: there is no such file; run the export stage again (dvc repro export)")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors: its warnings are about graphs that a user can't change
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base of their own
        raise ModelError(f"{file}: ONNX Runtime can't load it: {error}; export it again") from error
    names = [value.name for value in session.get_inputs()]

    def forward(batch: Mapping[str, Any]) -> NDArray[np.floating[Any]]:
        if missing := [name for name in names if name not in batch]:
            raise ModelError(
                f"{file}: its graph takes {', '.join(missing)}, which the tokenizer doesn't make "
                f"(it makes {', '.join(batch)}); export it again"
            )
        feed = {name: np.asarray(batch[name], dtype=np.int64) for name in names}
        logits: NDArray[np.floating[Any]] = session.run([OUTPUT], feed)[0]
        return logits

    return forward
