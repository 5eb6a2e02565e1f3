"""Compare remint's MRPC runs with the plain Trainer's, seed by seed: accuracy and F1 on validation, mean and sd.

Run `dvc repro select_best` with presets/glue-mrpc.yaml first; this reads models/scores, trains the plain ones with the
same settings, and chooses among a seed's epochs by accuracy, the earliest of equals, for both. See bench/README.md.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from stages.params import Params, load_params

Best = dict[str, float]
"""accuracy and f1 of the epoch that was chosen."""


def ours(scores: Path) -> Best:
    by_checkpoint = json.loads(scores.read_text(encoding="utf-8"))
    best = max(by_checkpoint.values(), key=lambda scored: scored["accuracy"])
    return {"accuracy": best["accuracy"], "f1": best["f1_binary"]}


def plain(params: Params, seed: int, *, bf16: bool) -> Best:
    command = [sys.executable, str(Path(__file__).with_name("plain_trainer.py")), params.data.raw]
    for option, value in {
        "--model": params.model.name,
        "--learning-rate": params.train.learning_rate,
        "--batch-size": params.train.batch_size,
        "--epochs": params.train.num_train_epochs,
        "--warmup": params.train.warmup_steps,
        "--weight-decay": params.train.weight_decay,
        "--max-length": params.encode.max_length,
        "--seed": seed,
    }.items():
        command += [option, str(value)]
    done = subprocess.run([*command, *(["--bf16"] if bf16 else [])], stdout=subprocess.PIPE, text=True, check=True)
    best: Best = json.loads(done.stdout.splitlines()[-1])["best"]
    return best


def summary(name: str, bests: list[Best]) -> str:
    columns = [name.ljust(8)]
    for metric in ("accuracy", "f1"):
        values = [best[metric] for best in bests]
        sd = statistics.stdev(values) if len(values) > 1 else float("nan")
        columns.append(
            f"{metric} {statistics.fmean(values):.3f} (sd {sd:.3f}; {', '.join(f'{v:.3f}' for v in values)})"
        )
    return "  ".join(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bf16", action="store_true", help="if remint's log says that it trained in bf16")
    args = parser.parse_args()
    params = load_params()
    print(summary("remint", [ours(Path(f"models/scores/{seed}.json")) for seed in params.seeds]))
    print(summary("plain", [plain(params, seed, bf16=args.bf16) for seed in params.seeds]))


if __name__ == "__main__":
    main()
