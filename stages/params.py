"""params.yaml, typed: the same sections, in the same order, under the same names. It derives nothing."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from stages import contradictions, knobs, metrics, params_file, sources, tasks
from stages.errors import ParamsError
from stages.knobs import Section


class TaskParams(Section):
    """What is learned."""

    type: Annotated[str, knobs.known_in(tasks)]
    """The kind of labels: a file in stages/tasks/."""


class ModelParams(Section):
    """The model to start from: read by fetch_model."""

    name: knobs.Text
    """A Hub id, a local folder, or package:<import path>/<folder>."""

    revision: knobs.Text | None
    """Of a Hub id: a branch, a tag or a commit; source.json records the commit it stood for."""

    sha256: knobs.Digest | None
    """Of model.safetensors: required for a folder or a package, so that a changed model is a changed run."""

    trust_remote_code: bool
    """Whether Python code in the model's Hub repository may run."""


class HubParams(Section):
    """A data set of the Hub: read by fetch_data."""

    name: knobs.Text
    config: knobs.Text | None
    revision: knobs.Text | None
    """A branch, a tag or a commit."""


class ColumnsParams(Section):
    """Which column of the raw data is what."""

    text: knobs.Text
    text_pair: knobs.Text | None
    """The second text, for tasks on pairs."""

    label: knobs.Text | None
    """null: no split is labelled."""

    id: knobs.Text | None
    """null: ids are made, <split>-<number>."""

    extra: knobs.Names
    """Further columns to keep beside the rows: for test.slices, and for a person who reads the predictions."""


class DataParams(Section):
    """Where the rows come from and how they are written: read by prepare (data.hub by fetch_data)."""

    hub: HubParams | None
    """A data set of the Hub, fetched into data/fetched as Parquet; then raw is data/fetched and format is parquet."""

    raw: knobs.Text
    """An existing file or folder: DVC's dependency."""
    format: Annotated[str, knobs.known_in(sources)]
    """How the files are written: a file in stages/sources/."""

    files: dict[Literal["train", "validation", "test"], knobs.Text] | None
    """Which file, relative to raw, is which split; null: raw is one file (or a folder of such files) to be split."""

    columns: ColumnsParams
    labels: Annotated[knobs.Names, Field(min_length=2)] | None
    """The label names in the order of their ids; null: those in train, sorted."""

    delimiter: knobs.Character | None
    """csv and tsv: one character; null: the format's own."""

    quoting: Literal["minimal", "none"] | None
    """csv and tsv: whether a double quote encloses a field (RFC 4180) or is a part of it; null: as the format."""

    encoding: knobs.Codec
    """A Python codec's name; a byte order mark is taken off."""

    names: Annotated[knobs.Names, Field(min_length=1)] | None
    """csv and tsv: the columns of a file without a header line; null: its first line names them."""


class PrepareParams(Section):
    """How rows become splits."""

    seed: knobs.Seed
    validation_fraction: knobs.Fraction
    """Of all rows, where data.files gives no validation file."""

    test_fraction: Annotated[float, Field(ge=0, lt=1)]
    """Of all rows, where data.files gives no test file; 0: no test split is made."""

    split_by: Literal["stratified", "random"]
    max_rows: knobs.Count | None
    """A seeded sample of at most so many train rows."""

    leakage: Literal["drop", "warn", "error"]
    """What becomes of train rows whose text is also in validation or test."""


class EncodeParams(Section):
    """How rows become token ids."""

    max_length: knobs.Count
    """Tokens of a row, special tokens included; longer rows are truncated."""


class EarlyStoppingParams(Section):
    """When to stop before the last epoch."""

    metric: knobs.Text
    """eval_loss, or one of the task's metrics."""

    patience: knobs.Count
    """Evaluations in a row without an improvement."""

    min_delta: knobs.NotNegative
    """The smallest change that counts as one."""


