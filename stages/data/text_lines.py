"""The lines of a text file, decoded, not held in memory; what can't be decoded is named by its place."""

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from stages.errors import DataError, ParamsError


def read_lines(file: Path, encoding: str, *, newline: str) -> Iterator[str]:
    r"""The lines of a file with their line breaks; a byte order mark is taken off.

    `newline` is open()'s: with "" a line ends at \n, \r or \r\n, with "\n" at \n only. Other line separators of Unicode
    (U+2028, say) are characters of a line.

    Raises:
        DataError: bytes that are not in that encoding, or a NUL character.
        ParamsError: there is no such encoding.
    """
    try:
        stream = file.open(encoding=encoding, newline=newline)
    except LookupError as error:
        raise ParamsError(
            f"data.encoding: {error}; write the name of a Python codec for text, such as utf-8, utf-16, latin-1, cp1252"
        ) from None
    with stream:
        try:
            for number, line in enumerate(stream, 1):
                if "\0" in line:
                    raise DataError(
                        f"{file}, line {number}: it holds a NUL character, which no text does; remove it, or set "
                        f"data.encoding if the file is UTF-16 or UTF-32"
                    )
                yield line.removeprefix("\ufeff") if number == 1 else line
        except UnicodeDecodeError as error:
            raise DataError(_undecodable(file, encoding, stream, error)) from None
        except UnicodeError as error:
            raise DataError(
                f"{file}: not readable as {encoding}: {error}; set data.encoding to what the file is in"
            ) from None


def _undecodable(file: Path, encoding: str, stream: TextIO, error: UnicodeDecodeError) -> str:
    # The decoder saw the last bytes that were read: they end where the buffer now stands in the file.
    offset = stream.buffer.tell() - len(error.object) + error.start
    with file.open("rb") as raw:
        lines = sum(raw.read(min(2**20, offset - start)).count(b"\n") for start in range(0, offset, 2**20))
    return (
        f"{file}, line {lines + 1}: the byte 0x{error.object[error.start]:02x} at offset {offset} is not {encoding} "
        f"({error.reason}); set data.encoding to what the file is in (latin-1, cp1252, utf-16, ...), or save the file "
        f"as utf-8"
    )
