"""What a run takes of disk and memory, estimated from params.yaml, the model's files and the size of the raw data."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stages.params import Params, TrainParams

KEPT_STATES = 2
"""Of a training, how many states to resume from lie on the disk at once."""

OPTIMIZER_BYTES = {"adamw_torch": 8, "adamw_torch_fused": 8, "adafactor": 1, "sgd": 4, "adagrad": 4, "rmsprop": 4}
"""Bytes of state for each parameter, in fp32."""

LIBRARIES_BYTES = 1_000_000_000
"""A process that has imported torch and transformers, before it does anything."""


def parameters(weights: Iterable[Path]) -> int:
    """How many numbers lie in safetensors files, from their headers (https://huggingface.co/docs/safetensors)."""
    total = 0
    for file in weights:
        with file.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        total += sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    return total


def evaluations(train: "TrainParams", rows: int | None) -> int | None:
    """How often a training is evaluated, each time leaving a checkpoint; None: that needs the number of train rows."""
    if train.eval_strategy == "epoch" and train.max_steps == -1:
        return math.ceil(train.num_train_epochs)
    if train.max_steps != -1 and train.eval_strategy == "steps" and train.eval_steps:
        return max(1, train.max_steps // train.eval_steps)
    if rows is None:
        return None
    per_epoch = math.ceil(rows / train.batch_size)
    steps = train.max_steps if train.max_steps != -1 else math.ceil(per_epoch * train.num_train_epochs)
    return max(1, math.ceil(steps / per_epoch) if train.eval_strategy == "epoch" else steps // (train.eval_steps or 1))


def disk(params: "Params", *, parameters: int, evaluations: int, raw_bytes: int) -> dict[str, int]:
    """Bytes a run from nothing takes: "checkout" (the outputs, and DVC's cache of them) and "state" (to resume).

    With W the weights in fp32 (4 bytes each), E evaluations and S seeds: the outputs are W x (base 1 + checkpoints
    E x S + best 1 + exported 2, and int8 1/4) + 3 x the raw data; DVC's cache takes as much again, where the file
    system can't share blocks. The state is, for each seed, E finished W, and of the newest two saves W and the
    optimizer's.
    """
    weights = 4 * parameters
    int8 = 0 if params.export.int8 == "off" else parameters
    seeds = len(params.seeds)
    outputs = weights * (1 + evaluations * seeds + 1 + 2) + int8 + 3 * raw_bytes
    saved = (4 + OPTIMIZER_BYTES[params.train.optim]) * parameters
    return {"checkout": 2 * outputs, "state": seeds * (evaluations * weights + KEPT_STATES * saved)}


def memory(params: "Params", *, parameters: int, config: Mapping[str, Any], precision: str) -> int:
    """Bytes that one process of a training takes on its device at most, without the libraries.

    Weights, gradients and optimizer state in fp32, and the activations of a transformer: for each layer
    r x l x h x (34 + 5 x a x l / h) bytes in 16 bits, and twice that in fp32, for r rows of l tokens, width h, a heads
    (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198, equation 2). A config without these sizes counts as 0.
    """
    train = params.train
    rows = min(train.max_rows_per_device or train.batch_size, train.batch_size // train.processes)
    tokens = rows * params.encode.max_length
    width, heads, layers = (
        next((config[name] for name in names if isinstance(config.get(name), int)), 0)
        for names in (
            ("hidden_size", "dim", "n_embd", "d_model"),
            ("num_attention_heads", "n_heads", "n_head", "num_heads"),
            ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
        )
    )
    activations = layers * tokens * (34 * width + 5 * heads * params.encode.max_length)
    activations *= 1 if precision == "bf16" else 2
    return (8 + OPTIMIZER_BYTES[train.optim]) * parameters + activations
