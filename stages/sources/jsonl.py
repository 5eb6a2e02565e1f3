"""One JSON object a line: its texts as they are, its numbers exactly as they were written."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stages.data.raw_columns import refuse_options, used
from stages.data.text_lines import read_lines
from stages.errors import DataError
from stages.sources import Row

if TYPE_CHECKING:
    from stages.params import DataParams

SUFFIXES = (".jsonl", ".ndjson")
_ROWS_LOOKED_AT = 100


def columns(file: Path, params: "DataParams") -> list[str]:
    """The keys of the first 100 objects, in the order they appear in."""
    first = islice(rows(file, params), _ROWS_LOOKED_AT)
    return list(dict.fromkeys(name for row in first for name in row.fields))


def rows(file: Path, params: "DataParams") -> Iterator[Row]:
    """All objects; a row's number is its line. A list or an object in an unused column is left out; blank lines too.

    Raises:
        DataError: a line is not one JSON object, repeats a key, or holds a list or an object in a used column.
    """
    refuse_options(params, of="jsonl")
    wanted, empty = set(used(params.columns)), True
    # JSON's strings hold no raw line break, so that a \r is white space between tokens, never the end of a row.
    for number, line in enumerate(read_lines(file, params.encoding, newline="\n"), 1):
        if line.strip():
            yield Row(number, _fields(f"{file}, line {number}", line, wanted))
            empty = False
    if empty:
        raise DataError(f"{file}: the file is empty; data.raw and data.files name a file with rows in it")


class _RepeatedKeyError(ValueError):
    """A key stands in an object twice, so that one of its values would be lost."""


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepeatedKeyError(f"the key {repeated!r} stands in the object more than once")
    return made


_DECODER = json.JSONDecoder(
    parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_without_repeated_keys
)


def _fields(place: str, line: str, wanted: set[str]) -> dict[str, str | None]:
    try:
        read = _DECODER.decode(line)
    except _RepeatedKeyError as error:
        raise DataError(f"{place}: {error}; keep one of them") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{place}: not JSON at character {error.pos + 1}: {error.msg}; each line must be one whole JSON object"
        ) from None
    except RecursionError:
        raise DataError(f"{place}: it is nested too deeply to be read; each line must be one plain object") from None
    if not isinstance(read, dict):
        raise DataError(
            f"{place}: it is {_kind(read)}, not an object; each line must be one whole JSON object, "
            f'such as {{"text": "...", "label": "..."}}'
        )
    fields = {}
    for name, value in read.items():
        if isinstance(value, (list, dict)):
            if name in wanted:
                raise DataError(f"{place}: {name!r} holds {_kind(value)}, not a text; write it as a string")
        else:
            fields[name] = _text(place, name, value, escaped="\\u" in line)
    return fields


def _kind(value: Any) -> str:
    kinds = {list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a string or a number")


def _text(place: str, name: str, value: str | bool | None, *, escaped: bool) -> str | None:
    """A value as it was written (numbers reach us as strings)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if escaped and value is not None:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{place}: {name!r} holds {value[error.start]!a}, half of a surrogate pair and no character; remove it"
            ) from None
    return value
