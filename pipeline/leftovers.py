"""What trainings leave in the state folder, and killed runs in a checkout: found and told apart, not touched."""

import contextlib
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pipeline import summary
from stages import checkpoints, identity
from stages.training import finished

NAME = re.compile(r"[0-9a-f]{32}")
"""The name of a training's folder, its identity: nothing else in the state folder is anybody's leftover."""

PARTIAL = re.compile(r"\..+\.partial")
"""The name of an output that is not whole yet (stages/outputs.py)."""


@dataclass(frozen=True)
class Leftover:
    """A folder, or a file, that could go."""

    path: Path
    what: str
    """How far the training came, or what else it is."""
    size: int
    """Bytes."""
    seconds: float
    """Since its newest file changed."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Of a training: what decides its bytes; {} of one that an older version began."""
    can_go_on: bool = False
    """Whether a training would go on from it."""
    held_by: str = ""
    """Who uses it now: it is not to be removed."""


def of_trainings(root: Path, lock: Path) -> list[Leftover]:
    """The folders of trainings under a state folder, the oldest first; `lock` is the checkout's dvc.lock."""
    recorded = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    folders = [one for one in sorted(root.iterdir()) if NAME.fullmatch(one.name)] if root.is_dir() else []
    found = [_training(one, recorded) for one in folders if one.is_dir() and not one.is_symlink()]
    return sorted(found, key=lambda one: -one.seconds)


def _training(folder: Path, recorded: str) -> Leftover:
    size, newest = _measure(folder)
    what, can_go_on = _progress(folder, recorded)
    return Leftover(
        folder,
        what,
        size,
        time.time() - newest,
        facts=_json(folder / identity.FACTS),
        can_go_on=can_go_on,
        held_by=_holder(folder),
    )


def _progress(folder: Path, recorded: str) -> tuple[str, bool]:
    """How far a training came, and whether one would go on from there."""
    ended = _json(folder / finished.MARKER)
    if ended:
        output = ended.get("output")
        if not output:
            return "ended, not handed over", True
        is_there = output in recorded
        return f"ended, its output is {'' if is_there else 'not '}in dvc.lock of this checkout", not is_there
    states = [one for one in (folder / "resume").glob("checkpoint-*") if (one / checkpoints.MANIFEST).is_file()]
    newest = max(states, key=checkpoints.step_of, default=None)
    if newest is not None:
        steps = _json(newest / "trainer_state.json").get("max_steps", "?")
        return f"unfinished, at step {checkpoints.step_of(newest)} of {steps}", True
    begun = any((folder / name).is_dir() and any((folder / name).iterdir()) for name in ("resume", "weights"))
    return ("unfinished, with no whole save to go on from" if begun else "empty"), False


def _json(file: Path) -> dict[str, Any]:
    """What a JSON file holds; {} where there is none, or none that can be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _holder(folder: Path) -> str:
    """The process that holds a training, as stages/identity.py has it written down; "" where none does."""
    try:
        lock = (folder / "lock").open(encoding="utf-8")
    except FileNotFoundError:
        return ""
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return f"process {lock.read().strip() or 'unknown'}"
    return ""


def _measure(path: Path) -> tuple[int, float]:
    """The bytes of all files, and when the newest of them changed; links are not followed."""
    is_folder = path.is_dir() and not path.is_symlink()
    size, newest = 0, path.lstat().st_mtime if not is_folder else 0.0
    for file in path.rglob("*") if is_folder else [path]:
        with contextlib.suppress(FileNotFoundError):  # a training that goes on removes its older saves
            found = file.lstat()
            if not stat.S_ISDIR(found.st_mode):
                size, newest = size + found.st_size, max(newest, found.st_mtime)
    return size, newest or path.lstat().st_mtime


def of_killed_runs(checkout: Path) -> list[Leftover]:
    """Outputs that were begun and never became whole, where the stages of dvc.yaml write."""
    holders = [f"process {pid}" for pid in running(checkout)]
    found = []
    for top in sorted({Path(path).parts[0] for path in summary.paths(checkout / "dvc.yaml").values()}):
        for path in _partials(checkout / top):
            size, newest = _measure(path)
            what = "begun by a run that did not end"
            found.append(Leftover(path, what, size, time.time() - newest, held_by=", ".join(holders)))
    return found


def _partials(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        found = [name for name in sorted([*folders, *files]) if PARTIAL.fullmatch(name)]
        yield from (Path(folder) / name for name in found)
        folders[:] = [name for name in folders if name not in found]


def running(checkout: Path) -> list[int]:
    """The processes that run a stage in a checkout."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        of_a_stage = any(word.startswith("stages.") for word in process.info["cmdline"] or ())
        if of_a_stage and process.info["cwd"] and Path(process.info["cwd"]) == checkout.resolve():
            found.append(process.pid)
    return found
