"""A run that differs from this one in the number of its processes alone, and can be gone on with where params allow it.

Its global batches, losses and learning rates are the same; what each process draws (dropout) and the last bits of its
sums are not. So it is another identity, and going on with it has to be declared.
"""

import copy
import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages import checkpoints, identity, outputs
from stages.errors import MachineError
from stages.training import resumable

log = logging.getLogger(__name__)

ADOPTED = "adopted.json"
"""In a state folder: from which step on it went on with a run of another number of processes."""


def _without_world(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What decides a run, without what says how it is shared out over processes."""
    rest = copy.deepcopy(dict(facts))
    for name in ("processes", "threads"):
        rest.pop(name, None)
        rest.get("train", {}).pop(name, None)
    for name in ("max_rows_per_device", "allow_resume_on_other_world"):
        rest.get("train", {}).pop(name, None)
    return rest


def candidates(root: Path, own: Path, facts: Mapping[str, Any]) -> list[tuple[Path, int]]:
    """States of such runs, whole ones, the one of the highest step first; each with its number of processes."""
    wanted, found = _without_world(facts), []
    for file in sorted(root.glob(f"*/{identity.FACTS}")):
        if file.parent == own:
            continue
        try:
            theirs = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:  # torn: nothing can be said of that run
            continue
        if theirs.get("processes") != facts["processes"] and _without_world(theirs) == wanted:
            newest, _ = resumable.newest(file.parent)
            if newest:
                found.append((newest, int(theirs["processes"])))
    return sorted(found, key=lambda one: checkpoints.step_of(one[0]), reverse=True)


def take_over(root: Path, own: Path, facts: Mapping[str, Any], *, allowed: bool) -> None:
    """Copy the state of such a run into this run's own, which has none, if params allow it; else say that it is there.

    The other run stays as it is, to be gone on with by its own number of processes.
    """
    if resumable.newest(own)[0] is not None:
        return
    (own / ADOPTED).unlink(missing_ok=True)  # of a state that can no longer be gone on with
    found = candidates(root, own, facts)
    if not found:
        return
    state, processes = found[0]
    step = checkpoints.step_of(state)
    if not allowed:
        log.warning(
            "a run that is this one but for its %d process(es) has got to step %d; to go on with it, set "
            "train.processes to %d again, or train.allow_resume_on_other_world to true",
            processes,
            step,
            processes,
        )
        return
    try:
        with identity.claimed(state.parents[1]):
            _copy(state, own, step=step, processes=processes)
    except MachineError as error:
        log.warning("not going on with the run of %d process(es): %s", processes, error)
        return
    log.warning(
        "going on with the run of %d process(es) on %d: the rows of each step, its learning rate and the optimizer's "
        "state are the same; what dropout draws and the last bits of sums are not, so the outputs are those of neither "
        "run undisturbed (training.json and the manifests say so)",
        processes,
        facts["processes"],
    )


def _copy(state: Path, own: Path, *, step: int, processes: int) -> None:
    earlier = state.parents[1] / ADOPTED
    before = json.loads(earlier.read_text(encoding="utf-8")) if earlier.is_file() else []
    for weights in (state.parents[1] / "weights").glob("checkpoint-*"):
        if checkpoints.step_of(weights) <= step:
            with outputs.folder(own / "weights" / weights.name) as partial:
                shutil.copytree(weights, partial, dirs_exist_ok=True)
    outputs.write_json(own / ADOPTED, [*before, {"step": step, "processes": processes}])
    # Last: what is not there yet when this is cut short is copied the next time.
    with outputs.folder(own / "resume" / state.name) as partial:
        shutil.copytree(state, partial, dirs_exist_ok=True)


def facts_of(state: Path) -> dict[str, Any]:
    """From which steps on a run went on with one of another number of processes: nothing, as a rule."""
    file = state / ADOPTED
    return {"resumed_on_other_world": json.loads(file.read_text(encoding="utf-8"))} if file.is_file() else {}
