"""What a run has changed in a checkout, and whether a commit of it could be got back from git and DVC."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML

from pipeline import data_files, git, overrides, recorded
from pipeline.data_files import DataFile
from pipeline.graph import group_of
from pipeline.values import some
from stages import params_file
from stages.errors import UserError

LOCK = "dvc.lock"
GRAPH = ("dvc.yaml", ".dvcignore")
"""What decides a run and is an input of no stage."""

_OPERATIONS = ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")


def require(checkout: Path, *, branch: str | None = None, overridden: Mapping[str, Any] | None = None) -> list[str]:
    """The files that a run has changed and that are to be committed, sorted; [] where it has changed none.

    To be called before a run too, which can take hours: what is refused then will be refused afterwards.

    Raises:
        UserError: a commit would hold what is not the run's, or lack what the run was made of; there is no branch, or
            nobody to commit as.
    """
    faults = list(_of_git(checkout, branch))
    if faults:
        raise _refusal(checkout, faults)
    files = of_a_run(checkout, overridden or {})
    faults = [*_staged(checkout, files), *_params(checkout, overridden or {}), *_inputs(checkout, files)]
    if faults:
        raise _refusal(checkout, faults)
    return sorted(files)


def _refusal(checkout: Path, faults: list[str]) -> UserError:
    return UserError("\n  ".join([f"{checkout}: the run can't be committed:", *faults]))


def of_a_run(checkout: Path, overridden: Mapping[str, Any]) -> set[str]:
    """The files that a run writes and that git shows as changed: outputs in git, dvc.lock, .dvc files, params.yaml."""
    stages, before = locked(checkout), locked(checkout, "HEAD")
    data = _read_data(data_files.find(checkout), recorded.given(list(stages), stages))
    outputs = {path for one in (stages, before) for stage in one.values() for path in stage.outputs}
    kept = {*outputs, *(one.path for one in data)}
    files = {LOCK, *outputs, *(one.file for one in data)}
    if overridden and not any(_params(checkout, overridden)):
        files.add(overrides.PARAMS)
    return {*git.status(checkout, *sorted(files)), *_ignoring(checkout, kept)}


def locked(checkout: Path, commit: str | None = None) -> recorded.Stages:
    """What dvc.lock says, here or in a commit; {} where there is none."""
    if commit is None:
        found = (checkout / LOCK).read_bytes() if (checkout / LOCK).is_file() else None
    else:
        found = git.read(checkout, commit, LOCK)
    return recorded.read(found.decode(), name=LOCK if commit is None else f"{LOCK} of {commit}") if found else {}


def _read_data(data: list[DataFile], inputs: list[str]) -> list[DataFile]:
    """The data that are, hold, or lie in an input."""
    pairs = [(one, PurePosixPath(one.path), PurePosixPath(path)) for one in data for path in inputs]
    return list(dict.fromkeys(one for one, a, b in pairs if a.is_relative_to(b) or b.is_relative_to(a)))


def _ignoring(checkout: Path, kept: set[str]) -> Iterator[str]:
    """The .gitignore files that DVC has written: those to which nothing but the names of its outputs has come."""
    folders = {str(PurePosixPath(path).parent) for path in kept}
    for path in git.status(checkout, *sorted(str(PurePosixPath(folder, ".gitignore")) for folder in folders)):
        before = (git.read(checkout, "HEAD", path) or b"").decode().splitlines()
        now = (checkout / path).read_text(encoding="utf-8").splitlines() if (checkout / path).is_file() else []
        names = {
            f"/{PurePosixPath(one).name}" for one in kept if PurePosixPath(one).parent == PurePosixPath(path).parent
        }
        if now[: len(before)] == before and names.issuperset(now[len(before) :]):
            yield path


def _of_git(checkout: Path, branch: str | None) -> Iterator[str]:
    git.commit_of(checkout, "HEAD")
    # Without this git makes a name and an address up, from the machine's.
    identities = ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")
    if any(git.attempt(checkout, "-c", "user.useConfigOnly=true", "var", one).returncode for one in identities):
        yield (
            "git does not know whom to commit as; `git config user.name <name>` and `git config user.email <address>` "
            "say it, in this checkout or with --global"
        )
    if branch is None and git.branch(checkout) is None:
        yield "HEAD is detached; name the branch that takes the commit, or check one out (git switch)"
    for name in _OPERATIONS:
        path = git.run(checkout, "rev-parse", "--git-path", name).decode().strip()
        if (checkout / path).exists():
            yield f"git is in the middle of something ({name}); `git status` says how to end it"


def _staged(checkout: Path, files: set[str]) -> Iterator[str]:
    staged = [path for path, letters in git.status(checkout).items() if letters[0] not in " ?" and path not in files]
    if staged:
        yield f"{some(staged)}: staged, and not of the run; commit it, or `git restore --staged` it"


def _params(checkout: Path, overridden: Mapping[str, Any]) -> Iterator[str]:
    """Overrides alone may have changed params.yaml: by hand, what it says is nobody's commit."""
    path = checkout / overrides.PARAMS
    committed = git.read(checkout, "HEAD", overrides.PARAMS)
    if not path.is_file() or committed == path.read_bytes():
        return
    if committed is None or overrides.with_overrides(committed.decode(), overridden) != path.read_bytes().decode():
        yield f"{overrides.PARAMS}: changed by hand and not committed; commit it, or `git restore {overrides.PARAMS}`"


