"""What a run has come to -> the message of its commit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import committable, metric_changes, recorded
from pipeline.metric_changes import Change
from pipeline.values import show

LONGEST_SUBJECT = 72
IN_SUBJECT = 3
"""Metrics in the first line, at most."""

_NONE = object()


@dataclass(frozen=True)
class Parts:
    """What the message says."""

    ran: Sequence[str] = ()
    """The stages that ran or were restored."""
    metrics: Mapping[str, Change] = field(default_factory=dict)
    params: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The declared knobs that changed."""
    data: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """The digests of the raw data: before and now."""


def gather(checkout: Path, ran: Sequence[str] = ()) -> Parts:
    """What has changed in a checkout since its last commit."""
    before, now = committable.locked(checkout, "HEAD"), committable.locked(checkout)
    old, new = _params(before), _params(now)
    # Of a first run all would have changed; params.yaml lists them better.
    changed = {name: (old.get(name, _NONE), new.get(name, _NONE)) for name in {**old, **new}} if before else {}
    raw = committable.raw_data(checkout)
    return Parts(
        ran=ran,
        metrics=metric_changes.since(checkout),
        params={name: pair for name, pair in changed.items() if repr(pair[0]) != repr(pair[1])},
        data={raw: (_digest(before, raw), _digest(now, raw))} if raw else {},
    )


def _params(stages: recorded.Stages) -> dict[str, Any]:
    return {name: value for stage in stages.values() for name, value in stage.params.items()}


def _digest(stages: recorded.Stages, path: str) -> str | None:
    return next((stage.inputs[path] for stage in stages.values() if path in stage.inputs), None)


def compose(parts: Parts) -> str:
    """The whole message."""
    blocks = [
        [subject(parts)],
        ["Metrics:", *_metrics(parts.metrics)] if parts.metrics else [],
        ["Params:", *(f"  {name}: {_value(a)} -> {_value(b)}" for name, (a, b) in parts.params.items())]
        if parts.params
        else [],
        ["Data:", *(_data(path, *pair) for path, pair in parts.data.items())] if parts.data else [],
        [f"Ran: {', '.join(parts.ran)}"] if parts.ran else [],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def subject(parts: Parts) -> str:
    """The first line: the first metrics of the last stage that has any."""
    stage = next(iter(parts.metrics), "").partition(".")[0]
    of_stage = {
        name.removeprefix(f"{stage}."): (old, new)
        for name, (old, new) in parts.metrics.items()
        if name.startswith(f"{stage}.") and new is not None
    }
    said = [f"{name} {_in_short(*change)}" for name, change in of_stage.items()][:IN_SUBJECT]
    if not said:
        return "Retrain" if parts.ran else "Retrain: no stage had to run"
    while len(made := f"Retrain: {stage} {', '.join(said)}") > LONGEST_SUBJECT and len(said) > 1:
        said.pop()
    return made


def _in_short(old: float | None, new: float) -> str:
    gained = "" if old is None or old == new else f" ({metric_changes.difference(old, new)})"
    return f"{metric_changes.shown(new)}{gained}"


def _metrics(metrics: Mapping[str, Change]) -> Iterator[str]:
    width = max(len(name) for name in metrics)
    yield from (f"  {name:<{width}}  {metric_changes.described(change)}" for name, change in metrics.items())


def _value(value: Any) -> str:
    return "none" if value is _NONE else show(value)


def _data(path: str, old: str | None, new: str | None) -> str:
    if old == new:
        return f"  {path}: {new} (unchanged)"
    return f"  {path}: {old or 'none'} -> {new or 'none'}"
