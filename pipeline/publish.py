"""A finished run -> a commit of what it changed, on a branch of a git remote."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import commit_message, committable, dvc_cli, dvc_command, git
from pipeline.dvc_command import Say
from stages.errors import GateError, MachineError, UserError

ATTEMPTS = 5
"""Pushes, each after a rebase, while others push in between."""

_MOVED = re.compile(r"fetch first|non-fast-forward|cannot lock ref|failed to update ref|incorrect old value|stale info")
_OF_THE_USER = re.compile(
    r"remote rejected|declined|Authentication failed|could not read (Username|Password)|Permission denied|"
    r"not appear to be a git repository|does not exist|not found|does not match any|403|401|pre-push"
)


@dataclass(frozen=True)
class Commit:
    """A commit that was made."""

    hash: str
    message: str
    files: list[str]

    @property
    def subject(self) -> str:
        """The message's first line."""
        return self.message.partition("\n")[0]


def commit(
    checkout: Path,
    *,
    ran: Sequence[str] = (),
    overridden: Mapping[str, Any] | None = None,
    branch: str | None = None,
) -> Commit | None:
    """Commit what a run has changed, and nothing else; None where it has changed nothing.

    `ran` are the stages that ran, for the message; `overridden` the knobs that the run set in params.yaml; `branch`
    the one that the commit will be pushed to, where none is checked out.

    Raises:
        UserError: it can't be committed so that the run could be got back (see committable.require); a hook refused.
    """
    files = committable.require(checkout, branch=branch, overridden=overridden)
    if not files:
        return None
    message = commit_message.compose(commit_message.gather(checkout, ran))
    literal = git.environment(GIT_LITERAL_PATHSPECS="1")
    git.run(checkout, "update-index", "--add", "--remove", "-z", "--stdin", text="\0".join(files))
    try:
        git.run(checkout, "commit", "--quiet", "--file=-", "--", *files, within=literal, text=message)
    except UserError:
        git.run(checkout, "reset", "--quiet", "--", *files, within=literal)
        raise
    return Commit(git.commit_of(checkout, "HEAD"), message, files)


def push_commit(
    checkout: Path,
    *,
    remote: str = "origin",
    branch: str | None = None,
    aside: str | None = None,
    say: Say = print,
) -> str | None:
    """Push what the branch here is ahead by, never by force; the commit that the remote then has, None if it had it.

    Where the remote's branch has moved, the commits here are put onto it, and pushed if nothing would run then. What
    can't be pushed stays here; with `aside`, a branch of the remote that is not there yet, it is pushed to that one.

    Raises:
        UserError: there is no such remote or branch, it lets nobody push, or files here are changed.
        GateError: what has come in conflicts with the run, or makes stages run again.
        MachineError: the remote can't be reached, or moves all the time.
    """
    branch = branch or git.branch(checkout)
    if branch is None:
        raise UserError(f"{checkout}: HEAD is detached; name the branch to push to")
    made = git.commit_of(checkout, "HEAD")
    if _has(checkout, f"refs/remotes/{remote}/{branch}", made):
        return None
    try:
        for _ in range(ATTEMPTS):
            if _push(checkout, remote, branch):
                return git.commit_of(checkout, "HEAD")
            say(f"{branch} of {_shown(checkout, remote)} has moved: what is here goes onto it")
            if not _rebase(checkout, remote, branch):
                return None
            _refuse_unclean(checkout, remote, branch)
    except GateError as error:
        raise GateError(f"{error}{_put_aside(checkout, remote, made, aside)}") from None
    raise MachineError(f"{branch} of {_shown(checkout, remote)} moved {ATTEMPTS} times in a row; push again later")


def _put_aside(checkout: Path, remote: str, made: str, aside: str | None) -> str:
    """Push the run's commit, as it was made, to a branch of its own; what to add to the message."""
    if aside is None:
        return ""
    try:
        git.run(checkout, "push", "--quiet", remote, f"{made}:refs/heads/{aside}", within=_untranslated())
    except UserError as error:
        return f"\nNor is it pushed aside: {error}"
    return f"\nAs it was made it is branch {aside} of the remote, {made[:9]}"


