"""What a finished run has come to, in a few lines: read from what the stages wrote."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from stages.errors import DataError


def paths(graph: Path) -> dict[str, Path]:
    """Where the stages write: `vars: path` of dvc.yaml."""
    found: dict[str, str] = YAML(typ="safe").load(graph)["vars"][0]["path"]
    return {name: Path(path) for name, path in found.items()}


def read(file: Path) -> Any:
    """What a stage wrote.

    Raises:
        DataError: it has not been written yet.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{file}: there is no such file; `dvc repro` makes it") from None


def lines(
    test: Mapping[str, Any], selection: Mapping[str, Any], parity: Mapping[str, Any], exported: Path
) -> list[str]:
    """All of the summary."""
    return [
        *_of_selection(selection),
        "",
        *_of_test(test),
        "",
        f"model     {exported}",
        *_of_parity(parity),
        "",
        "plots     dvc plots show",
        f"predict   remint predict {exported} rows.csv predictions.csv",
    ]


def _of_selection(selection: Mapping[str, Any]) -> Iterator[str]:
    best, metric, seeds = selection["best"], selection["metric"], selection["seeds"]
    yield f"best      {best['checkpoint']} of seed {best['seed']}: {metric} {best['score']:.4f} on validation"
    if len(seeds) > 1:
        yield f"          {metric} of {len(seeds)} seeds: mean {selection['mean']:.4f}, sd {selection['sd']:.4f}"


def _of_test(test: Mapping[str, Any]) -> Iterator[str]:
    if not test["metrics"]:
        yield f"test      no metrics: {test['why']}"
        return
    heading = f"test, {test['rows']} rows"
    width = max(len(heading), *(len(name) for name in test["metrics"]))
    level = test["intervals"]["confidence_level"]
    yield f"{heading:<{width}}      value   {f'{level:.0%} interval':<18}   baseline"
    for name, found in test["metrics"].items():
        interval = f"{found['low']:.4f} to {found['high']:.4f}"
        yield f"{name:<{width}}   {found['value']:>8.4f}   {interval:<18}   {test['baseline'][name]:>8.4f}"


def _of_parity(parity: Mapping[str, Any]) -> Iterator[str]:
    metric = parity["metric"]
    yield f"  {'PyTorch':<15}  {metric} {parity['pytorch'][metric]:.4f} on validation"
    for name in ("model.onnx", "model.int8.onnx"):
        found = parity[name]
        if "left_out" in found:
            yield f"  {name:<15}  left out: {found['left_out']}"
        else:
            equal = found["equal_predictions"]
            shares = "" if equal is None else f", {equal:.2%} of predictions as PyTorch's"
            yield f"  {name:<15}  {metric} {found[metric]:.4f}{shares}"
