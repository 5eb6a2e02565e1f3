"""One run at a time in a checkout: two would write the same outputs."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from stages.errors import MachineError

FILE = Path(".dvc/tmp/remint.lock")
"""In a checkout. The system frees it with the process that holds it, however that ends."""


@contextmanager
def held(checkout: Path, what: str) -> Iterator[None]:
    """Hold the checkout's lock, with pid, time and purpose written in it.

    Raises:
        MachineError: another run holds it; the message says which, since when and for what.
    """
    path = checkout / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise MachineError(
                f"{checkout}: {holder} is at work in this checkout; wait for it or stop it, then run the same again"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} ({what}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC)\n")
        lock.flush()
        yield
