"""params.yaml and stages/ -> data/code/<stage>.json: all knobs are right, and the digests of the code in use.

The first stage: what it refuses stops the run before DVC deletes anything. It depends on all of stages/, and each other
stage on its own file of digests, so that a change of code runs again what uses that code. DVC can't template what those
files hold: lists, optional choices, and what a chosen file imports.
"""

import logging
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from stages import code_files, command, lookup, outputs
from stages.checkpoints import digest
from stages.errors import DataError
from stages.params import Params, load_params

log = logging.getLogger(__name__)
GRAPH = Path("dvc.yaml")


def filled(template: str, values: Mapping[str, Any]) -> str:
    """A string of dvc.yaml with ${a.b} replaced; what is not among the values (a matrix's item) stays."""

    def value(match: re.Match[str]) -> str:
        found: Any = values
        for key in match[1].split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return match[0] if found is None else str(found)

    return re.sub(r"\$\{([\w.]+)\}", value, template)


def paths(entries: Sequence[Any]) -> list[str]:
    """The paths of a list of deps or outs: each is a path, or a path with settings."""
    return [entry if isinstance(entry, str) else next(iter(entry)) for entry in entries]


def check_inputs(graph: Mapping[str, Any], params: Params) -> None:
    """What params.yaml makes an input of a stage is there, or an output of another stage.

    Raises:
        DataError: it is not; DVC would say so only after it has deleted the stage's outputs.
    """
    knobs = params.model_dump()
    values = {**knobs, **{name: value for one in graph["vars"] for name, value in one.items()}}
    made = [
        filled(path, values)
        for stage in graph["stages"].values()
        for kind in ("outs", "metrics")
        for path in paths(stage.get(kind, []))
    ]
    for name, stage in graph["stages"].items():
        for template in paths(stage.get("deps", [])):
            text = filled(template, knobs)
            path = Path(text)
            if text == template or "${" in text or any(path.is_relative_to(other) for other in made):
                continue
            if not path.exists():
                knob = re.findall(r"\$\{([\w.]+)\}", template)[0]
                beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
                raise DataError(f"{knob}: there is no {path}, which {name} reads{lookup.nearest(path.name, beside)}")
    fetched = any(Path(params.data.raw).is_relative_to(other) for other in made)
    if fetched and params.data.hub is None:
        raise DataError(f"data.raw: {params.data.raw} is what fetch_data makes of data.hub, which is null; name a set")
    if params.data.hub is not None and not fetched:
        raise DataError(f"data.raw: with data.hub it is what fetch_data writes, data/fetched, not {params.data.raw}")


def leftovers(folder: Path, seeds: Sequence[int]) -> Iterator[Path]:
    """What lies in a folder of all seeds' outputs and is of a seed that is no longer in params.yaml."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        seed = path.name.removesuffix(".json").removesuffix(".csv")
        if not re.fullmatch(r"\d+", seed):
            if not path.name.endswith(".partial"):
                log.warning("%s is of no seed; move it away: select_best depends on all that lies in %s", path, folder)
        elif int(seed) not in seeds:
            yield path


def remove_leftovers(folders: Sequence[Path], seeds: Sequence[int]) -> None:
    """Take away what is of no seed: select_best depends on the whole folders, whose digests it would change."""
    for path in [path for folder in folders for path in leftovers(folder, seeds)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        log.info("removed %s: its seed is not in seeds", path)


def main(code: Path, checkpoints: Path, history: Path, scores: Path) -> None:
    """Check all of params.yaml, write the digests, remove what seeds that are gone have left."""
    params = load_params()
    graph = YAML(typ="safe").load(GRAPH)
    check_inputs(graph, params)
    with outputs.folder(code) as folder:
        for name, stage in graph["stages"].items():
            modules = re.findall(r"\bstages\.(\w+)", stage["cmd"])
            if name != "check":
                files = [code_files.ROOT / file for file in code_files.decisive(name, modules, params)]
                digests = {f"stages/{file.relative_to(code_files.ROOT)}": digest(file) for file in files}
                (folder / f"{name}.json").write_text(outputs.dumps(digests), encoding="utf-8")
    remove_leftovers([checkpoints, history, scores], params.seeds)


if __name__ == "__main__":
    command.run(main)
