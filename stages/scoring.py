"""A model over a split, batch by batch, in bounded memory: evaluate, test and export share it.

Logits are reduced by the task batch by batch and never held for a whole split: of 2,000 rows of a token model over
30,000 words they would be 30 GB.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stages import splits, tasks
from stages.model.base_model import trusts_remote_code

if TYPE_CHECKING:
    from datasets import Dataset

Batch = Mapping[str, Any]
"""Model input name -> tensor (rows, tokens), on the CPU."""

Forward = Callable[[Batch], NDArray[np.floating[Any]]]
"""A padded batch of model inputs -> logits, rows first."""


def batches(
    rows: "Dataset", collate: Callable[[list[Any]], Any], *, batch_size: int
) -> Iterator[tuple[list[int], Batch]]:
    """The model inputs of all rows, padded batch by batch, with each row's index in the split.

    Longest rows first (of equals in their order): little padding, and a batch that does not fit in memory is the first.
    """
    order = np.argsort(-splits.numbers(rows, "length").astype(np.int64), kind="stable").tolist()
    inputs = rows.remove_columns([name for name in ("length", "labels") if name in rows.column_names])
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        columns = inputs[indices]
        yield indices, collate([{name: columns[name][i] for name in columns} for i in range(len(indices))])


def decode(
    forward: Forward,
    rows: "Dataset",
    task: tasks.Task,
    collate: Callable[[list[Any]], Any],
    *,
    batch_size: int,
    progress: Callable[[int], None] = lambda rows: None,
) -> dict[str, NDArray[Any]]:
    """What the task makes of a model's logits, for all rows, in the order of the split.

    `progress` is told after each batch how many rows it had.
    """
    decoded: dict[str, NDArray[Any]] = {}
    for indices, batch in batches(rows, collate, batch_size=batch_size):
        place(decoded, task.decode(forward(batch)), indices, num_rows=len(rows))
        progress(len(indices))
    return decoded


def place(
    decoded: dict[str, NDArray[Any]], batch: Mapping[str, NDArray[Any]], indices: list[int], *, num_rows: int
) -> None:
    """Put what was decoded of a batch where its rows stand in the split."""
    for name, values in batch.items():
        if name not in decoded:
            decoded[name] = np.empty((num_rows, *values.shape[1:]), values.dtype)
        decoded[name][indices] = values


def references(rows: "Dataset") -> NDArray[Any]:
    """The label ids (or numbers) of all rows, in the order of the split."""
    return splits.numbers(rows, "labels")


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer that lies in a model folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trusts_remote_code(folder))


def load_forward(folder: Path, task: tasks.Task) -> Forward:
    """The model of a checkpoint, in evaluation mode and fp32, on a GPU where there is one."""
    import torch
    import transformers

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    auto_model = getattr(transformers, task.AUTO_MODEL)
    trusted = trusts_remote_code(folder)
    model = auto_model.from_pretrained(folder, dtype=torch.float32, local_files_only=True, trust_remote_code=trusted)
    model.to(device).eval()

    def forward(batch: Batch) -> NDArray[np.floating[Any]]:
        with torch.inference_mode():
            logits = model(**{name: tensor.to(device) for name, tensor in batch.items()}).logits
        array: NDArray[np.floating[Any]] = logits.float().cpu().numpy()
        return array

    return forward
