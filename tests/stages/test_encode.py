"""Prepared rows become token ids: the same bytes wherever, whenever and in however many processes."""

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import encode, outputs, splits
from stages.errors import DataError, ModelError, UserError
from tests import tiny

Encode = Callable[..., Path]
FAST = {"runtime.encode_processes": 1, "encode.max_length": 12}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """models/base as fetch_model leaves it."""
    base = tiny.model(tmp_path_factory.mktemp("template") / "base")
    outputs.write_json(base / "source.json", {"trust_remote_code": False})
    return base


@pytest.fixture
def base(template: Path, tmp_path: Path) -> Path:
    """A copy that a test can change."""
    for file in template.iterdir():
        tmp_path.joinpath("base").mkdir(exist_ok=True)
        (tmp_path / "base" / file.name).write_bytes(file.read_bytes())
    return tmp_path / "base"


def table(rows: list[dict[str, str]], *, label: str = "label", labelled: bool = True, pair: bool = False) -> pa.Table:
    columns: dict[str, Any] = {"id": [row["id"] for row in rows], "text": [row["text"] for row in rows]}
    if pair:
        columns["text_pair"] = [row["text_pair"] for row in rows]
    kind, read = (pa.string(), str) if label == "label" else (pa.float64(), float)
    columns["label"] = pa.array([read(row[label]) if labelled else None for row in rows], kind)
    return pa.table({**columns, "channel": [row["channel"] for row in rows]})


