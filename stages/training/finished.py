"""A training that ended: handed over as the stage's output, and kept in its state folder until DVC has that output.

Between the end of a training and the entry in dvc.lock a kill would otherwise lose both: DVC deletes an output that it
has not recorded before it runs the stage again.
"""

import contextlib
import csv
import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

from stages import identity, outputs
from stages.errors import MachineError
from stages.training import resumable

log = logging.getLogger(__name__)

_HISTORY = ("step", "epoch", "loss", "learning_rate", "grad_norm", "eval_loss")

MARKER = "finished.json"
"""In a state folder: the log of a training that ended, and the digest of what it was handed over as."""


def write_history(path: Path, log_history: list[dict[str, Any]], *, logging_steps: int) -> None:
    """A csv for plots: a row for every `logging_steps` steps (losses are their mean) and for every evaluation."""
    rows: dict[int, dict[str, Any]] = {}
    losses: list[float] = []
    last = max((entry["step"] for entry in log_history), default=0)
    for entry in log_history:
        step = entry["step"]
        if "loss" in entry:
            losses.append(entry["loss"])
            if step % logging_steps == 0 or step == last:
                rows.setdefault(step, {}).update(entry, loss=sum(losses) / len(losses))
                losses.clear()
        elif "eval_loss" in entry:
            rows.setdefault(step, {}).update(entry)
    extra = sorted({name for row in rows.values() for name in row if name.startswith("eval_")} - {"eval_loss"})
    with outputs.file(path, staging=path.parent.parent) as partial, partial.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*_HISTORY, *extra], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[step] for step in sorted(rows))


def mark(state: Path, log_history: list[dict[str, Any]]) -> None:
    """Record that the training ended, so that it is not gone on with; its optimizer state is no longer needed."""
    kept = [entry for entry in log_history if "loss" in entry or "eval_loss" in entry]
    outputs.write_json(state / MARKER, {"log": kept})
    shutil.rmtree(state / "resume", ignore_errors=True)


def log_of(state: Path) -> list[dict[str, Any]] | None:
    """The log of a training that ended and whose weights are whole, or None."""
    marker = state / MARKER
    if not marker.is_file():
        return None
    entries: list[dict[str, Any]] = json.loads(marker.read_text(encoding="utf-8"))["log"]
    if reason := resumable.lacking(state, entries):
        log.warning("a training that ended is not handed over, and done again: %s", reason)
        return None
    return entries


def hand_over(state: Path, log_history: list[dict[str, Any]], out: Path) -> None:
    """Copy the weights of each evaluation into the stage's output."""
    # Beside the folder of all seeds, not in it: select_best depends on that folder.
    with outputs.folder(out, staging=out.parent.parent) as partial:
        for weights in (state / "weights").glob("checkpoint-*"):
            shutil.copytree(weights, partial / weights.name)
        digest = dvc_digest(partial)
    outputs.write_json(state / MARKER, {"log": log_history, "output": digest})


def dvc_digest(folder: Path) -> str:
    """What dvc.lock will hold of a folder: the md5 of the list of its files' md5s, as DVC 3 writes that list."""
    entries = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open("rb") as stream:
            md5 = hashlib.file_digest(stream, "md5").hexdigest()
        entries.append({"md5": md5, "relpath": file.relative_to(folder).as_posix()})
    entries.sort(key=lambda entry: entry["relpath"])
    listed = json.dumps(entries, sort_keys=True).encode()
    return f"{hashlib.md5(listed, usedforsecurity=False).hexdigest()}.dir"


def remove_recorded(root: Path, lock: Path, *, own: Path) -> None:
    """Remove what is kept of trainings whose output is in dvc.lock by now: DVC's cache has it.

    The lock file in it stays: this process holds that of its own run (which is run again by force, if it is recorded),
    and a training that another process is at stays whole.
    """
    recorded = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    for marker in root.glob(f"*/{MARKER}"):
        digest = json.loads(marker.read_text(encoding="utf-8")).get("output")
        if not digest or digest not in recorded:
            continue
        claim = contextlib.nullcontext() if marker.parent == own else identity.claimed(marker.parent)
        with contextlib.suppress(MachineError), claim:
            marker.unlink()
            shutil.rmtree(marker.parent / "weights", ignore_errors=True)
