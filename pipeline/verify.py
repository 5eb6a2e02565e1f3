"""A commit -> its graph run anew in a clone, and every output beside what the commit's dvc.lock says of it."""

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import clone as clones
from pipeline import comparison, data_files, git, recorded, verify_report
from pipeline.clone import Clone, Ended
from pipeline.comparison import Input, Output
from pipeline.stored import Stored, md5_of
from stages import versions
from stages.errors import DataError, GateError, MachineError, RemintError, StoppedError, UserError

LOCK = "dvc.lock"
VERSIONS = "requirements/stages.txt"
"""The versions of the stages' libraries, in the commit."""


@dataclass
class Report:
    """All that was found; what --json holds."""

    commit: str
    uncommitted: bool
    """Whether the checkout has changes that are not part of the commit."""
    environment: dict[str, Any]
    """python, machine, cpu, cores; and deviations from the versions of the commit."""
    ran: list[str]
    taken: list[str]
    """Outputs of other stages that were given to those that ran, as they were recorded."""
    lock_commit: str
    """The commit that last changed dvc.lock."""
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    failure: str = ""
    """What ended the run before its end."""

    def of(self, status: str) -> list[Output]:
        """The outputs of that status."""
        return [one for one in self.outputs if one.status == status]


def verify(checkout: Path, name: str, *, stage: str | None, keep: bool) -> tuple[Report, RemintError | None]:
    """Run a commit anew, all of it or one stage, and compare; with the error that ended the run, if one did.

    Raises:
        UserError: there is no such commit or stage, no dvc.lock in it, or its raw data are not to be had.
        MachineError: there is no git.
    """
    commit = git.commit_of(checkout, name)
    text = git.read(checkout, commit, LOCK)
    if text is None:
        raise UserError(f"{name}: there is no {LOCK} in that commit: run `dvc repro` and commit what it has written")
    stages = recorded.read(text.decode(), name=f"{LOCK} of {name}")
    wanted = recorded.named(stage, stages) if stage else list(stages)
    report = Report(
        commit,
        uncommitted=git.is_changed(checkout),
        environment=environment(git.read(checkout, commit, VERSIONS)),
        ran=[],
        taken=[],
        lock_commit=git.last_change(checkout, commit, LOCK),
    )
    with clones.of(checkout, commit, keep=keep) as clone:
        here = Stored(checkout, clones.cache_of(checkout), committed=_committed(checkout, commit, clone.top / "git"))
        plan = recorded.plan(wanted, stages, is_at_hand=_provide(clone, here))
        report.ran, report.taken = plan.run, plan.taken
        fetch(clone, here, recorded.given(plan.run, stages), plan.taken)
        print("\n".join(verify_report.beginning(report, alone=stage is not None)), file=sys.stderr)
        (clone.root / LOCK).unlink()  # so that it will hold what has run, and nothing else
        chosen = ["--single-item", *plan.run] if stage else []
        ended = clone.dvc("repro", "--force", *chosen)
        new = read_new(clone.root / LOCK)
        report.inputs = comparison.inputs(stages, new)
        comparison.since(report.inputs, _changed(checkout, report.lock_commit, commit))
        made = Stored(clone.root, clone.cache)
        cut_off = plan.run if ended.code else ()
        report.outputs = comparison.outputs(stages, new, cut_off, old=here, made=made)
        error = failure(ended, clone.root, recorded.given(plan.run, stages)) if ended.code else None
        report.failure = str(error or "")
    return report, error


def _committed(checkout: Path, commit: str, folder: Path) -> Callable[[str, str], Path | None]:
    def find(path: str, md5: str) -> Path | None:
        content = git.read(checkout, commit, path)
        if content is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / md5).write_bytes(content)
        return folder / md5 if md5_of(folder / md5) == md5 else None

    return find


def _provide(clone: Clone, here: Stored) -> Callable[[str, str], bool]:
    """Whether the clone has an output as it was recorded: from git, or copied into its cache from the checkout's."""

    def provide(path: str, digest: str) -> bool:
        return is_there(clone, path, digest) or here.copy(digest, clone.cache)

    return provide


def is_there(clone: Clone, path: str, digest: str) -> bool:
    """Whether git has a file of that content in the clone."""
    return (clone.root / path).is_file() and md5_of(clone.root / path) == digest


def _changed(checkout: Path, since: str, commit: str) -> Callable[[str], list[str]]:
    return lambda path: git.changed(checkout, since, commit, path)


def fetch(clone: Clone, here: Stored, given: list[str], taken: list[str]) -> None:
    """Put raw data that DVC tracks, and the outputs that are taken, into the workspace of the clone.

    Raises:
        UserError: raw data are neither in the checkout's cache nor in the default remote.
    """
    local, remote = list(taken), []
    for data in data_files.find(clone.root):
        if here.copy(data.digest, clone.cache):
            local.append(data.path)
        elif any(f"{one}/".startswith(f"{data.path}/") or f"{data.path}/".startswith(f"{one}/") for one in given):
            remote.append(data.path)
    missing = [path for path in local if not (clone.root / path).is_file()]
    if missing and clone.dvc("checkout", *missing).code:
        raise MachineError(f"{', '.join(missing)}: DVC could not put them into the clone; see its message above")
    if remote and clone.dvc("pull", *remote).code:
        raise UserError(
            f"{', '.join(remote)}: neither in this checkout's cache nor in the default remote of DVC; "
            "`dvc pull` here, or `dvc push` where they are"
        )


def read_new(file: Path) -> recorded.Stages:
    """The stages that have run; none where the first of them failed."""
    return recorded.read(file.read_text(encoding="utf-8"), name=str(file)) if file.is_file() else {}


def failure(ended: Ended, root: Path, given: list[str]) -> RemintError:
    """The error that a failed run is: of the kind that the stage's own exit code names."""
    lacking = [path for path in given if not (root / path).exists()]
    if lacking and ended.stage_code in (None, UserError.exit_code):
        return DataError(
            f"{', '.join(lacking)}: an input that is neither in git nor in DVC at that commit; `dvc add` it, and commit"
        )
    if ended.stage_code is None:
        return RemintError(f"dvc ended with exit code {ended.code}:\n{ended.said}")
    kinds: dict[int, type[RemintError]] = {kind.exit_code: kind for kind in (UserError, GateError, MachineError)}
    kind = kinds.get(ended.stage_code, StoppedError if ended.stage_code == StoppedError.exit_code else RemintError)
    return kind(f"stage {ended.stage} failed with exit code {ended.stage_code}; what it said stands above")


def environment(lock: bytes | None) -> dict[str, Any]:
    """What runs the stages here, and how it deviates from the versions of a commit."""
    cpus = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": cpus[0] if cpus else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": len(versions.wanted(lock.decode())) if lock else 0,
        "deviations": [one._asdict() for one in versions.deviations(lock.decode())] if lock else [],
    }


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def refuse(report: Report, error: RemintError | None) -> None:
    """End with the error that ended the run, or with that of outputs that differ.

    Raises:
        RemintError: a stage failed; the exit code is its own.
        GateError: an output is not what dvc.lock says.
    """
    if error is not None:
        raise error
    if differing := report.of("differs"):
        compared = len(differing) + len(report.of("equal"))
        raise GateError(
            f"{len(differing)} of {compared} outputs are not what dvc.lock of {report.commit[:9]} says: "
            f"{', '.join(one.path for one in differing)}"
        )
