"""Write the two files that are made from code: stages/training_arguments.json and params.schema.json.

Run it after an upgrade of transformers or a change of stages/params.py: python -m scripts.generate
"""

import dataclasses
import inspect
import json
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAMES = {str: "str", int: "int", float: "float", bool: "bool", dict: "dict", list: "list", types.NoneType: "null"}


def value_types(hint: Any) -> list[str]:
    """The YAML types that a type hint allows: of a union all, of an enum the type of its values."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return sorted({name for part in typing.get_args(hint) for name in value_types(part)})
    if typing.get_origin(hint) is typing.Literal:
        return sorted({NAMES[type(value)] for value in typing.get_args(hint)})
    origin = typing.get_origin(hint) or hint
    if isinstance(origin, type) and issubclass(origin, Enum):
        return ["str"]
    return [NAMES[origin]] if origin in NAMES else ["object"]


def choices(hint: Any) -> list[str] | None:
    """The values of an enum, where the type hint has one."""
    for part in (hint, *typing.get_args(hint)):
        if isinstance(part, type) and issubclass(part, Enum):
            return [member.value for member in part]
    return None


def schedule_arguments(schedule: Any) -> dict[str, list[str]]:
    """What lr_scheduler_kwargs may hold for a schedule, and what of it has no default."""
    given = {"optimizer", "num_warmup_steps", "num_training_steps", "last_epoch"}
    parameters = {name: p for name, p in inspect.signature(schedule).parameters.items() if name not in given}
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        parameters = {}
    return {
        "arguments": sorted(parameters),
        "required": sorted(name for name, p in parameters.items() if p.default is p.empty),
    }


def training_arguments() -> dict[str, Any]:
    """The fields of transformers.TrainingArguments with their types, and the names of optimizers and schedules."""
    # These two hand all they get to a class, whose signature says what that is.
    import torch
    from transformers import TrainingArguments
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION, GreedyLR
    from transformers.training_args import OptimizerNames

    classes = {"reduce_lr_on_plateau": torch.optim.lr_scheduler.ReduceLROnPlateau, "greedy": GreedyLR}
    hints = typing.get_type_hints(TrainingArguments)
    fields = {}
    for field in dataclasses.fields(TrainingArguments):
        fields[field.name] = {"types": value_types(hints[field.name])}
        if allowed := choices(hints[field.name]) or field.metadata.get("choices"):
            fields[field.name]["choices"] = list(allowed)
    return {
        "fields": fields,
        "optimizers": [name.value for name in OptimizerNames],
        "schedules": {
            name.value: schedule_arguments(classes.get(name.value, schedule))
            for name, schedule in TYPE_TO_SCHEDULER_FUNCTION.items()
        },
    }


def params_schema() -> dict[str, Any]:
    """The JSON schema of params.yaml, for editors."""
    from stages.params import Params

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Params.model_json_schema()}


GENERATED = {"stages/training_arguments.json": training_arguments, "params.schema.json": params_schema}
"""Path in the checkout -> what makes its content."""


def text(content: Any) -> str:
    """JSON as these files hold it."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, make in GENERATED.items():
        (ROOT / path).write_text(text(make()), encoding="utf-8")
        print(f"wrote {path}")
