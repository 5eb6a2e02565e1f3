"""For bench/resume_cells.py: the same cells with Hugging Face's Trainer as it is, resumed as its documentation says.

Run as a script it is the training itself: the same model, rows and settings, DataCollatorWithPadding or a collator that
masks with torch's generator (as DataCollatorForLanguageModeling does), EarlyStoppingCallback, save_strategy steps,
`train(resume_from_checkpoint=get_last_checkpoint(folder))`.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from stages import checkpoints, splits

RANK = int(os.environ.get("RANK", "0"))
WHAT, _, _AT = os.environ.get("CELL_KILL", "").partition(" ")
AT = int(_AT or -1)


def run(folder: Path, encoded: Path, base: Path, cell: Any, *, kill: bool) -> Any:
    """The script, under torchrun for several processes."""
    from bench import resume_cells

    folder.mkdir(parents=True, exist_ok=True)
    environment = resume_cells.environment(folder, cell, kill=kill)
    environment.pop("CELL_TRACE")
    settings = {"precision": cell.precision, "processes": cell.processes, "masked": cell.masked}
    settings["save_steps"] = resume_cells.MOMENTS[cell.moment][2]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={cell.processes}"]
    done = subprocess.run(
        [sys.executable, *(torchrun if cell.processes > 1 else []), __file__, folder, encoded, base],
        cwd=folder,
        env={**environment, "BARE": json.dumps(settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = resume_cells.trace(folder)
    log = folder / "log.json"
    for entry in json.loads(log.read_text(encoding="utf-8")) if log.is_file() else []:
        kept = {name: entry[name] for name in ("loss", "grad_norm", "learning_rate", "eval_loss") if name in entry}
        if kept:
            found[f"{'evaluation' if 'eval_loss' in kept else 'loss'} of step {entry['step']}"] = kept
    weights = folder / "final/model.safetensors"
    digests = {"final weights": checkpoints.digest(weights)} if weights.is_file() else {}
    return resume_cells.Training(done.returncode, done.stdout + done.stderr, found, digests)


def undisturbed(folder: Path, encoded: Path, base: Path, cell: Any) -> Any:
    """The training that nobody kills."""
    done = run(folder, encoded, base, cell, kill=False)
    if done.code != 0:
        raise RuntimeError(f"bare, {cell.name}, undisturbed: exit {done.code}\n{done.said}")
    return done


def verdict(folder: Path, encoded: Path, base: Path, cell: Any, expected: Any) -> str:
    """Kill, start again, compare."""
    from bench import resume_cells

    struck = run(folder, encoded, base, cell, kill=True)
    if struck.code == 0 or struck.digests:
        return f"the killed training exited {struck.code}: {struck.said[-300:]}"
    again = run(folder, encoded, base, cell, kill=False)
    if again.code != 0:
        errors = [line for line in again.said.splitlines() if "Error" in line]
        return f"does not start again: {(errors or ['?'])[0].strip()[:120]}"
    return resume_cells.difference(again, expected) or "equal"


def die_if(what: str, step: int, rank: int = 0) -> None:
    """End this process here, if this is the moment."""
    if what == WHAT and step == AT and rank == RANK:
        os.kill(os.getpid(), signal.SIGKILL)


def collator(tokenizer: Any, *, masked: bool) -> Any:
    """DataCollatorWithPadding; masked: as DataCollatorForLanguageModeling draws."""
    import torch
    from transformers import DataCollatorWithPadding

    pad = DataCollatorWithPadding(tokenizer)

    def collate(features: list[dict[str, Any]]) -> Any:
        kept = [{name: one[name] for name in one if name not in ("row", "length", "num_tokens")} for one in features]
        batch = pad(kept)
        batch["row"] = torch.tensor([one["row"] for one in features])
        if masked:
            drawn = torch.bernoulli(torch.full(batch["input_ids"].shape, 0.3)).bool() & batch["attention_mask"].bool()
            batch["input_ids"][drawn] = tokenizer.mask_token_id
        return batch

    return collate


def arguments(folder: Path, settings: dict[str, Any]) -> Any:
    """The settings of the cells, by their names in TrainingArguments."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=str(folder / "checkpoints"),
        per_device_train_batch_size=2 if settings["processes"] == 1 else 1,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=4,
        num_train_epochs=5,
        learning_rate=5e-3,
        warmup_steps=0.06,
        weight_decay=0.01,
        optim="adamw_torch_fused",
        bf16=settings["precision"] == "bf16",
        use_cpu=True,
        seed=13,
        full_determinism=True,
        train_sampling_strategy="group_by_length",
        dataloader_num_workers=2 if settings["masked"] else 0,
        eval_strategy="epoch",
        save_strategy="steps",
        save_steps=settings["save_steps"],
        logging_steps=1,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
    )


def trainer_of(folder: Path, encoded: Path, base: Path, settings: dict[str, Any]) -> Any:
    """A Trainer as examples put it together, that writes down its rows and can be killed at a moment."""
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        EarlyStoppingCallback,
        Trainer,
        TrainerCallback,
        set_seed,
    )

    steps: list[list[int]] = []

    class Bare(Trainer):  # type: ignore[misc]
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            steps.append(inputs.pop("row").tolist())
            return super().training_step(model, inputs, num_items_in_batch)

        def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            inputs.pop("row")
            die_if("evaluation", self.state.global_step)
            return super().prediction_step(model, inputs, *args, **kwargs)

        def _save_rng_state(self, output_dir: str) -> None:
            die_if("save", self.state.global_step)
            super()._save_rng_state(output_dir)

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            die_if("next", state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            entry = {"step": state.global_step, "rank": RANK, "rows": [row for batch in steps for row in batch]}
            steps.clear()
            with (folder / f"trace.{RANK}.{os.getpid()}").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")
            die_if("step", state.global_step, settings["processes"] - 1)

    set_seed(13)
    tokenizer = AutoTokenizer.from_pretrained(base)
    rows = {name: splits.read_encoded(encoded, name).with_format(None) for name in ("train", "validation")}
    numbered = {name: Dataset.from_list([{**row, "row": n} for n, row in enumerate(rows[name])]) for name in rows}
    return Bare(
        model=AutoModelForSequenceClassification.from_pretrained(base, num_labels=3),
        args=arguments(folder, settings),
        data_collator=collator(tokenizer, masked=settings["masked"]),
        train_dataset=numbered["train"],
        eval_dataset=numbered["validation"],
        callbacks=[Watch(), EarlyStoppingCallback(early_stopping_patience=2, early_stopping_threshold=10.0)],
    )


def train(folder: Path, encoded: Path, base: Path) -> None:
    """Train, from the last checkpoint if there is one; leave the weights and the log."""
    from transformers.trainer_utils import get_last_checkpoint

    trainer = trainer_of(folder, encoded, base, json.loads(os.environ["BARE"]))
    checkpoint_folder = folder / "checkpoints"
    last = get_last_checkpoint(str(checkpoint_folder)) if checkpoint_folder.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model(str(folder / "final"))
    if RANK == 0:
        (folder / "log.json").write_text(json.dumps(trainer.state.log_history), encoding="utf-8")


if __name__ == "__main__":
    train(*(Path(argument) for argument in sys.argv[1:4]))
