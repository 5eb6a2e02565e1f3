"""What decides the bytes of a training, and where its unfinished state lies.

DVC deletes a stage's outputs before it runs the stage, so the state of an unfinished training is not an output: it
lies in a folder of this machine that is named by the digest of all that decides the run's bytes. The same identity is
gone on with, also from another clone; any other starts afresh, and both stay there side by side.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import platformdirs

from stages import checkpoints, outputs
from stages.code_files import NOT_DECIDING
from stages.errors import MachineError

log = logging.getLogger(__name__)

STAGES = Path(__file__).resolve().parent

FACTS = "facts.json"
"""In a state folder: what the folder's name is the digest of, for who looks for a run or clears up."""

LIBRARIES = ("torch", "transformers", "accelerate", "tokenizers", "datasets", "numpy", "safetensors")


def state_root() -> Path:
    """REMINT_STATE, or the platform's folder for the state of programs."""
    return Path(os.environ.get("REMINT_STATE") or platformdirs.user_state_path("remint"))


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file under an input, by its path in there."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): checkpoints.digest(file) for file in files}


def code_in_use() -> dict[str, str]:
    """The sha256 of every file of ours that is imported by now (the stage itself as __main__) and can decide a byte."""
    files = {
        Path(file).resolve() for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))
    }
    ours = {str(file.relative_to(STAGES)): file for file in files if file.is_relative_to(STAGES)}
    return {name: checkpoints.digest(file) for name, file in sorted(ours.items()) if name not in NOT_DECIDING}


def versions() -> dict[str, str]:
    """What is installed of the libraries that compute."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in LIBRARIES}}


def digest(facts: Mapping[str, Any]) -> str:
    """The identity: a short digest of facts that JSON can hold, the same in whatever order they are given."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def record(state: Path, facts: Mapping[str, Any]) -> None:
    """Write down, in a run's state folder, what decides its bytes."""
    outputs.write_json(state / FACTS, facts)


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def claimed(state: Path, *, patience_seconds: float = 0.0) -> Iterator[None]:
    """Hold the run's lock, so that no two processes write one state.

    What is left of a killed run ends within the grace time of stages/lifetime.py: that long it is worth waiting.

    Raises:
        MachineError: another process holds it; the message has its pid.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("a+", encoding="utf-8") as lock:
        until, told = time.monotonic() + patience_seconds, False
        while not _lock(lock):
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            if time.monotonic() >= until:
                raise MachineError(
                    f"{state}: process {holder} is at this very training; "
                    "wait for it or stop it, then run the same command again"
                )
            if not told:
                log.info("process %s is at this very training: waiting for its end", holder)
                told = True
            time.sleep(0.2)
        if not os.fstat(lock.fileno()).st_nlink:
            # Whoever held it has removed the folder (remint clean): another process would lock another file.
            with claimed(state, patience_seconds=patience_seconds):
                yield
            return
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
