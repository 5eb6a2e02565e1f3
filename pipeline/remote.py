"""Outputs and raw data of a run -> DVC's remote, and back: all of them, or some by name."""

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pipeline import data_files, dvc_cli, dvc_command, recorded
from pipeline.data_files import DVC_FILE, DataFile
from pipeline.dvc_command import Say
from pipeline.graph import group_of, in_order, with_what_follows
from pipeline.values import some
from stages.errors import DataError, UserError
from stages.lookup import nearest

Targets = Collection[str] | Literal["all"]
"""Stages, outputs, folders of outputs, data or their .dvc files; or all that the graph reads and writes."""

_NOWHERE = "do not exist neither locally nor on remote"


def push(
    checkout: Path,
    targets: Targets = "all",
    *,
    remote: str | None = None,
    say: Say = print,
    stop: threading.Event | None = None,
) -> list[str]:
    """Copy to the remote what the targets stand for, and always the data that DVC keeps; the paths of all that.

    Where a stage reads a folder of several outputs, all of them go or none: half of it would pass for the whole.

    Raises:
        UserError: there is no remote, or no such target.
        DataError: the bytes of an output are neither here nor in the remote.
        StoppedError: `stop` was set.
        MachineError: the remote can't be reached.
    """
    stages, data = of_graph(checkout)
    paths = resolve(targets, stages, data) | {one.path for one in data}
    if not paths:
        return []
    said = dvc_command.run(checkout, "push", *_at(remote), *sorted(paths), say=say, stop=stop)
    # DVC warns of them, and reports success.
    if _NOWHERE in said:
        lost = re.findall(r"^md5: (\S+)$", said.partition(_NOWHERE)[2], re.MULTILINE)
        known = {digest: path for stage in stages.values() for path, digest in stage.outputs.items()}
        known |= {one.digest: one.path for one in data}
        names = sorted({known.get(md5, f"a file with md5 {md5}") for md5 in lost}, key=lambda name: (" " in name, name))
        raise DataError(
            f"dvc push: neither in the cache nor in the remote: {some(names)}; `dvc repro --force` makes them again, "
            "or push less"
        )
    return sorted(paths)


def pull(
    checkout: Path,
    targets: Targets = "all",
    *,
    remote: str | None = None,
    say: Say = print,
    stop: threading.Event | None = None,
) -> list[str]:
    """Bring what the targets stand for from the remote into the checkout; the paths of all that.

    Raises:
        UserError: there is no remote, or no such target.
        DataError: the remote lacks something.
        StoppedError: `stop` was set.
        MachineError: the remote can't be reached.
    """
    stages, data = of_graph(checkout)
    paths = sorted(resolve(targets, stages, data))
    if not paths:
        return []
    said = dvc_command.run(checkout, "pull", *_at(remote), *paths, say=say, stop=stop)
    _refuse_no_remote(checkout, said)
    return paths


def _refuse_no_remote(checkout: Path, said: str) -> None:
    # With this, too, DVC reports success.
    if "no default remote set" in said:
        raise UserError(f"dvc pull: {checkout} has no remote; `dvc remote add --default <name> <address>` makes one")


