"""What has changed where data come from -> new bytes in the checkout, tracked; what is unchanged stays as it is."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline import data_files, dvc_cli, dvc_command, recorded
from pipeline.data_files import DataFile
from pipeline.dvc_command import Say
from pipeline.graph import group_of
from stages import params_file
from stages.errors import DataError

FETCHES = "fetches"
"""A stage's mark in dvc.yaml (`meta: fetches`): the knob, or knobs, that name data from elsewhere, which can change."""


@dataclass(frozen=True)
class Change:
    """Data that are not what they were."""

    path: str
    old: str
    """Their digest, as DVC writes it; "" where there was none."""
    new: str


def update_data(checkout: Path, *, say: Say = print, stop: threading.Event | None = None) -> list[Change]:
    """Fetch anew what the graph reads from elsewhere, and hash anew what lies here; what has changed.

    Imports are updated (dvc update), local data of a .dvc file whose bytes changed are committed to DVC, and a stage
    marked with `meta: fetches` runs, whatever DVC thinks of it, where its knob is set.

    Raises:
        DataError: an import was changed by hand.
        StoppedError: `stop` was set.
        RemintError: DVC or a stage failed.
    """
    view = dvc_cli.look(checkout, stop=stop)
    read = {above for stages in view.graph.values() for above in stages}
    data = [one for one in data_files.find(checkout) if one.file in read]
    fetching = list(_fetching(checkout, view.graph))
    before = {one.path: one.digest for one in data} | _outputs(checkout, fetching)

    for command in [*_of_files(data, view.changed), *_of_stages(fetching, view.graph)]:
        dvc_command.run(checkout, *command, say=say, stop=stop)

    after = {one.path: one.digest for one in data_files.find(checkout) if one.file in read}
    after |= _outputs(checkout, fetching)
    return [Change(path, before.get(path, ""), new) for path, new in after.items() if before.get(path) != new]


def _of_files(data: list[DataFile], changed: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """The commands for .dvc files; data that were not pulled are not changed."""
    modified = [one for one in data if f"{one.path}: modified" in changed.get(one.file, ()) or not one.digest]
    # DVC would replace them by what the source has, and nobody would have the changes any more.
    if by_hand := [one for one in modified if one.is_import and one.digest]:
        raise DataError(
            f"{', '.join(one.path for one in by_hand)}: imported, and changed since by hand; `dvc checkout --force "
            f"{by_hand[0].file}` brings the import back, `dvc add {by_hand[0].path}` makes it yours"
        )
    if local := [one.file for one in modified if not one.is_import]:
        yield ["commit", "--force", *local]
    if imports := [one.file for one in data if one.is_import]:
        yield ["update", *imports]


def _of_stages(fetching: list[str], graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    for stage in fetching:
        if graph[stage]:
            yield ["repro", *sorted(graph[stage])]
        yield ["repro", "--force", "--single-item", stage]


def _fetching(checkout: Path, graph: Mapping[str, set[str]]) -> Iterator[str]:
    """The stages that are marked, and whose knob is set."""
    knobs = params_file.read(checkout / "params.yaml")
    described = YAML(typ="safe").load(checkout / "dvc.yaml")["stages"]
    for stage in graph:
        mark = (described.get(group_of(stage)) or {}).get("meta", {}).get(FETCHES, [])
        if any(_value(knobs, place) is not None for place in ([mark] if isinstance(mark, str) else mark)):
            yield stage


def _value(knobs: Any, place: str) -> Any:
    for name in place.split("."):
        knobs = knobs.get(name) if isinstance(knobs, Mapping) else None
    return knobs


def _outputs(checkout: Path, stages: list[str]) -> dict[str, str]:
    lock = checkout / "dvc.lock"
    if not lock.is_file():
        return {}
    found = recorded.read(lock.read_text(encoding="utf-8"), name="dvc.lock")
    return {path: digest for name in stages if name in found for path, digest in found[name].outputs.items()}
