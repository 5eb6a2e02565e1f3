import json

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from pipeline import differences


@pytest.fixture
def explain(tmp_path):
    """Write both versions of a file, by a function or as text, and explain their difference."""

    def of(name, committed, new, write=None):
        files = []
        for folder, content in (("committed", committed), ("new", new)):
            file = tmp_path / folder / name
            file.parent.mkdir(exist_ok=True)
            if write:
                write(content, file)
            else:
                file.write_bytes(content if isinstance(content, bytes) else content.encode())
            files.append(file)
        # DVC's cache holds files by their digests: the name alone says of what kind they are.
        for file in files:
            file.rename(file.parent / "abcdef")
        return differences.explain(*(file.parent / "abcdef" for file in files), name)

    return of


def tensors(**changed):
    made = {
        "bert.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "head.bias": np.zeros(4, dtype=np.float32),
        "head.weight": np.ones((4, 2), dtype=np.float32),
    }
    return {**made, **changed}


def test_of_tensors_the_first_that_differs_is_named_with_the_largest_difference(explain):
    bias = np.array([0, 0.25, -0.5, 0], dtype=np.float32)
    found = explain("model.safetensors", tensors(), tensors(**{"head.bias": bias}), save_file)
    assert found == "tensor head.bias: F32 [4], max |difference| 0.5, in 2 of 4 values"


def test_where_several_tensors_differ_they_are_counted_and_the_worst_is_named(explain):
    other = tensors(**{"head.bias": np.full(4, 0.25, np.float32), "head.weight": np.full((4, 2), 3, np.float32)})
    found = explain("model.safetensors", tensors(), other, save_file)
    assert found.startswith("tensor head.bias: F32 [4], max |difference| 0.25, in 4 of 4 values; ")
    assert found.endswith("2 of 3 tensors differ, by 2 at most (head.weight)")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (np.zeros(5, np.float32), "F32 [4] in the commit's, now F32 [5]"),
        (np.zeros(4, np.float16), "F32 [4] in the commit's, now F16 [4]"),
        (np.array([0, np.nan, 0, 0], np.float32), "F32 [4], NaN in one of the two, in 1 of 4 values"),
        (np.array([0, np.inf, 0, 0], np.float32), "F32 [4], max |difference| inf, in 1 of 4 values"),
        (np.array([0, -0.0, 0, 0], np.float32), "F32 [4], equal but for the sign of zeros or the bits of NaN"),
    ],
)
def test_another_shape_dtype_or_kind_of_number_is_said(explain, other, said):
    found = explain("model.safetensors", tensors(), tensors(**{"head.bias": other}), save_file)
    assert found == f"tensor head.bias: {said}"


def test_a_tensor_that_only_one_of_the_files_has_is_named(explain):
    more = tensors(pooler=np.zeros(1, np.float32))
    assert explain("m.safetensors", tensors(), more, save_file) == "tensor pooler: not in the commit's"
    assert explain("m.safetensors", more, tensors(), save_file) == "tensor pooler: in the commit's alone"


def test_half_precision_that_numpy_has_no_name_for_is_compared_by_value(explain):
    def write(values, file):
        raw = np.asarray(values, dtype=ml_dtypes.bfloat16).tobytes()
        entry = {"dtype": "BF16", "shape": [len(values)], "data_offsets": [0, len(raw)]}
        header = json.dumps({"w": entry}).encode()
        file.write_bytes(len(header).to_bytes(8, "little") + header + raw)

    assert explain("model.safetensors", [1.0, 2.0], [1.0, 2.5], write) == (
        "tensor w: BF16 [2], max |difference| 0.5, in 1 of 2 values"
    )


def test_a_tensor_longer_than_what_is_compared_at_once_is_compared_whole(explain):
    long = np.zeros(2_500_000, np.float32)
    other = long.copy()
    other[[0, 1_500_000, 2_499_999]] = [1, 2, 3]
    found = explain("model.safetensors", {"w": long}, {"w": other}, save_file)
    assert found == "tensor w: F32 [2500000], max |difference| 3, in 3 of 2,500,000 values"


