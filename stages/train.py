"""Fit the model on the train rows of one seed, leaving its weights at each evaluation."""

import contextlib
import logging
from pathlib import Path
from typing import Any

from stages import command, contradictions, hardware, identity, lifetime, lookup, metrics, processes, splits, tasks
from stages.checkpoints import step_of
from stages.errors import StoppedError
from stages.params import Params, load_params
from stages.training import finished, other_world, resumable

log = logging.getLogger(__name__)

LOCK = Path("dvc.lock")
"""Where DVC records outputs: read only to learn which of them it has."""


def fit(encoded: Path, base: Path, state: Path, params: Params, *, seed: int, precision: str) -> None:
    """Train, or go on with what lies in the state folder, until it is marked there as finished.

    Raises:
        StoppedError: a signal asked to stop; the state is saved.
    """
    from stages.training import assembly

    trainer, keep = assembly.assemble(encoded, base, state, params, seed=seed, precision=precision)
    point = resume_point(state)
    log_history = keep.log_of_ended(point)
    if log_history is None:
        keep.stop.listen()
        trainer.train(resume_from_checkpoint=point)
        log_history, step = trainer.state.log_history, trainer.state.global_step
        if keep.stop.agreed and step < trainer.state.max_steps and not keep.is_done(log_history):
            raise StoppedError(
                f"stopped at step {step} of {trainer.state.max_steps}, as asked; the state is saved, and the same "
                "command goes on from there"
            )
    if processes.is_main():
        finished.mark(state, log_history)
    processes.barrier()


def resume_point(state: Path) -> str | None:
    """The newest state that verifies, or None; the weights that a later step left are done again."""
    found, passed_over = resumable.newest(state)
    if processes.is_main():
        for reason in passed_over:
            log.warning("not resuming from %s", reason)
        log.info("going on from step %d" if found else "starting at step %d", step_of(found) if found else 0)
    return str(found) if found else None


def deciding(params: Params, encoded: Path, base: Path, *, seed: int, precision: str) -> dict[str, Any]:
    """All that decides the bytes of this run; its digest is the run's identity."""
    from stages.training import assembly  # first: the code in use is what is imported by now

    return {
        **assembly.facts_of(params, seed=seed, precision=precision),
        "inputs": {"encoded": identity.digests(encoded), "base": identity.digests(base)},
        "code": identity.code_in_use(),
        "versions": identity.versions(),
        "hardware": hardware.kind(),
    }


def import_chosen(params: Params) -> None:
    """Import what the run looks up by name, so that its identity covers that, too."""
    lookup.find(tasks, params.task.type)
    stopping = params.train.early_stopping
    if stopping and stopping.metric != "eval_loss":
        lookup.find(metrics, stopping.metric)


def train(encoded: Path, base: Path, checkpoints: Path, history: Path, *, seed: int) -> None:
    """Train one seed, unless this very training has already ended, and hand its weights over."""
    import torch

    params = load_params()
    import_chosen(params)
    precision = hardware.resolve_precision(params.train.precision)
    facts = deciding(params, encoded, base, seed=seed, precision=precision)
    name = identity.digest(facts)
    state = identity.state_root() / name
    patience = lifetime.GRACE_SECONDS + 5
    log_history = None
    with identity.claimed(state, patience_seconds=patience) if processes.is_main() else contextlib.nullcontext():
        if processes.is_main():
            identity.record(state, facts)
            finished.remove_recorded(identity.state_root(), LOCK, own=state)
            log.info("seed %d: %s, %d threads, run %s", seed, precision, torch.get_num_threads(), name)
            log_history = finished.log_of(state)
            if log_history is None:
                allowed = params.train.allow_resume_on_other_world
                other_world.take_over(identity.state_root(), state, facts, allowed=allowed)
        if not processes.agreed(log_history is not None):
            contradictions.check_metrics(params, len(splits.read_label_names(encoded)))
            fit(encoded, base, state, params, seed=seed, precision=precision)
            log_history = finished.log_of(state)
        if processes.is_main():
            assert log_history is not None, f"{state} holds no finished training"
            finished.hand_over(state, log_history, checkpoints)
            finished.write_history(history, log_history, logging_steps=params.train.logging_steps)


def main(encoded: Path, base: Path, checkpoints: Path, history: Path, seed: int) -> None:
    """Run by stages.launch, in one process or several."""
    processes.forget_launcher()
    train(encoded, base, checkpoints, history, seed=seed)


if __name__ == "__main__":
    command.run(main)
