"""Cut rows into splits: seeded, at random or with the same share of each class in every split."""

import numpy as np
from numpy.typing import NDArray

from stages.data.raw_rows import Indices, RawRows
from stages.errors import DataError, ParamsError
from stages.params import PrepareParams
from stages.tasks import Label, Task

Classes = tuple[list[Label], NDArray[np.int64]]
"""The distinct labels, and which of them each row has: shape (rows,)."""


def to_be_cut(given: list[str], params: PrepareParams) -> dict[str, float]:
    """The splits that no file gives -> their share of the rows they are cut from."""
    shares = {"validation": params.validation_fraction, "test": params.test_fraction}
    return {split: share for split, share in shares.items() if split not in given and share > 0}


def check_stratifiable(task: Task, params: PrepareParams) -> None:
    """Only classes can be shared out; numbers are split at random.

    Raises:
        ParamsError: a stratified split is asked for, and the task has numbers for labels.
    """
    if params.split_by == "stratified" and task.LABEL_TYPE != "string":
        raise ParamsError(
            "prepare.split_by: stratified shares out classes, and the labels of this task are numbers; set it to random"
        )


def cut(rows: RawRows, shares: dict[str, float], params: PrepareParams, classes: Classes | None) -> dict[str, Indices]:
    """Which rows are in which split, each split in the order of the file.

    Args:
        rows: what is cut.
        shares: split -> its share of the rows; what remains is train.
        params: the seed.
        classes: for a stratified cut the names of the classes, and the class of each row, shape (rows,).

    Raises:
        DataError: a split would be empty, or would lack a class.
    """
    from sklearn.model_selection import train_test_split

    sizes = {split: round(len(rows) * share) for split, share in shares.items()}
    if not all(sizes.values()) or sum(sizes.values()) >= len(rows):
        asked = ", ".join(f"{split} ({share:g} of the rows)" for split, share in shares.items())
        raise DataError(
            f"{len(rows)} row(s) in {', '.join(rows.files)} are too few to cut {asked} from and keep some for train; "
            f"add rows, change prepare.validation_fraction and prepare.test_fraction, or name files in data.files"
        )
    made: dict[str, Indices] = {}
    rest = np.arange(len(rows))
    for split, size in sizes.items():
        stratify = None if classes is None else classes[1][rest]
        try:
            rest, taken = train_test_split(rest, test_size=size, random_state=params.seed, stratify=stratify)
        except ValueError as error:
            # Its own checks of a stratified cut: fewer rows in a class than splits, fewer rows in a split than classes.
            assert classes is not None
            raise DataError(_too_few(classes, sizes, str(error))) from None
        made[split] = np.sort(taken)
    made["train"] = np.sort(rest)
    if classes is not None:
        for split, indices in made.items():
            if len(np.unique(classes[1][indices])) < len(classes[0]):
                raise DataError(_too_few(classes, sizes, f"{split} would lack a class"))
    return made


def _too_few(classes: Classes, sizes: dict[str, int], reason: str) -> str:
    rows_of = np.bincount(classes[1], minlength=len(classes[0]))
    smallest = ", ".join(f"{classes[0][code]} ({rows_of[code]})" for code in np.argsort(rows_of, kind="stable")[:5])
    asked = ", ".join(f"{size} for {split}" for split, size in sizes.items())
    return (
        f"a class has too few rows to be in every split (rows cut: {asked}; the smallest of {len(rows_of)} classes: "
        f"{smallest}): {reason.rstrip('.')}; add rows, merge or leave out rare classes, raise the fractions in "
        f"prepare, or set prepare.split_by to random"
    )