def test_equal_tensors_with_other_metadata_are_told_apart(explain):
    def write(metadata, file):
        save_file(tensors(), file, metadata=metadata)

    assert explain("m.safetensors", {"format": "pt"}, {"format": "np"}, write) == (
        "all tensors are equal; metadata differ: format"
    )


def table(**changed):
    made = {"id": ["r1", "r2", "r3"], "text": ["a", "b", "c"], "score": [0.5, None, float("nan")]}
    return pa.table({**made, **changed})


def write_parquet(rows, file):
    pq.write_table(rows, file)


def write_arrow(rows, file):
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def write_arrow_file(rows, file):
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


KINDS_OF_TABLES = [("t.parquet", write_parquet), ("t.arrow", write_arrow), ("t.arrow", write_arrow_file)]


@pytest.mark.parametrize(("name", "write"), KINDS_OF_TABLES)
@pytest.mark.parametrize(
    ("other", "said"),
    [
        (table(text=["a", "b", "z"]), "row 3, column text: c in the commit's, now z"),
        (table(score=[0.5, 1.5, None]), "row 2, column score: null in the commit's, now 1.5"),
        (table(score=[0, 0, 0]), "column score: a column of type double in the commit's, now a column of type int64"),
        (table().drop_columns("id"), "column id: a column of type string in the commit's, now no column"),
        (table().select(["text", "id", "score"]), "columns: id, text, score in the commit's, now text, id, score"),
        (table().slice(0, 2), "3 rows in the commit's, now 2; those that both have are equal"),
        (
            table(id=["r0", "r2", "r3"]).slice(0, 2),
            "row 1, column id: r1 in the commit's, now r0; 3 rows in the commit's, now 2",
        ),
        (table().replace_schema_metadata({"made": "by"}), "all rows are equal; the metadata of the schema differ"),
    ],
)
def test_of_a_table_the_first_row_and_column_that_differ_are_named(explain, name, write, other, said):
    assert explain(name, table(), other, write) == said


def test_a_row_far_down_is_found_past_rows_that_only_nan_makes_unequal(explain):
    rows = {"a": [float("nan")] * 25_000, "ids": [[1, 2, 3]] * 25_000}
    other = {**rows, "ids": [*rows["ids"][:24_000], [1, 2, 4], *rows["ids"][24_001:]]}
    found = explain("t.parquet", pa.table(rows), pa.table(other), write_parquet)
    assert found == "row 24001, column ids: [1, 2, 3] in the commit's, now [1, 2, 4]"


def test_the_same_rows_written_otherwise_are_told_apart_by_their_first_byte(explain):
    def write(compression, file):
        pq.write_table(table(), file, compression=compression)

    assert explain("t.parquet", "none", "zstd", write).startswith("the same values, written differently: byte ")


@pytest.mark.parametrize(
    ("committed", "new", "said"),
    [
        (
            "step,loss\n1,0.5\n2,0.25\n",
            "step,loss\n1,0.5\n2,0.26\n",
            "row 2, column loss: 0.25 in the commit's, now 0.26",
        ),
        (
            "step,loss\n1,0.5\n2,0.25\n",
            "step,loss\n1,0.6\n2,0.26\n",
            "row 1, column loss: 0.5 in the commit's, now 0.6; 2 rows differ in all",
        ),
        ("a,b\n1,2\n", "a,c\n1,2\n", "columns: ['a', 'b'] in the commit's, now ['a', 'c']"),
        ("a,b\n1,2\n", "a,b\n1,2\n3,4\n", "row 2: not in the commit's, now ['3', '4']"),
        ("a,b\n1,2\n3,4\n", "a,b\n1,2\n", "row 2: ['3', '4'] in the commit's, no longer there"),
        ("a,b\n1,2,3\n", "a,b\n1,2,4\n", "row 1, column 3: 3 in the commit's, now 4"),
        ('a\n"x, y"\n', 'a\n"x, z"\n', "row 1, column a: x, y in the commit's, now x, z"),
        (
            "a\nx\n",
            'a\n"x"\n',
            "the same values, written differently: byte 2 is the first that differs (4 and 6 bytes)",
        ),
    ],
)
def test_of_csv_the_first_row_and_column_that_differ_are_named(explain, committed, new, said):
    assert explain("history.csv", committed, new) == said


