"""What git knows of a checkout: its commits, their files, and what has changed between two."""

import os
import re
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


_CREDENTIALS = re.compile(r"(?<=://)[^\s/'\"<>]*@")
_QUERY = re.compile(r"(://[^\s?'\"<>]*)\?[^\s'\"<>]*")

NETWORK_SECONDS = 900.0
"""After so long without an end, a fetch or a push of git is given up."""


def without_credentials(text: str) -> str:
    """A text whose addresses have lost user, password and query: each of them can be a secret."""
    return _QUERY.sub(r"\1", _CREDENTIALS.sub("", text))


def run(folder: Path, *arguments: str, within: Mapping[str, str] | None = None, text: str = "") -> bytes:
    """What a git command in a folder prints; `text` is what it reads.

    Raises:
        UserError: git says no; the message is git's own.
        MachineError: there is no git.
    """
    done = attempt(folder, *arguments, within=within, text=text)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        explained = f"git {' '.join(arguments)}, in {folder}: {said or f'exit code {done.returncode}'}"
        raise UserError(without_credentials(explained))
    return done.stdout


def attempt(
    folder: Path, *arguments: str, within: Mapping[str, str] | None = None, text: str = ""
) -> "subprocess.CompletedProcess[bytes]":
    """A git command in a folder that may say no: its exit code, and what it prints.

    Raises:
        MachineError: there is no git, or it does not come to an end.
    """
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(
            command,
            # Unattended: what asks for a password would wait for ever.
            env={"GIT_TERMINAL_PROMPT": "0", **(within or environment())},
            input=text.encode(),
            capture_output=True,
            check=False,
            timeout=NETWORK_SECONDS,
        )
    except FileNotFoundError:
        raise MachineError("git: there is no such program here; install it") from None
    except subprocess.TimeoutExpired:
        raise MachineError(
            without_credentials(f"git {' '.join(arguments)}, in {folder}: no end after {NETWORK_SECONDS:.0f} s")
        ) from None


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


def status(folder: Path, *paths: str) -> dict[str, str]:
    """What is not committed, at these paths or under them, by path: git's two letters; ?? is not in git."""
    settings = environment(GIT_LITERAL_PATHSPECS="1", GIT_OPTIONAL_LOCKS="0")
    options = ["--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"]
    listed = os.fsdecode(run(folder, "status", *options, "--", *paths, within=settings)).split("\0")
    return {entry[3:]: entry[:2] for entry in listed if entry}


def tracked(folder: Path, *paths: str) -> list[str]:
    """The files in git at these paths or under them."""
    listed = run(folder, "ls-files", "-z", "--", *paths, within=environment(GIT_LITERAL_PATHSPECS="1"))
    return [name for name in os.fsdecode(listed).split("\0") if name]


def branch(folder: Path) -> str | None:
    """The branch that is checked out; None where HEAD is detached."""
    return attempt(folder, "symbolic-ref", "--quiet", "--short", "HEAD").stdout.decode().strip() or None


def kept(folder: Path, *paths: str) -> list[str]:
    """Which of these paths git does not ignore."""
    if not paths:
        return []
    listed = attempt(folder, "check-ignore", "-z", "--stdin", text="\0".join(paths)).stdout
    ignored = set(os.fsdecode(listed).split("\0"))
    return [path for path in paths if path not in ignored]
