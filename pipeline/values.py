"""Values, sizes, ages and numbers of things, as a person reads them."""

import json
from collections.abc import Sequence
from typing import Any

LONGEST = 60


def show(value: Any) -> str:
    """A value in at most LONGEST characters."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = value if isinstance(value, str) and value.isprintable() and value.strip() == value != "" else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def times(count: int, one: str, several: str) -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else several}"


def some(names: Sequence[str], shown: int = 8) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def size(count: float) -> str:
    """Bytes, in the unit that suits."""
    for unit, bytes_of_it in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bytes_of_it:
            return f"{count / bytes_of_it:.1f} {unit}"
    return f"{count:.0f} bytes"


def age(seconds: float) -> str:
    """A time that has passed, in the unit that suits."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} seconds"
