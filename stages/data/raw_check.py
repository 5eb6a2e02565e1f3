"""A look at the raw data, and at what params.yaml says of them, without preparing them."""

from pathlib import Path

from stages import lookup, sources, tasks
from stages.data import raw_labels, splitting
from stages.data.raw_files import check_columns, locate, no_rows, some
from stages.errors import DataError
from stages.params import Params


def check(raw: Path, params: Params) -> list[str]:
    """One line on each file of the raw data, and one on what is cut from train; only the beginning of a file is read.

    Raises:
        DataError: a file or a column is not there, or the beginning of a file is malformed.
        ParamsError: the data, or their splits, are not described as the task needs them.
    """
    raw_labels.check_column(params)
    source = lookup.find(sources, params.data.format)
    files = locate(raw, params.data)
    lines = []
    for split, paths in files.items():
        for file in paths:
            columns = check_columns(file, params.data, split=split)
            if next(source.rows(file, params.data), None) is None:
                raise DataError(no_rows(file))
            size = file.stat().st_size / 1e6
            lines.append(f"{split}: {file} ({size:.1f} MB), columns {some(columns)}")
    if shares := splitting.to_be_cut(list(files), params.prepare):
        splitting.check_stratifiable(lookup.find(tasks, params.task.type), params.prepare)
        cut = " and ".join(f"{split} ({share:g} of its rows)" for split, share in shares.items())
        lines.append(f"{cut} cut from train, {params.prepare.split_by}, with seed {params.prepare.seed}")
    return lines
