"""Prepared rows become token ids and label ids, truncated and not padded, and a report on their lengths."""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from stages import command, lookup, outputs, progress, splits, tasks
from stages.errors import DataError
from stages.model import base_model, token_lengths
from stages.params import load_params

log = logging.getLogger(__name__)
REPORT = "report.json"
TYPES = {"input_ids": pa.int32(), "token_type_ids": pa.int8()}
LABEL_TYPES = {"string": pa.int64(), "double": pa.float32()}


class Encoder(NamedTuple):
    """A batch of rows -> the columns that are stored, and num_tokens. (A lambda would not reach another process.)"""

    task: tasks.Task
    tokenizer: Any
    max_length: int
    inputs: list[str]
    """What the tokenizer makes and the model takes, but for the attention mask, which follows from the lengths."""

    def __call__(self, rows: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Token ids of each row, their number, and their number before truncation."""
        made = self.task.encode(rows, self.tokenizer, max_length=self.max_length)
        return {name: made[name] for name in (*self.inputs, "length", "num_tokens")}


def load_encoder(base: Path, task: tasks.Task, *, max_length: int) -> Encoder:
    """The tokenizer of a base model that can take rows of that length.

    Raises:
        UserError: it can't; or the tokenizer can't pad.
    """
    trusted = base_model.trusts_remote_code(base)
    config = base_model.load_config(base, name=str(base), trust_remote_code=trusted)
    tokenizer = base_model.load_tokenizer(base, name=str(base), trust_remote_code=trusted)
    base_model.check_max_length(max_length, config, tokenizer, task, trust_remote_code=trusted)
    without = {"attention_mask"} | (set() if base_model.takes_token_types(config, task) else {"token_type_ids"})
    inputs = [name for name in tokenizer.model_input_names if name not in without]
    return Encoder(task, tokenizer, max_length, inputs)


@contextmanager
def tokenizer_threads(*, allowed: bool) -> Iterator[None]:
    """Let the tokenizer use all cores by itself, or forbid it: in forked processes its threads dead-lock."""
    before = os.environ.get("TOKENIZERS_PARALLELISM", "false")
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if allowed else "false"
    try:
        yield
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = before


def tokens(texts: pa.Table, encoder: Encoder, *, split: str, processes: int, cache: Path) -> pa.Table:
    """Encode all rows, in their order; the result lies in files under `cache`, not in memory."""
    from datasets import Dataset, Features
    from datasets.table import InMemoryTable

    inputs = {name: pa.list_(TYPES.get(name, pa.int32())) for name in encoder.inputs}
    schema = pa.schema({**inputs, "length": pa.int32(), "num_tokens": pa.int32()})
    # The fingerprints are given, since to find them out both the rows and the tokenizer would be pickled.
    encode_all = partial(
        Dataset(InMemoryTable(texts), fingerprint="texts").map,
        batched=True,
        remove_columns=texts.column_names,
        features=Features.from_arrow_schema(schema),
        cache_file_name=str(cache / "tokens.arrow"),
        new_fingerprint="tokens",
    )
    if processes > 1:
        log.info("encoding %s: %d rows in %d processes", split, texts.num_rows, processes)
        return encode_all(encoder, num_proc=processes).data.table
    with progress.shown(f"encoding {split}", total=texts.num_rows, unit="rows") as move:

        def encode_and_tell(rows: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
            made = encoder(rows)
            move(len(made["length"]))
            return made

        return encode_all(encode_and_tell).data.table


def encode(
    rows: pa.Table, names: list[str], encode_texts: Callable[[pa.Table], pa.Table], task: tasks.Task
) -> pa.Table:
    """A split's rows, with num_tokens, and with label ids where it is labelled."""
    texts = rows.select([name for name in task.TEXT_COLUMNS if name in rows.column_names])
    encoded = encode_texts(texts)
    if not splits.has_labels(rows):
        return encoded
    ids = task.label_ids(rows["label"].to_pylist(), names)
    return encoded.append_column("labels", pa.array(ids, LABEL_TYPES[task.LABEL_TYPE]))


def main(prepared: Path, base: Path, encoded: Path) -> None:
    """Encode each split that is there."""
    params = load_params()
    task: tasks.Task = lookup.find(tasks, params.task.type)
    max_length, processes = params.encode.max_length, params.runtime.encode_processes
    encoder = load_encoder(base, task, max_length=max_length)
    names = splits.read_label_names(prepared)
    report = {}
    with outputs.folder(encoded) as folder, tokenizer_threads(allowed=processes == 1):
        splits.write_label_names(folder, names)
        for split in splits.present(prepared):
            rows = splits.read_rows(prepared, split)
            if not rows.num_rows:
                raise DataError(f"{prepared}: no row in {split}; run the prepare stage again (dvc repro prepare)")
            cache = folder / "cache"
            cache.mkdir()
            made = encode(
                rows, names, partial(tokens, encoder=encoder, split=split, processes=processes, cache=cache), task
            )
            report[split] = token_lengths.measure(made["num_tokens"].to_numpy(), max_length=max_length)
            token_lengths.tell(split, report[split], max_length=max_length)
            splits.write_encoded(folder, split, made.drop_columns(["num_tokens"]))
            shutil.rmtree(cache)
        outputs.write_json(folder / REPORT, report)


if __name__ == "__main__":
    command.run(main)
