"""A strike of the chaos bench: at which run, at which moment, and where that was."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.chaos_run import LIMIT_SECONDS, Run
from bench.chaos_workspace import SAVE_STEPS, STEPS, Workspace
from tests.end_to_end.project import Project


class MissedError(Exception):
    """The run ended before its fault could strike."""


@dataclass
class Strike:
    """One fault at one run: what it may draw from and strike at, and what it says of where it struck."""

    draw: random.Random
    workspace: Workspace
    point: str
    project: Project
    folder: Path
    run: Run = field(init=False)
    stage: str = field(init=False, default="")
    step: float = field(init=False, default=0.0)
    """The step that the training had reached: known where a save was struck, else told from the time since a save."""
    note: str = field(init=False, default="")

    def mark(self) -> None:
        """Note where the run is, right before it is struck."""
        self.stage, self.step = self.run.stage(), self._step_now()

    def _step_now(self) -> float:
        if self.run.ended_training():
            return STEPS
        if not self.run.seen:
            return STEPS if self.point == "trained" else 0
        seen, step = self.run.seen[-1]
        since = (time.monotonic() - seen) / self.workspace.training.seconds_per_step
        return min(step + since, step + SAVE_STEPS, STEPS)

    def processes(self, module: str) -> list[psutil.Process]:
        """Those of a module, which is waited for.

        Raises:
            MissedError: the run ended without one.
        """
        self.reach(lambda: bool(self.run.of_module(module)))
        return sorted(self.run.of_module(module), key=lambda process: process.pid)

    def reach(self, condition: Callable[[], bool]) -> None:
        """Wait until the run is somewhere.

        Raises:
            MissedError: it ended before, or hangs.
        """
        if not self.run.wait_for(condition, seconds=LIMIT_SECONDS):
            raise MissedError(f"the run ended ({self.run.code()}) before the fault could strike")

    def pause(self, seconds: float) -> None:
        """Let the run go on for a time.

        Raises:
            MissedError: it ended meanwhile.
        """
        if not self.run.sleep(seconds):
            raise MissedError(f"the run ended ({self.run.code()}) before the fault could strike")


Act = Callable[[Strike], None]


def in_training(strike: Strike, *, first_save: int = 0) -> None:
    """Any moment between the first step and the last; from the first_save-th save on."""
    step = strike.draw.randrange(first_save * SAVE_STEPS, STEPS, SAVE_STEPS)
    strike.reach(lambda: bool(strike.run.seen) and strike.run.seen[-1][1] >= step)
    strike.pause(strike.draw.uniform(0, SAVE_STEPS * strike.workspace.training.seconds_per_step))


def anywhere(strike: Strike) -> None:
    """Any moment of what an undisturbed run takes from the point that the round begins at."""
    strike.pause(strike.draw.uniform(0, strike.workspace.seconds[strike.point]))


def at(moment: Act, act: Act) -> Act:
    """Strike at a moment."""

    def strike_then(strike: Strike) -> None:
        moment(strike)
        strike.mark()
        act(strike)

    return strike_then
