"""Look at all that a run needs, and run nothing: versions, data, model, device, memory, disk."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stages import command, hardware, identity, lookup, needs, sources, versions
from stages.data import raw_check, raw_files, splitting
from stages.errors import EnvironmentMismatchError, MachineError, ParamsError, RemintError, UserError
from stages.fetch_model import checked_files
from stages.model import base_model, model_files, model_source
from stages.params import Params, load_params

LOCK = Path("requirements/stages.txt")
SAMPLE = 1000
"""Rows of a file that the number of all of its rows is estimated from."""


class Model(NamedTuple):
    """What a run's needs depend on."""

    parameters: int
    config: dict[str, Any]


def size(count: float) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def check_versions(lock: Path) -> list[str]:
    """What is installed is what the lock file says; the local part of a version (+cpu, +cu130) does not count.

    Raises:
        EnvironmentMismatchError: it is not; the message has a line for each package.
    """
    text = lock.read_text(encoding="utf-8")
    if wrong := versions.deviations(text):
        raise EnvironmentMismatchError(
            "\n".join(
                f"{one.package}: {one.found or 'none'} installed, {lock} says {one.wanted}; run make install"
                for one in wrong
            )
        )
    return [f"versions: {len(versions.wanted(text))} packages are as {lock} says"]


def check_data(params: Params) -> list[str]:
    """The raw data are there, with the columns named."""
    if params.data.hub is not None:
        return [f"data: {params.data.hub.name} comes from the Hub, and can't be looked at before it is fetched"]
    return [f"data: {line}" for line in raw_check.check(Path(params.data.raw), params)]


def local_model(params: Params) -> Model | None:
    """The model, if it lies on this machine and is the one that is pinned; None of one of the Hub.

    Raises:
        ModelError: it is not there, not whole, or another.
    """
    name = params.model.name
    # A name of the Hub is `model` or `owner/model`; all else model_source takes for a folder.
    of_hub = not name.startswith((model_source.PACKAGE, ".", "~", "/")) and name.count("/") < 2
    if of_hub and not Path(name).exists():
        return None
    source = model_source.find(params.model)
    files = checked_files(source, params.model)
    config = base_model.read_json(source.folder / model_files.CONFIG, name=name)
    return Model(needs.parameters(file for file in files if file.suffix == ".safetensors"), config)


def check_model(params: Params) -> list[str]:
    """The model is there and is the one that is pinned."""
    model = local_model(params)
    if model is None:
        return [f"model: {params.model.name} comes from the Hub, and can't be looked at before it is fetched"]
    return [f"model: {params.model.name}, {model.parameters / 1e6:.1f} million parameters, as model.sha256 says"]


def train_rows(params: Params) -> int | None:
    """About how many rows there will be to train on, by the sizes of the files and of their first rows."""
    if params.data.hub is not None:
        return None
    files = raw_files.locate(Path(params.data.raw), params.data)
    count = 0.0
    for file in files["train"]:
        rows = list(itertools.islice(lookup.find(sources, params.data.format).rows(file, params.data), SAMPLE))
        characters = sum(len(text or "") + 1 for row in rows for text in row.fields.values())
        count += len(rows) if len(rows) < SAMPLE else file.stat().st_size / characters * len(rows)
    left = 1 - sum(splitting.to_be_cut(list(files), params.prepare).values())
    return min(round(count * left), params.prepare.max_rows or round(count))


def check_device(params: Params) -> list[str]:
    """What `auto` and null stand for here.

    Raises:
        ParamsError: there are fewer GPUs than processes.
    """
    import torch

    processes, gpus = params.train.processes, torch.cuda.device_count()
    if gpus and processes > gpus:
        raise ParamsError(f"train.processes: {processes} is more than the {gpus} GPU(s) here; lower it")
    precision = hardware.resolve_precision(params.train.precision)
    threads = hardware.threads(params.train.threads, processes=processes)
    device = f"{gpus} GPU(s), {torch.cuda.get_device_name()}" if gpus else f"CPU, {hardware.cores()} cores"
    return [f"device: {device}; precision {precision}; {threads} threads in each of {processes} process(es)"]


def check_memory(params: Params, model: Model) -> list[str]:
    """Whether a training fits into memory: an estimate, and no reason to stop."""
    import psutil
    import torch

    precision = hardware.resolve_precision(params.train.precision)
    need = needs.memory(params, parameters=model.parameters, config=model.config, precision=precision)
    if torch.cuda.is_available():
        free = torch.cuda.mem_get_info()[0]
    else:
        need, free = params.train.processes * (need + needs.LIBRARIES_BYTES), psutil.virtual_memory().available
    fits = "" if need <= free else ", which is MORE THAN THERE IS: lower train.max_rows_per_device if it runs out"
    return [f"memory: a training takes up to about {size(need)} of the {size(free)} that are free{fits}"]


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that there is."""
    return next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())


def check_disk(params: Params, model: Model) -> list[str]:
    """There is room for a run from nothing.

    Raises:
        MachineError: there is not.
    """
    evaluations = needs.evaluations(params.train, train_rows(params))
    if evaluations is None:
        return ["disk: what a run takes can't be estimated before its data are fetched"]
    raw = Path(params.data.raw)
    files = [file for file in (raw, *raw.rglob("*")) if file.is_file()]
    takes = needs.disk(
        params,
        parameters=model.parameters,
        evaluations=evaluations,
        raw_bytes=sum(file.stat().st_size for file in files),
    )
    places = {"checkout": existing(Path()), "state": existing(identity.state_root())}
    lines = []
    for device in dict.fromkeys(place.stat().st_dev for place in places.values()):
        there = [name for name, place in places.items() if place.stat().st_dev == device]
        need, disk = sum(takes[name] for name in there), os.statvfs(places[there[0]])
        free = disk.f_bavail * disk.f_frsize
        line = (
            f"disk: a run from nothing takes about {size(need)} ({' and '.join(there)}; {evaluations} checkpoint(s) of "
            f"each of {len(params.seeds)} seed(s)) of the {size(free)} that are free at {places[there[0]]}"
        )
        if need > free:
            raise MachineError(f"{line}; free some, or lower train.num_train_epochs or the number of seeds")
        lines.append(line)
    return lines


def main() -> None:
    """Print a line for each thing that is as it should be; end with all that is not.

    Raises:
        UserError: something is not, that the user can mend.
        MachineError: nothing but room is lacking.
    """
    params = load_params()
    print("params: params.yaml is right")
    wrong: list[RemintError] = []

    def attempt(look: Callable[..., list[str]], *arguments: Any) -> bool:
        try:
            print("\n".join(look(*arguments)))
        except RemintError as error:
            wrong.append(error)
            return False
        return True

    attempt(check_versions, LOCK)
    has_data = attempt(check_data, params)
    has_model = attempt(check_model, params)
    attempt(check_device, params)
    model = local_model(params) if has_model else None
    if model is not None:
        attempt(check_memory, params, model)
        if has_data:
            attempt(check_disk, params, model)
    if wrong:
        kind = UserError if any(isinstance(error, UserError) for error in wrong) else MachineError
        raise kind("\n".join(str(error) for error in wrong))


if __name__ == "__main__":
    command.run(main)
