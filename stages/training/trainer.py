"""transformers' Trainer, mended where it is not exact: batches, loss, evaluation loss. Each change says why."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from stages import metrics, processes, scoring, tasks
from stages.params import RuntimeParams, TrainParams
from stages.training.sampling import EpochRows, GlobalBatches

BOOKKEEPING = ("row", "epoch", "length")
"""Columns of a batch that are not for the model."""


def arguments(
    params: TrainParams, *, seed: int, precision: str, batches: GlobalBatches, state: Path, runtime: RuntimeParams
) -> TrainingArguments:
    """The TrainingArguments for a run; what is not here is in train.arguments or at its default."""
    by_epoch = params.eval_strategy == "epoch"
    ours = {
        "output_dir": str(state / "resume"),
        "per_device_train_batch_size": batches.rows_at_once,
        "per_device_eval_batch_size": 4 * batches.rows_at_once,
        "gradient_accumulation_steps": batches.accumulation_steps,
        "seed": seed,
        "bf16": precision == "bf16",
        "use_cpu": not torch.cuda.is_available(),
        # By steps also where an epoch is meant: a state that is saved at an epoch's last step is saved after its
        # evaluation then, and a resumed run does not leave that evaluation out.
        "eval_strategy": "steps",
        "eval_steps": batches.steps_per_epoch if by_epoch else params.eval_steps,
        # Every step is logged: a mean over several, begun before a save, could not be gone on with after it.
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": runtime.save_steps,
        "dataloader_num_workers": runtime.dataloader_num_workers,
        "ddp_find_unused_parameters": False,
        "remove_unused_columns": False,
        "report_to": "none",
        "disable_tqdm": True,
    }
    named = ("learning_rate", "num_train_epochs", "max_steps", "optim", "weight_decay", "lr_scheduler_type")
    shared = {name: getattr(params, name) for name in (*named, "warmup_steps", "max_grad_norm", "full_determinism")}
    return TrainingArguments(**ours, **shared, **params.arguments)


class ExactTrainer(Trainer):  # type: ignore[misc]
    """A Trainer whose batches, losses and gradients depend on the global batch alone, not on how it is cut."""

    def __init__(
        self,
        *,
        model: Any,
        args: TrainingArguments,
        task: tasks.Task,
        batches: GlobalBatches,
        train_rows: Any,
        validation_rows: Any,
        collate: Any,
        label_smoothing: float,
        metric: str | None,
        callbacks: list[Any],
    ) -> None:
        def loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
            return task.loss(outputs, labels, num_items=num_items_in_batch, label_smoothing=label_smoothing)

        # With a loss that divides a sum by the items of the whole global batch, Trainer neither divides by the
        # accumulation steps nor multiplies by them; the model's own mean loss is multiplied by accumulation and ranks.
        super().__init__(
            model=model,
            args=args,
            data_collator=collate,
            train_dataset=EpochRows(train_rows, ignored_label=task.IGNORED_LABEL),
            eval_dataset=validation_rows,
            compute_loss_func=loss,
            callbacks=callbacks,
        )
        self.task = task
        self.batches = batches
        self.metric = metric
        self.label_smoothing = label_smoothing
        self.rows_of_step: list[int] = []

    def get_train_dataloader(self) -> Any:
        """Micro-batches of this process, cut from the global batches: accelerate would repeat rows to even them out."""
        return DataLoader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and torch.cuda.is_available(),
        )

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: Any) -> Any:
        """What counts in the loss, over all micro-batches and processes; the task says what does.

        Trainer's own counts labels that are not -100, which a number to be predicted can be.
        """
        if not batch_samples or "labels" not in batch_samples[0]:
            return None
        count = sum(int(self.task.counted(batch["labels"]).sum()) for batch in batch_samples)
        return torch.tensor(sum(processes.gather(count)), device=device)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """A forward and a backward pass, without the columns that are not for the model."""
        self.rows_of_step = inputs["row"].tolist()
        return super().training_step(
            model, {name: tensor for name, tensor in inputs.items() if name not in BOOKKEEPING}, num_items_in_batch
        )

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The loss on validation, exactly the sum over its rows by their number, and the early-stopping metric.

        Trainer's own averages the means of batches, and on several ranks multiplies by them and repeats rows.
        """
        model, rows = self.model, self.eval_dataset
        was_training = model.training
        model.eval()
        labels = torch.tensor(rows["labels"])
        total, counted, parts = 0.0, 0, []
        batches = scoring.batches(rows, self.data_collator, batch_size=self.args.per_device_eval_batch_size)
        for number, (indices, batch) in enumerate(batches):
            if number % processes.world_size() != processes.rank():
                continue
            of_batch = labels[indices].to(self.args.device)
            with torch.no_grad(), self.compute_loss_context_manager():
                outputs = model(**self._prepare_inputs(dict(batch)))
                total += float(self.task.loss(outputs, of_batch, num_items=1, label_smoothing=self.label_smoothing))
            counted += int(self.task.counted(of_batch).sum())
            if self.metric:
                parts.append((indices, self.task.decode(outputs["logits"].float().cpu().numpy())))
        model.train(was_training)
        gathered = processes.gather((total, counted, parts))
        # eval_loss is without smoothing only where training is: the two curves are to be comparable.
        found = {"eval_loss": math.fsum(part[0] for part in gathered) / sum(part[1] for part in gathered)}
        if self.metric:
            decoded = _in_order([piece for part in gathered for piece in part[2]], len(rows))
            found[f"eval_{self.metric}"] = metrics.score(self.metric, decoded, scoring.references(rows))
        self.log(dict(found))
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found


def _in_order(parts: Sequence[tuple[list[int], dict[str, Any]]], rows: int) -> dict[str, Any]:
    """Decoded batches of all processes -> arrays in the order of the split."""
    decoded: dict[str, Any] = {}
    for indices, part in parts:
        for name, values in part.items():
            decoded.setdefault(name, np.empty((rows, *values.shape[1:]), values.dtype))[indices] = values
    return decoded
