"""What the knobs of params.yaml, each right by itself, say against each other: the place -> a message."""

from pathlib import Path
from typing import TYPE_CHECKING

from stages import lookup, metrics, tasks
from stages.errors import ParamsError

if TYPE_CHECKING:
    from stages.params import DataParams, ModelParams, Params, PrepareParams, TrainParams


def of_model(model: "ModelParams") -> dict[str, str]:
    """A model that the Hub does not version is pinned by its digest."""
    if not model.name.startswith("package:") and not Path(model.name).exists():
        return {}
    found = {}
    if model.sha256 is None:
        found["sha256"] = "it is required for a local folder or a package; sha256sum model.safetensors prints it"
    if model.revision is not None:
        found["revision"] = "it is for Hub ids; set it to null for a local folder or a package"
    return found


def of_data(data: "DataParams") -> dict[str, str]:
    """There is something to train on, its path can stand in a command, and the Hub's sets come as Parquet."""
    found = {}
    if "'" in data.raw:
        found["raw"] = f"no single quote can stand in a command of dvc.yaml; rename {data.raw}"
    if data.files is not None and "train" not in data.files:
        found["files.train"] = "it is missing; where files are named, one is for train"
    if data.hub is not None and data.format != "parquet":
        found["format"] = f"fetch_data writes data.hub as Parquet; set it to parquet, not {data.format}"
    return found


def of_prepare(prepare: "PrepareParams") -> dict[str, str]:
    """The two fractions leave a train split."""
    total = prepare.validation_fraction + prepare.test_fraction
    if total < 1:
        return {}
    return {"validation_fraction": f"with test_fraction it makes {total:g} and leaves no rows to train on; lower one"}


def of_train(train: "TrainParams") -> dict[str, str]:
    """The global batch comes out whole on every process and in every accumulation step; the ends are defined."""
    found = {}
    rows = train.batch_size // train.processes
    at_once = train.max_rows_per_device or rows
    if train.batch_size % train.processes:
        found["batch_size"] = f"{train.batch_size} rows can't be shared out evenly over {train.processes} processes"
    elif rows % min(at_once, rows):
        of_process = f", {rows} for each of {train.processes} processes" if train.processes > 1 else ""
        found["max_rows_per_device"] = (
            f"{at_once} does not divide the {train.batch_size} rows of batch_size{of_process}"
        )
    if train.eval_strategy == "steps" and train.eval_steps is None:
        found["eval_steps"] = "a number of steps is needed where eval_strategy is steps"
    if train.eval_strategy == "epoch" and train.eval_steps is not None:
        found["eval_steps"] = f"it is null where eval_strategy is epoch, not {train.eval_steps}"
    if train.max_steps < 1 and train.max_steps != -1:
        found["max_steps"] = f"a number of steps, or -1 where num_train_epochs decides, not {train.max_steps}"
    return found


def between_sections(params: "Params") -> dict[str, str]:
    """What is asked for is what the task and the data can give."""
    found = {}
    task: tasks.Task = lookup.find(tasks, params.task.type)
    made, name = task.METRICS, params.select_best.metric
    if name not in made:
        found["select_best.metric"] = (
            f"the task {params.task.type} does not produce {name}; it produces {', '.join(made)}"
            f"{lookup.nearest(name, made)}"
        )
    stopping = params.train.early_stopping
    if stopping and stopping.metric not in ("eval_loss", *made):
        found["train.early_stopping.metric"] = (
            f"{stopping.metric} is neither eval_loss nor one of the task's metrics: {', '.join(made)}"
            f"{lookup.nearest(stopping.metric, ('eval_loss', *made))}"
        )
    if task.LABEL_TYPE == "double" and params.train.label_smoothing_factor:
        found["train.label_smoothing_factor"] = (
            f"the task {params.task.type} has no classes to smooth over; set it to 0.0"
        )
    kept = params.data.columns.extra
    for column in params.test.slices:
        if column not in kept:
            found["test.slices"] = (
                f"{column} is not in data.columns.extra, which holds {', '.join(kept) or 'nothing'}; add it there"
                f"{lookup.nearest(column, kept)}"
            )
    return found


def check_metrics(params: "Params", num_labels: int) -> None:
    """The metrics that are asked for are defined for so many classes (0: a task without classes).

    Raises:
        ParamsError: one is not; the message lists those that are.
    """
    made = metrics.available(lookup.find(tasks, params.task.type).METRICS, num_labels)
    wanted = [("select_best.metric", params.select_best.metric, made)]
    if stopping := params.train.early_stopping:
        wanted.append(("train.early_stopping.metric", stopping.metric, ["eval_loss", *made]))
    for place, name, there in wanted:
        if name not in there:
            raise ParamsError(f"{place}: {name} is not defined for these labels; there are {', '.join(there)}")