def test_a_tsv_is_cut_at_tabs(explain):
    assert explain("r.tsv", "a\tb\n1,2\t3\n", "a\tb\n1,2\t4\n") == "row 1, column b: 3 in the commit's, now 4"


@pytest.mark.parametrize(
    ("committed", "new", "said"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b[1]: 2 in the commit's, now 3"),
        ({"a": 1}, {"a": 1, "b": None}, "b: not in the commit's, now null"),
        ({"a": 1, "b": "x"}, {"a": 1}, "b: x in the commit's, no longer there"),
        ({"a": 1}, {"a": 1.0}, "a: 1 in the commit's, now 1.0"),
        ({"a": True}, {"a": 1}, "a: true in the commit's, now 1"),
        ([1], {"a": 1}, "all of it: [1] in the commit's, now {'a': 1}"),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, "a: 1 in the commit's, now 2; 2 values differ in all"),
        ({"a": "x" * 99}, {"a": "y"}, f"a: {'x' * 59}… in the commit's, now y"),
    ],
)
def test_of_json_the_path_of_the_first_value_that_differs_is_named(explain, committed, new, said):
    assert explain("report.json", json.dumps(committed), json.dumps(new)) == said


def test_the_order_of_keys_is_no_value(explain):
    found = explain("r.json", '{"a": 1, "b": NaN}', '{"b": NaN, "a": 1}')
    assert found == "the same values, written differently: byte 2 is the first that differs (18 and 18 bytes)"


def test_of_json_lines_the_line_is_named_too(explain):
    found = explain("p.jsonl", '{"a": 1}\n{"a": 2}\n', '{"a": 1}\n{"a": 3}\n')
    assert found == "line 2, a: 2 in the commit's, now 3"


def test_of_text_the_first_line_that_differs_is_named(explain):
    found = explain("README.md", "# Model\nF1 0.5\nend\n", "# Model\nF1 0.6\nend\n")
    assert found == r"line 2: 'F1 0.5\n' in the commit's, now 'F1 0.6\n'"


@pytest.mark.parametrize(
    ("committed", "new", "said"),
    [
        (b"abc", b"abd", "byte 2 is the first that differs (3 and 3 bytes)"),
        (b"abc", b"abcd", "byte 3 is the first that differs (3 and 4 bytes)"),
        (b"", b"a", "byte 0 is the first that differs (0 and 1 bytes)"),
        (b"x" * 3_000_000 + b"a", b"x" * 3_000_000 + b"b", "byte 3000000 is the first that differs"),
    ],
)
def test_of_any_other_file_the_first_byte_is_named(explain, committed, new, said):
    assert explain("model.onnx", committed, new).startswith(said)


@pytest.mark.parametrize("name", ["m.safetensors", "t.parquet", "t.arrow", "r.json", "r.jsonl", "r.csv", "r.md"])
def test_a_file_that_is_not_what_its_name_says_is_compared_by_bytes(explain, name):
    found = explain(name, b"\xff\xfe\x00nothing\n", b"\xff\xfe\x00of that\n")
    assert "byte 3 is the first that differs" in found
    assert f"no .{name.split('.')[1]} that can be read" in found


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_two_json_values_have_a_difference_exactly_where_they_are_written_differently(a, b):
    differ = json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True)
    assert bool(list(differences.leaves(a, b, ""))) == differ


def test_in_a_folder_what_says_most_is_explained_first():
    names = ["training.json", "vocab.txt", "model.onnx", "b.safetensors", "a.safetensors", "rows.parquet"]
    assert sorted(names, key=differences.rank) == [
        "a.safetensors",
        "b.safetensors",
        "rows.parquet",
        "training.json",
        "vocab.txt",
        "model.onnx",
    ]