def _inputs(checkout: Path, files: set[str]) -> Iterator[str]:
    """What stages read and no stage writes has to be in git, as it is here, or in DVC."""
    stages = _of_graph(checkout)
    data = data_files.find(checkout)
    read = {path: digest for stage in stages.values() for path, digest in stage.inputs.items()}
    inputs = {path for path in recorded.given(list(stages), stages) if path != overrides.PARAMS}
    raw = raw_data(checkout)
    if raw and (checkout / raw).exists() and not recorded.producers(raw, stages):
        inputs.add(raw)
    outside = sorted(path for path in inputs if "://" in path or path.startswith(("/", "../")))
    for path in outside:
        yield f"{path}: an input from outside of the checkout; `dvc import-url` brings it in, and keeps what it was"
    in_dvc = {path: one for path in inputs if (one := data_files.holding(path, data))}
    for path, one in in_dvc.items():
        if path == one.path and read.get(path, one.digest) != one.digest:
            yield f"{path}: other bytes than {one.file} names; `dvc add {path}`, and run again"
    yield from _in_git(checkout, sorted(inputs - set(outside) - set(in_dvc)), files)


def _in_git(checkout: Path, inputs: list[str], files: set[str]) -> Iterator[str]:
    found = [PurePosixPath(name) for name in git.tracked(checkout, *inputs)] if inputs else []
    missing = [path for path in inputs if not any(name.is_relative_to(path) for name in found)]
    for path in missing:
        yield (
            f"{path}: in neither git nor DVC, so no commit could give it back; `dvc add {path}` and "
            f"`git add {path}.dvc`, commit that, and run again: what has run is not repeated"
        )
    known = [path for path in inputs if path not in missing]
    if changed := [path for path in git.status(checkout, *known, *GRAPH) if path not in files]:
        yield f"{some(changed)}: decides the run, and is not committed as it is here; commit it, or put it back"


def _of_graph(checkout: Path) -> recorded.Stages:
    """The stages of dvc.lock that dvc.yaml still has."""
    described = YAML(typ="safe").load(checkout / "dvc.yaml")["stages"]
    return {name: stage for name, stage in locked(checkout).items() if group_of(name) in described}


def raw_data(checkout: Path) -> str | None:
    """Where params.yaml says that the raw data lie."""
    data = params_file.read(checkout / overrides.PARAMS).get("data")
    raw = data.get("raw") if isinstance(data, dict) else None
    return str(raw) if raw else None
