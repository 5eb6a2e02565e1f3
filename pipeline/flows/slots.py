"""How many stages of a kind run at once on a machine, and which GPUs each is given.

dvc.yaml marks a stage that needs a slot: `meta: {slot: train}`. A file lock for each slot says which one is free on
this machine, whoever holds the others, and the system frees it with its process; the machine's GPUs are shared out
among the slots.
"""

import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO

from ruamel.yaml import YAML

from pipeline.graph import group_of
from stages.errors import StoppedError
from stages.identity import state_root

_POLL_SECONDS = 0.5


def slot_of(checkout: Path, stage: str) -> str | None:
    """The kind of slot that a stage (a matrix's item, too) needs, or None."""
    stages = YAML(typ="safe").load(checkout / "dvc.yaml")["stages"]
    found = stages.get(group_of(stage), {}).get("meta", {}).get("slot")
    return str(found) if found else None


def gpus() -> list[str]:
    """The GPUs that this process may use, by their ids in PCI order: none without nvidia-smi."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [one for one in visible.split(",") if one]
    with suppress(FileNotFoundError):
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, check=False
        )
        return listed.stdout.split() if listed.returncode == 0 else []
    return []


def share(devices: Sequence[str], slots: int) -> list[list[str]]:
    """GPUs shared out evenly: each slot's own; those that do not come out even go to the first ones.

    Fewer GPUs than slots: the slots beyond the last GPU get none, which CUDA_VISIBLE_DEVICES="" says.
    """
    each, more = divmod(len(devices), slots)
    bounds = [index * each + min(index, more) for index in range(slots + 1)]
    return [list(devices[first:last]) for first, last in pairwise(bounds)]


def _take_free(kind: str, slots: int, held: ExitStack) -> int | None:
    folder = state_root() / "slots"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(slots):
        file: IO[str] = held.enter_context((folder / f"{kind}-{number}").open("a", encoding="utf-8"))
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number
    return None


@contextmanager
def taken(kind: str, slots: int, stop: threading.Event) -> Iterator[Mapping[str, str]]:
    """Wait for a slot of this machine; the environment for what runs in it.

    Raises:
        StoppedError: the run was asked to stop meanwhile.
    """
    while not stop.is_set():
        with ExitStack() as held:
            number = _take_free(kind, slots, held)
            if number is not None:
                devices = gpus()
                yield (
                    {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(share(devices, slots)[number])}
                    if devices
                    else {}
                )
                return
        time.sleep(_POLL_SECONDS)
    raise StoppedError(f"stopped while it waited for a {kind} slot; nothing had begun")
