"""Text with one row a line and a character between its fields: what csv and tsv files share."""

import csv
import logging
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stages.data.raw_columns import check_header
from stages.data.text_lines import read_lines
from stages.errors import DataError, ParamsError
from stages.sources import Row

if TYPE_CHECKING:
    from stages.params import DataParams

log = logging.getLogger(__name__)

Quoting = Literal["minimal", "none"]
# Characters of one field: a quote that is never closed swallows the rest of the file, and must not swallow the memory.
LARGEST_FIELD = 2**27


class Delimited:
    """A file of delimited text, read by the csv module.

    A blank line is not a row, as for csv.DictReader; how many there were is logged.
    """

    def __init__(self, file: Path, params: "DataParams", *, delimiter: str, quoting: Quoting) -> None:
        """Delimiter and quoting are the format's own, where params give none."""
        self.file = file
        self.encoding = params.encoding
        self.names = params.names
        self.delimiter = params.delimiter or delimiter
        self.quoting: Quoting = params.quoting or quoting
        if self.delimiter in '\r\n\0"':
            raise ParamsError(
                f"data.delimiter: {self.delimiter!r} can't separate fields; write the character between them"
            )

    def columns(self) -> list[str]:
        """The names in the header line, or those in params.

        Raises:
            DataError: the file is empty, or its names are not all different.
        """
        return self._open()[0]

    def rows(self) -> Iterator[Row]:
        """All rows.

        Raises:
            DataError: the file is empty, ragged, not in that encoding, or a quote is not closed.
        """
        columns, records = self._open()
        for line, fields in records:
            if len(fields) != len(columns):
                raise DataError(self._ragged(line, fields, columns))
            yield Row(line, dict(zip(columns, fields, strict=True)))

    def _open(self) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
        records = self._records()
        first = next(records, None)
        if first is None:
            raise DataError(f"{self.file}: the file is empty; data.raw and data.files name a file with rows in it")
        if self.names is None:
            check_header(
                self.file,
                first[1],
                remedy="name each column once in the first line, or set data.names if that line is a row already",
            )
            return first[1], records
        if first[1] == self.names:
            raise DataError(
                f"{self.file}, line {first[0]}: it is the header that data.names repeats, not a row; "
                f"set data.names to null"
            )
        return self.names, chain([first], records)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Each record with the line it starts on."""
        csv.field_size_limit(LARGEST_FIELD)
        reader = csv.reader(
            read_lines(self.file, self.encoding, newline=""),
            delimiter=self.delimiter,
            quoting=csv.QUOTE_NONE if self.quoting == "none" else csv.QUOTE_MINIMAL,
            strict=True,
        )
        line, blank = 1, 0
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                else:
                    blank += 1
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(self._malformed(line, reader.line_num, error)) from None
        if blank:
            log.info("%s: %d blank line(s) passed over", self.file, blank)

    def _ragged(self, line: int, fields: list[str], columns: list[str]) -> str:
        if len(fields) == 1:
            remedy = f"set data.delimiter if it is not {self.delimiter!r}, or complete the row"
        elif self.quoting == "minimal":
            remedy = (
                f"put a field that holds {self.delimiter!r} in double quotes, or set data.quoting to none if a double "
                f"quote is a character like any other"
            )
        else:
            remedy = (
                f"take {self.delimiter!r} out of the texts, or set data.quoting to minimal if double quotes enclose "
                f"fields"
            )
        if self.names is not None:
            remedy = f"data.names has {len(columns)} names; {remedy}"
        named = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        return f"{self.file}, line {line}: {len(fields)} field(s) found, {len(columns)} expected ({named}); {remedy}"

    def _malformed(self, start: int, stop: int, error: csv.Error) -> str:
        literal = "or set data.quoting to none if a double quote is a character like any other"
        if "expected after" in str(error):
            return (
                f"{self.file}, line {stop}: there is text after the double quote that closes a field (of the row from "
                f"line {start} on); double each quote inside a quoted field, {literal}"
            )
        if "end of data" in str(error) or "field limit" in str(error):
            return (
                f"{self.file}, line {self._opening_quote(start)}: a double quote opens a field here, and none closes "
                f"it up to line {stop}; close it, {literal}"
            )
        return f"{self.file}, line {stop}: {error}; correct the row, {literal}"

    def _opening_quote(self, start: int) -> int:
        """The line of the quote that opens the last field of the record that starts on a line."""
        lines = islice(read_lines(self.file, self.encoding, newline=""), start - 1, None)
        record, delimiter = "".join(islice(lines, 10_000)), re.escape(self.delimiter)
        whole_fields = rf'(?:(?:"(?:[^"]|"")*"|[^"{delimiter}][^{delimiter}]*)?{delimiter})*'
        before = re.match(whole_fields, record)
        assert before is not None  # it can match nothing
        return start + len(re.findall(r"\r\n|\r|\n", before.group()))
