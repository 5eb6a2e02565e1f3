"""Find an implementation by the name of its file: the folder is the list of what there is."""

import difflib
import pkgutil
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

from stages.errors import ParamsError


def names(package: ModuleType) -> list[str]:
    """What there is, without importing any of it."""
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that ends an error message: `; did you mean X?`, or nothing when no known name is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def unknown(name: str, package: ModuleType) -> str:
    """The message for a name that has no file in a package."""
    known = names(package)
    file = f"{package.__name__.replace('.', '/')}/{name}.py"
    return f"there is no {file}; there are {', '.join(known)}{nearest(name, known)}"


def find(package: ModuleType, name: str) -> Any:
    """Import the file of that name.

    Raises:
        ParamsError: there is no such file; the message lists those there are.
    """
    if name not in names(package):
        raise ParamsError(unknown(name, package))
    return import_module(f"{package.__name__}.{name}")
