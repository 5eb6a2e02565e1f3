"""What a training leaves while it runs: weights at each evaluation, and the state that resume needs.

Both lie in the run's state folder (stages/identity.py), complete or not there: a manifest is written last, after
every process has written its part.
"""

import logging
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback

from stages import checkpoints, outputs, processes
from stages.lifetime import StopRequest
from stages.training import resumable

log = logging.getLogger(__name__)

KEPT = 2
"""How many states are kept: the newest, and the one before in case it is torn."""


def has_stopped_improving(scores: list[float], *, patience: int, min_delta: float, greater_is_better: bool) -> bool:
    """Whether the last `patience` scores brought nothing better, by more than `min_delta`, than the best before."""
    if len(scores) <= patience:
        return False
    sign = 1.0 if greater_is_better else -1.0
    best = max(sign * score for score in scores[:-patience])
    return max(sign * score for score in scores[-patience:]) <= best + min_delta


class KeepState(TrainerCallback):  # type: ignore[misc]
    """Sets the batches' epoch, keeps weights at each evaluation, completes and rotates states, stops early."""

    def __init__(
        self,
        *,
        weights: Path,
        base: Path,
        batches: Any,
        facts: Mapping[str, Any],
        declared: Mapping[str, Any],
        early_stopping: Any,
        greater_is_better: bool,
        stop: StopRequest,
    ) -> None:
        self.weights = weights
        self.base = base
        self.batches = batches
        self.facts = facts
        self.declared = declared
        self.early_stopping = early_stopping
        self.greater_is_better = greater_is_better
        self.stop = stop

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The order of rows follows from the epoch, which follows from the step, resumed or not."""
        self.batches.epoch = state.global_step // self.batches.steps_per_epoch

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save and stop where that was asked for."""
        if self.stop.agreed:
            control.should_save = control.should_training_stop = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Keep the weights that were evaluated; stop where they no longer get better."""
        if processes.is_main():
            folder = checkpoints.checkpoint_path(self.weights, state.global_step)
            with outputs.folder(folder) as partial:
                save_model(kwargs["model"], self.base, partial)
                outputs.write_json(
                    partial / "training.json", {**self.facts, **self.declared, "step": state.global_step}
                )
                checkpoints.complete(partial, step=state.global_step, **self.declared)
        control.should_training_stop |= self.is_done(state.log_history)

    def is_done(self, log_history: list[dict[str, Any]]) -> bool:
        """Whether early stopping ends a training with that log."""
        if not self.early_stopping:
            return False
        name = f"eval_{self.early_stopping.metric.removeprefix('eval_')}"
        return has_stopped_improving(
            [entry[name] for entry in log_history if name in entry],
            patience=self.early_stopping.patience,
            min_delta=self.early_stopping.min_delta,
            greater_is_better=self.greater_is_better,
        )

    def log_of_ended(self, point: str | None) -> list[dict[str, Any]] | None:
        """The log of a training that was killed after its last step was saved, or None where there are steps left.

        Trainer looks whether it is to stop only after a step: it would make one more.
        """
        if point is None:
            return None
        state = resumable.trainer_state(Path(point))
        log_history: list[dict[str, Any]] = state["log_history"]
        return log_history if state["global_step"] >= state["max_steps"] or self.is_done(log_history) else None

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Complete the state once every rank has written its part; then remove older ones, by step."""
        processes.barrier()
        if processes.is_main():
            root = Path(args.output_dir)
            checkpoints.complete(checkpoints.checkpoint_path(root, state.global_step), step=state.global_step)
            found = sorted(root.glob("checkpoint-*"), key=checkpoints.step_of)
            for old in found[:-KEPT]:
                shutil.rmtree(old)
        processes.barrier()


class ShowProgress(TrainerCallback):  # type: ignore[misc]
    """A bar on a terminal; a line every ten seconds in a log. Rank zero's alone."""

    SECONDS = 10.0

    def __init__(self) -> None:
        self.bar: Any = None
        self.began = self.said = 0.0
        self.first = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start from the step that is resumed."""
        self.began = self.said = time.monotonic()
        self.first = state.global_step
        if processes.is_main() and sys.stderr.isatty():
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", file=sys.stderr)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Move the bar, or say where it is."""
        now = time.monotonic()
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)
        elif processes.is_main() and now - self.said >= self.SECONDS:
            self.said = now
            speed = (state.global_step - self.first) / (now - self.began)
            left = (state.max_steps - state.global_step) / speed
            log.info("step %d of %d, %.1f steps/s, %.0f s left", state.global_step, state.max_steps, speed, left)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        """Say how the model does."""
        if processes.is_main():
            losses = [entry["loss"] for entry in state.log_history if "loss" in entry][-10:]
            found = ", ".join(f"{name} {value:.4f}" for name, value in (metrics or {}).items())
            line = f"epoch {state.epoch:.2f}, step {state.global_step}: loss {sum(losses) / len(losses):.4f}, {found}"
            if self.bar is not None:
                self.bar.write(line, file=sys.stderr)
            else:
                log.info(line)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.close()


def save_model(model: Any, base: Path, folder: Path) -> None:
    """Weights and config of the model; the tokenizer's files and source.json as they were fetched."""
    model.save_pretrained(folder)
    for file in sorted(base.iterdir()):
        is_weights = ".safetensors" in file.name
        if file.is_file() and not is_weights and file.name != "config.json":
            shutil.copyfile(file, folder / file.name)
