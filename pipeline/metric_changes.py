"""The metrics that a run has left in git's files -> what each was in a commit and is now."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline import committable, git, recorded
from pipeline.graph import group_of

REPORTS = "reports"
"""A stage's mark in dvc.yaml (`meta: reports`): where in its JSON its metrics are: metrics.*.value, best.score."""

Change = tuple[float | None, float | None]
"""The value before and now; None where there is none."""


def since(checkout: Path, commit: str = "HEAD") -> dict[str, Change]:
    """The metrics of all stages, those of the last stage first: name, with its stage before it, -> the change.

    Of a stage without a mark they are the numbers at the top of its JSON files in git.
    """
    stages = committable.locked(checkout)
    described = YAML(typ="safe").load(checkout / "dvc.yaml")["stages"]
    found: dict[str, Change] = {}
    for name in reversed(recorded.in_order(list(stages), stages)):
        stage = described.get(group_of(name))
        patterns = ((stage or {}).get("meta") or {}).get(REPORTS, ["*"])
        # What DVC keeps, git ignores: a model's own JSON is no metric.
        files = git.kept(checkout, *(path for path in stages[name].outputs if path.endswith(".json")))
        for path in files if stage else []:
            now = numbers(_read((checkout / path).read_bytes() if (checkout / path).is_file() else None), patterns)
            before = numbers(_read(git.read(checkout, commit, path)), patterns)
            found |= {f"{name}.{one}": (before.get(one), now.get(one)) for one in {**now, **before}}
    return found


def _read(content: bytes | None) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None


def numbers(tree: Any, patterns: Sequence[str]) -> dict[str, float]:
    """The numbers at the places that patterns say, in their order; * is any one key, and what it is, is the name."""
    found = {}
    for pattern in patterns:
        for keys, value in _matching(tree, pattern.split(".")):
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                varying = [key for key, part in zip(keys, pattern.split("."), strict=True) if part == "*"]
                found[".".join(varying or keys)] = value
    return found


def _matching(tree: Any, parts: Sequence[str]) -> Iterator[tuple[list[str], Any]]:
    if not parts:
        yield [], tree
    elif isinstance(tree, Mapping):
        for key in tree if parts[0] == "*" else [parts[0]]:
            if key in tree:
                yield from (([key, *keys], value) for keys, value in _matching(tree[key], parts[1:]))


def shown(value: float) -> str:
    """A metric in a few digits."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"


def described(change: Change) -> str:
    """0.9094 -> 0.9125 (+0.0031)."""
    old, new = change
    if new is None:
        return f"{shown(old or 0)} -> none"
    if old is None:
        return f"{shown(new)} (new)"
    return f"{shown(old)} -> {shown(new)} ({difference(old, new)})" if old != new else f"{shown(new)} (unchanged)"


def difference(old: float, new: float) -> str:
    """What has been gained, with its sign."""
    return ("+" if new > old else "-") + shown(abs(new - old))
