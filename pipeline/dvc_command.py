"""A command of DVC that moves or hashes bytes -> what it said, or an error that says whose fault it was."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pipeline import dvc_cli, git, process_tree
from stages.errors import DataError, GateError, MachineError, RemintError, StoppedError, UserError

Say = Callable[[str], None]
"""Takes a line."""

_STAGES_CODE = re.compile(r"exited with (-?\d+)")
_BY_CODE = {one.exit_code: one for one in (UserError, GateError, MachineError, StoppedError)}
_OF_THE_USER = re.compile(
    r"config file error|does not exist as an output or a stage|not found inside|but requires '|[Cc]redentials"
    r"|AccessDenied|Access Denied|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|not a DVC repository|YAML"
)
"""What no second try mends."""

_MISSING = "Checkout failed for following targets:"
_KEPT_LINES = 12


def run(checkout: Path, *arguments: str, say: Say, stop: threading.Event | None = None) -> str:
    """Run a command, passing on what it says, line by line; all of that at the end.

    Raises:
        UserError: a setting, a name or a key is wrong.
        DataError: what is asked for is not in the remote.
        RemintError: a stage that it ran failed: by the exit code of the stage.
        StoppedError: `stop` was set.
        MachineError: anything else: the network, the disk.
    """
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(git.without_credentials(line))
        if line.strip():
            say(said[-1])

    ended = process_tree.run(
        [sys.executable, "-P", "-m", "dvc", "--wait-for-lock", *arguments],
        say=hear,
        environment=dvc_cli.surroundings(),
        cwd=checkout,
        stop=stop,
        launcher=arguments[0] == "repro",
    )
    if ended.code and ended.why == "stopped":
        raise StoppedError(f"dvc {' '.join(arguments)}: stopped on request; the same again goes on")
    if ended.code:
        raise failure(arguments, said)
    return "\n".join(said)


def failure(arguments: tuple[str, ...], said: list[str]) -> RemintError:
    """The error for the lines that a command has said."""
    asked = f"dvc {' '.join(arguments)}"
    lines = [line for line in map(git.without_credentials, said) if line.strip()]
    lines = [line for line in lines if "Having any troubles?" not in line and "error.dvc.org" not in line]
    words = "\n".join(lines)
    if codes := _STAGES_CODE.findall(words):
        kind = _BY_CODE.get(int(codes[-1]), RemintError if int(codes[-1]) > 0 else MachineError)
        return kind("\n".join(lines[-_KEPT_LINES:]))
    if _MISSING in words:
        names = [line for line in words.partition(_MISSING)[2].split("\n") if line and "cache up to date" not in line]
        return DataError(f"{asked}: neither the cache nor the remote has {', '.join(names)}; is that the right remote?")
    # The first error is the cause; one for each file may follow.
    errors = words.partition("ERROR: ")[2].split("\n")
    found = "\n".join(errors if len(errors) <= _KEPT_LINES else [*errors[: _KEPT_LINES - 1], errors[-1]]).strip()
    kind = UserError if _OF_THE_USER.search(found) else MachineError
    return kind(f"{asked}: {found or 'it failed without a word'}")


def unclean(view: dvc_cli.View) -> set[str]:
    """The stages and .dvc files that are not as dvc.lock says; what is only absent, as after a clone, is as it says."""
    return {
        name
        for name, changes in view.changed.items()
        if not all(change.endswith((": deleted", ": not in cache")) for change in changes)
    }
