"""transformers' Trainer, mended where it is not exact: batches, loss, evaluation loss. Each change says why."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from stages import metrics, processes, scoring, splits, tasks
from stages.errors import MachineError, NotFiniteError, ParamsError
from stages.lifetime import StopRequest
from stages.params import RuntimeParams, TrainParams
from stages.training.sampling import EpochRows, GlobalBatches

OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
"""How torch's allocators, of GPUs and of the CPU, say that there is none left."""

BOOKKEEPING = ("row", "epoch", "length")
"""Columns of a batch that are not for the model."""


def arguments(
    params: TrainParams, *, seed: int, precision: str, batches: GlobalBatches, state: Path, runtime: RuntimeParams
) -> TrainingArguments:
    """The TrainingArguments for a run; what is not here is in train.arguments or at its default.

    Raises:
        ParamsError: transformers refuses one of train.arguments on this machine.
    """
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
    try:
        return TrainingArguments(**ours, **shared, **params.arguments)
    except ValueError as error:  # of what depends on the machine: all else was checked with params.yaml
        raise ParamsError(f"train.arguments: transformers refuses them here: {error}; leave that one out") from None


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
        stop: StopRequest,
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
        self.stop = stop
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
        gathered = processes.gather((count, self.stop.requested))
        # All processes learn here, at the same step, that one of them was asked to stop.
        self.stop.agreed = any(requested for _, requested in gathered)
        self.rows_of_step = [row for batch in batch_samples for row in batch["row"].tolist()]
        return torch.tensor(sum(count for count, _ in gathered), device=device)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """A forward and a backward pass, without the columns that are not for the model.

        Raises:
            NotFiniteError: the loss is NaN or infinite; Trainer's own would leave it out of the log and go on.
            MachineError: the device has no memory left.
        """
        for_model = {name: tensor for name, tensor in inputs.items() if name not in BOOKKEEPING}
        try:
            loss = super().training_step(model, for_model, num_items_in_batch)
        except RuntimeError as error:
            if not OUT_OF_MEMORY.search(str(error)):
                raise
            raise MachineError(
                f"step {self.state.global_step + 1}: out of memory with {len(inputs['row'])} rows at once, the longest "
                f"of {int(inputs['length'].max())} tokens ({str(error).splitlines()[0]}); lower "
                "train.max_rows_per_device (the batch stays what it is) or encode.max_length"
            ) from error
        if not torch.isfinite(loss):
            raise self._not_finite("loss", float(loss))
        return loss

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The norm of the gradients, which must be a number: clipping by a NaN makes every weight one.

        Raises:
            NotFiniteError: it is NaN or infinite.
        """
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if not math.isfinite(norm):
            raise self._not_finite("gradient norm", float(norm))
        return norm

    def _not_finite(self, what: str, value: float) -> NotFiniteError:
        rows = ", ".join(str(row) for row in sorted(self.rows_of_step) if row >= 0)
        return NotFiniteError(
            f"step {self.state.global_step + 1}: the {what} is {value}; the batch's rows are {rows} (from 0, of "
            "data/prepared/train.parquet); look at their texts and labels, or lower train.learning_rate, or set "
            "train.precision to fp32"
        )

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The loss on validation, exactly the sum over its rows by their number, and the early-stopping metric.

        Trainer's own averages the means of batches, and on several ranks multiplies by them and repeats rows.
        """
        model, rows = self.model, self.eval_dataset
        was_training = model.training
        model.eval()
        labels = torch.tensor(splits.numbers(rows, "labels").tolist())
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
