"""What a training is put together from: model, batches, Trainer, and the facts that it is known by."""

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.trainer_callback import PrinterCallback

from stages import lookup, metrics, processes, scoring, splits, tasks
from stages.errors import ModelError
from stages.lifetime import StopRequest
from stages.model import base_model
from stages.params import Params
from stages.training import other_world
from stages.training.sampling import GlobalBatches
from stages.training.trainer import ExactTrainer, arguments
from stages.training.training_state import KeepState, ShowProgress


def facts_of(params: Params, *, seed: int, precision: str) -> dict[str, Any]:
    """How a model is trained, `auto` and null resolved: part of the identity, and training.json beside the weights."""
    return {
        "task": params.task.model_dump(),
        "seed": seed,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "processes": processes.world_size(),
        "train": params.train.model_dump(),
    }


def load_model(base: Path, task: tasks.Task, names: list[str], tokenizer: Any, *, seed: int) -> Any:
    """The base model in fp32 with a head for these labels; what it has no weights for is drawn from the seed.

    Raises:
        ModelError: most of its weights are not those of the architecture in its config.json.
    """
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


def cut_batches(params: Params, train_rows: Any, *, seed: int) -> GlobalBatches:
    """What this process takes of the global batches."""
    per_process = params.train.batch_size // processes.world_size()
    return GlobalBatches(
        splits.numbers(train_rows, "length").tolist(),
        seed=seed,
        batch_size=params.train.batch_size,
        rows_at_once=min(params.train.max_rows_per_device or per_process, per_process),
        rank=processes.rank(),
        processes=processes.world_size(),
        group_by_length=params.train.train_sampling_strategy == "group_by_length",
    )


def assemble(
    encoded: Path, base: Path, state: Path, params: Params, *, seed: int, precision: str
) -> tuple[ExactTrainer, KeepState]:
    """The Trainer of a run, and what keeps its state."""
    task: tasks.Task = lookup.find(tasks, params.task.type)
    train_rows = splits.read_encoded(encoded, "train")
    batches = cut_batches(params, train_rows, seed=seed)
    tokenizer = scoring.load_tokenizer(base)
    stopping = params.train.early_stopping
    metric = stopping.metric if stopping and stopping.metric != "eval_loss" else None
    keep = KeepState(
        weights=state / "weights",
        base=base,
        batches=batches,
        facts=facts_of(params, seed=seed, precision=precision),
        declared=other_world.facts_of(state),
        early_stopping=stopping,
        greater_is_better=lookup.find(metrics, metric).greater_is_better if metric else False,
        stop=StopRequest(),
    )
    trainer = ExactTrainer(
        model=load_model(base, task, splits.read_label_names(encoded), tokenizer, seed=seed),
        args=arguments(
            params.train, seed=seed, precision=precision, batches=batches, state=state, runtime=params.runtime
        ),
        task=task,
        batches=batches,
        train_rows=train_rows,
        validation_rows=splits.read_encoded(encoded, "validation"),
        collate=task.collator(tokenizer),
        label_smoothing=params.train.label_smoothing_factor,
        metric=metric,
        stop=keep.stop,
        callbacks=[keep, ShowProgress()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, keep
