"""A command and all that comes of it: its lines as they come, a deadline, and an end that leaves nobody.

The tree lies in a session of its own, so that this file alone ends it. A terminal's Ctrl-C reaches the process that
called run(), and that asks the tree, once. In the terminal's own group each process would hear the key and then us, and
a training takes a second signal, seconds after the first, as an order to drop its save; and a SIGKILL to the group of
a flow would end a stage that could have saved. That the tree ends with its caller, however that ends, is the work of
supervisor.py.
"""

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Self

import psutil

from pipeline import supervisor
from pipeline.lines import BAR_SECONDS, Lines
from stages import lifetime

GRACE_SECONDS = lifetime.GRACE_SECONDS + 2.0
"""From the request to stop to SIGKILL. A stage kills itself earlier: dvc can still say so, and free its locks."""

_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 1.0
"""For what is left in the pipe when all have ended; whoever holds it longer is none of the tree."""

Why = Literal["exited", "deadline", "stopped"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Its exit code; -N where signal N killed it; 127 where it can't be started."""
    why: Why
    """By itself, or since it was asked to."""
    seconds: float


def run(
    command: Sequence[str],
    *,
    say: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_seconds: float | None = None,
    stop: threading.Event | None = None,
    log: Path | None = None,
    launcher: bool = False,
    grace_seconds: float = GRACE_SECONDS,
    bar_seconds: float = BAR_SECONDS,
) -> Ended:
    """Run a command to its end, from any thread, and return when no process that it started is left.

    At the deadline, or when `stop` is set, and whatever is left when the command has ended: asked by SIGTERM, then
    killed after the grace time. An exception in here, KeyboardInterrupt too, ends the tree in the same way first.

    Args:
        command: What to run, and its arguments; no shell.
        say: Is given each line of standard output and error, in the order they were written, without its end.
        environment: Its whole environment; None: that of this process.
        cwd: Where to run it.
        deadline_seconds: From its start.
        stop: Set by another thread, it stops the tree.
        log: The lines are also added to the end of this file, one by one.
        launcher: The command starts the work and waits for it, as dvc does: its children are asked, and not it.
        grace_seconds: From asking to SIGKILL.
        bar_seconds: Between two lines of one progress bar.
    """
    began = time.monotonic()
    why: Why = "exited"
    with _sink(say, log) as sink, _Tree(command, environment, cwd, launcher=launcher, grace=grace_seconds) as tree:
        lines = Lines(sink.take, bar_seconds=bar_seconds)
        try:
            while not tree.ended:
                if why == "exited" and tree.code is None:
                    why = _reason(stop, deadline_seconds, time.monotonic() - began)
                    if why != "exited":
                        tree.ask()
                tree.pump(lines)
            tree.drain(lines)
            lines.close()
        except BaseException:
            sink.say = None
            tree.end(lines)
            raise
    assert tree.code is not None, "a tree has ended, and its command has not"
    return Ended(tree.code, why, time.monotonic() - began)


def _reason(stop: threading.Event | None, deadline_seconds: float | None, seconds: float) -> Why:
    if stop is not None and stop.is_set():
        return "stopped"
    return "deadline" if deadline_seconds is not None and seconds >= deadline_seconds else "exited"


class _Sink:
    """Where lines go. A log that can't be written is no reason to end a training: that is said, once."""

    def __init__(self, say: Callable[[str], None], log: IO[bytes] | None) -> None:
        self.say: Callable[[str], None] | None = say
        self._log = log

    def take(self, line: str) -> None:
        if self._log is not None:
            try:
                self._log.write(line.encode(errors="replace") + b"\n")
            except OSError as error:
                log, self._log = self._log, None
                self.take(f"{log.name}: {error.strerror}; no more lines are written there")
        if self.say is not None:
            self.say(line)


@contextlib.contextmanager
def _sink(say: Callable[[str], None], log: Path | None) -> Iterator[_Sink]:
    if log is None:
        yield _Sink(say, None)
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as file:
        yield _Sink(say, file)


class _Tree:
    """The caller's side of a supervisor."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None,
        cwd: Path | None,
        *,
        launcher: bool,
        grace: float,
    ) -> None:
        self.code: int | None = None
        self.ended = False
        self._grace = grace
        self._mark = uuid.uuid4().hex
        self._control, theirs = socket.socketpair()
        self._output, written = os.pipe()
        arguments = [str(theirs.fileno()), str(os.getpid()), self._mark, str(grace), "launcher" if launcher else "work"]
        self._supervisor = subprocess.Popen(
            [sys.executable, "-P", supervisor.__file__, *arguments, *command],
            cwd=cwd,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        os.close(written)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)
        self._ready.register(self._control, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._ready.close()
        # Where the tree still lives, since a second Ctrl-C cut the wait for its end short, this asks it to end.
        self._control.close()
        os.close(self._output)

    def ask(self) -> None:
        """Have the tree asked to end, once, and killed after the grace time."""
        with contextlib.suppress(OSError):
            self._control.send(b"x")

    def pump(self, lines: Lines) -> bool:
        """Wait a moment for what is written and for the end; False where nobody can write any more."""
        for key, _ in self._ready.select(_POLL_SECONDS):
            if key.fd != self._output:
                self._hear()
            elif data := os.read(self._output, 1 << 16):
                lines.feed(data)
            else:
                self._ready.unregister(self._output)
        lines.tick()
        return self._output in self._ready.get_map()

    def _hear(self) -> None:
        try:
            said = self._control.recv(1 << 10)
        except ConnectionResetError:
            said = b""
        if said:
            self.code = int(said)
            return
        self.ended = True
        self._ready.unregister(self._control)
        self._supervisor.wait()

    def end(self, lines: Lines) -> None:
        """Ask, and wait: reading on, since a full pipe would hold up whoever is to end."""
        self.ask()
        while not self.ended:
            self.pump(lines)
        self.drain(lines)

    def drain(self, lines: Lines) -> None:
        """Read what is left in the pipe, once the supervisor has ended; do its work where it did not live to do it."""
        if self._supervisor.returncode:
            self._end_by_mark(lines)
            self.code = self._supervisor.returncode if self.code is None else self.code
        until = time.monotonic() + _DRAIN_SECONDS
        while self.pump(lines) and time.monotonic() < until:
            pass

    def _end_by_mark(self, lines: Lines) -> None:
        """The command was told of the supervisor's death, and stages follow dvc (stages/lifetime.py): then SIGKILL."""
        kill_at = time.monotonic() + self._grace
        while left := supervisor.marked(self._mark):
            late = time.monotonic() - kill_at
            if late > supervisor.GIVE_UP_SECONDS:
                break
            for one in left if late > 0 else ():
                with contextlib.suppress(psutil.Error):
                    one.kill()
            self.pump(lines)
