import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.errors import DataError, ParamsError
from stages.sources import parquet
from tests.stages.sources import data_params, numbers, read


def write(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_each_type_becomes_the_text_that_stands_for_it_exactly(tmp_path):
    file = write(
        tmp_path / "a.parquet",
        text=pa.array(["007", None]),
        large=pa.array(["NA", ""], pa.large_string()),
        label=pa.array([-1, None], pa.int64()),
        unsigned=pa.array([2**64 - 1, 0], pa.uint64()),
        double=pa.array([0.1, 1e300]),
        half=pa.array([5, 3.8], pa.float32()),
        unknown=pa.array([None, float("nan")], pa.float64()),
        truth=pa.array([True, None]),
        coded=pa.array(["x", "y"]).dictionary_encode(),
        day=pa.array([datetime.date(2025, 1, 2), None]),
        nothing=pa.nulls(2),
    )
    assert read("parquet", file) == [
        {
            "text": "007",
            "large": "NA",
            "label": "-1",
            "unsigned": "18446744073709551615",
            "double": "0.1",
            "half": "5.0",
            "unknown": None,
            "truth": "true",
            "coded": "x",
            "day": "2025-01-02",
            "nothing": None,
        },
        {
            "text": None,
            "large": "",
            "label": None,
            "unsigned": "0",
            "double": "1e+300",
            "half": "3.8",
            "unknown": "nan",
            "truth": None,
            "coded": "y",
            "day": None,
            "nothing": None,
        },
    ]


def test_all_row_groups_are_read_in_order(tmp_path):
    texts = [f"t{index}" for index in range(25_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=7_000)
    assert [row["text"] for row in read("parquet", tmp_path / "a.parquet")] == texts
    assert numbers("parquet", tmp_path / "a.parquet") == list(range(1, 25_001))


def test_lists_structures_and_bytes_are_left_out_unless_they_are_used(tmp_path):
    file = write(tmp_path / "a.parquet", text=["a"], scores=[[1, 2]], image=[{"bytes": b"\xff"}], raw=[b"\xff"])
    assert read("parquet", file) == [{"text": "a"}]
    assert parquet.columns(file, data_params()) == ["text"]
    with pytest.raises(DataError, match=r"a\.parquet: the column 'scores' holds list<.*, not one value a row"):
        read("parquet", file, **{"columns.text": "scores"})


def test_bytes_that_are_text_are_read_where_they_are_used(tmp_path):
    file = write(tmp_path / "a.parquet", text=["é".encode(), b"b"])
    assert read("parquet", file) == [{"text": "é"}, {"text": "b"}]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_bytes_that_are_no_text_are_named_by_their_row(tmp_path, kind):
    values = [b"ok"] * 12_344 + [b"caf\xe9", b"ok"]
    file = write(tmp_path / "a.parquet", text=pa.array(values, pa.binary()).view(kind))
    with pytest.raises(DataError, match=r"a\.parquet, row 12345: 'text' holds bytes that are not utf-8.*as text"):
        read("parquet", file)


@pytest.mark.parametrize("content", [b"PAR1" + b"\0" * 40, b"text,label\na,b\n" * 10])
def test_a_file_that_is_no_parquet_is_named(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet: not readable as Parquet.*set data.format"):
        read("parquet", tmp_path / "a.parquet")


def test_a_file_with_damaged_pages_is_named(tmp_path):
    file = write(tmp_path / "a.parquet", text=[f"text {index}" for index in range(1000)])
    content = bytearray(file.read_bytes())
    content[4:200] = b"\xff" * 196
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet: not readable as Parquet"):
        read("parquet", file)


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.parquet: the file is empty"):
        read("parquet", tmp_path / "a.parquet")


def test_a_repeated_column_is_named(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: the columns 1 and 2 are both named 'x'; name each column once"):
        read("parquet", tmp_path / "a.parquet")


@pytest.mark.parametrize("knob", [{"delimiter": ";"}, {"quoting": "none"}, {"names": ["text", "label"]}])
def test_options_of_delimited_text_are_refused(tmp_path, knob):
    file = write(tmp_path / "a.parquet", text=["a"])
    with pytest.raises(ParamsError, match=f"data.{next(iter(knob))}: .* data.format is parquet; set it to null"):
        read("parquet", file, **knob)
