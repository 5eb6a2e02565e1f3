"""One test file for each format."""

from pathlib import Path
from typing import Any

from stages import lookup, sources
from stages.params import DataParams
from tests import tiny


def data_params(**knobs: Any) -> DataParams:
    """The data section for a file with a text and a label: data_params(delimiter=";", **{"columns.id": None})."""
    made = {"columns.extra": [], **knobs}
    return DataParams.model_validate(tiny.params(**{f"data.{key}": value for key, value in made.items()})["data"])


def read(name: str, file: Path, **knobs: Any) -> list[dict[str, str | None]]:
    """The fields of all rows."""
    return [row.fields for row in lookup.find(sources, name).rows(file, data_params(**knobs))]


def numbers(name: str, file: Path, **knobs: Any) -> list[int]:
    """The numbers of all rows."""
    return [row.number for row in lookup.find(sources, name).rows(file, data_params(**knobs))]
