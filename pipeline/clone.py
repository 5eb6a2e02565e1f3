"""A clone of a commit in a temporary folder, with a DVC cache and a state of its own: made, run in, and removed."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

import psutil

from pipeline import dvc_cli, git
from stages.errors import UserError

STATE = "REMINT_STATE"
"""The environment variable that says where trainings keep their state, and by which a process of the clone is known."""

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL = 1 << 16
_ROUNDS = 6
"""How often to look for processes that one just killed had started; more, and one hangs in the kernel."""


class Ended(NamedTuple):
    """How a run of dvc ended."""

    code: int
    stage: str
    """The stage that failed; "" where none did."""
    stage_code: int | None
    """What that stage exited with."""
    said: str
    """The last lines, for a message."""


@dataclass(frozen=True)
class Clone:
    """Where it lies, and the environment of all that runs in it."""

    top: Path
    """Holds the clone and all that its processes might keep beside it."""
    environment: dict[str, str]

    @property
    def root(self) -> Path:
        """The clone itself."""
        return self.top / "clone"

    @property
    def cache(self) -> Path:
        """Its DVC cache."""
        return self.root / ".dvc/cache"

    def dvc(self, *arguments: str) -> Ended:
        """Run dvc; all that it and its stages say goes to standard error, as they say it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "dvc", *arguments],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=_follow_parent,
        )
        assert process.stdout is not None
        tail = b""
        while part := os.read(process.stdout.fileno(), _TAIL):
            sys.stderr.buffer.write(part)
            sys.stderr.buffer.flush()
            tail = (tail + part)[-_TAIL:]
        process.stdout.close()
        return _ended(process.wait(), tail.decode(errors="replace"))


def _follow_parent() -> None:
    """Have the kernel end dvc when this command is killed: its stages follow it (stages/lifetime.py)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG


def _ended(code: int, said: str) -> Ended:
    failed = re.findall(r"failed to reproduce '([^']+)'", said)
    codes = re.findall(r"exited with (-?\d+)", said)
    lines = [line for line in said.splitlines() if line.strip()]
    return Ended(code, failed[-1] if failed else "", int(codes[-1]) if codes else None, "\n".join(lines[-3:]))


@contextlib.contextmanager
def of(checkout: Path, commit: str, *, keep: bool) -> Iterator[Clone]:
    """Yield a clone of the commit; end all that still runs in it and, unless it is kept, remove it, stopped or not.

    Raises:
        UserError: git can't clone the checkout, or the commit has no DVC in it.
        SystemExit: a signal asked to stop.
    """
    with _stoppable():
        top = Path(tempfile.mkdtemp(prefix="remint-verify-")).resolve()
        try:
            made = Clone(top, _environment(top))
            (top / "tmp").mkdir()
            _fill(made, checkout, commit)
            yield made
        finally:
            for number in _STOPS:
                signal.signal(number, signal.SIG_IGN)
            _end_processes(made.environment[STATE])
            if not keep:
                shutil.rmtree(top, ignore_errors=True)
    if keep:
        print(f"kept: {top}", file=sys.stderr)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Let a signal that asks to stop unwind what is under way, in place of ending it there and then."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        print(f"stopped by {signal.Signals(number).name}", file=sys.stderr)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in _STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment(top: Path) -> dict[str, str]:
    return dvc_cli.surroundings(
        **{
            STATE: str(top / "state"),
            "DVC_SITE_CACHE_DIR": str(top / "dvc"),
            "TMPDIR": str(top / "tmp"),  # torch leaves folders there
        }
    )


def _fill(clone: Clone, checkout: Path, commit: str) -> None:
    """Clone the commit, and give it the checkout's settings of DVC: remotes and what opens them, but not the cache."""
    options = ["--local", "--no-checkout", "--quiet", "--config", "core.hooksPath=/dev/null"]
    git.run(checkout, "clone", *options, "--", str(checkout), str(clone.root))
    git.run(clone.root, "checkout", "--quiet", "--detach", commit)
    if not (clone.root / ".dvc").is_dir():
        raise UserError(f"{commit}: there is no .dvc/ in it; `dvc init` makes one, to be committed")
    from dvc.config import Config  # type: ignore[import-untyped]

    settings = Config(checkout / ".dvc")
    with Config(clone.root / ".dvc").edit("local") as local:
        local["remote"] = settings["remote"]
        local["core"] = {"remote": settings["core"]["remote"]} if "remote" in settings["core"] else {}
        local["cache"] = {"dir": str(clone.cache)}


def cache_of(checkout: Path) -> Path:
    """The folder of a checkout's DVC cache."""
    from dvc.config import Config

    return Path(Config(checkout / ".dvc")["cache"].get("dir") or checkout / ".dvc/cache")


def _end_processes(state: str) -> None:
    """Kill what still runs with the clone's state folder: nothing that it could save would be of use."""
    for _ in range(_ROUNDS):
        found = [process for process in psutil.process_iter() if _state_of(process) == state]
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=5)
        if not found:
            return


def _state_of(process: psutil.Process) -> str | None:
    try:
        # A process that has ended and was not waited for has no environment any more.
        return process.environ().get(STATE) if process.pid != os.getpid() else None
    except psutil.Error:
        return None
