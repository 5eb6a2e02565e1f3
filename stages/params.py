"""params.yaml, typed: the same sections, in the same order, under the same names. It derives nothing."""

from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML, YAMLError

from stages import lookup, metrics, sources, tasks, training_arguments
from stages.errors import ParamsError


def known_in(package: ModuleType) -> AfterValidator:
    """A name that has a file in the package."""

    def check(name: str) -> str:
        if name not in lookup.names(package):
            raise ValueError(lookup.unknown(name, package))
        return name

    return AfterValidator(check)


def distinct(values: list[Any]) -> list[Any]:
    """A list without a repeated value."""
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"{', '.join(map(str, repeated))} stands in it more than once")
    return values


Fraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
SPLITS = ("train", "validation", "test")


class Section(BaseModel):
    """A closed, strict, frozen group of knobs."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


class TaskParams(Section):
    """What is learned."""

    type: Annotated[str, known_in(tasks)]
    """The kind of labels: a file in stages/tasks/."""


class ModelParams(Section):
    """The model to start from: read by fetch_model."""

    name: Text
    """A Hub id, a local folder, or package:<import path>/<folder>."""

    revision: Text | None
    """Of a Hub id: a branch, a tag or a commit; source.json records the commit it stood for."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None
    """The digest of the weights (model.safetensors): required for a folder or a package, so that a changed model is a
    changed run."""

    trust_remote_code: bool
    """Whether Python code in the model's Hub repository may run."""

    @model_validator(mode="after")
    def pinned(self) -> Self:
        """A model that the Hub does not version is pinned by its digest."""
        local = self.name.startswith("package:") or Path(self.name).exists()
        if local and self.sha256 is None:
            raise ValueError(
                "sha256 is required for a local folder or a package: sha256sum model.safetensors prints it"
            )
        if local and self.revision is not None:
            raise ValueError("revision is for Hub ids; set it to null for a local folder or a package")
        return self


class HubParams(Section):
    """A data set of the Hub: read by fetch_data."""

    name: Text
    config: Text | None
    revision: Text | None
    """A branch, a tag or a commit."""


class ColumnsParams(Section):
    """Which column of the raw data is what."""

    text: Text
    text_pair: Text | None
    """The second text, for tasks on pairs."""

    label: Text | None
    """null: no split is labelled."""

    id: Text | None
    """null: ids are made, <split>-<number>."""

    extra: Annotated[list[Text], AfterValidator(distinct)]
    """Further columns to keep beside the rows: for test.slices, and for a person who reads the predictions."""


class DataParams(Section):
    """Where the rows come from and how they are written: read by prepare (data.hub by fetch_data)."""

    hub: HubParams | None
    """A data set of the Hub, fetched into data/fetched as Parquet; then raw is data/fetched and format is parquet."""

    raw: Text
    """An existing file or folder: DVC's dependency."""

    format: Annotated[str, known_in(sources)]
    """How the files are written: a file in stages/sources/."""

    files: dict[Literal["train", "validation", "test"], Text] | None
    """Which file, relative to raw, is which split; null: raw is one file (or a folder of such files) to be split."""

    columns: ColumnsParams

    labels: Annotated[list[Text], Field(min_length=2), AfterValidator(distinct)] | None
    """The label names in the order of their ids; null: those in train, sorted."""

    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None
    """csv and tsv: one character; null: the format's own."""

    quoting: Literal["minimal", "none"] | None
    """csv and tsv: whether a double quote encloses a field (RFC 4180) or is a character like any other; null: the
    format's own, minimal for csv and none for tsv."""

    encoding: Text
    """A Python codec's name; a byte order mark is taken off."""

    names: Annotated[list[Text], Field(min_length=1), AfterValidator(distinct)] | None
    """csv and tsv: the columns of a file without a header line; null: its first line names them."""


