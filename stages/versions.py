"""What a lock file asks for -> where what is installed differs from it."""

from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version


class Deviation(NamedTuple):
    """A package that is not installed as a lock file says."""

    package: str
    wanted: str
    """The specifier of the lock file: ==2.4.6."""
    found: str
    """What is installed; "" where nothing is."""


def wanted(lock: str) -> list[Requirement]:
    """The requirements of a lock file that hold on this platform."""
    lines = [line.partition("#")[0].strip() for line in lock.splitlines()]
    found = [Requirement(line) for line in lines if line and not line.startswith("-")]
    return [one for one in found if one.marker is None or one.marker.evaluate()]


def deviations(lock: str) -> list[Deviation]:
    """Where what is installed is not what a lock file says; a version's local part (+cpu, +cu130) does not count."""
    made = []
    for one in wanted(lock):
        try:
            found = version(one.name)
        except PackageNotFoundError:
            found = ""
        if not found or not one.specifier.contains(Version(found).public, prereleases=True):
            made.append(Deviation(one.name, str(one.specifier), found))
    return made
