"""How a process of a run ends: asked to first, made to after a grace time, and never later than its parent.

SIGTERM to dvc leaves the stage, SIGKILL to torchrun leaves its workers. So each process that a run started asks the
kernel for a signal when its parent dies (prctl(2), PR_SET_PDEATHSIG, Linux), and watches its parent besides: the
kernel's signal can be missed between the start and the call, and can be ignored.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from types import FrameType

GRACE_SECONDS = 30.0
"""From the request to stop, or the death of the parent, to SIGKILL."""

_POLL_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1


def is_of_a_run() -> bool:
    """Whether dvc or torchrun started this process: one that a person started by hand may outlive its shell."""
    return "DVC_STAGE" in os.environ or "TORCHELASTIC_RUN_ID" in os.environ


def kill_children() -> None:
    """SIGKILL to all that this process has started, and to what they have: one that hangs hears nothing else."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def kill_after(seconds: float) -> None:
    """End this process and its children by SIGKILL, after a time, whatever they are doing then."""

    def kill() -> None:
        time.sleep(seconds)
        try:
            kill_children()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True, name="grace").start()


def follow_parent() -> None:
    """Be sent SIGTERM when the parent dies, and SIGKILL after the grace time."""
    if not is_of_a_run():
        return
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        kill_after(GRACE_SECONDS)

    threading.Thread(target=watch, daemon=True, name="parent").start()


class StopRequest:
    """Whether a signal asked this process to stop. A second one, seconds later, is obeyed at once."""

    REPEATED_SECONDS = 2.0
    """Ctrl-C reaches every process of the terminal's group, and torchrun passes it on to its workers once more."""

    def __init__(self) -> None:
        self.requested = False
        self.agreed = False
        """Whether any process of the run was asked to, as all of them know at the same step."""
        self._since = 0.0

    def listen(self) -> None:
        """Note SIGTERM and SIGINT from now on."""
        signal.signal(signal.SIGTERM, self._note)
        signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested, self._since = True, time.monotonic()
            kill_after(GRACE_SECONDS)
        elif time.monotonic() - self._since > self.REPEATED_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
