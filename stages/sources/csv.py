"""Comma-separated values as RFC 4180 has them: double quotes enclose fields; all of it is text."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stages.data.delimited import Delimited
from stages.sources import Row

if TYPE_CHECKING:
    from stages.params import DataParams

SUFFIXES = (".csv",)


def columns(file: Path, params: "DataParams") -> list[str]:
    """The names in the first line, or data.names."""
    return Delimited(file, params, delimiter=",", quoting="minimal").columns()


def rows(file: Path, params: "DataParams") -> Iterator[Row]:
    """All rows; a row's number is the line it starts on."""
    return Delimited(file, params, delimiter=",", quoting="minimal").rows()
