"""What the export stage starts from, tiny: a best checkpoint of three kinds of model, encoded rows, test metrics."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import export, lookup, scoring, splits, tasks
from tests import tiny

LABELS = list(tiny.TOPICS)
TEST_METRICS = {
    "rows": 40,
    "metrics": {"f1_macro": {"value": 0.51, "low": 0.42, "high": 0.63}},
    "intervals": {"method": "percentile bootstrap", "confidence_level": 0.95, "resamples": 50},
    "baseline": {"f1_macro": 0.17},
    "slices": {"channel": {"chat": {"rows": 20, "f1_macro": 0.52}, "email": {"rows": 20, "f1_macro": 0.48}}},
    "per_class": {"billing": {"precision": 0.5, "recall": 0.4, "f1": 0.44, "support": 14}},
}


def best(folder: Path, *, kind: str = "bert", names: list[str] | None = None, positions: int = 256) -> Path:
    """Write a checkpoint of a bert, distilbert or roberta whose predictions differ from row to row.

    The tokenizer makes token_type_ids but for the roberta; the distilbert takes none all the same.
    """
    import torch
    import transformers

    names = LABELS if names is None else names
    size = len(tiny.vocabulary())
    dropout = 0.3
    config: Any
    if kind == "distilbert":
        config = transformers.DistilBertConfig(
            vocab_size=size, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=positions,
            dropout=dropout, seq_classif_dropout=dropout,
        )  # fmt: skip
    else:
        of_kind = {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig}[kind]
        config = of_kind(
            vocab_size=size, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=positions + 1, pad_token_id=0, hidden_dropout_prob=dropout,
        )  # fmt: skip
    task = lookup.find(tasks, "single_label" if names else "regression")
    for name, value in task.config(names).items():
        setattr(config, name, value)
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:  # as they are initialized all rows would get about the same logits
                parameter.mul_(10 if "embeddings" in name else 4)
    words = {word: index for index, word in enumerate(tiny.vocabulary())}
    made = {"model_input_names": ["input_ids", "attention_mask"]} if kind == "roberta" else {}
    tokenizer = transformers.BertTokenizerFast(vocab=words, model_max_length=positions, **made)
    center(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "source.json").write_text('{"name": "tiny", "trust_remote_code": false}')
    (folder / "training.json").write_text('{"seed": 13, "train": {"learning_rate": 0.005}}')
    return folder


def center(model: Any, tokenizer: Any) -> None:
    """Set the bias of the logits so that no class is the likeliest of all rows."""
    import torch

    batch = tokenizer([row["text"] for row in tiny.rows(30)], padding=True, return_tensors="pt")
    with torch.no_grad():
        list(model.parameters())[-1].sub_(model.eval()(**batch).logits.median(dim=0).values)


def encode(folder: Path, model: Path, *, task_type: str, pair: bool = False, labels: list[Any] | None = None) -> Path:
    """Write encoded splits of 40 rows each; `labels` replaces those of validation."""
    task, tokenizer = lookup.find(tasks, task_type), scoring.load_tokenizer(model)
    folder.mkdir(parents=True)
    names = LABELS if task_type == "single_label" else []
    splits.write_label_names(folder, names)
    for seed, split in enumerate(splits.NAMES):
        rows = tiny.rows(40, seed=seed)
        texts = {name: [row[name] for row in rows] for name in (("text", "text_pair") if pair else ("text",))}
        columns = task.encode(texts, tokenizer, max_length=32)
        del columns["num_tokens"]
        raw = [row["label" if names else "score"] for row in rows]
        columns["labels"] = task.label_ids([task.read_label(label) for label in raw], names)
        if labels is not None and split == "validation":
            columns["labels"] = labels
        splits.write_encoded(folder, split, pa.table(columns))
    return folder


def workspace(root: Path, *, kind: str = "bert", task_type: str = "single_label", pair: bool = False) -> Path:
    """Write all that the stage reads."""
    names = LABELS if task_type == "single_label" else []
    model = best(root / "best", kind=kind, names=names)
    encode(root / "encoded", model, task_type=task_type, pair=pair)
    (root / "test_metrics.json").write_text(json.dumps(TEST_METRICS), encoding="utf-8")
    metric = "f1_macro" if names else "mse"
    return params(root, **{"task.type": task_type, "select_best.metric": metric}, **with_pair(pair))


def with_pair(pair: bool) -> dict[str, Any]:
    """The params of a task on pairs."""
    return {"data.columns.text_pair": "text_pair"} if pair else {}


def params(root: Path, **overrides: Any) -> Path:
    """Write params.yaml."""
    tiny.write_params(root / "params.yaml", **overrides)
    return root


def run(root: Path, to: str = "exported") -> Path:
    """Run the stage in a workspace."""
    with contextlib.chdir(root):
        export.main(Path("encoded"), Path("best"), Path("test_metrics.json"), Path(to))
    return root / to


def digests(folder: Path) -> dict[str, str]:
    """Each file of a folder, by its name."""
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.rglob("*"))}
