"""List what trainings and killed runs have left, and remove what is not in use."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline import leftovers
from pipeline.leftovers import Leftover
from pipeline.values import age, show, size, times
from stages import identity
from stages.errors import MachineError, UserError

DAY = 86400.0
SHOWN = 4
"""Params of a training that are written out."""


def clean(checkout: Path, *, older_than_days: float, keep_unfinished: bool, yes: bool) -> None:
    """List all; remove what is to go, if `yes` or a person at the terminal says so.

    Raises:
        UserError: a number of days below 0.
        MachineError: something can't be removed.
    """
    if older_than_days < 0:
        raise UserError(f"--older-than {older_than_days:g}: a number of days, 0 or more")
    root = identity.state_root()
    trainings = leftovers.of_trainings(root, checkout / "dvc.lock")
    partials = leftovers.of_killed_runs(checkout)
    print("\n".join(lines(root, trainings, partials, params=read_params(checkout / "params.yaml"))))
    going = [
        one
        for one in (*trainings, *partials)
        if not one.held_by and one.seconds >= older_than_days * DAY and not (keep_unfinished and one.can_go_on)
    ]
    if not going:
        print("nothing to remove")
    elif yes or _agreed(going):
        removed = sum(remove(one) for one in going)
        print(f"removed {times(removed, 'of them', 'of them')}, {size(sum(one.size for one in going))}")


def _agreed(going: Sequence[Leftover]) -> bool:
    question = f"{times(len(going), 'of them', 'of them')} can go, {size(sum(one.size for one in going))}"
    if sys.stdin.isatty() and sys.stdout.isatty():
        return typer.confirm(f"{question}. Remove?", default=False)
    print(f"{question}: nothing is removed without --yes")
    return False


def remove(one: Leftover) -> bool:
    """Remove a leftover; False where a training has taken it up by now, or has removed it.

    Raises:
        MachineError: the system does not let it.
    """
    try:
        if not one.path.is_dir() or one.path.is_symlink():
            one.path.unlink(missing_ok=True)
        elif leftovers.NAME.fullmatch(one.path.name):
            with identity.claimed(one.path):
                shutil.rmtree(one.path)
        else:
            shutil.rmtree(one.path)
    except MachineError as error:
        print(f"left: {error}")
        return False
    except OSError as error:
        raise MachineError(f"{error.filename}: {error.strerror}; see to its permissions and run this again") from None
    return True


def read_params(file: Path) -> dict[str, Any]:
    """params.yaml, or {} where it can't be read: `remint check` says why."""
    try:
        found = YAML(typ="safe").load(file)
    except (OSError, ValueError, YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def lines(
    root: Path, trainings: Sequence[Leftover], partials: Sequence[Leftover], *, params: Mapping[str, Any]
) -> list[str]:
    """All that is left, two lines a training, one each for all else."""
    made = [f"{times(len(trainings), 'training', 'trainings')} in {root}"]
    varying = varying_knobs([knobs(one) for one in trainings if one.facts])
    for one in trainings:
        seed = f"; seed {one.facts['seed']}" if "seed" in one.facts else ""
        made.append(f"  {one.path.name}  {_in_short(one)}{seed}{_held(one)}")
        made.append(f"    {'; '.join(differing(one, varying, params))}")
    if partials:
        made.append(f"{times(len(partials), 'unfinished output', 'unfinished outputs')} in this checkout")
        made += [f"  {one.path}  {_in_short(one)}{_held(one)}" for one in partials]
    return made


def _in_short(one: Leftover) -> str:
    return f"{size(one.size)}, {age(one.seconds)} old: {one.what}"


def _held(one: Leftover) -> str:
    return f"; in use by {one.held_by}: it stays" if one.held_by else ""


def knobs(one: Leftover) -> dict[str, Any]:
    """What params.yaml, and the machine, gave a training: dotted name -> value."""
    sections = {name: one.facts[name] for name in ("task", "train") if isinstance(one.facts.get(name), dict)}
    found = {f"{section}.{name}": value for section, values in sections.items() for name, value in values.items()}
    return found | {name: one.facts[name] for name in ("precision", "threads", "processes") if name in one.facts}


def varying_knobs(of: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of the knobs that are not the same in all trainings."""
    return {name for one in of for name in one if len({repr(other.get(name)) for other in of}) > 1}


def differing(one: Leftover, varying: set[str], params: Mapping[str, Any]) -> list[str]:
    """The knobs by which a training differs from params.yaml or from other trainings, the first few."""
    if not one.facts:
        return ["begun by an older version, which wrote down no params"]
    found = list(_differing(one, varying, params))
    more = len(found) - SHOWN
    return [*found[:SHOWN], *([f"and {more} more"] if more > 0 else [])] or ["params as in params.yaml"]


def _differing(one: Leftover, varying: set[str], params: Mapping[str, Any]) -> Iterator[str]:
    for name, value in knobs(one).items():
        section, _, knob = name.partition(".")
        here = params.get(section)
        if knob and isinstance(here, dict) and here.get(knob) != value:
            yield f"{name} {show(value)} (params.yaml: {show(here.get(knob))})"
        elif name in varying:
            yield f"{name} {show(value)}"