def bring(
    checkout: Path,
    *,
    remake: bool = False,
    remote: str | None = None,
    say: Say = print,
    stop: threading.Event | None = None,
) -> list[str]:
    """In a checkout where outputs are absent, a fresh clone: pull what is needed to bring it up to date, and no more.

    Returns the stages that are then to be run, each with `dvc repro --single-item`, in this order: those that changed,
    those after them (DVC looks whether they changed too), and those that make what git and DVC do not keep and others
    need; [] where nothing is to be done, whatever is absent. `remake` is for where less than all was pushed: a stage
    whose output is needed and not in the remote runs too. Should it make other bytes than dvc.lock says, as another
    kind of machine may, a second call goes on from there.

    Why not `dvc repro --pull --allow-missing`: there what is absent passes for unchanged also where a stage that runs
    needs it, and a folder that is there in part passes for another one, so that a stage runs with the part.

    Raises:
        DataError: the remote lacks something that is needed, and it is not to be made again.
        UserError: there is no remote.
        StoppedError: `stop` was set.
        MachineError: the remote can't be reached.
    """
    view = dvc_cli.look(checkout, stop=stop)
    graph = view.graph
    stages, data = of_graph(checkout, graph)
    holders = {path: name for name, stage in stages.items() for path in stage.outputs}
    holders |= {one.path: one.file for one in data}
    never_ran = graph.keys() - stages.keys()
    changed = {name for name in (*dvc_command.unclean(view), *never_ran) if not name.endswith(DVC_FILE)}
    run = {name for name in with_what_follows(changed, graph) if not name.endswith(DVC_FILE)}
    tried: set[str] = set()
    while run:
        needed = {path for name in run for path in _read_by(name, graph, stages, holders)}
        perhaps = {path for name in run - changed for path in stages[name].outputs}
        if absent := {path for path in (needed | perhaps) - tried if not (checkout / path).exists()}:
            options = ["--allow-missing"] if remake else []
            said = dvc_command.run(checkout, "pull", *options, *_at(remote), *sorted(absent), say=say, stop=stop)
            _refuse_no_remote(checkout, said)
            tried |= absent
        lacking = {path for path in needed if not (checkout / path).exists()}
        if lost := sorted(lacking & {one.path for one in data}):
            raise DataError(f"{some(lost)}: neither here nor in the remote; push it where it is (dvc push)")
        if not absent and run.issuperset(holders[path] for path in lacking):
            break
        run |= {holders[path] for path in lacking}
    return [name for name in in_order(graph) if name in run]


def _read_by(name: str, graph: Mapping[str, set[str]], stages: recorded.Stages, holders: Mapping[str, str]) -> set[str]:
    """The outputs and data that a stage reads; of one that never ran, those of all that it waits for."""
    if name not in stages:
        return {path for path, holder in holders.items() if holder in graph[name]}
    return {
        path
        for path in holders
        for read in stages[name].inputs
        if f"{path}/".startswith(f"{read}/") or f"{read}/".startswith(f"{path}/")
    }


def of_graph(
    checkout: Path, graph: Mapping[str, set[str]] | None = None
) -> tuple[dict[str, recorded.Stage], list[DataFile]]:
    """What dvc.lock says of the stages of dvc.yaml (it keeps those of former ones), and the data that they read."""
    graph = dvc_cli.graph(checkout) if graph is None else graph
    lock = checkout / "dvc.lock"
    found = recorded.read(lock.read_text(encoding="utf-8"), name="dvc.lock") if lock.is_file() else {}
    data = [one for one in data_files.find(checkout) if any(one.file in above for above in graph.values())]
    return {name: stage for name, stage in found.items() if name in graph}, data


def resolve(targets: Targets, stages: recorded.Stages, data: Iterable[DataFile]) -> set[str]:
    """The paths that targets stand for.

    Raises:
        UserError: there is no such target.
    """
    every = {path for stage in stages.values() for path in stage.outputs}
    files = {one.file: one.path for one in data}
    if targets == "all":
        return every | set(files.values())
    found: set[str] = set()
    for target in [targets] if isinstance(targets, str) else targets:
        taken = set(_standing_for(target.rstrip("/"), stages, files))
        if not taken:
            names = sorted({*every, *files.values(), *(group_of(name) for name in stages)})
            raise UserError(f"{target}: no stage that has run, and no output or data of one{nearest(target, names)}")
        found |= taken
    return _whole(found, stages)


def _standing_for(target: str, stages: recorded.Stages, files: Mapping[str, str]) -> Iterator[str]:
    for name, stage in stages.items():
        if target in (name, group_of(name)):
            yield from stage.outputs
        yield from (path for path in stage.outputs if f"{path}/".startswith(f"{target}/"))
    yield from (path for file, path in files.items() if target in (file, path))


def _whole(paths: set[str], stages: recorded.Stages) -> set[str]:
    """The paths, and all else in a folder that a stage reads and that one of them lies in."""
    return paths.union(*(outputs for outputs in _folders(stages).values() if not outputs.isdisjoint(paths)))


def _folders(stages: recorded.Stages) -> dict[str, set[str]]:
    """Each folder that a stage reads and that several outputs lie in, with these."""
    every = {path for stage in stages.values() for path in stage.outputs}
    read = {path for stage in stages.values() for path in stage.inputs}
    found = {folder: {path for path in every if path.startswith(f"{folder}/")} for folder in sorted(read)}
    return {folder: outputs for folder, outputs in found.items() if len(outputs) > 1}


def _at(remote: str | None) -> list[str]:
    return ["--remote", remote] if remote else []
