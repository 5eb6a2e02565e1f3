"""The files of raw data: which there are, which split each of them is, and that the columns named are in them."""

from collections.abc import Sequence
from pathlib import Path

from stages import lookup, sources
from stages.data.raw_columns import check_present, stored_names
from stages.errors import DataError
from stages.params import DataParams

_MAY_LACK = ("id", "label")
_NAMES_SHOWN = 20


def locate(raw: Path, params: DataParams) -> dict[str, list[Path]]:
    """Split -> its files, in name order; train's are those that a split which has none is cut from.

    Raises:
        DataError: a file is not there, lies outside `raw`, or is named twice; the message lists those there are.
    """
    if not raw.exists():
        raise DataError(f"data.raw: there is no {raw}; {_those_in(raw.parent)}")
    if params.files is None:
        return {"train": [raw] if raw.is_file() else _of_that_format(raw, params)}
    if not raw.is_dir():
        raise DataError(
            f"data.files: its files are relative to data.raw, and {raw} is a file; set data.raw to its folder, "
            f"or data.files to null"
        )
    if "train" not in params.files:
        raise DataError("data.files: there is no train in it; name the file to learn from")
    found: dict[str, list[Path]] = {}
    for split in ("train", "validation", "test"):
        if split in params.files:
            file = _inside(raw, split, params.files[split])
            if other := next((name for name, files in found.items() if files[0].samefile(file)), None):
                raise DataError(
                    f"data.files.{split}: {file} is {other} already; name another file, or leave {split} out: "
                    f"it is then cut from train"
                )
            found[split] = [file]
    return found


def check_columns(file: Path, params: DataParams, *, split: str) -> list[str]:
    """The columns of a file, all that params.yaml names among them; test may lack label, id and extra columns.

    Raises:
        DataError: a column is missing, or the beginning of the file is malformed.
    """
    there: list[str] = lookup.find(sources, params.format).columns(file, params)
    stored = stored_names(params.columns)
    optional = {*_MAY_LACK, *params.columns.extra} if split == "test" else set[str]()
    check_present(
        str(file), there, [raw for name, raw in stored.items() if raw is not None and name not in optional], params
    )
    return there


def no_rows(file: Path) -> str:
    """The message for a file with a header and nothing below it."""
    return f"{file}: it has columns and no row; data.raw and data.files name files with rows in them"


def _of_that_format(folder: Path, params: DataParams) -> list[Path]:
    suffixes: tuple[str, ...] = lookup.find(sources, params.format).SUFFIXES
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    if found := sorted(path for path in files if path.name.lower().endswith(suffixes)):
        return found
    raise DataError(
        f"data.raw: no file in {folder} ends in {' or '.join(suffixes)}; {_those_in(folder)}; "
        f"set data.format to what they are, or name them in data.files"
    )


def _inside(raw: Path, split: str, name: str) -> Path:
    file = raw / name
    if not file.resolve().is_relative_to(raw.resolve()):
        raise DataError(
            f"data.files.{split}: {name} lies outside {raw}, so that a change of it would go unnoticed; "
            f"put it there, or set data.raw to the folder that holds all of them"
        )
    if not file.is_file():
        known = [path.name for path in file.parent.iterdir()] if file.parent.is_dir() else []
        raise DataError(
            f"data.files.{split}: there is no file {file}; {_those_in(file.parent)}{lookup.nearest(file.name, known)}"
        )
    return file


def _those_in(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder} either"
    names = sorted(f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir())
    return f"there are {some(names)} in {folder}" if names else f"{folder} is empty"


def some(names: Sequence[str]) -> str:
    """Names for a message: the first twenty of them, and how many more there are."""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
