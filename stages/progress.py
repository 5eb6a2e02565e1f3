"""Where a long loop is: a bar on a terminal, a line every ten seconds in a log."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

log = logging.getLogger(__name__)

SECONDS = 10.0
"""Between two lines."""


@contextmanager
def shown(what: str, *, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Yield what is to be told, again and again, how many more of `total` units are done."""
    if sys.stderr.isatty():
        with tqdm(desc=what, total=total, unit=unit, file=sys.stderr, leave=False) as bar:

            def move(count: int) -> None:
                bar.update(count)

            yield move
        return
    began = said = time.monotonic()
    done = 0

    def tell(count: int) -> None:
        nonlocal said, done
        done += count
        now = time.monotonic()
        if now - said >= SECONDS:
            said = now
            left = (total - done) * (now - began) / done
            log.info("%s: %d of %d %s, %.0f s left", what, done, total, unit, left)

    yield tell
