"""How checkpoints are named, completed, listed and verified: one counts only with a manifest that its files match."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stages import outputs
from stages.errors import DataError

MANIFEST = "manifest.json"


def checkpoint_path(root: Path, step: int) -> Path:
    """Where the checkpoint of an optimizer step lies."""
    return root / f"checkpoint-{step}"


def step_of(checkpoint: Path) -> int:
    """The optimizer step of a checkpoint, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def digest(file: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def complete(folder: Path, **facts: Any) -> None:
    """Write the manifest, last and synced: the size and sha256 of each file, and whatever else is to be recorded."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)
    for file in files:
        outputs.sync(file)
    listed = {str(file.relative_to(folder)): {"size": file.stat().st_size, "sha256": digest(file)} for file in files}
    outputs.write_json(folder / MANIFEST, {**facts, "files": listed})


def fault(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None when every file is there as its manifest says."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return "it has no manifest: it was never completed"
    try:
        listed = json.loads(manifest.read_text(encoding="utf-8"))["files"]
    except (ValueError, KeyError, TypeError):
        return "its manifest is not readable"
    for name, expected in listed.items():
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != expected["size"]:
            return f"{name} has {file.stat().st_size} bytes, not {expected['size']}"
        if digest(file) != expected["sha256"]:
            return f"{name} is not the file that was written"
    return None


def list_checkpoints(root: Path) -> list[Path]:
    """All checkpoints under `root`, in the order of their steps.

    Raises:
        DataError: there is none, or one of them is not whole.
    """
    found = sorted((path for path in root.glob("checkpoint-*") if path.is_dir()), key=step_of)
    if not found:
        raise DataError(f"{root}: no checkpoint-* folder in it; run the train stage first (dvc repro train)")
    for checkpoint in found:
        if reason := fault(checkpoint):
            raise DataError(
                f"{checkpoint}: {reason}; run the train stage again (dvc repro --force --single-item train)"
            )
    return found


def newest_whole(
    root: Path, *, also: Callable[[Path], str | None] = lambda checkpoint: None
) -> tuple[Path | None, list[str]]:
    """The checkpoint of the highest step that verifies, and why each newer one was passed over.

    `also` says what else is wrong with one whose files are all there, or None.
    """
    passed_over: list[str] = []
    for checkpoint in sorted(root.glob("checkpoint-*"), key=step_of, reverse=True):
        reason = fault(checkpoint) or also(checkpoint)
        if reason is None:
            return checkpoint, passed_over
        passed_over.append(f"{checkpoint.name}: {reason}")
    return None, passed_over
