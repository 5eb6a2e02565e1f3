"""Faults at a write, for the chaos bench: the surroundings in which a run fails, or is killed, by itself."""

import contextlib
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from bench import chaos_disk
from bench.chaos_disk import Surroundings
from bench.chaos_run import LIMIT_SECONDS
from bench.chaos_strike import Strike
from bench.chaos_workspace import EVAL_STEPS, SAVE_STEPS, STEPS

Files = Callable[[random.Random], tuple[int, str]]
"""Draws a file of the state folder, and the step at which it is written."""


def to_its_own_end(strike: Strike) -> None:
    """Wait for the end that the surroundings bring about, at a step that they know, or after the last that was seen."""
    step = strike.step
    strike.run.wait_for(lambda: False, seconds=LIMIT_SECONDS)
    strike.mark()
    strike.step = step or (strike.run.seen[-1][1] if strike.run.seen else 0)


def at_call(calls: str, action: str, files: Files) -> Callable[[Strike], AbstractContextManager[Surroundings]]:
    """Inject an action of strace into the system calls that touch one file of the state folder."""

    @contextlib.contextmanager
    def surround(strike: Strike) -> Iterator[Surroundings]:
        step, name = files(strike.draw)
        strike.step, strike.note = step, name
        state = strike.project.home / "state" / strike.workspace.training.identity
        yield chaos_disk.under_strace(strike.project, strike.folder / "bin", calls, state / name, action)

    return surround


def file_of_a_save(draw: random.Random) -> tuple[int, str]:
    """A file of a state that resume needs, or of weights, as it is first written.

    Not model.safetensors: it is written under a name that is drawn at random, and renamed.
    """
    step = draw.randrange(SAVE_STEPS, STEPS, SAVE_STEPS)
    weights_step = draw.randrange(EVAL_STEPS, STEPS, EVAL_STEPS)
    names = ("optimizer.pt", "scheduler.pt", "trainer_state.json", ".manifest.json.partial")
    return draw.choice(
        [
            *((step, f"resume/checkpoint-{step}/{name}") for name in names),
            (weights_step, f"weights/.checkpoint-{weights_step}.partial/.manifest.json.partial"),
        ]
    )


def renamed_file(draw: random.Random) -> tuple[int, str]:
    """What is renamed when it is whole: a model, a manifest, weights, the mark of a finished training."""
    step = draw.randrange(SAVE_STEPS, STEPS, SAVE_STEPS)
    weights_step = draw.randrange(EVAL_STEPS, STEPS, EVAL_STEPS)
    return draw.choice(
        [
            (step, f"resume/checkpoint-{step}/model.safetensors"),
            (step, f"resume/checkpoint-{step}/.manifest.json.partial"),
            (weights_step, f"weights/.checkpoint-{weights_step}.partial"),
            (STEPS, ".finished.json.partial"),
        ]
    )


@contextlib.contextmanager
def on_a_small_disk(strike: Strike) -> Iterator[Surroundings]:
    """A state folder on a disk that holds less than a training leaves there, until it is made larger."""
    size = int(strike.workspace.training.state_bytes * strike.draw.uniform(0.1, 0.8))
    strike.note = f"{size // 1024} KiB"
    with chaos_disk.small_disk(strike.project, size) as surroundings:
        yield surroundings
