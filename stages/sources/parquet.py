"""Parquet: typed columns, each value as the text that stands for it exactly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stages.data.raw_columns import check_header, refuse_options, used
from stages.errors import DataError
from stages.sources import Row

if TYPE_CHECKING:
    from stages.params import DataParams

SUFFIXES = (".parquet",)
_ROWS_AT_ONCE = 10_000


def columns(file: Path, params: "DataParams") -> list[str]:
    """The columns that hold one value a row; lists and structures, where they are not used, are not among them."""
    with _opened(file, params) as opened:
        return _plain_columns(file, opened.schema_arrow, params)


def rows(file: Path, params: "DataParams") -> Iterator[Row]:
    """All rows; a row's number is its count from 1.

    Raises:
        DataError: the file is empty or no Parquet, or a used column holds lists, structures or bytes.
    """
    with _opened(file, params) as opened:
        names = _plain_columns(file, opened.schema_arrow, params)
        number = 0
        for batch in opened.iter_batches(batch_size=_ROWS_AT_ONCE, columns=names):
            texts = [_texts(file, name, batch.column(name), number) for name in names]
            for values in zip(*texts, strict=True):
                number += 1
                yield Row(number, dict(zip(names, values, strict=True)))


@contextmanager
def _opened(file: Path, params: "DataParams") -> Iterator[Any]:
    refuse_options(params, of="parquet")
    if file.stat().st_size == 0:
        raise DataError(f"{file}: the file is empty; data.raw and data.files name a file with rows in it")
    try:
        with pq.ParquetFile(file) as opened:
            yield opened
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(
            f"{file}: not readable as Parquet: {error}; write the file again, or set data.format to what it is"
        ) from None


def _plain_columns(file: Path, schema: Any, params: "DataParams") -> list[str]:
    check_header(file, schema.names, remedy="name each column once")
    wanted = used(params.columns)
    plain = []
    for field in schema:
        nested = pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType)
        if nested and field.name in wanted:
            raise DataError(
                f"{file}: the column {field.name!r} holds {field.type}, not one value a row; "
                f"write it as a column of text, numbers or booleans"
            )
        if not nested and (field.name in wanted or not _is_binary(field.type)):
            plain.append(field.name)
    return plain


def _is_binary(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary))


def _texts(file: Path, name: str, column: Any, rows_before: int) -> list[str | None]:
    """A column of a batch as text; so many rows of the file precede it."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        # The shortest decimals of the column's own precision: float32 holds 3.8 as 3.799999952316284.
        numbers = column.to_numpy(zero_copy_only=False)
        known = column.is_valid().to_pylist()
        return [str(number) if valid else None for number, valid in zip(numbers, known, strict=True)]
    try:
        return _cast(column)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        for place in range(len(column)):
            try:
                _cast(column[place : place + 1])
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                raise DataError(
                    f"{file}, row {rows_before + place + 1}: {name!r} holds bytes that are not utf-8 ({error}); "
                    f"write the column as text"
                ) from None
        raise
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"{file}: the column {name!r} holds {column.type}, which has no text; write it as text"
        ) from None


def _cast(column: Any) -> list[str | None]:
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts
