"""Which state a training goes on with: the newest that is whole, with the weights of all evaluations before it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stages import checkpoints


def trainer_state(checkpoint: Path) -> dict[str, Any]:
    """What Trainer has written down in a state: global_step, max_steps, log_history."""
    found: dict[str, Any] = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    return found


def lacking(state: Path, log_history: Iterable[Mapping[str, Any]]) -> str | None:
    """Which weights of the evaluations in a log are not whole in a run's state folder, and why; None where all are."""
    for entry in log_history:
        if "eval_loss" in entry:
            reason = checkpoints.fault(checkpoints.checkpoint_path(state / "weights", entry["step"]))
            if reason:
                return f"the weights of step {entry['step']}: {reason}"
    return None


def newest(state: Path) -> tuple[Path | None, list[str]]:
    """The state to go on with, and why each newer one was passed over.

    A training that goes on behind an evaluation does not make its weights again: they have to be there.
    """
    return checkpoints.newest_whole(
        state / "resume", also=lambda checkpoint: lacking(state, trainer_state(checkpoint)["log_history"])
    )