class PrepareParams(Section):
    """How rows become splits."""

    seed: Seed
    validation_fraction: Fraction
    """Of all rows, where data.files gives no validation file."""

    test_fraction: Annotated[float, Field(ge=0, lt=1)]
    """Of all rows, where data.files gives no test file; 0: no test split is made."""

    split_by: Literal["stratified", "random"]
    max_rows: Count | None
    """A seeded sample of at most so many train rows."""

    leakage: Literal["drop", "warn", "error"]
    """What becomes of train rows whose text is also in validation or test."""

    @model_validator(mode="after")
    def leaves_rows_to_train_on(self) -> Self:
        """The two fractions together leave a train split."""
        if self.validation_fraction + self.test_fraction >= 1:
            raise ValueError("validation_fraction and test_fraction together leave no rows to train on; lower one")
        return self


class EncodeParams(Section):
    """How rows become token ids."""

    max_length: Count
    """Tokens of a row, special tokens included; longer rows are truncated."""


class EarlyStoppingParams(Section):
    """When to stop before the last epoch."""

    metric: Text
    """eval_loss, or one of the task's metrics."""

    patience: Count
    """Evaluations in a row without an improvement."""

    min_delta: NotNegative
    """The smallest change that counts as one."""


class TrainParams(Section):
    """How the model is fitted."""

    processes: Count
    threads: Count | None
    """OpenMP threads of each process: they decide the last bits of a sum; null: the cores divided by the processes."""

    precision: Literal["auto", "fp32", "bf16"]
    batch_size: Count
    """Rows per optimizer step, over all processes and accumulation steps."""

    max_rows_per_device: Count | None
    """At once on one device; null: batch_size / processes. Accumulation is derived, and must come out whole."""

    learning_rate: Positive
    num_train_epochs: Positive
    max_steps: int
    optim: Text
    weight_decay: NotNegative
    lr_scheduler_type: Text
    warmup_steps: NotNegative
    max_grad_norm: NotNegative
    label_smoothing_factor: Annotated[float, Field(ge=0, lt=1)]
    train_sampling_strategy: Literal["group_by_length", "random"]
    eval_strategy: Literal["epoch", "steps"]
    eval_steps: Count | None
    early_stopping: EarlyStoppingParams | None
    logging_steps: Count
    full_determinism: bool
    """Deterministic kernels only: slower on a GPU, and needed there for the same bits."""

    arguments: dict[str, Any]
    """Further fields of transformers.TrainingArguments, by their own names; stages/training_arguments.py says which."""

    @model_validator(mode="after")
    def divides(self) -> Self:
        """The global batch comes out whole on every process and in every accumulation step."""
        if self.batch_size % self.processes:
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of processes {self.processes}")
        rows = self.batch_size // self.processes
        at_once = self.max_rows_per_device or rows
        if rows % min(at_once, rows):
            raise ValueError(
                f"batch_size {self.batch_size} is {rows} rows for each of {self.processes} processes, "
                f"which max_rows_per_device {at_once} does not divide"
            )
        if (self.eval_strategy == "steps") != (self.eval_steps is not None):
            raise ValueError("eval_steps is a number where eval_strategy is steps, and null where it is epoch")
        if self.max_steps < 1 and self.max_steps != -1:
            raise ValueError(
                f"max_steps is a number of steps, or -1 where num_train_epochs decides, not {self.max_steps}"
            )
        if mistakes := training_arguments.mistakes(self.arguments):
            raise ValueError("; ".join(mistakes))
        return self


class EvaluateParams(Section):
    """How checkpoints are scored."""

    batch_size: Count
    """Rows at once on the device, in evaluate, test and export."""


class SelectBestParams(Section):
    """What "best" means."""

    metric: Annotated[str, known_in(metrics)]
    """One of the task's metrics: a file in stages/metrics/."""


class TestParams(Section):
    """How the best checkpoint is reported on the test split."""

    slices: Annotated[list[Text], AfterValidator(distinct)]
    """Columns of data.columns.extra: each of their values is scored apart."""

    bootstrap_resamples: Count
    confidence_level: Fraction
    seed: Seed


