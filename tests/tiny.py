"""A 2-layer model, its tokenizer and a few learnable rows: enough for every stage to do its real work in a second."""

import copy
import csv
import random
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
TOPICS = {
    "billing": ["invoice", "charged", "payment", "card", "price"],
    "delivery": ["parcel", "courier", "late", "address", "box"],
    "refund": ["money", "return", "back", "refund", "item"],
}
FILLER = ["please", "my", "the", "is", "not", "why", "was", "today", "hello", "i", "want", "a", "to", "again"]
CHANNELS = ["chat", "email"]


def rows(count: int = 40, seed: int = 0, labels: tuple[str, ...] = tuple(TOPICS)) -> list[dict[str, str]]:
    """Rows with id, text, text_pair, label, score, channel; labels in turn, so that every split can be stratified."""
    draw = random.Random(seed)
    made = []
    for index in range(count):
        label = labels[index % len(labels)]
        words = draw.choices(TOPICS[label], k=2) + draw.choices(FILLER, k=draw.randint(2, 9))
        draw.shuffle(words)
        pair = draw.choices(FILLER, k=draw.randint(2, 5))
        made.append(
            {
                "id": f"r{index}",
                "text": f"{' '.join(words)} {index}",
                "text_pair": " ".join(pair),
                "label": label,
                "score": f"{labels.index(label) + draw.random():.3f}",
                "channel": CHANNELS[index % 2],
            }
        )
    return made


def write_csv(path: Path, table: list[dict[str, str]]) -> Path:
    """Write rows as RFC 4180, as the example data are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def vocabulary() -> list[str]:
    """The words of all rows, after BERT's special tokens."""
    words = {word for topic in TOPICS.values() for word in topic} | set(FILLER)
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words), *"0123456789", *[f"##{d}" for d in range(10)]]


def model(folder: Path, *, dropout: float = 0.1, num_labels: int | None = None, seed: int = 0) -> Path:
    """Write config, tokenizer and safetensors of a 2-layer BERT (with a classification head if num_labels is given)."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab={word: index for index, word in enumerate(words)}, model_max_length=64)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **({"num_labels": num_labels} if num_labels else {}),
    )
    torch.manual_seed(seed)
    made = BertForSequenceClassification(config) if num_labels else BertModel(config)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def params(**overrides: Any) -> dict[str, Any]:
    """The repository's params.yaml, cut down to a tiny run; overrides are dotted: params(**{"train.batch_size": 4})."""
    made: dict[str, Any] = copy.deepcopy(YAML(typ="safe").load(ROOT / "params.yaml"))
    small = {
        "data.columns.extra": ["channel"],
        "encode.max_length": 32,
        "train.batch_size": 8,
        "train.threads": 1,
        "train.precision": "fp32",
        "train.learning_rate": 5e-3,
        "train.num_train_epochs": 2.0,
        "train.logging_steps": 1,
        "test.bootstrap_resamples": 50,
        "export.max_metric_drop": 1.0,
    }
    for place, value in {**small, **overrides}.items():
        *sections, knob = place.split(".")
        target = made
        for section in sections:
            target = target[section]
        target[knob] = value
    return made


def write_params(path: Path, **overrides: Any) -> Path:
    """Write params() as a params.yaml."""
    YAML(typ="safe").dump(params(**overrides), path)
    return path
