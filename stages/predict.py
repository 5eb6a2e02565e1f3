"""An exported model and rows -> the rows with a prediction each: ONNX Runtime alone, in bounded memory."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from stages import command, lookup, sources
from stages.errors import DataError, UserError
from stages.serving import exported_model, row_files, row_writers

log = logging.getLogger(__name__)

CHUNK = 4096
"""Rows in memory at once: batches of about equal length are made among them."""

_CHUNKS_BETWEEN_MESSAGES = 25


def chunks(rows: Iterator[sources.Row]) -> Iterator[list[sources.Row]]:
    """The rows, so many at once."""
    while some := list(islice(rows, CHUNK)):
        yield some


def texts_of(rows: Sequence[sources.Row], column: str, place: str) -> list[str]:
    """A column of some rows; null is an empty text, as it was in training.

    Raises:
        DataError: a row does not have the column.
    """
    for row in rows:
        if column not in row.fields:
            raise DataError(f"{place}, line {row.number}: it has no {column!r}; it has {', '.join(row.fields)}")
    return [row.fields[column] or "" for row in rows]


def check_columns(place: str, there: Sequence[str], wanted: Mapping[str, str], added: Sequence[str]) -> None:
    """The text columns are there, and what is added does not stand there already.

    Raises:
        DataError: the message names the columns there are.
    """
    if missing := [name for name in wanted.values() if name not in there]:
        hints = "".join(lookup.nearest(name, there) for name in missing)
        raise DataError(
            f"{place}: there is no column {', '.join(missing)}, which this model reads; there are "
            f"{', '.join(there)}{hints}"
        )
    if taken := [name for name in added if name in there]:
        raise DataError(
            f"{place}: it has a column {', '.join(taken)} already, which predict would write; rename it, or take it out"
        )


def check_apart(rows: Path, out: Path) -> None:
    """The rows that are read are not the file that is written.

    Raises:
        UserError: they are.
    """
    if rows.exists() and out.exists() and rows.samefile(out):
        raise UserError(f"{out}: it is the file of the rows themselves, which predict would replace; name another")


def main(
    exported: Path,
    rows: Path,
    out: Path,
    *,
    int8: Annotated[bool, typer.Option("--int8", help="Run the int8 model.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Threads of ONNX Runtime; 0: one for each core.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 32,
    input_format: Annotated[str | None, typer.Option("--format", help="Of ROWS, if not by its name.")] = None,
    output_format: Annotated[str | None, typer.Option(help="Of OUT, if not by its name.")] = None,
    encoding: Annotated[str, typer.Option(help="Of ROWS: a Python codec.")] = "utf-8",
    delimiter: Annotated[str | None, typer.Option(help="Of ROWS in csv or tsv, if not its own.")] = None,
    quoting: Annotated[str | None, typer.Option(help="Of ROWS in csv or tsv: minimal or none.")] = None,
) -> None:
    """Predict the rows of a csv, tsv, jsonl or Parquet file (-: standard input) into another (-: standard output).

    The columns stay as they are, all of them text; the task's are added: the prediction, and each label's probability.
    """
    check_apart(rows, out)
    read_as = row_files.format_of(rows, input_format, row_files.source_suffixes(), option="--format")
    write_as = row_files.format_of(out, output_format, row_writers.SUFFIXES, option="--output-format")
    wanted, predict = exported_model.load(exported, int8=int8, threads=threads, batch_size=batch_size)
    params = row_files.data_params(read_as, wanted, encoding=encoding, delimiter=delimiter, quoting=quoting)
    place, count = row_files.named(rows), 0
    with row_files.reading(rows, params) as (columns, stream):
        nothing = predict([[] for _ in wanted])
        check_columns(place, columns, wanted, list(nothing))
        with row_writers.writing(out, [*columns, *nothing], write_as) as write:
            write({**{name: [] for name in columns}, **nothing})
            for some in chunks(stream):
                made = predict([texts_of(some, name, place) for name in wanted.values()])
                write({**{name: [row.fields.get(name) for row in some] for name in columns}, **made})
                count += len(some)
                if count % (CHUNK * _CHUNKS_BETWEEN_MESSAGES) == 0:
                    log.info("%d rows done", count)
    log.info("%d rows -> %s", count, "standard output" if out == row_files.STANDARD else out)


if __name__ == "__main__":
    command.run(main)
