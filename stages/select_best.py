"""The scores of all seeds' checkpoints -> the best of them, with what it and the best of each seed scored."""

import json
import logging
import math
import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages import checkpoints, command, lookup, metrics, outputs
from stages.errors import DataError, MachineError, ParamsError
from stages.params import load_params

log = logging.getLogger(__name__)

Scores = Mapping[str, Mapping[str, float]]
"""Checkpoint name -> metric name -> score."""


def read_scores(file: Path, metric: str) -> dict[str, dict[str, float]]:
    """The scores of one seed's checkpoints.

    Raises:
        DataError: there are none, or one of `metric` is not a finite number.
        ParamsError: `metric` is not among them.
    """
    rerun = "run the evaluate stage again (dvc repro --force --single-item evaluate)"
    try:
        scores: dict[str, dict[str, float]] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{file}: there is no such file; run the evaluate stage first (dvc repro evaluate)") from None
    except ValueError as error:
        raise DataError(f"{file}: not readable as JSON ({error}); {rerun}") from None
    if not scores:
        raise DataError(f"{file}: it holds no checkpoint's scores; {rerun}")
    for name, scored in scores.items():
        if metric not in scored:
            raise ParamsError(
                f"select_best.metric: {file} has no {metric} for {name}; it has {', '.join(scored)}"
                f"{lookup.nearest(metric, scored)}"
            )
        if not isinstance(scored[metric], int | float) or not math.isfinite(scored[metric]):
            raise DataError(
                f"{file}: {metric} of {name} is {scored[metric]}, not a finite number; its training diverged: lower "
                "train.learning_rate, or take the seed out of seeds"
            )
    return scores


def rank(score: float, checkpoint: str, *, greater_is_better: bool) -> tuple[float, int]:
    """What the best has the least of: of equal scores, the earliest step."""
    return (-score if greater_is_better else score, checkpoints.step_of(Path(checkpoint)))


def best_of(scores: Scores, metric: str, *, greater_is_better: bool) -> str:
    """The name of the best checkpoint of one seed."""
    return min(scores, key=lambda name: rank(scores[name][metric], name, greater_is_better=greater_is_better))


def select(by_seed: Mapping[int, Scores], metric: str, *, greater_is_better: bool) -> dict[str, Any]:
    """What selection.json holds; of seeds whose bests are equal in score and step, the one that stands first."""
    kept = {seed: best_of(scores, metric, greater_is_better=greater_is_better) for seed, scores in by_seed.items()}
    values = {seed: by_seed[seed][name][metric] for seed, name in kept.items()}
    seed = min(kept, key=lambda one: rank(values[one], kept[one], greater_is_better=greater_is_better))
    return {
        "metric": metric,
        "greater_is_better": greater_is_better,
        "best": {"seed": seed, "checkpoint": kept[seed], "score": values[seed]},
        "seeds": {str(one): {"checkpoint": kept[one], "score": values[one]} for one in kept},
        "mean": statistics.fmean(values.values()),
        "sd": statistics.stdev(values.values()) if len(values) > 1 else None,
        "metrics": dict(by_seed[seed][kept[seed]]),
    }


def copy(checkpoint: Path, best: Path) -> None:
    """Copy a checkpoint, verified before and after.

    Raises:
        DataError: the checkpoint is not as its manifest says.
        MachineError: the copy is not.
    """
    if reason := checkpoints.fault(checkpoint):
        root = checkpoint.parent
        raise DataError(f"{checkpoint}: {reason}; get it back (dvc checkout --force {root}), or train that seed again")
    with outputs.folder(best) as partial:
        for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
            target = partial / file.relative_to(checkpoint)
            target.parent.mkdir(parents=True, exist_ok=True)
            # The content alone: DVC's cache may lend the checkpoint's files as read-only links.
            shutil.copyfile(file, target)
        if reason := checkpoints.fault(partial):
            raise MachineError(f"{best}: the copy of {checkpoint} is damaged: {reason}; check the disk and run again")


def main(checkpoints: Path, scores: Path, best: Path, selection: Path) -> None:
    """Choose by select_best.metric on validation among the checkpoints of all seeds in params.yaml; copy the best."""
    params = load_params()
    name = params.select_best.metric
    metric: metrics.Metric = lookup.find(metrics, name)
    by_seed = {seed: read_scores(scores / f"{seed}.json", name) for seed in params.seeds}
    chosen = select(by_seed, name, greater_is_better=metric.greater_is_better)
    winner = chosen["best"]
    copy(checkpoints / str(winner["seed"]) / winner["checkpoint"], best)
    outputs.write_json(selection, chosen)
    log.info("best: seed %(seed)s, %(checkpoint)s, " + name + " %(score).4f on validation", winner)
    if chosen["sd"] is not None:
        log.info("%s of the best of each of %d seeds: %.4f, sd %.4f", name, len(by_seed), chosen["mean"], chosen["sd"])


if __name__ == "__main__":
    command.run(main)
