"""The checkout that a command works on: that of the current folder, and the one its own code is of."""

from pathlib import Path

import pipeline
from stages.errors import UserError

CODE = Path(pipeline.__file__).resolve().parents[1]
"""The folder that this very code lies in."""


def require(folder: Path) -> None:
    """The folder is the top of the checkout that this code is of.

    Raises:
        UserError: it is another checkout, below the top of one, or none: other code than what lies there would run it.
    """
    found = next((one for one in (folder, *folder.parents) if _is_checkout(one)), None)
    if found is None:
        raise UserError(f"{folder}: no checkout of remint (a folder with dvc.yaml and pipeline/); cd into yours")
    if found.resolve() != CODE:
        raise UserError(
            f"{found}: this `remint` is of another checkout, {CODE}; use the one of this checkout: activate its "
            "environment, or run `make install` in it"
        )
    if found != folder:
        raise UserError(f"{folder}: paths are those of the checkout's top folder; cd {found}")


def _is_checkout(folder: Path) -> bool:
    return (folder / "dvc.yaml").is_file() and (folder / "pipeline/cli.py").is_file()
