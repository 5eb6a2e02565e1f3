"""Rows from a file, or from standard input, for predict: in any format of stages/sources/, not held in memory."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from stages import lookup, sources
from stages.errors import DataError, UserError
from stages.params import ColumnsParams, DataParams

STANDARD = Path("-")

# The sources' messages name the keys of params.yaml: here the same things are options of the command.
_OPTIONS = {
    "data.raw and data.files name": "give",
    "data.format": "--format",
    "data.encoding": "--encoding",
    "data.delimiter": "--delimiter",
    "data.quoting": "--quoting",
}


def named(path: Path) -> str:
    """What messages call a file to read."""
    return "standard input" if path == STANDARD else str(path)


def source_suffixes() -> dict[str, tuple[str, ...]]:
    """The formats that can be read, each with the endings of its files."""
    return {name: lookup.find(sources, name).SUFFIXES for name in lookup.names(sources)}


def format_of(path: Path, given: str | None, suffixes: Mapping[str, Sequence[str]], *, option: str) -> str:
    """The format that was given by an option, or else by the file's name; csv for standard input and output.

    `suffixes` has the formats there are, each with the endings of its files.

    Raises:
        UserError: there is no such format.
    """
    if given is None and path == STANDARD:
        return "csv"
    if given is None:
        given = next((name for name, endings in suffixes.items() if path.suffix.lower() in endings), None)
        if given is None:
            endings = ", ".join(ending for some in suffixes.values() for ending in some)
            raise UserError(f"{path}: its name ends in none of {endings}; say what it is by {option}")
    if given not in suffixes:
        raise UserError(f"{option}: there is no format {given!r}; there are {', '.join(suffixes)}")
    return given


def data_params(
    file_format: str, columns: Mapping[str, str], *, encoding: str, delimiter: str | None, quoting: str | None
) -> DataParams:
    """What a source is told: how its files are written, and which columns hold the text.

    Raises:
        UserError: an option's value is not allowed.
    """
    try:
        return DataParams.model_validate(
            {
                "hub": None,
                "raw": str(STANDARD),
                "format": file_format,
                "files": None,
                "columns": ColumnsParams(
                    text=columns["text"], text_pair=columns.get("text_pair"), label=None, id=None, extra=[]
                ),
                "labels": None,
                "delimiter": delimiter,
                "quoting": quoting,
                "encoding": encoding,
                "names": None,
            }
        )
    except ValidationError as error:
        mistakes = [
            f"--{'.'.join(map(str, found['loc']))}: {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors()
        ]
        raise UserError("; ".join(mistakes)) from None


@contextmanager
def reading(path: Path, params: DataParams) -> Iterator[tuple[list[str], Iterator[sources.Row]]]:
    """A file's columns, and its rows in their order. Standard input is put into a temporary file first.

    Raises:
        DataError: as the source does, or the file is missing, or a row has a column that the first rows don't have.
    """
    source: sources.Source = lookup.find(sources, params.format)
    with tempfile.TemporaryDirectory(prefix="remint-") as scratch:
        file = path
        if path == STANDARD:
            file = Path(scratch) / "standard-input"
            with file.open("wb") as spool:
                shutil.copyfileobj(sys.stdin.buffer, spool)
        if not file.is_file():
            raise DataError(f"{path}: there is no such file; name a file with rows in it, or - for standard input")
        try:
            columns = source.columns(file, params)
            yield columns, _complete(named(path), source.rows(file, params), columns)
        except (DataError, UserError) as error:
            message = str(error).replace(str(file), named(path))
            for key, option in _OPTIONS.items():
                message = message.replace(key, option)
            raise type(error)(message) from None


def _complete(place: str, rows: Iterator[sources.Row], columns: list[str]) -> Iterator[sources.Row]:
    """The rows, none with more columns than the first ones."""
    known = set(columns)
    for row in rows:
        if not row.fields.keys() <= known:
            more = ", ".join(sorted(row.fields.keys() - known))
            raise DataError(
                f"{place}, line {row.number}: it has {more}, and the first rows have only {', '.join(columns)}; "
                "give the first row all of the columns (null where there is nothing)"
            )
        yield row
