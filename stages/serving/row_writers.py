"""Rows into a file, or to standard output: csv, tsv, jsonl or Parquet, some at a time."""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stages import outputs
from stages.errors import DataError
from stages.serving.row_files import STANDARD

Table = Mapping[str, Sequence[Any]]
"""Column name -> one value a row: a list of texts (None for nothing), or a numpy array of numbers."""

Write = Callable[[Table], None]
"""Write some more rows; the first call, which may have none, tells the columns."""


def _rows(table: Table) -> Iterator[tuple[Any, ...]]:
    """The rows, with Python's numbers: they are written in the fewest digits that give the same number again."""
    columns = [values.tolist() if isinstance(values, np.ndarray) else values for values in table.values()]
    return zip(*columns, strict=True)


@contextmanager
def _text(stream: IO[bytes]) -> Iterator[IO[str]]:
    wrapped = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    yield wrapped
    wrapped.detach()  # flushes; whoever opened the stream closes it


class _Lines:
    """What csv.writer writes to. It quotes the characters that end its own lines, CR and LF; these lines end in LF."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, line: str) -> None:
        self.stream.write(line.removesuffix("\r\n") + "\n")


@contextmanager
def _csv(stream: IO[bytes], columns: Sequence[str]) -> Iterator[Write]:
    """As RFC 4180 has it, but for the ends of lines: LF alone."""
    with _text(stream) as text:
        writer = csv.writer(_Lines(text), lineterminator="\r\n")
        writer.writerow(columns)
        yield lambda table: writer.writerows(_rows(table))


@contextmanager
def _tsv(stream: IO[bytes], columns: Sequence[str]) -> Iterator[Write]:
    """Without quotes, as such files are read: no field can hold a tab or a line break."""
    with _text(stream) as text:

        def line(fields: Sequence[Any]) -> str:
            cells = ["" if field is None else str(field) for field in fields]
            if found := next((cell for cell in cells if re.search(r"[\t\r\n]", cell)), None):
                raise DataError(f"tsv can't hold a tab or a line break, as in {found[:80]!r}; write csv or jsonl")
            return "\t".join(cells) + "\n"

        text.write(line(columns))
        yield lambda table: text.writelines(line(fields) for fields in _rows(table))


@contextmanager
def _jsonl(stream: IO[bytes], columns: Sequence[str]) -> Iterator[Write]:
    """One object a line."""
    with _text(stream) as text:
        yield lambda table: text.writelines(
            json.dumps(dict(zip(columns, fields, strict=True)), ensure_ascii=False, allow_nan=False) + "\n"
            for fields in _rows(table)
        )


@contextmanager
def _parquet(stream: IO[bytes], columns: Sequence[str]) -> Iterator[Write]:
    """Texts as string, numbers as they are."""
    with ExitStack() as opened:
        writers: list[pq.ParquetWriter] = []

        def write(table: Table) -> None:
            texts = {name: pa.array(values, pa.string()) for name, values in table.items() if isinstance(values, list)}
            made = pa.table({name: texts[name] if name in texts else pa.array(table[name]) for name in columns})
            if not writers:
                writers.append(opened.enter_context(pq.ParquetWriter(stream, made.schema)))
            writers[0].write_table(made)

        yield write


_WRITERS: dict[str, Callable[[IO[bytes], Sequence[str]], AbstractContextManager[Write]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
SUFFIXES = {name: (f".{name}",) for name in _WRITERS}
"""The formats that can be written, each with the endings of its files."""


@contextmanager
def writing(path: Path, columns: Sequence[str], file_format: str) -> Iterator[Write]:
    """Open a file (or standard output) for rows with these columns; a file is in its place when the block has ended.

    Raises:
        DataError: `path` is a folder.
    """
    if path.is_dir():
        raise DataError(f"{path}: it is a folder; name a file to write")
    if path == STANDARD:
        try:
            with _WRITERS[file_format](sys.stdout.buffer, columns) as write:
                yield write
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Whoever reads it (head, say) has enough: that is no error. What is still to be flushed goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        return
    with outputs.file(path) as partial, partial.open("wb") as stream, _WRITERS[file_format](stream, columns) as write:
        yield write