def write_prepared(folder: Path, names: list[str] | None = None, **tables: pa.Table) -> Path:
    """data/prepared with the tiny rows, or with given tables."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = tiny.rows(40)
    made = tables or {"train": table(rows[:28]), "validation": table(rows[28:34]), "test": table(rows[34:])}
    for split, content in made.items():
        splits.write_rows(folder, split, content)
    splits.write_label_names(folder, sorted(tiny.TOPICS) if names is None else names)
    outputs.write_json(folder / "report.json", {})
    return folder


@pytest.fixture
def run(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> Encode:
    """Run the stage in this process."""
    monkeypatch.chdir(tmp_path)

    def run(prepared: Path | None = None, to: str = "encoded", **knobs: Any) -> Path:
        tiny.write_params(tmp_path / "params.yaml", **{**FAST, **knobs})
        encode.main(prepared or write_prepared(tmp_path / "prepared"), base, tmp_path / to)
        return tmp_path / to

    return run


def digest(folder: Path) -> str:
    """One digest of all names and bytes under a folder."""
    listed = [(str(file.relative_to(folder)), file.read_bytes()) for file in sorted(folder.rglob("*"))]
    return hashlib.sha256(repr(listed).encode()).hexdigest()


def test_rows_keep_their_order_and_become_the_tokenizers_ids(run: Encode, base: Path, tmp_path: Path):
    from transformers import AutoTokenizer

    encoded = run()
    texts = splits.read_rows(tmp_path / "prepared", "train")["text"].to_pylist()
    rows = splits.read_encoded(encoded, "train")
    expected = AutoTokenizer.from_pretrained(base)(texts, truncation=True, max_length=12)
    assert rows["input_ids"][:] == expected["input_ids"]
    assert rows["token_type_ids"][:] == expected["token_type_ids"]
    assert rows["length"][:] == [len(ids) for ids in expected["input_ids"]]
    assert max(rows["length"]) == 12
    assert min(rows["length"]) < 12


def test_labels_are_the_places_of_their_names(run: Encode, tmp_path: Path):
    encoded = run(write_prepared(tmp_path / "prepared", names=["refund", "delivery", "billing"]))
    names = splits.read_label_names(encoded)
    assert names == ["refund", "delivery", "billing"]
    for split in splits.NAMES:
        labels = splits.read_rows(tmp_path / "prepared", split)["label"].to_pylist()
        assert [names[label] for label in splits.read_encoded(encoded, split)["labels"]] == labels


def test_what_is_stored_is_narrow_and_nothing_else(run: Encode):
    encoded = run()
    assert sorted(file.name for file in encoded.rglob("*")) == [
        "labels.json",
        "report.json",
        "test.arrow",
        "train.arrow",
        "validation.arrow",
    ]
    schema = pa.ipc.open_stream(encoded / "train.arrow").schema
    assert {field.name: str(field.type).partition("<")[0] for field in schema} == {
        "input_ids": "list",
        "token_type_ids": "list",
        "length": "int32",
        "labels": "int64",
    }
    assert [schema.field(name).type.value_type for name in ("input_ids", "token_type_ids")] == [pa.int32(), pa.int8()]
    assert schema.metadata is None


def test_an_unlabelled_split_has_no_labels(run: Encode, tmp_path: Path):
    rows = tiny.rows(20)
    prepared = write_prepared(tmp_path / "prepared", train=table(rows[:10]), test=table(rows[10:], labelled=False))
    encoded = run(prepared)
    assert "labels" in splits.read_encoded(encoded, "train").column_names
    assert "labels" not in splits.read_encoded(encoded, "test").column_names
    assert splits.present(encoded) == ["train", "test"]


def test_pairs_and_numbers_are_encoded_for_regression(run: Encode, tmp_path: Path):
    rows = table(tiny.rows(10), label="score", pair=True)
    encoded = run(
        write_prepared(tmp_path / "prepared", names=[], train=rows),
        **{"task.type": "regression", "select_best.metric": "pearson"},
    )
    stored = splits.read_encoded(encoded, "train")
    assert stored.features["labels"].dtype == "float32"
    assert stored["labels"][:] == pytest.approx(rows["label"].to_pylist())
    assert all({*kinds} == {0, 1} for kinds in stored["token_type_ids"])
    assert splits.read_label_names(encoded) == []


def test_an_empty_text_is_its_special_tokens(run: Encode, tmp_path: Path):
    rows = tiny.rows(6)
    rows[2]["text"] = ""
    encoded = run(write_prepared(tmp_path / "prepared", train=table(rows)))
    assert splits.read_encoded(encoded, "train")[2]["length"] == 2


def test_token_types_are_left_out_where_the_model_takes_none(run: Encode, base: Path):
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "model_type": "distilbert"}))
    assert splits.read_encoded(run(), "train").column_names == ["input_ids", "length", "labels"]


def test_the_report_counts_what_was_truncated(run: Encode, tmp_path: Path):
    words = [1, 2, 3, 20]
    rows = [{"id": f"r{count}", "text": "my " * count, "label": "billing", "channel": "chat"} for count in words]
    report = json.loads((run(write_prepared(tmp_path / "prepared", train=table(rows))) / "report.json").read_text())
    assert report == {
        "train": {
            "rows": 4,
            "truncated": 1,
            "truncated_share": 0.25,
            "tokens": {"min": 3, "median": 4, "p95": 22, "max": 22},
        }
    }


@pytest.mark.parametrize(("long", "level"), [(1, logging.INFO), (2, logging.WARNING)])
def test_more_than_five_percent_of_truncated_rows_is_a_warning(
    run: Encode, tmp_path: Path, caplog: pytest.LogCaptureFixture, long: int, level: int
):
    rows = tiny.rows(20)
    for index, row in enumerate(rows):
        row["text"] = "my " * (30 if index < long else 3)
    with caplog.at_level(logging.INFO, logger="stages"):
        run(write_prepared(tmp_path / "prepared", train=table(rows)))
    [record] = [record for record in caplog.records if "truncated" in record.getMessage()]
    assert record.levelno == level
    assert (
        f"train: 20 rows of 5 to 32 tokens (half have at most 5, 95 % at most {5 if long == 1 else 32}); {long} "
        in record.getMessage()
    )


@pytest.mark.parametrize(("max_length", "finding"), [(65, "more than the 64 tokens"), (3, "no room for words")])
def test_a_max_length_that_does_not_fit_the_model_is_refused(
    run: Encode, tmp_path: Path, max_length: int, finding: str
):
    with pytest.raises(UserError, match=f"encode.max_length: {max_length} .*{finding}"):
        run(**{"encode.max_length": max_length})
    assert not (tmp_path / "encoded").exists()


def test_the_longest_that_the_model_takes_is_encoded(run: Encode):
    assert splits.present(run(**{"encode.max_length": 64})) == ["train", "validation", "test"]


def test_a_tokenizer_that_cannot_pad_is_refused(run: Encode, base: Path):
    settings = json.loads((base / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (base / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "PreTrainedTokenizerFast"}))
    (base / "vocab.txt").unlink()
    with pytest.raises(ModelError, match="no pad token"):
        run()


def test_a_split_without_rows_is_refused(run: Encode, tmp_path: Path):
    with pytest.raises(DataError, match="no row in test"):
        run(write_prepared(tmp_path / "prepared", train=table(tiny.rows(4)), test=table([])))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["base", "params.yaml", "prepared"]


def test_the_setting_of_the_tokenizers_threads_is_as_before(run: Encode, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    run()
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"


def command(folder: Path, base: Path, home: Path, *, processes: int) -> subprocess.CompletedProcess[str]:
    """The stage as a command in a folder of its own, with an empty HF_HOME."""
    write_prepared(folder / "data" / "prepared")
    tiny.write_params(folder / "params.yaml", **{**FAST, "runtime.encode_processes": processes})
    return subprocess.run(
        [sys.executable, "-m", "stages.encode", "data/prepared", str(base), "data/encoded"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tiny.ROOT), "HF_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_two_processes_at_two_paths_in_any_number_of_workers_give_the_same_folder(base: Path, tmp_path: Path):
    places = {tmp_path / "one": 1, tmp_path / "other" / "and_deeper": 1, tmp_path / "workers": 2}
    for place, processes in places.items():
        ended = command(place, base, tmp_path / "home", processes=processes)
        assert ended.returncode == 0, ended.stderr
        assert "Traceback" not in ended.stderr
    assert len({digest(place / "data" / "encoded") for place in places}) == 1
    assert not (tmp_path / "home").exists(), "nothing is cached outside the project"


def test_workers_can_be_forked_after_the_tokenizer_was_used(run: Encode, base: Path, tmp_path: Path):
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(base)(["my please"] * 2000)
    alone = run()
    assert digest(run(to="together", **{"runtime.encode_processes": 2})) == digest(alone)


def test_rows_of_several_batches_are_the_same_in_any_number_of_workers(run: Encode, tmp_path: Path):
    prepared = write_prepared(tmp_path / "prepared", train=table(tiny.rows(2501)))
    alone = run(prepared)
    assert digest(run(prepared, to="together", **{"runtime.encode_processes": 2})) == digest(alone)
    assert pq.read_metadata(prepared / "train.parquet").num_rows == len(splits.read_encoded(alone, "train"))