class ExportParams(Section):
    """What is handed over, and how near it must be to the PyTorch model."""

    opset: Annotated[int, Field(ge=18, le=24)]
    int8: Literal["required", "optional", "off"]
    """required: too large a loss ends the run (exit 3); optional: int8 is then left out; off: none is made."""

    tolerance: Positive
    """The largest |difference| of any logit between the fp32 ONNX model and PyTorch, on validation."""

    max_metric_drop: NotNegative
    """How much worse than PyTorch's the int8 model's select_best.metric may be, on validation."""


class RuntimeParams(Section):
    """What decides no byte of the outputs: no stage depends on it."""

    log_level: Literal["debug", "info", "warning", "error"]
    encode_processes: Count
    dataloader_num_workers: Annotated[int, Field(ge=0)]
    save_steps: Count
    """Optimizer steps between two saves of the state that resume needs."""


class Params(Section):
    """All of params.yaml."""

    task: TaskParams
    seeds: Annotated[list[Seed], Field(min_length=1), AfterValidator(distinct)]
    """One training for each; select_best chooses among all of their checkpoints."""

    model: ModelParams
    data: DataParams
    prepare: PrepareParams
    encode: EncodeParams
    train: TrainParams
    evaluate: EvaluateParams
    select_best: SelectBestParams
    test: TestParams
    export: ExportParams
    runtime: RuntimeParams

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        """What one section says of another holds."""
        made = lookup.find(tasks, self.task.type).METRICS
        if self.select_best.metric not in made:
            raise ValueError(
                f"select_best.metric: the task {self.task.type} does not produce {self.select_best.metric}; "
                f"it produces {', '.join(made)}"
            )
        stopping = self.train.early_stopping
        if stopping and stopping.metric not in ("eval_loss", *made):
            raise ValueError(
                f"train.early_stopping.metric: {stopping.metric} is not eval_loss nor one of the task's metrics: "
                f"{', '.join(made)}{lookup.nearest(stopping.metric, ('eval_loss', *made))}"
            )
        for column in self.test.slices:
            if column not in self.data.columns.extra:
                raise ValueError(
                    f"test.slices: {column} is not in data.columns.extra {self.data.columns.extra}; add it"
                )
        return self


def _fields_at(place: tuple[int | str, ...]) -> list[str]:
    """The names there are at a place of the tree."""
    model: Any = Params
    for key in place:
        field = model.model_fields.get(key) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            return []
        candidates = getattr(field.annotation, "__args__", (field.annotation,))
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _mistake(error: ErrorDetails) -> str:
    """One line: the place, what was found, what is allowed."""
    place = error["loc"]
    where = ".".join(map(str, place))
    if error["type"] == "extra_forbidden":
        name = str(place[-1])
        explained = training_arguments.explain(name) if place[0] == "train" else None
        return f"{where}: there is no such key{lookup.nearest(name, _fields_at(place[:-1]))}{explained or ''}"
    if error["type"] == "missing":
        return f"{where}: this key is missing; every knob is stated, see stages/params.py"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error" and isinstance(error["input"], (dict, BaseModel)):
        return f"{where}: {message}" if where else message
    return f"{where}: {message}, not {error['input']!r}"


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check all of params.yaml.

    Raises:
        ParamsError: it names every mistake in the file at once: the place, what was found, what is allowed.
    """
    try:
        # YAML 1.2, as DVC reads it: PyYAML's 1.1 takes 2e-5 for a string and `on` for True.
        raw = YAML(typ="safe").load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path}: there is no such file; run in the folder of the checkout") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path}: not readable as YAML: {error}") from None
    if not isinstance(raw, dict):
        raise ParamsError(f"{path}: it holds no sections; see presets/ for complete files")
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        mistakes = [f"  {_mistake(details)}" for details in error.errors()]
        raise ParamsError("\n".join([f"{path} has {len(mistakes)} mistake(s):", *mistakes])) from None
