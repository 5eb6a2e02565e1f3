"""What the chaos bench runs: a small real project, taken to some points of its graph, and what an undisturbed run of it
ends in.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.chaos_run import LIMIT_SECONDS, Run
from tests.end_to_end import project as projects
from tests.end_to_end.project import Project

SAVE_STEPS = 10
EVAL_STEPS = 40
STEPS = 240

TRAIN = "train@13"
SETTINGS = {
    "train.max_steps": STEPS,
    "train.eval_strategy": "steps",
    "train.eval_steps": EVAL_STEPS,
    "train.max_rows_per_device": 2,  # so that a step is accumulated, also in two processes
    "runtime.save_steps": SAVE_STEPS,
}


@dataclass(frozen=True)
class Training:
    """What an undisturbed training is like."""

    seconds_per_step: float
    identity: str
    """The name of its state folder: the same in every copy, as that is what an identity is."""
    state_bytes: int
    """The most that lay in its state folder."""


@dataclass(frozen=True)
class Workspace:
    """A project at several points of its graph, and the reference that every round must end in."""

    processes: int
    points: Mapping[str, Project]
    """`nothing`, `encoded`, `trained`: what has been run by then; a round starts from a copy of one of them."""
    seconds: Mapping[str, float]
    """How long an undisturbed `dvc repro` takes from each point to the next, the last to the end."""
    references: Mapping[str, Mapping[str, str]]
    """By the target of `dvc repro` (`train@13`, or nothing for the whole graph): what outcome() says of its end."""
    training: Training


def outcome(project: Project) -> dict[str, str]:
    """Every md5 in dvc.lock, of outputs and of what they depend on, and the sha256 of every file under data and models.

    Files besides, as an unfinished output would be, are in it, too.
    """
    lock: dict[str, Any] = YAML(typ="safe").load(project.root / "dvc.lock")
    recorded = {
        f"dvc.lock {name} {kind} {entry['path']}": str(entry["md5"])
        for name, stage in lock["stages"].items()
        for kind in ("deps", "outs")
        for entry in stage.get(kind, [])
    }
    return {**recorded, **project.digests("data", "models")}


def differences(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """What is missing, surplus or not the same, by name."""
    return [
        f"{name}: {'missing' if name not in found else 'surplus' if name not in expected else 'differs'}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]


def copy(project: Project, folder: Path) -> Project:
    """A copy with a home, a state folder and DVC's site cache of its own; what lay in the state folder is in it."""
    made = projects.copy(project, folder / "project", folder / "home")
    if (project.home / "state").is_dir():
        shutil.copytree(project.home / "state", made.home / "state")
    return made


def size_of(folder: Path) -> int:
    """The bytes in the files under a folder that is being written to."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # renamed or rotated away meanwhile
                total += (Path(parent) / name).stat().st_size
    return total


def undisturbed(project: Project, *target: str) -> tuple[float, Training | None]:
    """Run a project to a target while nothing disturbs it; its seconds, and what its training was like, if it trained.

    Raises:
        RuntimeError: the run failed.
    """
    began = time.monotonic()
    largest = 0

    def measure() -> bool:
        nonlocal largest
        largest = max(largest, size_of(project.home / "state"))
        return False

    with Run(project, project.home / "undisturbed.log", *target) as run:
        run.wait_for(measure, seconds=LIMIT_SECONDS)
        if run.code() != 0:
            raise RuntimeError(f"dvc repro {' '.join(target)} exited {run.code()}:\n{run.said()}")
        seconds = time.monotonic() - began
        identity = re.search(r"run ([0-9a-f]{32})", run.said())
        (first, from_step), (last, to_step) = (run.seen[0], run.seen[-1]) if run.seen else ((0.0, 0), (0.0, 0))
    if identity is None or to_step == from_step:
        return seconds, None
    return seconds, Training((last - first) / (to_step - from_step), identity.group(1), largest)


def at_training(encoded: Project, folder: Path, *, processes: int) -> tuple[Workspace, Project]:
    """From a project whose rows are encoded: the workspace for faults in its training, and the project after it."""
    trained = copy(encoded, folder / "trained")
    seconds, training = undisturbed(trained, TRAIN)
    if training is None:
        raise RuntimeError(f"{trained.root}: nothing was trained; see undisturbed.log in {trained.home}")
    references = {TRAIN: outcome(trained)}
    return Workspace(processes, {"encoded": encoded}, {"encoded": seconds}, references, training), trained


def whole(folder: Path, *, processes: int) -> Workspace:
    """A new project, and copies of it along its graph, up to the end."""
    nothing = projects.create(folder / "nothing/project", folder / "nothing/home")
    nothing.set(**SETTINGS, **{"train.processes": processes})
    nothing.commit()
    encoded = copy(nothing, folder / "encoded")
    before, _ = undisturbed(encoded, "encode")
    workspace, trained = at_training(encoded, folder, processes=processes)
    end = copy(trained, folder / "end")
    after, _ = undisturbed(end)
    return Workspace(
        processes,
        {"nothing": nothing, "encoded": encoded, "trained": trained},
        {"nothing": before, **workspace.seconds, "trained": after},
        {**workspace.references, "": outcome(end)},
        workspace.training,
    )
