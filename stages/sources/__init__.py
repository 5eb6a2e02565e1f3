"""The formats that raw rows come in, one file each. A file here is a Source."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from stages.params import DataParams


class Row(NamedTuple):
    """One raw row: all of its fields as text (None: JSON's null, or an empty cell of a typed format)."""

    number: int
    """Where it stands, for messages: the line it starts on in a text file, else its count from 1."""

    fields: dict[str, str | None]


class Source(Protocol):
    """What a file in this folder answers."""

    SUFFIXES: tuple[str, ...]
    """What the names of such files end in, where raw is a folder that data.files says nothing of."""

    def columns(self, file: Path, params: "DataParams") -> list[str]:
        """The columns of a file, from its beginning alone; DataError as rows()."""

    def rows(self, file: Path, params: "DataParams") -> Iterator[Row]:
        """All rows of a file, in their order, as text, not held in memory.

        Raises:
            DataError: the file is empty, ragged, not in that encoding or malformed; the message has the file, the line
                (or the byte), what was found, and what to do.
        """
