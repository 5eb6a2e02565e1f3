"""Rows with the same text (or pair of texts): within a split, in two splits, and with different labels."""

import logging
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages.data.raw_rows import RawRows
from stages.errors import DataError
from stages.params import PrepareParams

log = logging.getLogger(__name__)

Digests = NDArray[np.uint64]
_SHOWN = 10
_CHARACTERS_SHOWN = 200
_ROWS_AT_ONCE = 10_000


def digests(rows: RawRows) -> Digests:
    """A number for each row's text, or pair of texts, shape (rows,): the same for the same.

    64 bits instead of a copy: among ten million different texts, two share a number with a probability of 3e-6.
    """
    return np.fromiter(_digests(rows.table), dtype=np.uint64, count=len(rows))


def _digests(table: pa.Table) -> Iterator[int]:
    for batch in table.select(_text_columns(table)).to_batches(max_chunksize=_ROWS_AT_ONCE):
        for texts in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            # A text holds no NUL byte in text files; in Parquet the length tells where the first one ends.
            whole = "\0".join([*texts, str(len(texts[0]))])
            yield int.from_bytes(blake2b(whole.encode(), digest_size=8).digest(), "little")


def _text_columns(table: pa.Table) -> list[str]:
    return [name for name in ("text", "text_pair") if name in table.column_names]


def duplicates(split: Digests) -> int:
    """How many rows of a split repeat an earlier one."""
    return len(split) - len(np.unique(split))


def without_leaks(
    splits: dict[str, RawRows], of: dict[str, Digests], params: PrepareParams
) -> tuple[dict[str, RawRows], dict[str, Any]]:
    """The splits without train's rows that are also in validation or test (where that is asked for), and the counts.

    Raises:
        DataError: there are such rows, and they are asked to be an error, or nothing else is in train.
    """
    held_out = [split for split in ("validation", "test") if split in of]
    shared = {split: np.isin(of["train"], of[split]) for split in held_out}
    leaked = np.logical_or.reduce(list(shared.values()))
    facts: dict[str, Any] = {f"train_rows_in_{split}": int(mask.sum()) for split, mask in shared.items()}
    if len(held_out) == 2:
        facts["validation_rows_in_test"] = int(np.isin(of["validation"], of["test"]).sum())
        if facts["validation_rows_in_test"]:
            log.warning("validation: %d row(s) have a text that test has too", facts["validation_rows_in_test"])
    facts["dropped_from_train"] = 0
    if leaked.any():
        train = splits["train"]
        found = (
            f"train: {leaked.sum()} of {len(train)} rows have a text that {' or '.join(held_out)} has too "
            f"({train.places(np.flatnonzero(leaked))})"
        )
        if params.leakage == "error":
            raise DataError(f"{found}; take them out, or set prepare.leakage to drop or warn")
        if params.leakage == "warn":
            log.warning("%s; prepare.leakage keeps them", found)
        elif leaked.all():
            raise DataError(f"{found}: no row is left to learn from; name other files in data.files")
        else:
            splits = {**splits, "train": train.take(np.flatnonzero(~leaked))}
            facts["dropped_from_train"] = int(leaked.sum())
    return splits, facts


def conflicts(splits: Mapping[str, RawRows], of: Mapping[str, Digests]) -> dict[str, Any]:
    """How many texts have different labels, with some of them, their rows and where these stand."""
    labelled = [(split, rows) for split, rows in splits.items() if rows.table["label"].null_count == 0]
    keys = np.concatenate([of[split] for split, _ in labelled])
    labels = pa.chunked_array([chunk for _, rows in labelled for chunk in rows.table["label"].chunks])
    codes = labels.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.uint64)
    pairs = np.unique(np.stack([keys, codes], axis=1), axis=0)
    different, kinds = np.unique(pairs[:, 0], return_counts=True)
    clashing = np.isin(keys, different[kinds > 1])
    shown: dict[int, dict[str, Any]] = {}
    starts = np.cumsum([0, *(len(rows) for _, rows in labelled)])
    for place in np.flatnonzero(clashing):
        key = int(keys[place])
        if key not in shown and len(shown) == _SHOWN:
            continue
        number = int(np.searchsorted(starts, place, side="right")) - 1
        split, rows = labelled[number]
        index = int(place - starts[number])
        row = {name: rows.table[name][index].as_py() for name in ("id", "label")}
        texts = {name: rows.table[name][index].as_py()[:_CHARACTERS_SHOWN] for name in _text_columns(rows.table)}
        of_text = shown.setdefault(key, {**texts, "rows": []})["rows"]
        if len(of_text) < _SHOWN:
            of_text.append({"split": split, "place": rows.place(index), **row})
    return {"texts": int((kinds > 1).sum()), "shown": list(shown.values())}
