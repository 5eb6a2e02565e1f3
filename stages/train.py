"""Fit the model on the train rows of one seed, leaving its weights at each evaluation."""

import contextlib
import logging
from pathlib import Path
from typing import Any

from stages import command, hardware, identity, lookup, metrics, processes, scoring, splits, tasks
from stages.checkpoints import newest_whole, step_of
from stages.errors import MachineError, ModelError, ParamsError
from stages.model import base_model
from stages.params import Params, load_params
from stages.training import finished

log = logging.getLogger(__name__)

LOCK = Path("dvc.lock")
"""Where DVC records outputs: read only to learn which of them it has."""


def load_model(base: Path, task: tasks.Task, names: list[str], tokenizer: Any, *, seed: int) -> Any:
    """The base model in fp32 with a head for these labels; what it has no weights for is drawn from the seed.

    Raises:
        ModelError: most of its weights are not those of the architecture in its config.json.
    """
    import torch
    import transformers

    transformers.set_seed(seed)
    model, loading = getattr(transformers, task.AUTO_MODEL).from_pretrained(
        base,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=base_model.trusts_remote_code(base),
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        **task.config(names),
    )
    drawn = {*loading["missing_keys"], *(key for key, *_ in loading["mismatched_keys"])}
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    if 2 * sum(sizes.get(name, 0) for name in drawn) > sum(sizes.values()):
        raise ModelError(
            f"{base}: most of what config.json describes has no weights in it ({', '.join(sorted(drawn)[:3])} and "
            f"{len(drawn) - 3} more); its config.json and its safetensors are not of the same model"
        )
    # Decoders (GPT-2 and its kin) classify by the last token that is not padding, and may not be told which that is.
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return model


def fit(encoded: Path, base: Path, state: Path, *, seed: int, precision: str) -> None:
    """Train, or go on with what lies in the state folder, until it is marked there as finished."""
    from transformers.trainer_callback import PrinterCallback

    from stages.training.sampling import GlobalBatches
    from stages.training.trainer import ExactTrainer, arguments
    from stages.training.training_state import KeepState, ShowProgress

    params = load_params()
    task: tasks.Task = lookup.find(tasks, params.task.type)
    rows = {split: splits.read_encoded(encoded, split) for split in ("train", "validation")}
    per_process = params.train.batch_size // processes.world_size()
    batches = GlobalBatches(
        rows["train"]["length"],
        seed=seed,
        batch_size=params.train.batch_size,
        rows_at_once=min(params.train.max_rows_per_device or per_process, per_process),
        rank=processes.rank(),
        processes=processes.world_size(),
        group_by_length=params.train.train_sampling_strategy == "group_by_length",
    )
    tokenizer = scoring.load_tokenizer(base)
    stopping = params.train.early_stopping
    metric = stopping.metric if stopping and stopping.metric != "eval_loss" else None
    keep = KeepState(
        weights=state / "weights",
        base=base,
        batches=batches,
        facts=facts_of(params, seed=seed, precision=precision),
        early_stopping=stopping,
        greater_is_better=lookup.find(metrics, metric).greater_is_better if metric else False,
    )
    trainer = ExactTrainer(
        model=load_model(base, task, splits.read_label_names(encoded), tokenizer, seed=seed),
        args=arguments(
            params.train, seed=seed, precision=precision, batches=batches, state=state, runtime=params.runtime
        ),
        task=task,
        batches=batches,
        train_rows=rows["train"],
        validation_rows=rows["validation"],
        collate=task.collator(tokenizer),
        label_smoothing=params.train.label_smoothing_factor,
        metric=metric,
        callbacks=[keep, ShowProgress()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume_point(state))
    if processes.is_main():
        finished.mark(state, trainer.state.log_history)
    processes.barrier()


def resume_point(state: Path) -> str | None:
    """The newest state that verifies, or None; the weights that a later step left are done again."""
    found, passed_over = newest_whole(state / "resume")
    if processes.is_main():
        for reason in passed_over:
            log.warning("not resuming from %s", reason)
        log.info("going on from step %d" if found else "starting at step %d", step_of(found) if found else 0)
    return str(found) if found else None


def facts_of(params: Params, *, seed: int, precision: str) -> dict[str, Any]:
    """How a model is trained, `auto` and null resolved: part of the identity, and training.json beside the weights."""
    import torch

    return {
        "task": params.task.model_dump(),
        "seed": seed,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "processes": processes.world_size(),
        "train": params.train.model_dump(),
    }


def identity_of(params: Params, encoded: Path, base: Path, *, seed: int, precision: str) -> str:
    """The digest of all that decides the bytes of this run."""
    return identity.digest(
        {
            **facts_of(params, seed=seed, precision=precision),
            "inputs": {"encoded": identity.digests(encoded), "base": identity.digests(base)},
            "code": identity.code_in_use(),
            "versions": identity.versions(),
            "hardware": hardware.kind(),
        }
    )


def import_code_in_use(params: Params, encoded: Path) -> None:
    """Import all that this run will use, so that the identity covers it.

    Raises:
        ParamsError: the early-stopping metric is not defined for these labels.
    """
    from stages.training import sampling, trainer, training_state

    assert sampling
    assert trainer
    assert training_state
    task: tasks.Task = lookup.find(tasks, params.task.type)
    stopping = params.train.early_stopping
    if stopping and stopping.metric != "eval_loss":
        made = metrics.available(task.METRICS, len(splits.read_label_names(encoded)))
        if stopping.metric not in made:
            raise ParamsError(
                f"train.early_stopping.metric: {stopping.metric} is not defined for these labels; "
                f"there are eval_loss, {', '.join(made)}"
            )


def train(encoded: Path, base: Path, checkpoints: Path, *, seed: int) -> None:
    """Train one seed, unless this very training has already ended, and hand its weights over."""
    import torch

    params = load_params()
    import_code_in_use(params, encoded)
    precision = hardware.resolve_precision(params.train.precision)
    name = identity_of(params, encoded, base, seed=seed, precision=precision)
    state = identity.state_root() / name
    with identity.claimed(state) if processes.is_main() else contextlib.nullcontext():
        if processes.is_main():
            finished.remove_recorded(identity.state_root(), LOCK)
            log.info("seed %d: %s, %d threads, run %s", seed, precision, torch.get_num_threads(), name)
        if finished.log_of(state) is None:
            fit(encoded, base, state, seed=seed, precision=precision)
        if processes.is_main():
            history = finished.log_of(state)
            assert history is not None, f"{state} holds no finished training"
            finished.hand_over(state, history, checkpoints, logging_steps=params.train.logging_steps)


def main(encoded: Path, base: Path, checkpoints: Path, seed: int) -> None:
    """Run by stages.launch, in one process or several."""
    import torch

    processes.forget_launcher()
    try:
        train(encoded, base, checkpoints, seed=seed)
    except torch.OutOfMemoryError as error:
        raise MachineError(f"{error}; lower train.max_rows_per_device or encode.max_length") from error


if __name__ == "__main__":
    command.run(main)
