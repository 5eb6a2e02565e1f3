"""One `dvc repro` of the chaos bench: started as a terminal starts it, watched, and known by all its processes."""

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.end_to_end.project import Project

MARK = "REMINT_CHAOS_RUN"
"""A variable that every process of a run inherits, however far it has gone from its parents."""

LIMIT_SECONDS = 300.0
"""After that long a run hangs."""

POLL_SECONDS = 0.01

_TRAINS = re.compile(r"^(?:going on from|starting at) step (\d+)", re.MULTILINE)


class Run:
    """`dvc repro` in a session of its own; whatever of it is left at the end of the block is killed."""

    def __init__(
        self,
        project: Project,
        log: Path,
        *target: str,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        state: Path | None = None,
    ) -> None:
        """`prefix` starts the command; `state` is where the state folder can be seen from here."""
        self.marker = uuid.uuid4().hex
        self.log = log
        self.state = state or project.home / "state"
        self.seen: list[tuple[float, int]] = []
        """When a step was first seen to be reached: the one that the training starts at, then each save."""
        with log.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(
                [*prefix, "dvc", "repro", *target],
                cwd=project.root,
                env={**project.environment, MARK: self.marker, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End every process of the run, as often as one is found."""
        while members := self.members():
            for member in members:
                send(member, signal.SIGKILL)
            self.process.poll()  # psutil's wait would take dvc's exit code away
            time.sleep(POLL_SECONDS)
        self.process.wait()

    def said(self) -> str:
        """All that the run has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def code(self) -> int | None:
        """The exit code of dvc, negative for a signal; None while it lives."""
        return self.process.poll()

    def stage(self) -> str:
        """The stage that was begun last."""
        begun = re.findall(r"^Running stage '([^']+)'", self.said(), flags=re.MULTILINE)
        return begun[-1] if begun else "none yet"

    def stage_code(self) -> str:
        """The exit code of a stage that failed, as dvc tells it; nothing where it doesn't."""
        told = re.findall(r"failed to run: .*, exited with (-?\d+)", self.said())
        return told[-1] if told else ""

    def trains_from(self) -> int | None:
        """The step that the training of this run started at, or None where nothing was trained."""
        found = _TRAINS.search(self.said())
        return int(found.group(1)) if found else None

    def members(self) -> list[psutil.Process]:
        """The living processes of the run; one that is dead and not yet reaped is not among them."""
        return [process for process in psutil.process_iter() if _marker(process) == self.marker]

    def of_module(self, module: str) -> list[psutil.Process]:
        """The living processes that python was asked to be as `-m MODULE`."""
        return [process for process in self.members() if _module(process) == module]

    def wait_for(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Watch the training until the condition holds (True), the run ends or the time is over."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._look()
            if condition():
                return True
            if self.code() is not None:
                return False
            time.sleep(POLL_SECONDS)
        return False

    def sleep(self, seconds: float) -> bool:
        """Watch the training for a time; whether the run still lives then."""
        until = time.monotonic() + seconds
        return self.wait_for(lambda: time.monotonic() >= until, seconds=seconds + 1)

    def saved(self) -> int:
        """The step of the newest state, whole or torn; 0 where there is none."""
        names = [name for run in listed(self.state) for name in listed(self.state / run / "resume")]
        return max((int(name.rpartition("-")[2]) for name in names if name.startswith("checkpoint-")), default=0)

    def ended_training(self) -> bool:
        """Whether the training is marked as finished."""
        return any((self.state / run / "finished.json").exists() for run in listed(self.state))

    def _look(self) -> None:
        if not self.seen:
            first = self.trains_from()
            if first is not None:
                self.seen.append((time.monotonic(), first))
        elif (step := self.saved()) > self.seen[-1][1]:
            self.seen.append((time.monotonic(), step))


def listed(folder: Path) -> list[str]:
    """The names in a folder that may not be there, or go while it is read."""
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def send(process: psutil.Process, number: int) -> None:
    """A signal to a process that may be gone by now."""
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def _marker(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        marker: str | None = process.environ().get(MARK)
    except psutil.Error:
        return None
    return marker


def _module(process: psutil.Process) -> str | None:
    try:
        command = process.cmdline()
    except psutil.Error:
        return None
    options = iter(command[1:])
    if not command or "python" not in Path(command[0]).name:
        return None
    return next((next(options, None) for option in options if option == "-m"), None)
