"""Two files of tensors or of columns -> which tensor, or which row and column, first differs and by how much."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.values import show, times

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_ROWS = 10_000
"""Rows that are compared at once."""

_VALUES = 1 << 20
"""Values of a tensor that are compared at once."""

_DTYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}
_DTYPES_OF_ML = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


class Tensors(NamedTuple):
    """A file of safetensors, by its header; the tensors are read one at a time."""

    file: Path
    header: dict[str, Any]
    begins: int
    metadata: dict[str, str]


def of_tensors(committed: Path, new: Path) -> str | None:
    """The first tensor that differs, by name, in shape, dtype or value; how many do, and by how much at most."""
    a, b = _open(committed), _open(new)
    names = sorted({*a.header, *b.header})
    first: str | None = None
    differing, most, of_most = 0, -1.0, ""
    for name in names:
        found, difference = _of_tensor(a, b, name)
        if found:
            differing += 1
            first = first or f"tensor {name}: {found}"
            if difference > most:
                most, of_most = difference, name
    if first is None:
        keys = [key for key in sorted({*a.metadata, *b.metadata}) if a.metadata.get(key) != b.metadata.get(key)]
        return f"all tensors are equal; metadata differ: {', '.join(keys)}" if keys else None
    if differing == 1:
        return first
    largest = f", by {most:.3g} at most ({of_most})" if most >= 0 else ""
    return f"{first}; {differing:,} of {times(len(names), 'tensor', 'tensors')} differ{largest}"


def _open(file: Path) -> Tensors:
    """The header of a file, as https://huggingface.co/docs/safetensors describes it.

    Read here, since safetensors gives no bfloat16 to numpy.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > file.stat().st_size:
            raise ValueError("its header is longer than the file")
        header = json.loads(stream.read(length))
    metadata = header.pop("__metadata__", {})
    return Tensors(file, header, 8 + length, metadata)


def _of_tensor(a: Tensors, b: Tensors, name: str) -> tuple[str, float]:
    """What differs, or "", and by how much at most (-1 where that can't be said)."""
    here, there = a.header.get(name), b.header.get(name)
    if here is None or there is None:
        return ("in the commit's alone" if there is None else "not in the commit's"), -1.0
    forms = [f"{one['dtype']} {one['shape']}" for one in (here, there)]
    if forms[0] != forms[1]:
        return f"{forms[0]} in the commit's, now {forms[1]}", -1.0
    x, y = _values(a, name), _values(b, name)
    unequal, most, sized = _distance(x, y)
    if not unequal:
        same = bool((x.view("u1") == y.view("u1")).all())
        return ("" if same else f"{forms[0]}, equal but for the sign of zeros or the bits of NaN"), -1.0
    size = f"max |difference| {most:.3g}" if sized else "NaN in one of the two"
    return f"{forms[0]}, {size}, in {unequal:,} of {times(x.size, 'value', 'values')}", most


def _values(of: Tensors, name: str) -> "NDArray[Any]":
    """The values of a tensor, flat; of a type that numpy has no name for, its bytes."""
    import ml_dtypes
    import numpy as np

    entry = of.header[name]
    known = _DTYPES_OF_ML.get(entry["dtype"])
    dtype = np.dtype(getattr(ml_dtypes, known) if known else _DTYPES.get(entry["dtype"], "u1"))
    begin, end = entry["data_offsets"]
    return np.fromfile(of.file, dtype=dtype, offset=of.begins + begin, count=(end - begin) // dtype.itemsize)


def _distance(x: "NDArray[Any]", y: "NDArray[Any]") -> tuple[int, float, bool]:
    """How many values differ; by how much at most, as 64-bit floats (-1 of none); False where NaN meets a number."""
    import numpy as np

    unequal, most, sized = 0, -1.0, True
    for start in range(0, x.size, _VALUES):
        a, b = (part[start : start + _VALUES].astype(np.float64) for part in (x, y))
        # Two infinities of one sign are equal, and so are two NaN.
        differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        distance = np.abs(a[differ] - b[differ])
        unequal += distance.size
        sized &= not np.isnan(distance).any()
        most = max(most, float(np.nanmax(distance, initial=-1.0)))
    return unequal, most, sized


def of_parquet(committed: Path, new: Path) -> str | None:
    """The first row and column that differ, with both values; rows count from 1."""
    import pyarrow.parquet as pq

    return _of_tables(pq.read_table(committed, memory_map=True), pq.read_table(new, memory_map=True))


def of_arrow(committed: Path, new: Path) -> str | None:
    """The same for an Arrow stream or file."""
    return _of_tables(_arrow_table(committed), _arrow_table(new))


def _arrow_table(file: Path) -> "pa.Table":
    import pyarrow as pa

    source = pa.memory_map(str(file))
    if source.read(6) == b"ARROW1":
        return pa.ipc.open_file(source).read_all()
    source.seek(0)
    return pa.ipc.open_stream(source).read_all()


def _of_tables(a: "pa.Table", b: "pa.Table") -> str | None:
    types = [{field.name: str(field.type) for field in table.schema} for table in (a, b)]
    if list(types[0].items()) != list(types[1].items()):
        return _of_columns(*types)
    found = next(_cells(a, b), None)
    counts = f"{times(a.num_rows, 'row', 'rows')} in the commit's, now {b.num_rows:,}"
    if a.num_rows != b.num_rows:
        return f"{found}; {counts}" if found else f"{counts}; those that both have are equal"
    if found is None and (a.schema.metadata or {}) != (b.schema.metadata or {}):
        return "all rows are equal; the metadata of the schema differ"
    return found


def _of_columns(a: Mapping[str, str], b: Mapping[str, str]) -> str:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            was, now = (f"a column of type {one[name]}" if name in one else "no column" for one in (a, b))
            return f"column {name}: {was} in the commit's, now {now}"
    return f"columns: {show(', '.join(a))} in the commit's, now {show(', '.join(b))}"


def _cells(a: "pa.Table", b: "pa.Table") -> Iterator[str]:
    """Row and column of each difference in the rows that both have."""
    rows = min(a.num_rows, b.num_rows)
    for start in range(0, rows, _ROWS):
        length = min(_ROWS, rows - start)
        x, y = a.slice(start, length), b.slice(start, length)
        if x.equals(y):
            continue
        # Equal to Arrow is not equal where NaN is: what is written is compared, row by row.
        for number, (left, right) in enumerate(zip(x.to_pylist(), y.to_pylist(), strict=True), start=start + 1):
            for name in left:
                if repr(left[name]) != repr(right[name]):
                    yield f"row {number}, column {name}: {show(left[name])} in the commit's, now {show(right[name])}"
