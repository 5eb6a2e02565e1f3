"""Disks that fail: a small one that only the run sees, and strace's errors and signals at a chosen system call.

See unshare(1), nsenter(1) and strace(1), there --inject.
"""

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.end_to_end.project import Project

ENOUGH = "256m"

_MOUNT = 'mount -t tmpfs -o size="$0" tmpfs "$1" && echo mounted && exec sleep infinity'
_ENTER = 'cd "$0" && exec "$@"'  # nsenter begins at the root
_SHIM = """#!/bin/sh
case "$DVC_STAGE" in
train*) exec strace -D -f {fast} -qq -o {log} -P {path} -e trace={calls} -e inject={calls}:{action} {python} "$@" ;;
esac
exec {python} "$@"
"""


@dataclass(frozen=True)
class Surroundings:
    """What a struck run is started in."""

    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the struck run alone."""
    state: Path | None = None
    """Where its state folder can be seen from here, if it is not at its place."""
    lift: Callable[[], None] = lambda: None
    """What the message of the failure asks for, before `dvc repro` is typed again."""


@functools.cache
def own_mounts() -> tuple[str, ...] | None:
    """The command that makes room for mounts of one's own, as root or in a user namespace."""
    for command in (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount")):
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0
        ):
            return command
    return None


def has_small_disks() -> bool:
    """Whether a disk can be mounted for a run."""
    return own_mounts() is not None and shutil.which("nsenter") is not None


@functools.cache
def has_strace() -> bool:
    """Whether strace is here and may trace."""
    return (
        bool(shutil.which("strace"))
        and subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], check=False).returncode == 0
    )


@contextmanager
def small_disk(project: Project, size: int) -> Iterator[Surroundings]:
    """A tmpfs of so many bytes as the project's state folder, in a mount namespace that a sleeping process holds."""
    state = project.home / "state"
    state.mkdir(exist_ok=True)
    unshare = own_mounts()
    assert unshare is not None, "no mounts here: see has_small_disks"
    with subprocess.Popen(
        [*unshare, "sh", "-c", _MOUNT, str(size), str(state)], stdout=subprocess.PIPE, text=True
    ) as keeper:
        try:
            assert keeper.stdout is not None
            if keeper.stdout.readline() != "mounted\n":
                raise RuntimeError(f"{state}: no tmpfs of {size} bytes could be mounted there")
            user = ["--user", "--preserve-credentials"] if "--user" in unshare else []
            enter = ["nsenter", "--target", str(keeper.pid), "--mount", *user]
            yield Surroundings(
                prefix=[*enter, "sh", "-c", _ENTER, str(project.root)],
                state=Path(f"/proc/{keeper.pid}/root{state}"),
                lift=lambda: grow(enter, state),
            )
        finally:
            keeper.kill()


def grow(enter: Sequence[str], state: Path) -> None:
    """Free space, as the message of a full disk asks for."""
    subprocess.run([*enter, "mount", "-o", f"remount,size={ENOUGH}", str(state)], check=True)


def under_strace(project: Project, folder: Path, calls: str, path: Path, action: str) -> Surroundings:
    """A `python` that runs the train stage under strace, which does something to the calls that touch a path."""
    folder.mkdir()
    shim = folder / "python"
    # With its filter in the kernel strace 6.1 injects errors, and no signals; without it, it stops at each call.
    fast = "" if "signal=" in action else "--seccomp-bpf"
    words = {"python": sys.executable, "path": str(path), "log": str(folder / "strace.log"), "action": action}
    shim.write_text(_SHIM.format(calls=calls, fast=fast, **{name: shlex.quote(word) for name, word in words.items()}))
    shim.chmod(0o755)
    return Surroundings(environment={"PATH": f"{folder}:{project.environment['PATH']}"})
