"""The full log of each stage of each run: logs/<run>/<stage>.log in the checkout, in neither git nor DVC."""

import hashlib
import shutil
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

FOLDER = "logs"
_DAY = 86400.0
_SUFFIX = ".log"
_LONGEST = 180
"""Characters of a name; file systems take 255 bytes, with the suffix."""


class Run(NamedTuple):
    """The logs of one run."""

    name: str
    folder: Path
    files: dict[str, Path]
    """By stage."""
    changed: float
    """When a line was last written, in seconds since 1970."""


def file_of(checkout: Path, run: str, stage: str) -> Path:
    """Where the log of a stage of a run is, or will be."""
    return checkout / FOLDER / _safe(run) / f"{_safe(stage)}{_SUFFIX}"


def _safe(name: str) -> str:
    """A name as a file's: every character that is not plain as %XX, which no two names share."""
    safe = quote(name, safe="@ ")
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    if len(safe) > _LONGEST:
        safe = f"{safe[: _LONGEST - 20].rstrip('%')}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return safe


def runs(checkout: Path) -> list[Run]:
    """All runs that have logs, the latest first. What else lies in the folder is none of ours."""
    found = []
    for folder in (checkout / FOLDER).glob("*/"):
        files = list(folder.iterdir())
        if files and not folder.is_symlink() and all(file.suffix == _SUFFIX and file.is_file() for file in files):
            logs = {unquote(file.stem): file for file in sorted(files)}
            found.append(Run(unquote(folder.name), folder, logs, max(file.stat().st_mtime for file in files)))
    return sorted(found, key=lambda run: (run.changed, run.name), reverse=True)


def remove_old(
    checkout: Path, *, keep_runs: int | None = None, keep_days: float | None = None, spared: Collection[str] = ()
) -> list[Run]:
    """Remove the logs of all but the last runs, and of those that ended too many days ago; those that were removed.

    Args:
        checkout: The checkout.
        keep_runs: How many runs, the latest, keep theirs; None: any number.
        keep_days: For how many days they do; None: for ever.
        spared: Names of runs that keep theirs, such as the one under way.
    """
    oldest = float("-inf") if keep_days is None else time.time() - keep_days * _DAY
    going = [
        run
        for place, run in enumerate(runs(checkout))
        if run.name not in spared and ((keep_runs is not None and place >= keep_runs) or run.changed < oldest)
    ]
    for run in going:
        shutil.rmtree(run.folder, ignore_errors=True)
    return going
