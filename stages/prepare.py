"""Raw rows become clean, typed, labelled rows in train, validation and test, and a report on them."""

import logging
import random
from pathlib import Path
from typing import Any

import numpy as np

from stages import command, contradictions, lookup, outputs, tasks
from stages import splits as stored
from stages.data import data_report, raw_files, raw_labels, raw_rows, repeated_texts, splitting
from stages.data.raw_rows import RawRows
from stages.params import Params, load_params
from stages.tasks import Task

log = logging.getLogger(__name__)
REPORT = "report.json"


def read_splits(raw: Path, params: Params, task: Task) -> dict[str, RawRows]:
    """All rows with their labels, in train, validation and (unless none is asked for) test.

    A split that no file gives is cut from train's file or files; its fraction is one of all the rows in them.
    """
    files = raw_files.locate(raw, params.data)
    shares = splitting.to_be_cut(list(files), params.prepare)
    if shares:
        splitting.check_stratifiable(task, params.prepare)
    given = {}
    for split, paths in files.items():
        prefix = "row" if split == "train" and shares else split
        rows = raw_rows.read(raw, paths, params.data, split=split, id_prefix=prefix)
        given[split] = raw_labels.read(rows, task, split=split)
    raw_rows.check_ids(list(given.values()))
    if shares:
        whole = given.pop("train")
        classes = raw_labels.codes(whole) if params.prepare.split_by == "stratified" else None
        for split, indices in splitting.cut(whole, shares, params.prepare, classes).items():
            given[split] = whole.take(indices)
    return {split: given[split] for split in stored.NAMES if split in given}


def sample(rows: RawRows, max_rows: int | None, *, seed: int) -> RawRows:
    """At most so many rows, in their order."""
    if max_rows is None or len(rows) <= max_rows:
        return rows
    return rows.take(np.array(sorted(random.Random(seed).sample(range(len(rows)), max_rows))))


def prepare(raw: Path, params: Params) -> tuple[dict[str, RawRows], list[str], dict[str, Any]]:
    """The splits, the names of the classes, and the report."""
    raw_labels.check_column(params)
    task = lookup.find(tasks, params.task.type)
    splits = read_splits(raw, params, task)
    # Before any row of train is dropped: the names are those of the data, whatever a sample happens to hold.
    names = raw_labels.names(splits["train"], task, params.data.labels)
    contradictions.check_metrics(params, len(names))
    raw_labels.check_known(splits, task, names, given=params.data.labels is not None)
    digests = {split: repeated_texts.digests(rows) for split, rows in splits.items()}
    splits, leakage = repeated_texts.without_leaks(splits, digests, params.prepare)
    left = len(splits["train"])
    splits["train"] = sample(splits["train"], params.prepare.max_rows, seed=params.prepare.seed)
    raw_labels.check_variety(splits["train"], names, sampled=left > len(splits["train"]))
    digests["train"] = repeated_texts.digests(splits["train"])
    facts = {
        **data_report.report(splits, digests, names),
        "leakage": leakage,
        "left_out_by_max_rows": left - len(splits["train"]),
    }
    return splits, names, facts


def main(raw: Path, prepared: Path) -> None:
    """Write data/prepared: a Parquet file for each split, labels.json and report.json."""
    params = load_params()
    splits, names, facts = prepare(raw, params)
    with outputs.folder(prepared) as folder:
        for split, rows in splits.items():
            stored.write_rows(folder, split, rows.table)
        stored.write_label_names(folder, names)
        outputs.write_json(folder / REPORT, facts)
    log.info(
        "%s; dropped from train: %d also in validation or test, %d over max_rows",
        ", ".join(f"{split} {len(rows)} rows" for split, rows in splits.items()),
        facts["leakage"]["dropped_from_train"],
        facts["left_out_by_max_rows"],
    )


if __name__ == "__main__":
    command.run(main)
