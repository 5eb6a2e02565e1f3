"""Write an output so that half of it can never pass for the whole: beside its place, renamed when all is there."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _partial(path: Path, staging: Path | None) -> Path:
    folder = staging or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".{path.name}.partial"


def sync(path: Path) -> None:
    """Force a file's bytes, or a folder's list of names, to the disk (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder(path: Path, *, staging: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder that becomes `path`, replacing what was there, when the block ends without an error.

    `staging` is where the unfinished folder lies (by default beside `path`); it must be on the same file system.
    """
    partial = _partial(path, staging)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        for file in sorted(partial.rglob("*")):
            sync(file)
        if path.exists():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def file(path: Path, *, staging: Path | None = None) -> Iterator[Path]:
    """Yield a path for a new file that becomes `path` when the block ends without an error."""
    partial = _partial(path, staging)
    try:
        yield partial
        sync(partial)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.replace(path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def dumps(value: Any) -> str:
    """JSON as all our outputs hold it: indented, keys as given, plain floats only, a newline at the end."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any, *, staging: Path | None = None) -> None:
    """Write `value` as a JSON file, whole or not at all."""
    with file(path, staging=staging) as partial:
        partial.write_text(dumps(value), encoding="utf-8")
