"""params.yaml as a file: read as YAML, and what is wrong in it put in words, one line for each mistake."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from stages import training_arguments
from stages.errors import ParamsError
from stages.knobs import FINDINGS
from stages.lookup import nearest

LONGEST_SHOWN = 60
Place = tuple[int | str, ...]


def read(path: Path) -> dict[Any, Any]:
    """The YAML in a file: 1.2, as DVC reads it. PyYAML's 1.1 takes 2e-5 for a string and `on` for True.

    Raises:
        ParamsError: there is no such file, or it is not YAML; the message has the line.
    """
    try:
        found = YAML(typ="safe").load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path}: there is no such file; run in the folder of the checkout") from None
    except IsADirectoryError:
        raise ParamsError(f"{path}: it is a folder; it should be a YAML file") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ParamsError(f"{path}{where}: not readable as YAML: {error.problem or error.context}") from None
    except (YAMLError, ValueError) as error:
        raise ParamsError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise ParamsError(f"{path}: it holds no sections; presets/ has complete files")
    return found


def describe(path: Path, error: ValidationError, model: type[BaseModel]) -> str:
    """All mistakes in one message, a line for each, in the order of the sections."""
    lines = [line for details in error.errors(include_url=False) for line in _lines(details, model)]
    return "\n  ".join([f"{path} has {len(lines)} mistake{'s' * (len(lines) > 1)}:", *lines])


def shown(value: Any) -> str:
    """A value as YAML writes it, cut short."""
    if isinstance(value, dict):
        return f"a section with the keys {', '.join(map(str, value))}"[:LONGEST_SHOWN] if value else "an empty section"
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _lines(error: ErrorDetails, model: type[BaseModel]) -> Iterator[str]:
    # pydantic puts "[key]" behind a key of a mapping that is itself at fault.
    place = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == FINDINGS:
        for name, message in error["ctx"][FINDINGS].items():
            yield f"{_written((*place, name))}: {message}"
    else:
        yield f"{_written(place)}: {_message(error, place, model)}"


def _written(place: Place) -> str:
    return ".".join(str(part) for part in place if part != "")


def _message(error: ErrorDetails, place: Place, model: type[BaseModel]) -> str:
    kind, value, message = error["type"], error["input"], error["msg"]
    if kind == "missing":
        return "it is missing; every knob is stated, and what it means is written in stages/params.py"
    if kind == "extra_forbidden":
        return f"there is no such key{_instead(place, model)}"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        keys = ", ".join(_keys(place, model))
        return f"should be a section{' with the keys ' + keys if keys else ''}, not {shown(value)}"
    if kind == "string_type" and isinstance(value, int | float):
        return f'{message}, not {shown(value)}; write it in quotes: "{shown(value)}"'
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind == "literal_error" and isinstance(value, str):
        allowed = error["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"{message}, not {shown(value)}{nearest(value, allowed)}"
    return f"{message}, not {shown(value)}"


def _instead(place: Place, model: type[BaseModel]) -> str:
    """What may have been meant by a key that there is not."""
    name = str(place[-1])
    if place[0] == "train" and (explained := training_arguments.explain(name)):
        return f": {explained}"
    if near := nearest(name, _keys(place[:-1], model)):
        return near
    elsewhere = [path for path in _paths(model) if path.rpartition(".")[2] == name]
    return f"; there is {' and '.join(elsewhere)}" if elsewhere else ""


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section that a knob's type is, or may be."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _keys(place: Place, model: type[BaseModel]) -> list[str]:
    """The names there are in the section at a place of the tree."""
    for part in place:
        field = model.model_fields.get(str(part))
        section = _section(field.annotation) if field else None
        if section is None:
            return []
        model = section
    return list(model.model_fields)


def _paths(model: type[BaseModel]) -> Iterator[str]:
    """The dotted names of all knobs."""
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        yield from (f"{name}.{below}" for below in _paths(section)) if section else (name,)
