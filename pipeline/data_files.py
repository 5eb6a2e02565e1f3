"""The .dvc files of a checkout: the data that DVC keeps and no stage writes."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline import git
from stages.errors import DataError

DVC_FILE = ".dvc"
"""What the name of such a file ends with, and in DVC's graph no stage's."""


@dataclass(frozen=True)
class DataFile:
    """One output of a .dvc file."""

    file: str
    """The .dvc file, from the checkout's top."""
    path: str
    """The data, from there too."""
    digest: str
    """As DVC writes it: that of a folder ends with .dir; "" where it was never made."""
    is_import: bool
    """Whether the data come from elsewhere (dvc import, import-url, import-db)."""


def find(checkout: Path) -> list[DataFile]:
    """All of them, in git or not yet, by path.

    Raises:
        DataError: one can't be read.
    """
    listed = git.run(checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.dvc")
    names = sorted({name for name in os.fsdecode(listed).split("\0") if name})
    return [found for name in names if (checkout / name).is_file() for found in _read(checkout, name)]


def _read(checkout: Path, name: str) -> list[DataFile]:
    try:
        content = YAML(typ="safe").load(checkout / name)
        folder = PurePosixPath(os.path.normpath(PurePosixPath(name).parent / content.get("wdir", ".")))
        return [
            DataFile(name, (folder / out["path"]).as_posix(), str(out.get("md5", "")), bool(content.get("deps")))
            for out in content.get("outs", [])
        ]
    except (YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name}: not a .dvc file that can be read ({type(error).__name__}: {error})") from None


def holding(path: str, data: Iterable[DataFile]) -> DataFile | None:
    """Whose data a path is, or lies in."""
    return next((one for one in data if PurePosixPath(path).is_relative_to(one.path)), None)
