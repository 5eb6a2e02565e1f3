"""The columns of raw data: which of them a run uses, and what can be wrong with their names."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stages import lookup
from stages.errors import DataError, ParamsError

if TYPE_CHECKING:
    from stages.params import ColumnsParams, DataParams


def stored_names(columns: "ColumnsParams") -> dict[str, str | None]:
    """The name each column has in data/prepared -> its name in the raw data (None: it is not there, or made).

    Raises:
        ParamsError: two columns would have the same name, or one raw column is to be two things.
    """
    pair = {"text_pair": columns.text_pair} if columns.text_pair is not None else {}
    roles: dict[str, str | None] = {"id": columns.id, "text": columns.text, **pair, "label": columns.label}
    for name in columns.extra:
        if name in roles:
            raise ParamsError(
                f"data.columns.extra: {name} is the name that data/prepared gives to the {name} of a row "
                f"(data.columns.{name}: {roles[name]}); leave it out of extra, or rename the column in the raw data"
            )
    given = [name for name in roles.values() if name is not None]
    if repeated := sorted({name for name in given if given.count(name) > 1}):
        raise ParamsError(
            f"data.columns: {', '.join(repeated)} is named for more than one of {', '.join(roles)}; "
            f"each of them is a column of its own"
        )
    return {**roles, **{name: name for name in columns.extra}}


def used(columns: "ColumnsParams") -> list[str]:
    """The raw columns that params.yaml names."""
    return [name for name in stored_names(columns).values() if name is not None]


def refuse_options(params: "DataParams", *, of: str) -> None:
    """Refuse what only delimited text has a use for.

    Raises:
        ParamsError: data.delimiter, data.quoting or data.names is given.
    """
    options = {"delimiter": params.delimiter, "quoting": params.quoting, "names": params.names}
    for key, value in options.items():
        if value is not None:
            raise ParamsError(f"data.{key}: {value!r} is for csv and tsv, and data.format is {of}; set it to null")


def check_header(file: Path, names: Sequence[str], *, remedy: str) -> None:
    """Each column of a file has a name, and a name of its own.

    Raises:
        DataError: the message ends with the remedy.
    """
    for position, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{file}: column {position} of {len(names)} has no name; {remedy}")
        if name in names[: position - 1]:
            first = names.index(name) + 1
            raise DataError(f"{file}: the columns {first} and {position} are both named {name!r}; {remedy}")


def check_present(place: str, there: Sequence[str], needed: Sequence[str], params: "DataParams") -> None:
    """The columns that are needed are there.

    Raises:
        DataError: it lists those there are, and the one nearest to a name that is missing.
    """
    for name in needed:
        if name not in there:
            hint = lookup.nearest(name, there) or "; correct data.columns in params.yaml"
            if len(there) == 1 and params.format in ("csv", "tsv"):
                hint = (
                    "; if that is several columns, set data.delimiter; if it is a row, name the columns in data.names"
                )
            raise DataError(f"{place}: there is no column {name!r}; there are {', '.join(map(repr, there))}{hint}")