def _push(checkout: Path, remote: str, branch: str) -> bool:
    """Push HEAD; False where the branch is no longer what it was."""
    done = git.attempt(checkout, "push", "--porcelain", remote, f"HEAD:refs/heads/{branch}", within=_untranslated())
    if done.returncode == 0:
        return True
    said = git.without_credentials((done.stdout + done.stderr).decode(errors="replace")).strip()
    rejected = "\n".join(line for line in said.splitlines() if line.startswith("!"))
    if _MOVED.search(rejected):
        return False
    kind = UserError if _OF_THE_USER.search(said) else MachineError
    raise kind(f"git push {_shown(checkout, remote)} {branch}: {said}\nThe commit stays here; nothing is lost")


def _rebase(checkout: Path, remote: str, branch: str) -> bool:
    """Put the commits here onto the remote's branch; False where it has all of them already.

    Raises:
        GateError: they conflict; all is as it was before.
        UserError: files are changed.
    """
    if changed := [path for path, letters in git.status(checkout).items() if letters != "??"]:
        raise UserError(
            f"{branch} of {_shown(checkout, remote)} has moved, and {', '.join(changed[:5])} here is changed and not "
            "committed; commit it or put it back, then push again. The run's commit stays here"
        )
    theirs = f"{branch} of {_shown(checkout, remote)}"
    fetched = _fetch(checkout, remote, branch)
    done = git.attempt(checkout, "-c", "rebase.autoStash=false", "rebase", "--quiet", fetched, within=_untranslated())
    if done.returncode == 0:
        return not _has(checkout, fetched, git.commit_of(checkout, "HEAD"))
    conflicting = [path for path, letters in git.status(checkout).items() if "U" in letters or letters in ("AA", "DD")]
    git.attempt(checkout, "rebase", "--abort")
    if not conflicting:
        said = git.without_credentials(done.stderr.decode(errors="replace")).strip()
        raise UserError(f"git rebase onto {theirs}: {said}")
    head = git.commit_of(checkout, "HEAD")[:9]
    raise GateError(
        f"{theirs} has moved, and conflicts with this run in {', '.join(conflicting)}: nothing is pushed, and commit "
        f"{head} stays here. To go on from theirs: `git branch mine {head}`, `git reset --hard {fetched[:9]}`, "
        "`dvc checkout`, and run again"
    )


def _fetch(checkout: Path, remote: str, branch: str) -> str:
    """The commit of the remote's branch, fetched."""
    done = git.attempt(
        checkout, "fetch", "--quiet", "--no-tags", remote, f"refs/heads/{branch}", within=_untranslated()
    )
    if done.returncode:
        said = git.without_credentials(done.stderr.decode(errors="replace")).strip()
        raise MachineError(f"git fetch {_shown(checkout, remote)} {branch}: {said}")
    return git.commit_of(checkout, "FETCH_HEAD")


def _refuse_unclean(checkout: Path, remote: str, branch: str) -> None:
    """Nothing would run in the checkout as it is now."""
    if stages := sorted(dvc_command.unclean(dvc_cli.look(checkout))):
        raise GateError(
            f"{branch} of {_shown(checkout, remote)} has moved, and what came in changes {', '.join(stages)}: nothing "
            f"is pushed. The run's commit lies on what came in, as {git.commit_of(checkout, 'HEAD')[:9]}; the next "
            "run brings it up to date, and is pushed with it"
        )


def _has(checkout: Path, ref: str, commit: str) -> bool:
    return git.attempt(checkout, "merge-base", "--is-ancestor", commit, ref).returncode == 0


def _shown(checkout: Path, remote: str) -> str:
    """A remote, as it may be said."""
    address = git.attempt(checkout, "remote", "get-url", remote).stdout.decode().strip()
    return git.without_credentials(f"{remote} ({address})" if address and address != remote else remote)


def _untranslated() -> dict[str, str]:
    """Settings with which git says in English why it refuses."""
    return git.environment(LC_ALL="C")
