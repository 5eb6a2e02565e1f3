"""Two versions of a file -> what first differs between them, in a line, by what kind of file it is."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pipeline import array_differences
from pipeline.values import show, times

Explain = Callable[[Path, Path], str | None]
"""Committed and new file -> what differs first, or None where what they hold is equal and only the bytes are not."""

MISSING = object()
"""Stands for a key, a row or a line that one of the two does not have."""

_BLOCK = 1 << 20


def explain(committed: Path, new: Path, name: str) -> str:
    """What differs first between the file of a commit and the one that was made now; `name` has the suffix."""
    by_kind = KINDS.get(Path(name).suffix.lower())
    try:
        found = by_kind(committed, new) if by_kind else None
    except (ValueError, OSError, csv.Error) as error:
        found = (
            f"one of them is no {Path(name).suffix} that can be read ({_first_line(error)}); {_bytes(committed, new)}"
        )
    if found:
        return found
    return f"the same values, written differently: {_bytes(committed, new)}" if by_kind else _bytes(committed, new)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _bytes(committed: Path, new: Path) -> str:
    sizes = f"{committed.stat().st_size} and {new.stat().st_size} bytes"
    offset = 0
    with committed.open("rb") as left, new.open("rb") as right:
        while True:
            a, b = left.read(_BLOCK), right.read(_BLOCK)
            if a != b or not a:
                break
            offset += len(a)
    first = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"byte {offset + first} is the first that differs ({sizes})"


def change(committed: Any, new: Any) -> str:
    """A value of the commit and the one there is now."""
    if committed is MISSING:
        return f"not in the commit's, now {show(new)}"
    return f"{show(committed)} in the commit's, " + ("no longer there" if new is MISSING else f"now {show(new)}")


def of_json(committed: Path, new: Path) -> str | None:
    """The path of the first key that differs, with both values, and how many do."""
    found = list(leaves(_load(committed), _load(new), ""))
    return _places([f"{place or 'all of it'}: {change(*pair)}" for place, pair in found], "value", "values")


def of_json_lines(committed: Path, new: Path) -> str | None:
    """The same for a file with a JSON value in each line."""
    values = zip_longest(map(json.loads, _lines(committed)), map(json.loads, _lines(new)), fillvalue=MISSING)
    found = [
        f"line {number}, {place or 'all of it'}: {change(*pair)}"
        for number, (a, b) in enumerate(values, start=1)
        for place, pair in leaves(a, b, "")
    ]
    return _places(found, "value", "values")


def _load(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="") as stream:
        yield from stream


def leaves(a: Any, b: Any, place: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Where two JSON values differ: key path, and what each has there."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from leaves(a.get(key, MISSING), b.get(key, MISSING), f"{place}.{key}" if place else key)
    elif isinstance(a, list) and isinstance(b, list):
        for index, (x, y) in enumerate(zip_longest(a, b, fillvalue=MISSING)):
            yield from leaves(x, y, f"{place}[{index}]")
    # By what is written: 1, 1.0 and true are equal in Python, and NaN is not even equal to itself.
    elif a is not b and repr(a) != repr(b):
        yield place, (a, b)


def _places(found: list[str], one: str, several: str) -> str | None:
    if not found:
        return None
    return found[0] if len(found) == 1 else f"{found[0]}; {times(len(found), one, several)} differ in all"


def of_csv(committed: Path, new: Path) -> str | None:
    """The first row and column that differ; rows count from 1 below the header."""
    return _of_delimited(committed, new, ",")


def of_tsv(committed: Path, new: Path) -> str | None:
    """The same for columns that tabs separate."""
    return _of_delimited(committed, new, "\t")


def _of_delimited(committed: Path, new: Path, delimiter: str) -> str | None:
    with committed.open(encoding="utf-8", newline="") as left, new.open(encoding="utf-8", newline="") as right:
        empty: list[str] = []
        readers = (csv.reader(stream, delimiter=delimiter) for stream in (left, right))
        rows = zip_longest(*readers, fillvalue=empty)
        columns, others = next(rows, ([], []))
        if columns != others:
            return f"columns: {change(columns, others)}"
        first, differing = None, 0
        for number, (a, b) in enumerate(rows, start=1):
            if a != b:
                differing += 1
                first = first or f"row {number}{_cell(a, b, columns)}"
    return first and (first if differing == 1 else f"{first}; {times(differing, 'row', 'rows')} differ in all")


def _cell(a: list[str], b: list[str], columns: list[str]) -> str:
    if not a or not b:
        return f": {change(a or MISSING, b or MISSING)}"
    pairs = enumerate(zip_longest(a, b, fillvalue=MISSING))
    index, pair = next((index, pair) for index, pair in pairs if pair[0] != pair[1])
    return f", column {columns[index] if index < len(columns) else index + 1}: {change(*pair)}"


def of_text(committed: Path, new: Path) -> str | None:
    """The first line that differs."""
    pairs = zip_longest(_lines(committed), _lines(new), fillvalue=MISSING)
    found = [f"line {number}: {change(*pair)}" for number, pair in enumerate(pairs, start=1) if pair[0] != pair[1]]
    return _places(found, "line", "lines")


KINDS: dict[str, Explain] = {
    ".safetensors": array_differences.of_tensors,
    ".parquet": array_differences.of_parquet,
    ".arrow": array_differences.of_arrow,
    ".csv": of_csv,
    ".tsv": of_tsv,
    ".json": of_json,
    ".jsonl": of_json_lines,
    ".md": of_text,
    ".txt": of_text,
    ".yaml": of_text,
}
"""By suffix, those that say most first: of a folder, files are explained in this order. All others by bytes."""


def rank(name: str) -> tuple[int, str]:
    """Where a file of a folder stands among those that are to be explained."""
    suffix = Path(name).suffix.lower()
    return (list(KINDS).index(suffix) if suffix in KINDS else len(KINDS), name)
