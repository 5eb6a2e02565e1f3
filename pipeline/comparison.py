"""The dvc.lock of a commit and that of a run anew -> what is equal, what differs, and what may explain it."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipeline import differences
from pipeline.recorded import Stage, Stages, producers
from pipeline.stored import FOLDER, Stored
from pipeline.values import show

EXPLAINED = 10
"""Files of one output whose difference is explained; the others are counted."""

NOWHERE = "the commit's bytes are neither in this checkout nor in its cache: only the digests are compared"


@dataclass
class Input:
    """A file, a knob or a command that is not what dvc.lock was made with."""

    kind: Literal["file", "param", "command"]
    name: str
    recorded: Any
    found: Any
    """None where there was, or is, no such input."""
    stages: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """Of a file or folder in git: what has changed there since the commit that last changed dvc.lock."""


@dataclass
class Output:
    """An output of dvc.lock, beside what was made now."""

    stage: str
    path: str
    status: Literal["equal", "differs", "not compared"]
    recorded: str | None = None
    found: str | None = None
    why: str = ""
    """Of one that was not compared."""
    files: dict[str, str] = field(default_factory=dict)
    """Of one that differs: file (. where the output is one itself) -> its first difference."""
    number_of_files: int = 0
    """How many files of it differ."""


def inputs(recorded: Stages, new: Stages) -> list[Input]:
    """What the stages that ran were given that is not as recorded; what other stages write is left to outputs."""
    found: dict[tuple[str, str, str, str], Input] = {}
    both = {**recorded, **new}
    for name in new:
        if name in recorded:
            for one in _inputs_of(recorded[name], new[name], both):
                key = (one.kind, one.name, repr(one.recorded), repr(one.found))
                found.setdefault(key, one).stages.append(name)
    return sorted(found.values(), key=lambda one: (one.kind, one.name))


def _inputs_of(was: Stage, now: Stage, stages: Stages) -> Iterator[Input]:
    for path in dict.fromkeys([*was.inputs, *now.inputs]):
        if was.inputs.get(path) != now.inputs.get(path) and not producers(path, stages):
            yield Input("file", path, was.inputs.get(path), now.inputs.get(path))
    for place in dict.fromkeys([*was.params, *now.params]):
        pair = was.params.get(place), now.params.get(place)
        if repr(pair[0]) != repr(pair[1]):
            yield Input("param", place, *pair)
    if was.command != now.command:
        yield Input("command", now.command, was.command, now.command)


def outputs(recorded: Stages, new: Stages, cut_off: Collection[str], *, old: Stored, made: Stored) -> list[Output]:
    """Every output of both files, in the order of the commit's.

    `cut_off` are the stages of a run that failed; `old` and `made` have the bytes.
    """
    found = []
    for name in dict.fromkeys([*recorded, *new]):
        was, now = (stages[name].outputs if name in stages else {} for stages in (recorded, new))
        for path in dict.fromkeys([*was, *now]):
            if path in was and path in now:
                found.append(_compared(name, path, was[path], now[path], old=old, made=made))
                continue
            if path in now:
                why = "the commit's dvc.lock does not have it"
            elif name in new:
                why = "its stage no longer writes it"
            else:
                why = "the run ended before its stage did" if name in cut_off else "its stage was not run"
            found.append(Output(name, path, "not compared", was.get(path), now.get(path), why=why))
    return found


def _compared(stage: str, path: str, recorded: str, found: str, *, old: Stored, made: Stored) -> Output:
    if recorded == found:
        return Output(stage, path, "equal", recorded, found)
    are_folders = recorded.endswith(FOLDER), found.endswith(FOLDER)
    if are_folders[0] != are_folders[1]:
        was, now = ("a folder" if one else "a file" for one in are_folders)
        return Output(stage, path, "differs", recorded, found, files={".": f"{was} in the commit's, now {now}"})
    files, number = (_of_folder if all(are_folders) else _of_file)(path, recorded, found, old, made)
    return Output(stage, path, "differs", recorded, found, files=files, number_of_files=number)


Explained = tuple[dict[str, str], int]
"""File -> its first difference, for some; and the number of all that differ."""


def _of_file(path: str, recorded: str, found: str, old: Stored, made: Stored) -> Explained:
    was, now = old.file(path, recorded), made.file(path, found)
    return {".": differences.explain(was, now, path) if was and now else NOWHERE}, 1


def _of_folder(path: str, recorded: str, found: str, old: Stored, made: Stored) -> Explained:
    was, now = old.listing(path, recorded), made.listing(path, found)
    if was is None or now is None:
        return {".": NOWHERE}, 0
    differing = sorted((name for name in {*was, *now} if was.get(name) != now.get(name)), key=differences.rank)
    explained = {name: _of_member(path, name, was, now, old, made) for name in differing[:EXPLAINED]}
    return explained, len(differing)


def _of_member(path: str, name: str, was: dict[str, str], now: dict[str, str], old: Stored, made: Stored) -> str:
    if name not in was:
        return "not in the commit's"
    if name not in now:
        return "in the commit's alone"
    return _of_file(f"{path}/{name}", was[name], now[name], old, made)[0]["."]


def since(found: list[Input], changed: Callable[[str], list[str]]) -> None:
    """Note, at each file or folder that is not as recorded, what git has changed there."""
    for one in found:
        if one.kind == "file" and not Path(one.name).is_absolute():
            one.changed = changed(one.name)


def describe(one: Input) -> str:
    """An input, and what became of it, in a line."""
    if one.kind == "command":
        return f"the command was {show(one.recorded)}, is {show(one.found)}"
    if one.kind == "param":
        return f"{one.name}: {show(one.recorded)} in dvc.lock, {show(one.found)} in the commit"
    if one.recorded is None:
        return f"{one.name} was no input when dvc.lock was made"
    return f"{one.name} is " + ("no longer an input" if one.found is None else "not what dvc.lock was made with")
