"""Bytes as processes write them -> lines; of a progress bar a line every few seconds, and its last state."""

import codecs
import re
import time
from collections.abc import Callable

BAR_SECONDS = 5.0
"""Between two lines of one bar."""

_ENDS = re.compile(r"([\r\n])")


class Lines:
    """Says each line as it ends, of whatever length.

    What a carriage return stands before or after, on a line, are the states of a bar: each takes the last one's place.
    """

    def __init__(self, say: Callable[[str], None], *, bar_seconds: float = BAR_SECONDS) -> None:
        self._say = say
        self._bar_seconds = bar_seconds
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._said_at = float("-inf")
        self._begin_line()

    def _begin_line(self) -> None:
        self._parts.clear()
        self._is_bar = False
        self._begins_with_return = False
        """As tqdm has it: its last state ends with the line, and not with a return."""
        self._state = ""
        self._said = ""

    def feed(self, data: bytes) -> None:
        """Take what came; say the lines that ended, and the state of a bar if it is due."""
        for part in _ENDS.split(self._decoder.decode(data)):
            if part == "\n":
                self._end_line()
            elif part == "\r":
                self._end_state()
            elif part:
                self._parts.append(part)
        self.tick()

    def tick(self) -> None:
        """Say the state of a bar if it is due: to be called now and then while nothing comes."""
        if self._is_bar and time.monotonic() - self._said_at >= self._bar_seconds:
            text = "".join(self._parts)
            self._say_state(text if self._begins_with_return and text.strip() else self._state)

    def close(self) -> None:
        """Say what had no end."""
        self._parts.append(self._decoder.decode(b"", final=True))
        if any(self._parts) or self._state != self._said:
            self._end_line()

    def _end_state(self) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        self._begins_with_return |= not self._is_bar and not text
        self._is_bar = True
        if text.strip():
            self._state = text
        elif text:  # a bar that is wiped out
            self._say_state(self._state)
            self._begin_line()

    def _end_line(self) -> None:
        text = "".join(self._parts)
        if self._is_bar and (self._state or text.strip()):
            if not self._begins_with_return or not text.strip():
                self._say_state(self._state)
            if text.strip() and text != self._said:
                self._say(text)
        else:
            self._say(text)
        self._begin_line()

    def _say_state(self, state: str) -> None:
        if state and state != self._said:
            self._said, self._said_at = state, time.monotonic()
            self._say(state)
