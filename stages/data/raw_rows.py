"""Raw rows in memory: the columns that are used, as text, and where each row stands in which file."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages import lookup, sources
from stages.data import raw_files
from stages.data.raw_columns import check_present, stored_names
from stages.errors import DataError
from stages.params import DataParams

log = logging.getLogger(__name__)

_ROWS_AT_ONCE = 10_000
_ROWS_BETWEEN_MESSAGES = 200_000
_SHOWN = 10

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class RawRows:
    """Rows with the columns of data/prepared: id, text[, text_pair], label[, extra columns]."""

    table: pa.Table
    files: tuple[str, ...]
    """Their names, relative to data.raw (a single file: its own name)."""

    file_of_row: NDArray[np.int32]
    """Shape (rows,): an index into `files`."""

    number_of_row: NDArray[np.int64]
    """Shape (rows,): the line a row starts on, or its count where a format has no lines."""

    def __len__(self) -> int:
        return len(self.number_of_row)

    def take(self, indices: Indices) -> "RawRows":
        """Some of the rows."""
        return RawRows(
            self.table.take(indices).combine_chunks(),
            self.files,
            self.file_of_row[indices],
            self.number_of_row[indices],
        )

    def place(self, index: int) -> str:
        """Where a row stands: file:line."""
        return f"{self.files[self.file_of_row[index]]}:{self.number_of_row[index]}"

    def places(self, indices: Indices) -> str:
        """Where some rows stand, for a message: the first ten of them, and how many more there are."""
        more = f" and {len(indices) - _SHOWN} more" if len(indices) > _SHOWN else ""
        return ", ".join(self.place(index) for index in indices[:_SHOWN]) + more

    def with_column(self, name: str, values: Any) -> "RawRows":
        """The same rows with one column replaced."""
        table = self.table.set_column(self.table.schema.get_field_index(name), name, values)
        return RawRows(table, self.files, self.file_of_row, self.number_of_row)


def read(raw: Path, files: Sequence[Path], params: DataParams, *, split: str, id_prefix: str) -> RawRows:
    """Read the rows of a split's files, in their order.

    A text that is null is an empty text. Where there is no id column, a row's id is made of `id_prefix` (or, of several
    files, the file's name) and the number of the row: it stays the same whatever the split it ends up in.

    Raises:
        DataError: a file, a column, a text or an id is missing, or a file is malformed.
    """
    batches: list[Any] = []
    file_of_row: list[NDArray[np.int32]] = []
    number_of_row: list[NDArray[np.int64]] = []
    for index, file in enumerate(files):
        there = raw_files.check_columns(file, params, split=split)
        prefix = id_prefix if len(files) == 1 else file.name
        before = len(number_of_row)
        for batch, numbers in _batches(file, params, there, id_prefix=prefix):
            batches.append(batch)
            number_of_row.append(np.array(numbers, dtype=np.int64))
            file_of_row.append(np.full(len(numbers), index, dtype=np.int32))
        if len(number_of_row) == before:
            raise DataError(raw_files.no_rows(file))
    names = tuple(str(file.relative_to(raw)) if raw.is_dir() else file.name for file in files)
    table = pa.Table.from_batches(batches).combine_chunks()
    rows = RawRows(table, names, np.concatenate(file_of_row), np.concatenate(number_of_row))
    _check_ids_given(rows, params)
    return rows


def check_ids(splits: Sequence[RawRows]) -> None:
    """No id stands twice, in one split or in two.

    Raises:
        DataError: it names repeated ids and where they stand.
    """
    ids = pa.chunked_array([chunk for rows in splits for chunk in rows.table["id"].chunks])
    counts = pc.value_counts(ids)
    repeated = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1)).to_pylist()
    if not repeated:
        return
    shown = []
    for value in repeated[:_SHOWN]:
        found = [(rows, np.flatnonzero(pc.equal(rows.table["id"], value).to_numpy())) for rows in splits]
        shown.append(f"{value} ({', '.join(rows.places(indices) for rows, indices in found if len(indices))})")
    raise DataError(
        f"data.columns.id: {len(repeated)} id(s) stand more than once: {'; '.join(shown)}; give each row an id of its "
        f"own, or set data.columns.id to null: ids are then made"
    )


def _check_ids_given(rows: RawRows, params: DataParams) -> None:
    lacking = np.flatnonzero(pc.equal(pc.fill_null(rows.table["id"], ""), "").to_numpy())
    if len(lacking):
        raise DataError(
            f"data.columns.id: {len(lacking)} row(s) have no {params.columns.id}: {rows.places(lacking)}; give each "
            f"row an id of its own, or set data.columns.id to null: ids are then made"
        )


def _batches(file: Path, params: DataParams, there: Sequence[str], *, id_prefix: str) -> Any:
    """Yield record batches of at most 10,000 rows, each with the numbers of its rows."""
    stored = {name: raw if raw in there else None for name, raw in stored_names(params.columns).items()}
    texts = [raw for name, raw in stored.items() if name in ("text", "text_pair") and raw is not None]
    schema = pa.schema([(name, pa.string()) for name in stored])
    columns: dict[str, list[str | None]] = {name: [] for name in stored}
    numbers: list[int] = []
    count = 0
    for count, row in enumerate(lookup.find(sources, params.format).rows(file, params), 1):
        fields = row.fields
        if not all(text in fields for text in texts):
            check_present(f"{file}, line {row.number}", list(fields), texts, params)
        for name, raw in stored.items():
            columns[name].append(None if raw is None else fields.get(raw))
        numbers.append(row.number)
        if len(numbers) == _ROWS_AT_ONCE:
            yield _batch(columns, numbers, schema, id_prefix if stored["id"] is None else None), numbers
            columns, numbers = {name: [] for name in stored}, []
        if count % _ROWS_BETWEEN_MESSAGES == 0:
            log.info("%s: %d rows read", file, count)
    if numbers:
        yield _batch(columns, numbers, schema, id_prefix if stored["id"] is None else None), numbers


def _batch(columns: dict[str, list[str | None]], numbers: list[int], schema: Any, id_prefix: str | None) -> Any:
    if id_prefix is not None:
        columns["id"] = [f"{id_prefix}-{number}" for number in numbers]
    for name in ("text", "text_pair"):
        if name in columns:
            columns[name] = ["" if text is None else text for text in columns[name]]
    return pa.record_batch([pa.array(columns[name], pa.string()) for name in schema.names], schema=schema)
