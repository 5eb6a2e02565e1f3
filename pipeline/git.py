"""What git knows of a checkout: its commits, their files, and what has changed between two."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from stages.errors import MachineError, UserError

_OF_THE_CALLER = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
)
"""What a hook of git, or a shell, sets for one checkout: it would point at that one in another, too."""


def environment(**settings: str) -> dict[str, str]:
    """The environment without what ties git to another checkout."""
    return {name: value for name, value in os.environ.items() if name not in _OF_THE_CALLER} | settings


def run(folder: Path, *arguments: str, within: Mapping[str, str] | None = None) -> bytes:
    """What a git command in a folder prints.

    Raises:
        UserError: git says no; the message is git's own.
        MachineError: there is no git.
    """
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, env=within or environment(), capture_output=True, check=False)
    except FileNotFoundError:
        raise MachineError("git: there is no such program here; install it") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise UserError(f"git {' '.join(arguments)}, in {folder}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def commit_of(folder: Path, name: str) -> str:
    """The full hash of a commit.

    Raises:
        UserError: the folder is in no git repository, or below its top; there is no such commit.
    """
    try:
        top = Path(os.fsdecode(run(folder, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except UserError as error:
        raise UserError(f"{folder}: no checkout of git ({error}); clone the repository") from None
    if top.resolve() != folder.resolve():
        raise UserError(
            f"{folder}: git's top folder is {top}; a project below the top of its repository can't be cloned"
        )
    try:
        return (
            run(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").decode().strip()
        )
    except UserError:
        raise UserError(f"{name}: there is no such commit in {folder}; `git log` lists them") from None


def read(folder: Path, commit: str, path: str) -> bytes | None:
    """A file of a commit, or None."""
    try:
        return run(folder, "cat-file", "blob", f"{commit}:{path}")
    except UserError:
        return None


def files(folder: Path, commit: str, *patterns: str) -> list[str]:
    """The files of a commit whose paths match."""
    listed = os.fsdecode(run(folder, "ls-tree", "-r", "-z", "--name-only", commit)).split("\0")
    return [path for path in listed if any(Path(path).match(pattern) for pattern in patterns)]


def last_change(folder: Path, commit: str, path: str) -> str:
    """The commit, up to this one, that last changed a file."""
    return run(folder, "log", "-1", "--format=%H", commit, "--", path).decode().strip()


def changed(folder: Path, since: str, commit: str, path: str) -> list[str]:
    """The files, at a path or under it, that differ between two commits."""
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    listed = run(folder, "diff", "--name-only", "-z", since, commit, "--", path, within=environment(**literal))
    return [name for name in os.fsdecode(listed).split("\0") if name]


def is_changed(folder: Path) -> bool:
    """Whether the checkout has changes that are not committed."""
    # Without its lock git does not refresh the index: nothing in the checkout is touched.
    return bool(run(folder, "status", "--porcelain", within=environment(GIT_OPTIONAL_LOCKS="0")))
