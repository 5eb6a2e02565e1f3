import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from stages.errors import DataError
from stages.serving import row_writers

TABLE = {
    "text": ["plain", 'a "quote", and more', "two\nlines", "one\rreturn", "", None, "007", "NA"],
    "probability_a": np.linspace(0, 1, 8) / 3,
}


def write(path: Path, *tables: dict[str, Any]) -> Path:
    with row_writers.writing(path, list(tables[0]), path.suffix[1:]) as some:
        for table in tables:
            some(table)
    return path


def test_csv_is_read_again_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path / "out.csv", TABLE, TABLE)
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["text"] for row in rows] == [text or "" for text in TABLE["text"]] * 2
    assert [float(row["probability_a"]) for row in rows] == TABLE["probability_a"].tolist() * 2
    assert not path.read_bytes().count(b"\r\n"), "lines end as those of other tools do"


def test_jsonl_keeps_null_apart_from_an_empty_text(tmp_path: Path) -> None:
    lines = write(tmp_path / "out.jsonl", TABLE).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == TABLE["text"]
    assert [json.loads(line)["probability_a"] for line in lines] == TABLE["probability_a"].tolist()


def test_parquet_keeps_texts_as_texts_and_numbers_as_numbers(tmp_path: Path) -> None:
    nothing = {"text": [], "probability_a": np.empty(0)}
    table = pq.read_table(
        write(tmp_path / "out.parquet", nothing, {"text": [None, None], "probability_a": np.ones(2)}, TABLE)
    )
    assert [str(field.type) for field in table.schema] == ["string", "double"]
    assert table["text"].to_pylist() == [None, None, *TABLE["text"]]


def test_tsv_refuses_what_it_can_not_hold(tmp_path: Path) -> None:
    plain = {"text": ['a "quote"', "", None]}
    assert write(tmp_path / "out.tsv", plain).read_text(encoding="utf-8") == 'text\na "quote"\n\n\n'
    for bad in ("a\tb", "a\nb", "a\rb"):
        with pytest.raises(DataError, match="tsv can't hold a tab or a line break"):
            write(tmp_path / "bad.tsv", {"text": [bad]})
    assert not (tmp_path / "bad.tsv").exists()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.{suffix}"
    path.write_text("before", encoding="utf-8")
    no_table: Any = None
    with pytest.raises(AttributeError):
        write(path, {"text": ["a"]}, no_table)
    assert path.read_text(encoding="utf-8") == "before"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
