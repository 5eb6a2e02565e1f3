"""The labels of raw rows: read as the task has them, none missing, none that train does not know."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages import lookup
from stages.data.raw_rows import RawRows
from stages.errors import DataError, ParamsError
from stages.params import Params
from stages.tasks import Label, Task

log = logging.getLogger(__name__)

# What GLUE's test sets, and the Hub's copies of them, hold in place of a label.
_UNLABELLED = ("-1", "-1.0")
_SHOWN = 10


def check_column(params: Params) -> None:
    """There is a column with labels.

    Raises:
        ParamsError: data.columns.label is null.
    """
    if params.data.columns.label is None:
        raise ParamsError(
            f"data.columns.label: {params.task.type} is learned from labels; name the column that has them"
        )


def read(rows: RawRows, task: Task, *, split: str) -> RawRows:
    """The same rows with labels of the task's own type; a test split without any label has nulls.

    Raises:
        DataError: rows without a label or with one that the task can't read; the message names them.
    """
    texts, codes = _distinct(rows.table["label"])
    missing = np.array([text is None or not text.strip() for text in texts])[codes]
    if split == "test":
        marked = np.array([text in _UNLABELLED for text in texts])[codes]
        if missing.all() or marked.all():
            return rows.with_column("label", pa.nulls(len(rows), pa.type_for_alias(task.LABEL_TYPE)))
    if missing.any():
        either = ", or leave the label out of all rows of test" if split == "test" else ", or take them out"
        raise DataError(
            f"{split}: {missing.sum()} of {len(rows)} rows have no label: {rows.places(np.flatnonzero(missing))}; "
            f"give each a label{either}"
        )
    read_texts, faults = {}, {}
    for code, text in enumerate(texts):
        try:
            read_texts[code] = task.read_label(str(text))
        except ValueError as error:
            faults[code] = str(error)
    if faults:
        wrong = np.flatnonzero(np.isin(codes, list(faults)))
        reasons = "; ".join(list(faults.values())[:_SHOWN])
        raise DataError(
            f"{split}: {len(wrong)} of {len(rows)} rows have a label that can't be read: {reasons} "
            f"({rows.places(wrong)}); correct them, or take them out"
        )
    labels = pa.array([read_texts[code] for code in range(len(texts))], pa.type_for_alias(task.LABEL_TYPE))
    return rows.with_column("label", labels.take(codes))


def is_labelled(rows: RawRows) -> bool:
    """Whether all rows have a label: else none has."""
    return bool(rows.table["label"].null_count == 0)


def counts(rows: RawRows) -> dict[Label, int]:
    """Each label with the number of rows that have it, in the order they first appear in."""
    labels, codes = _distinct(rows.table["label"])
    return dict(zip(labels, np.bincount(codes, minlength=len(labels)).tolist(), strict=True))


def codes(rows: RawRows) -> tuple[list[Label], NDArray[np.int64]]:
    """The distinct labels, and which of them each row has: shape (rows,)."""
    return _distinct(rows.table["label"])


def names(train: RawRows, task: Task, given: Sequence[str] | None) -> list[str]:
    """The names of the classes, from train or as given; [] where the task has none.

    Raises:
        ParamsError: data.labels does not fit the task.
    """
    try:
        return task.label_names(list(counts(train)), given)
    except ValueError as error:
        raise ParamsError(f"data.labels: {error}") from None


def check_known(splits: Mapping[str, RawRows], task: Task, names: list[str], *, given: bool) -> None:
    """Every label is among the names.

    Raises:
        DataError: a label is unseen in train, or not in data.labels; the message names its rows.
    """
    origin = "data.labels" if given else "the labels of train"
    remedy = "add it to data.labels" if given else "add rows with it to train"
    for split, rows in splits.items():
        if not is_labelled(rows):
            continue
        labels, of_row = codes(rows)
        for code, label in enumerate(labels):
            try:
                task.label_ids([label], names)
            except KeyError:
                found = np.flatnonzero(of_row == code)
                hint = lookup.nearest(str(label), names)
                raise DataError(
                    f"{split}: {len(found)} row(s) have the label {label!r} ({rows.places(found)}), which is not among "
                    f"{origin}: {_some(names)}{hint}; correct it, {remedy}, or take the rows out"
                ) from None


def check_variety(train: RawRows, names: list[str], *, sampled: bool) -> None:
    """There is something to tell apart; a name that no row of train, or of what was sampled of it, has is warned of.

    Raises:
        DataError: all rows of train have the same label.
    """
    seen = counts(train)
    if len(seen) < 2:
        remedy = "raise prepare.max_rows, which made it a sample" if sampled else "add rows with other labels"
        raise DataError(
            f"train: all of its {len(train)} rows have the label {next(iter(seen))!r}, so that there is nothing to "
            f"tell apart; {remedy}"
        )
    if unseen := [name for name in names if name not in seen]:
        log.warning("train has no row with the label %s: a model can't learn it", _some(unseen))


def _distinct(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values (a null is one of them), and the index of each row's value."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
