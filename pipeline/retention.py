"""Which runs keep their bytes: the last of a branch, tags, all branches' newest, the checkout's; others lose them."""

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline import checkout_lock, clone, dvc_command, git
from pipeline.committable import LOCK
from pipeline.dvc_command import Say
from pipeline.stored import object_path
from stages.errors import MachineError, UserError

RUNS = 30
"""A month of nights."""

_KEPT = "remint-kept"
"""Branches of this name, for the time of a removal, keep a commit's bytes: DVC can be told of branches alone."""

_LOOKS = 4
_LIST = re.compile(r"\b[0-9a-f]{32}\.dir\b")
_REMOVED = re.compile(r"^Removed (\d+) objects from (.+?)\.?$", re.MULTILINE)


@dataclass(frozen=True)
class Removed:
    """What was removed, or would be."""

    kept: int
    """Commits whose bytes stay, beside those of tags and experiments."""
    local: int
    """Objects of the checkout's cache."""
    remote: int
    """Objects of DVC's remote."""


def collect(
    checkout: Path,
    *,
    runs: int = RUNS,
    branch: str | None = None,
    cloud: bool = False,
    dry: bool = False,
    origin: str = "origin",
    say: Say = print,
    stop: threading.Event | None = None,
) -> Removed:
    """Remove the bytes of old runs from DVC's cache, with `cloud` from its default remote too; `dry` only counts.

    Those of the last `runs` commits of `branch` (the one checked out) that changed dvc.lock stay, of every tag, of the
    newest commit of every branch here and on `origin`, of experiments, and what the checkout's dvc.lock and .dvc files
    name now. Not to be called with `cloud` while another machine is between `dvc push` and `git push`.

    Raises:
        UserError: fewer than 1 run; a shallow clone; a cache that other checkouts may use, too.
        MachineError: origin or remote can't be reached, or answer now so, now so; a run is under way here.
    """
    if runs < 1:
        raise UserError(f"{runs} runs are to be kept; the last one, at least, stays")
    _refuse(checkout)
    branch = branch or git.branch(checkout) or "HEAD"
    with checkout_lock.held(checkout, "removal of old runs"):
        commits = kept(checkout, runs=runs, branch=branch, origin=origin)
        with _kept_by_branches(checkout, commits):
            found = _look(checkout, commits, cloud=cloud, say=say, stop=stop)
            if not dry and (found.local or found.remote):
                found = _gc(checkout, commits, cloud=cloud, dry=False, say=say, stop=stop)
    return found


def kept(checkout: Path, *, runs: int, branch: str, origin: str = "origin") -> list[str]:
    """The commits whose bytes stay: the last runs of a branch, and the newest commit of every branch, here and there.

    Raises:
        UserError: there is no such branch.
        MachineError: `origin` can't be reached: others' branches would lose their bytes.
    """
    if origin in git.run(checkout, "remote").decode().split():
        done = git.attempt(checkout, "fetch", "--quiet", "--prune", "--tags", origin)
        if done.returncode:
            said = git.without_credentials(done.stderr.decode(errors="replace").strip())
            raise MachineError(f"git fetch {origin}: {said}; what its branches use is not known, so nothing is removed")
    last = git.run(checkout, "log", "--first-parent", f"--max-count={runs}", "--format=%H", branch, "--", LOCK)
    heads = git.run(checkout, "for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes")
    return list(dict.fromkeys([git.commit_of(checkout, branch), *last.decode().split(), *heads.decode().split()]))


def _refuse(checkout: Path) -> None:
    if git.run(checkout, "rev-parse", "--is-shallow-repository").strip() == b"true":
        raise UserError(
            f"{checkout}: a shallow clone does not know which runs there were; `git fetch --unshallow` first"
        )
    cache = clone.cache_of(checkout)
    if not cache.resolve().is_relative_to(checkout.resolve()):
        raise UserError(
            f"{cache}: a cache outside of the checkout can be other checkouts', too, whose runs are not known here; "
            "`dvc gc --projects` takes them all into account"
        )


@contextlib.contextmanager
def _kept_by_branches(checkout: Path, commits: list[str]) -> Iterator[None]:
    """For its time, every commit is the newest one of a branch."""
    try:
        lines = [f"update refs/heads/{_KEPT}/{commit} {commit}\n" for commit in commits]
        git.run(checkout, "update-ref", "--stdin", text="".join(lines))
        yield
    finally:
        left = git.run(checkout, "for-each-ref", "--format=delete %(refname)", f"refs/heads/{_KEPT}").decode()
        git.run(checkout, "update-ref", "--stdin", text=left)


def _look(checkout: Path, commits: list[str], *, cloud: bool, say: Say, stop: threading.Event | None) -> Removed:
    """What would be removed. DVC takes a folder whose list of files can't be had for empty, and would remove its files.

    A look fetches the lists that the cache lacks. Where one stays away twice it is in no remote; where one comes the
    second time, the remote can't be relied on now, and it is looked again.
    """
    lacking: set[str] | None = None
    for _ in range(_LOOKS):
        found = _gc(checkout, commits, cloud=cloud, dry=True, say=lambda line: None, stop=stop)
        before, lacking = lacking, _lacking_lists(checkout, commits)
        if not lacking or lacking == before:
            can_go = f"{found.local} objects of the cache and {found.remote} of the remote can go"
            say(f"{found.kept} commits are kept; {can_go}")
            return found
    raise MachineError("DVC's remote now has a list of files and now has not; nothing is removed, try again later")


def _lacking_lists(checkout: Path, commits: list[str]) -> set[str]:
    """The lists of files of folders that are to be kept and that the cache does not have."""
    cache = clone.cache_of(checkout)
    tags = git.run(checkout, "for-each-ref", "--format=%(objectname)", "refs/tags").decode().split()
    names = {(commit, path) for commit in (*commits, *tags) for path in git.files(checkout, commit, LOCK, "*.dvc")}
    texts = [(git.read(checkout, commit, path) or b"").decode(errors="replace") for commit, path in names]
    found = {digest for text in texts for digest in _LIST.findall(text)}
    return {digest for digest in found if not object_path(cache, digest).exists()}


def _gc(
    checkout: Path, commits: list[str], *, cloud: bool, dry: bool, say: Say, stop: threading.Event | None
) -> Removed:
    options = [*(["--cloud"] if cloud else []), *(["--dry"] if dry else [])]
    keeping = ["--workspace", "--all-branches", "--all-tags", "--all-experiments"]
    said = dvc_command.run(checkout, "gc", "--force", *keeping, *options, say=say, stop=stop)
    counts = [(where == "remote", int(count)) for count, where in _REMOVED.findall(said)]
    of_remote, of_cache = (sum(count for is_remote, count in counts if is_remote is one) for one in (True, False))
    return Removed(len(commits), of_cache, of_remote)
