"""What is written is what is read, and the same rows are the same bytes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages import splits

ENCODED = pa.table(
    {
        "input_ids": pa.array([list(range(index % 7)) for index in range(2500)], pa.list_(pa.int32())),
        "length": pa.array([index % 7 for index in range(2500)], pa.int32()),
        "labels": pa.array([index % 3 for index in range(2500)], pa.int64()),
    }
)
PREPARED = pa.table({"id": ["a", "b"], "text": ["007", ""], "label": ["x", "y"], "channel": ["chat", None]})


def chunked(rows: pa.Table, cuts: list[int]) -> pa.Table:
    ends = [*sorted(cuts), rows.num_rows]
    return pa.concat_tables([rows.slice(start, end - start) for start, end in zip([0, *ends], ends, strict=False)])


def test_prepared_rows_come_back_as_they_were(tmp_path: Path):
    splits.write_rows(tmp_path, "train", PREPARED)
    assert splits.read_rows(tmp_path, "train").equals(PREPARED)


def test_encoded_rows_come_back_as_they_were_and_in_order(tmp_path: Path):
    splits.write_encoded(tmp_path, "train", ENCODED)
    rows = splits.read_encoded(tmp_path, "train")
    assert rows.to_dict() == ENCODED.to_pydict()
    assert rows.features["input_ids"].feature.dtype == "int32"


def test_encoded_rows_are_mapped_from_the_file_not_copied(tmp_path: Path):
    splits.write_encoded(tmp_path, "train", ENCODED)
    before = pa.total_allocated_bytes()
    rows = splits.read_encoded(tmp_path, "train")
    assert len(rows) == 2500
    assert pa.total_allocated_bytes() - before < ENCODED.nbytes / 10
    assert [file.name for file in tmp_path.iterdir()] == ["train.arrow"]


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 2500), max_size=6))
def test_the_bytes_do_not_depend_on_how_rows_are_chunked(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]):
    folder = tmp_path_factory.mktemp("splits")
    for name, rows in {"one": ENCODED, "other": chunked(ENCODED, cuts)}.items():
        splits.write_encoded(folder, name, rows)
        splits.write_rows(folder, name, rows)
    assert (folder / "one.arrow").read_bytes() == (folder / "other.arrow").read_bytes()
    assert (folder / "one.parquet").read_bytes() == (folder / "other.parquet").read_bytes()


def test_nothing_but_rows_is_stored(tmp_path: Path):
    splits.write_rows(tmp_path, "train", PREPARED.replace_schema_metadata({"made": "today"}))
    splits.write_encoded(tmp_path, "train", ENCODED.replace_schema_metadata({"made": "today"}))
    assert pq.read_schema(tmp_path / "train.parquet").metadata is None
    assert pa.ipc.open_stream(tmp_path / "train.arrow").schema.metadata is None


def test_a_split_without_rows_can_be_stored(tmp_path: Path):
    splits.write_encoded(tmp_path, "test", ENCODED.slice(0, 0))
    assert len(splits.read_encoded(tmp_path, "test")) == 0


def test_label_names_keep_their_order(tmp_path: Path):
    splits.write_label_names(tmp_path, ["z", "a", "007", "ä"])
    assert splits.read_label_names(tmp_path) == ["z", "a", "007", "ä"]


@pytest.mark.parametrize(("labels", "labelled"), [(["x", "y"], True), ([None, None], False), ([], False)])
def test_a_split_is_labelled_where_its_rows_have_labels(labels: list[str | None], labelled: bool):
    assert splits.has_labels(pa.table({"label": pa.array(labels, pa.string())})) is labelled


def test_the_splits_that_are_present_are_listed_in_their_order(tmp_path: Path):
    assert splits.present(tmp_path) == []
    splits.write_rows(tmp_path, "validation", PREPARED)
    splits.write_rows(tmp_path, "train", PREPARED)
    (tmp_path / "report.json").write_text("{}")
    assert splits.present(tmp_path) == ["train", "validation"]


def test_a_column_of_numbers_is_read_at_once_also_of_some_rows(tmp_path):
    lengths, scores = [5, 3, 9], [0.5, 0.1, 2.0]
    table = pa.table({"length": pa.array(lengths, pa.int32()), "labels": pa.array(scores, pa.float32())})
    splits.write_encoded(tmp_path, "train", table)
    rows = splits.read_encoded(tmp_path, "train")
    assert splits.numbers(rows, "length").tolist() == lengths
    assert splits.numbers(rows.select([2, 0]), "length").tolist() == [9, 5]
    assert splits.numbers(rows, "labels").dtype == np.float64
    assert splits.numbers(rows, "labels").tolist() == [np.float32(score) for score in scores]
