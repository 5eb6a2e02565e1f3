"""How fast the exported ONNX models are, as a ratio to eager PyTorch in fp32 on the same batches and threads.

    python -m bench.onnx_speed models/exported data/encoded --split validation

Each round runs all three over the whole split, one after the other; the ratios are medians over the rounds, with the
smallest and the largest. Run it alone on the machine.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from stages import command, hardware, lookup, scoring, splits, tasks
from stages.serving.onnx_session import onnx_forward


def seconds(run: Callable[[], None]) -> float:
    """The wall time of a call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main(
    exported: Path,
    encoded: Path,
    split: str = "validation",
    batch_size: Annotated[int, typer.Option(help="rows at once, longest rows first")] = 32,
    rounds: int = 5,
) -> None:
    """Print, for each ONNX model, how many times faster than PyTorch it is."""
    import torch

    torch.set_num_threads(hardware.cores())
    facts = json.loads((exported / "remint.json").read_text(encoding="utf-8"))
    task: tasks.Task = lookup.find(tasks, facts["task"])
    rows = splits.read_encoded(encoded, split)
    collate = task.collator(scoring.load_tokenizer(exported))
    batches = [batch for _, batch in scoring.batches(rows, collate, batch_size=batch_size)]
    models = {"PyTorch": scoring.load_forward(exported, task)}
    models.update(
        {
            name: onnx_forward(exported / name)
            for name in ("model.onnx", "model.int8.onnx")
            if (exported / name).exists()
        }
    )

    def over_the_split(name: str) -> None:
        for batch in batches:
            models[name](batch)

    for name in models:  # the first pass allocates
        over_the_split(name)
    taken = [{name: seconds(lambda name=name: over_the_split(name)) for name in models} for _ in range(rounds)]
    print(f"{len(rows)} rows of {split}, batches of {batch_size}, {hardware.cores()} threads, {rounds} rounds")
    for name in models:
        ratios = [one["PyTorch"] / one[name] for one in taken]
        speed = len(rows) / statistics.median(one[name] for one in taken)
        print(
            f"{name:<16} {speed:8.0f} rows/s   {statistics.median(ratios):5.2f} times PyTorch's speed "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    command.run(main)
