"""A Hub data set's name becomes files: data/fetched/<split>.parquet, and source.json, all there is for local data."""

import hashlib
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages import command, outputs
from stages.errors import DataError
from stages.model import hub
from stages.params import HubParams, load_params

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

log = logging.getLogger(__name__)
SOURCE = "source.json"
BATCH = 10_000
"""Rows in memory at once, and in a row group."""


def load(params: HubParams, commit: str, *, cache: Path) -> "DatasetDict":
    """All splits at a commit; `cache` is where they lie, converted, while they are read.

    Raises:
        DataError: there is no such data set, configuration or revision, or nothing in it that can be read.
        MachineError: the Hub can't be reached.
    """
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:
        with hub.explained(params.name, params.revision, kind="dataset"):
            # As an address: a folder here that has the same name is not meant.
            return load_dataset(f"hf://datasets/{params.name}", params.config, revision=commit, cache_dir=str(cache))
    except (DatasetsError, ValueError, RuntimeError, FileNotFoundError) as error:
        found = (str(error.__cause__ or error).strip().splitlines() or [type(error).__name__])[0]
        if "Dataset scripts are no longer supported" in found:
            found += "; set data.hub.revision to refs/convert/parquet, where the Hub keeps most sets' rows as files"
        elif isinstance(error, ValueError):
            found += "; set data.hub.config to one of its configurations"
        raise DataError(f"data.hub.name {params.name}: not loaded: {found}") from error


def named_labels(rows: pa.Table, names: dict[str, list[str]]) -> pa.Table:
    """Rows whose class ids, in those columns, are the classes' names; -1, an unlabelled row's, stays as text."""
    for column, classes in names.items():
        texts = pc.take(pa.array(["-1", *classes]), pc.add(rows[column], 1))
        rows = rows.set_column(rows.column_names.index(column), column, texts)
    return rows.replace_schema_metadata(None)


def write(file: Path, rows: "Dataset") -> None:
    """Write a split as Parquet, a batch at a time; the same rows give the same bytes."""
    from datasets import ClassLabel

    names = {name: kind.names for name, kind in rows.features.items() if isinstance(kind, ClassLabel)}
    schema = named_labels(rows.data.table.schema.empty_table(), names).schema
    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, len(rows), BATCH):
            batch = rows.with_format("arrow")[start : start + BATCH]
            writer.write_table(named_labels(batch, names).cast(schema))


def fetch(params: HubParams, folder: Path) -> dict[str, Any]:
    """Fetch all splits into a folder; what came from where."""
    commit = hub.commit(params.name, params.revision, kind="dataset")
    log.info("%s: fetching commit %s from the Hub", params.name, commit)
    cache = folder / "cache"
    loaded = load(params, commit, cache=cache)
    files = {}
    for split, rows in loaded.items():
        file = folder / f"{split}.parquet"
        write(file, rows)
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        files[file.name] = {"rows": len(rows), "sha256": digest}
        log.info("%s: %d rows of %s", file.name, len(rows), ", ".join(rows.column_names))
    shutil.rmtree(cache)
    return {**params.model_dump(), "commit": commit, "files": files}


def main(fetched: Path) -> None:
    """Fetch what data.hub names."""
    params = load_params().data.hub
    with outputs.folder(fetched) as folder:
        source = (
            {"name": None, "note": "data.hub is null: the rows are local"} if params is None else fetch(params, folder)
        )
        outputs.write_json(folder / SOURCE, source)


if __name__ == "__main__":
    command.run(main, offline=False)
