"""The kinds of value that a knob in params.yaml can have, and how a section says that its knobs don't fit together."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from stages import lookup, training_arguments

FINDINGS = "findings"
"""The type of the pydantic error that carries several of our own messages."""


class Section(BaseModel):
    """A closed, strict, frozen group of knobs."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


def refuse(findings: Mapping[str, str]) -> None:
    """Raise if anything was found: the place, below where this is called, -> the message."""
    if findings:
        raise PydanticCustomError(FINDINGS, "several", {FINDINGS: dict(findings)})


def fits(contradictions: Callable[[Any], Mapping[str, str]]) -> AfterValidator:
    """A section whose knobs, each right by itself, say nothing against each other."""

    def check(section: Section) -> Section:
        refuse(contradictions(section))
        return section

    return AfterValidator(check)


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
        raise ValueError(f"{', '.join(map(str, repeated))} is in it more than once")
    return values


def codec(name: str) -> str:
    """The name of a Python text codec."""
    try:
        "".encode(name)
    except LookupError:
        raise ValueError(f"Python knows no encoding {name}; utf-8 and latin-1 are two that it knows") from None
    return name


def _optimizer(name: str) -> str:
    if mistake := training_arguments.optimizer_mistake(name):
        raise ValueError(mistake)
    return name


def _schedule(name: str) -> str:
    if mistake := training_arguments.schedule_mistake(name):
        raise ValueError(mistake)
    return name


def _arguments(arguments: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    refuse(training_arguments.mistakes(arguments, schedule=info.data.get("lr_scheduler_type")))
    return arguments


Fraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[list[Text], AfterValidator(distinct)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Character = Annotated[str, Field(min_length=1, max_length=1)]
Codec = Annotated[str, AfterValidator(codec)]
Optimizer = Annotated[
    str,
    AfterValidator(_optimizer),
    Field(json_schema_extra=lambda schema: schema.update(enum=list(training_arguments.OPTIMIZERS))),
]
Schedule = Annotated[
    str,
    AfterValidator(_schedule),
    Field(json_schema_extra=lambda schema: schema.update(enum=list(training_arguments.schema()["schedules"]))),
]
Arguments = Annotated[dict[str, Any], AfterValidator(_arguments)]
