"""Write requirements/stages.txt and tools.txt: what stages.in and tools.in need, at the versions installed here.

To move to newer versions: install them into .venv, run the tests, then `make lock`.
"""

import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
# What torch brings for one kind of accelerator: torch itself pins it, and a lock made on a GPU machine must also be
# one for a machine without.
ACCELERATORS = ("nvidia-", "cuda-", "triton", "pytorch-triton")


def wanted(file: Path) -> list[Requirement]:
    """The requirements that a .in file lists."""
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


def closure(roots: list[Requirement]) -> dict[str, str]:
    """Name -> version of the roots and of all that they need here, as installed.

    Raises:
        SystemExit: one of them is not installed, or not at a version that is asked for.
    """
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = list(roots)
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name.startswith(ACCELERATORS) or (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        try:
            # A local version (2.13.0+cpu) names one build of a release; the lock names the release.
            found[name] = Version(version(name)).public
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed; make install, or pip install it, then make lock")
        if not requirement.specifier.contains(found[name], prereleases=True):
            sys.exit(f"{name} {found[name]} is installed, and {requirement} is asked for; pip install '{requirement}'")
        for text in requires(name) or []:
            needed = Requirement(text)
            extras = ("", *requirement.extras)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(needed)
    return found


def locks(requirements: Path) -> dict[Path, str]:
    """The text of both lock files."""
    stages = closure(wanted(requirements / "stages.in"))
    tools = closure(wanted(requirements / "tools.in"))
    added = {name: at for name, at in tools.items() if name not in stages}
    return {
        requirements / "stages.txt": "".join(f"{name}=={at}\n" for name, at in sorted(stages.items())),
        requirements / "tools.txt": "-c stages.txt\n"
        + "".join(f"{name}=={at}\n" for name, at in sorted(added.items())),
    }


def main() -> None:
    """Write both files and say which of them changed."""
    for file, text in locks(ROOT / "requirements").items():
        changed = not file.exists() or file.read_text(encoding="utf-8") != text
        file.write_text(text, encoding="utf-8")
        print(f"{file.relative_to(ROOT)}: {len(text.splitlines())} lines, {'changed' if changed else 'as it was'}")


if __name__ == "__main__":
    main()
