"""Stands between a run and the processes that it starts, and ends them all: when told to, or when the run is no more.

Run by process_tree.py, as a script: python -P supervisor.py SOCKET CALLER MARK GRACE_SECONDS ROLE COMMAND...

A run is a process of Prefect, of many threads, that can be killed at any moment. The kernel's signal at the death of a
parent (prctl(2), PR_SET_PDEATHSIG) comes at the death of the thread that started the child: too early where a task had
a thread of its own. This process has one thread, and sees the death of the run by its end of a socket. Whatever the
command starts and loses, the kernel gives to this process (PR_SET_CHILD_SUBREAPER), also what has a session of its own.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

MARK = "REMINT_TREE"
"""The environment variable that a process of the tree is known by where this process is not there to ask."""

GIVE_UP_SECONDS = 10.0
"""So long after the first SIGKILL, what still lives hangs in the kernel."""

_POLL_SECONDS = 0.5
_POLL_SECONDS_AT_THE_END = 0.1
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def marked(mark: str) -> "set[psutil.Process]":
    """The processes that were started with this mark in their environment, but for zombies and this one."""
    import psutil

    found = set()
    for process in psutil.process_iter():
        # A process that has ended and was not waited for has no environment any more.
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.add(process)
    return found


class Supervisor:
    """One command and all that comes of it."""

    def __init__(self, control: socket.socket, caller: int, mark: str, grace: float, *, launcher: bool) -> None:
        """`launcher`: the command only starts others, and says how they ended: these are asked to end, it is not."""
        self._control = control
        self._caller = caller
        self._mark = mark
        self._grace = grace
        self._launcher = launcher
        self._main = 0
        self._code: int | None = None
        self._childless = False
        self._told = False
        self._hears = True
        self._kill_at: float | None = None
        self._asked: set[psutil.Process] = set()
        self._asked_main = False

    def run(self, command: list[str]) -> None:
        """Start it, tell its exit code by the socket, and return when nothing of it is left."""
        woken, wakes = socket.socketpair()
        for one in (woken, wakes):
            one.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        # Handlers, not SIG_IGN, which the command would inherit: dvc has to hear SIGINT.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._note)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._start(command)
        while not self._is_over():
            pause = _POLL_SECONDS if self._kill_at is None else _POLL_SECONDS_AT_THE_END
            select.select([woken, self._control] if self._hears else [woken], [], [], pause)
            with contextlib.suppress(BlockingIOError):
                woken.recv(1 << 10)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._told |= number != signal.SIGCHLD

    def _start(self, command: list[str]) -> None:
        environment = {**os.environ, MARK: self._mark}
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                # Should this very process be killed.
                preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        except OSError as error:
            print(f"error: {command[0]}: {error.strerror}", file=sys.stderr)
            self._tell(127)
            return
        self._main = process.pid
        process.returncode = 0  # it is waited for below, with all that the kernel gives to this process

    def _tell(self, code: int) -> None:
        self._code = code
        with contextlib.suppress(OSError):
            self._control.send(f"{code}\n".encode())

    def _is_over(self) -> bool:
        self._reap()
        self._listen()
        if self._code is not None:
            if not self._is_anything_left():
                return True
            self._told = True
        if self._told and self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace
        if self._kill_at is not None:
            late = time.monotonic() - self._kill_at
            if late > GIVE_UP_SECONDS:
                return True
            self._ask() if late < 0 else self._kill()
        return False

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            self._childless = False
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._main:
                    self._tell(os.waitstatus_to_exitcode(ended[1]))
            return
        self._childless = True

    def _listen(self) -> None:
        """Any word of the caller means that all is to end, and so do its silence and its death."""
        with contextlib.suppress(BlockingIOError):
            try:
                self._hears = self._hears and bool(self._control.recv(1))
            except ConnectionResetError:
                self._hears = False
            self._told = True
        # A process that the caller forked, and that outlives it, would hold its end of the socket.
        self._told |= os.getppid() != self._caller

    def _is_anything_left(self) -> bool:
        # On Linux who has no child has no descendant: they would have been given to this process.
        return not (self._childless if sys.platform == "linux" else not self._members())

    def _members(self) -> "set[psutil.Process]":
        """All of the tree but the command itself."""
        import psutil

        found = marked(self._mark) | set(psutil.Process().children(recursive=True))
        return {one for one in found if one.pid != self._main and _is_alive(one)}

    def _ask(self) -> None:
        """SIGTERM, once each, to those that nobody of the tree looks after: they pass it on, or look to their own.

        A second one would cut a training short in its last save, and a helper of it, asked first, would fail it.
        """
        import psutil

        members = self._members()
        looked_after = {one.pid for one in members}
        if self._code is None and not self._launcher:
            looked_after.add(self._main)
        for one in members - self._asked:
            with contextlib.suppress(psutil.Error):
                if one.ppid() not in looked_after:
                    self._asked.add(one)
                    one.terminate()
        if self._code is None and not self._asked_main and not (self._launcher and self._asked):
            self._asked_main = True
            # dvc unwinds at SIGINT, and is deaf to it while a stage runs; at SIGTERM it would leave its locks.
            os.kill(self._main, signal.SIGINT if self._launcher else signal.SIGTERM)

    def _kill(self) -> None:
        import psutil

        if self._code is None:
            os.kill(self._main, signal.SIGKILL)  # a zombie until _reap: the number can't be another's by now
        for one in self._members():
            with contextlib.suppress(psutil.Error):
                one.kill()


def _is_alive(process: "psutil.Process") -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


if __name__ == "__main__":
    descriptor, caller, mark, grace, role, *command = sys.argv[1:]
    control = socket.socket(fileno=int(descriptor))
    control.setblocking(False)
    control.set_inheritable(False)
    Supervisor(control, int(caller), mark, float(grace), launcher=role == "launcher").run(command)