class TrainParams(Section):
    """How the model is fitted."""

    processes: knobs.Count
    threads: knobs.Count | None
    """OpenMP threads of each process: they decide the last bits of a sum; null: the cores divided by the processes."""

    precision: Literal["auto", "fp32", "bf16"]
    batch_size: knobs.Count
    """Rows per optimizer step, over all processes and accumulation steps."""

    max_rows_per_device: knobs.Count | None
    """At once on one device; null: batch_size / processes. Accumulation is derived, and must come out whole."""

    learning_rate: knobs.Positive
    num_train_epochs: knobs.Positive
    max_steps: int
    optim: knobs.Optimizer
    weight_decay: knobs.NotNegative
    lr_scheduler_type: knobs.Schedule
    warmup_steps: knobs.NotNegative
    max_grad_norm: knobs.NotNegative
    label_smoothing_factor: Annotated[float, Field(ge=0, lt=1)]
    train_sampling_strategy: Literal["group_by_length", "random"]
    eval_strategy: Literal["epoch", "steps"]
    eval_steps: knobs.Count | None
    early_stopping: EarlyStoppingParams | None
    logging_steps: knobs.Count
    allow_resume_on_other_world: bool
    full_determinism: bool
    """Deterministic kernels only: slower on a GPU, and needed there for the same bits."""

    arguments: knobs.Arguments
    """Further fields of transformers.TrainingArguments, by their own names; stages/training_arguments.py says which."""


class EvaluateParams(Section):
    """How checkpoints are scored."""

    batch_size: knobs.Count
    """Rows at once on the device, in evaluate, test and export."""


class SelectBestParams(Section):
    """What "best" means."""

    metric: Annotated[str, knobs.known_in(metrics)]
    """One of the task's metrics: a file in stages/metrics/."""


class TestParams(Section):
    """How the best checkpoint is reported on the test split."""

    slices: knobs.Names
    """Columns of data.columns.extra: each of their values is scored apart."""

    bootstrap_resamples: knobs.Count
    confidence_level: knobs.Fraction
    seed: knobs.Seed


class ExportParams(Section):
    """What is handed over, and how near it must be to the PyTorch model."""

    opset: Annotated[int, Field(ge=18, le=24)]
    int8: Literal["required", "optional", "off"]
    """required: too large a loss ends the run (exit 3); optional: int8 is then left out; off: none is made."""

    tolerance: knobs.Positive
    """The largest |difference| of any logit between the fp32 ONNX model and PyTorch, on validation."""

    max_metric_drop: knobs.NotNegative
    """How much worse than PyTorch's the int8 model's select_best.metric may be, on validation."""


class RuntimeParams(Section):
    """What decides no byte of the outputs: no stage depends on it."""

    log_level: Literal["debug", "info", "warning", "error"]
    encode_processes: knobs.Count
    dataloader_num_workers: Annotated[int, Field(ge=0)]
    max_restarts: Annotated[int, Field(ge=0)]
    save_steps: knobs.Count


class Params(Section):
    """All of params.yaml."""

    task: TaskParams
    seeds: Annotated[list[knobs.Seed], Field(min_length=1), AfterValidator(knobs.distinct)]
    """One training for each; select_best chooses among all of their checkpoints."""

    model: Annotated[ModelParams, knobs.fits(contradictions.of_model)]
    data: Annotated[DataParams, knobs.fits(contradictions.of_data)]
    prepare: Annotated[PrepareParams, knobs.fits(contradictions.of_prepare)]
    encode: EncodeParams
    train: Annotated[TrainParams, knobs.fits(contradictions.of_train)]
    evaluate: EvaluateParams
    select_best: SelectBestParams
    test: TestParams
    export: ExportParams
    runtime: RuntimeParams

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        """What one section asks for, the others give."""
        knobs.refuse(contradictions.between_sections(self))
        return self


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check all of params.yaml.

    Raises:
        ParamsError: it names every mistake (how knobs fit together is looked at when each is right by itself).
    """
    try:
        return Params.model_validate(params_file.read(path))
    except ValidationError as error:
        raise ParamsError(params_file.describe(path, error, Params)) from None
