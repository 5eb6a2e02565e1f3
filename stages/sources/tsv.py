"""Tab-separated values as GLUE has them: a double quote is a character like any other; all of it is text."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stages.data.delimited import Delimited
from stages.sources import Row

if TYPE_CHECKING:
    from stages.params import DataParams

SUFFIXES = (".tsv",)


def columns(file: Path, params: "DataParams") -> list[str]:
    """The names in the first line, or data.names."""
    return Delimited(file, params, delimiter="\t", quoting="none").columns()


def rows(file: Path, params: "DataParams") -> Iterator[Row]:
    """All rows; a row's number is the line it stands on."""
    return Delimited(file, params, delimiter="\t", quoting="none").rows()
