"""What a person should know of the prepared rows: how many, of which labels, how long, which are empty or repeated."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.data import raw_labels, repeated_texts
from stages.data.raw_rows import RawRows
from stages.data.repeated_texts import Digests

log = logging.getLogger(__name__)

_SHOWN = 10
_ROWS_AT_ONCE = 10_000


def report(splits: Mapping[str, RawRows], of: Mapping[str, Digests], names: list[str]) -> dict[str, Any]:
    """The facts of each split, and the texts that have different labels.

    Args:
        splits: the rows as they are written.
        of: the digests of their texts.
        names: the names of the classes; [] where labels are numbers.
    """
    facts = {split: _split(split, rows, of[split], names) for split, rows in splits.items()}
    return {"splits": facts, "same_text_different_labels": repeated_texts.conflicts(splits, of)}


def _split(split: str, rows: RawRows, digests: Digests, names: list[str]) -> dict[str, Any]:
    columns = [name for name in ("text", "text_pair") if name in rows.table.column_names]
    words = {name: _words(rows.table[name]) for name in columns}
    characters = {name: pc.utf8_length(rows.table[name]).to_numpy() for name in columns}
    empty = np.flatnonzero(np.logical_or.reduce([counts == 0 for counts in words.values()]))
    if len(empty):
        log.warning("%s: %d row(s) have an empty text: %s", split, len(empty), rows.places(empty))
    return {
        "rows": len(rows),
        "labels": _labels(rows, names),
        "characters": {name: _spread(counts) for name, counts in characters.items()},
        "words": {name: _spread(counts) for name, counts in words.items()},
        "empty_texts": {
            "rows": len(empty),
            "shown": [{"id": rows.table["id"][index].as_py(), "place": rows.place(index)} for index in empty[:_SHOWN]],
        },
        "duplicates": repeated_texts.duplicates(digests),
    }


def _labels(rows: RawRows, names: list[str]) -> Any:
    """Rows of each class, the spread of the numbers, or None for a split without labels."""
    if not raw_labels.is_labelled(rows):
        return None
    if names:
        counts = raw_labels.counts(rows)
        return {name: counts.get(name, 0) for name in names}
    numbers = rows.table["label"].to_numpy()
    return {
        "min": float(numbers.min()),
        "mean": float(numbers.mean()),
        "max": float(numbers.max()),
        "standard_deviation": float(numbers.std()),
    }


def _words(texts: Any) -> NDArray[np.int64]:
    """The words of each text, shape (rows,): what white space separates."""
    batches = (
        chunk[start : start + _ROWS_AT_ONCE] for chunk in texts.chunks for start in range(0, len(chunk), _ROWS_AT_ONCE)
    )
    return np.fromiter((len(text.split()) for batch in batches for text in batch.to_pylist()), np.int64, len(texts))


def _spread(counts: NDArray[np.int64]) -> dict[str, int]:
    """Of the counts themselves, never between two of them."""
    at = {"min": 0, "median": 50, "p95": 95, "max": 100}
    return {name: int(np.percentile(counts, percent, method="nearest")) for name, percent in at.items()}
