"""What a dvc.lock says of each stage: its command, inputs, params and outputs; and which stages need which."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.graph import group_of
from stages.errors import DataError, UserError


@dataclass(frozen=True)
class Stage:
    """One stage as it ran."""

    command: str
    inputs: Mapping[str, str]
    """Path -> digest, as DVC writes it: that of a folder ends with .dir."""
    params: Mapping[str, Any]
    """Dotted name -> value; the name of a file other than params.yaml stands before it."""
    outputs: Mapping[str, str]
    """Path -> digest."""


Stages = Mapping[str, Stage]
"""By name, `train@13` for one of a matrix, in the order of the file."""


def read(text: str, *, name: str) -> Stages:
    """The stages of a dvc.lock; `name` is for the message.

    Raises:
        DataError: it is not one.
    """
    try:
        listed = YAML(typ="safe").load(text)["stages"]
        return {stage: _stage(entry) for stage, entry in listed.items()}
    except (YAMLError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{name}: not a dvc.lock that can be read ({type(error).__name__}: {error})") from None


def _stage(entry: Mapping[str, Any]) -> Stage:
    params = {
        dotted if file == "params.yaml" else f"{file}: {dotted}": value
        for file, sections in entry.get("params", {}).items()
        for dotted, value in _leaves(sections)
    }
    return Stage(
        command=str(entry.get("cmd", "")),
        inputs={one["path"]: _digest(one) for one in entry.get("deps", [])},
        params=params,
        outputs={one["path"]: _digest(one) for one in entry.get("outs", [])},
    )


def _digest(entry: Mapping[str, Any]) -> str:
    """The md5; of an input that lies elsewhere, what its storage calls the content."""
    return str(next((entry[kind] for kind in ("md5", "etag", "checksum") if kind in entry), ""))


def _leaves(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and (value or not above):
        for key, inner in value.items():
            yield from _leaves(inner, f"{above}.{key}" if above else str(key))
    else:
        yield above, value


def named(name: str, stages: Stages) -> list[str]:
    """The stage of that name, or all of the matrix of that name.

    Raises:
        UserError: there is none; the message lists those there are.
    """
    found = [stage for stage in stages if name in (stage, group_of(stage))]
    if not found:
        raise UserError(f"{name}: no stage of the commit's dvc.lock; it has {', '.join(stages)}")
    return found


def producers(path: str, stages: Stages) -> list[tuple[str, str]]:
    """Who writes an input, or something in it, or what it lies in: stage and output, each; [] for what is given."""
    return [
        (name, output)
        for name, stage in stages.items()
        for output in stage.outputs
        if output == path or path.startswith(f"{output}/") or output.startswith(f"{path}/")
    ]


def in_order(names: Collection[str], stages: Stages) -> list[str]:
    """The names, each after all whose outputs it reads."""
    above = {
        name: {writer for path in stages[name].inputs for writer, _ in producers(path, stages)} - {name}
        for name in stages
    }
    return [name for name in TopologicalSorter(above).static_order() if name in names]


@dataclass
class Plan:
    """Which stages to run again, and which recorded outputs of others to give them."""

    run: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)


def plan(wanted: Collection[str], stages: Stages, *, is_at_hand: Callable[[str, str], bool]) -> Plan:
    """The least that has to run for `wanted` to run: beside them, only who writes what is not at hand as recorded."""
    pending, run, taken = list(wanted), set[str](), set[str]()
    while pending:
        name = pending.pop()
        if name in run:
            continue
        run.add(name)
        for path in stages[name].inputs:
            for writer, output in producers(path, stages):
                if is_at_hand(output, stages[writer].outputs[output]):
                    taken.add(output)
                else:
                    pending.append(writer)
    of_run = {output for name in run for output in stages[name].outputs}
    return Plan(in_order(run, stages), sorted(taken - of_run))


def given(names: Collection[str], stages: Stages) -> list[str]:
    """The inputs of these stages that no stage writes, sorted."""
    paths = {path for name in names for path in stages[name].inputs}
    return sorted(path for path in paths if not producers(path, stages))
