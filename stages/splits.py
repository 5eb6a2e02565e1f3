"""How splits are stored between stages: the only reader and writer of that format.

data/prepared: <split>.parquet (id, text[, text_pair], label[, extra columns]) and labels.json.
data/encoded: <split>.arrow (token ids without padding, length[, labels]), an Arrow stream that is memory-mapped, not
converted, when it is read; and labels.json.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages import outputs

if TYPE_CHECKING:
    from datasets import Dataset

NAMES = ("train", "validation", "test")
_LABELS = "labels.json"
_BATCH = 1000


def present(folder: Path) -> list[str]:
    """Which splits lie in data/prepared or data/encoded: train, validation and perhaps test, in that order."""
    return [name for name in NAMES if any((folder / f"{name}{suffix}").exists() for suffix in (".parquet", ".arrow"))]


def write_rows(folder: Path, split: str, rows: pa.Table) -> None:
    """Write a split's prepared rows; the same rows give the same bytes."""
    pq.write_table(rows.replace_schema_metadata(None), folder / f"{split}.parquet")


def read_rows(folder: Path, split: str) -> pa.Table:
    """A split's prepared rows, in their order."""
    return pq.read_table(folder / f"{split}.parquet")


def write_label_names(folder: Path, names: list[str]) -> None:
    """Write the names of the classes, in the order of their ids."""
    outputs.write_json(folder / _LABELS, names)


def read_label_names(folder: Path) -> list[str]:
    """The names of the classes, in the order of their ids; [] for a task without classes."""
    names: list[str] = json.loads((folder / _LABELS).read_text(encoding="utf-8"))
    return names


def has_labels(rows: pa.Table) -> bool:
    """Whether a split is labelled: all of its rows are, or none is."""
    return bool(rows.num_rows) and rows["label"].null_count == 0


def write_encoded(folder: Path, split: str, rows: pa.Table) -> None:
    """Write a split's encoded rows; the same rows give the same bytes, however they are chunked in memory."""
    rows = rows.replace_schema_metadata(None)
    with pa.OSFile(str(folder / f"{split}.arrow"), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        for start in range(0, rows.num_rows, _BATCH):
            part = rows.slice(start, _BATCH)
            # Copied, since a slice is written with more or fewer of its neighbours' bytes, depending on the chunks.
            copied = [pa.concat_arrays(column.chunks) for column in part.columns]
            writer.write_batch(pa.record_batch(copied, schema=rows.schema))


def read_encoded(folder: Path, split: str) -> "Dataset":
    """A split's encoded rows, in their order, memory-mapped: nothing is converted or cached."""
    from datasets import Dataset

    return Dataset.from_file(str(folder / f"{split}.arrow"))


def numbers(rows: "Dataset", column: str) -> NDArray[Any]:
    """A column of numbers of read_encoded's rows, or of some of them, all at once: integers as stored, others float64.

    `rows[column]` is read row by row: 400,000 lengths took 10 s as a list, and each look at one of them as long again.
    """
    found: NDArray[Any] = rows.select_columns(column).with_format("arrow")[:].column(column).to_numpy()
    return found.astype(np.float64) if np.issubdtype(found.dtype, np.floating) else found
