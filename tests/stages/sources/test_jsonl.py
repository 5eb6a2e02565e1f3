import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.errors import DataError, ParamsError
from stages.sources import jsonl
from tests.stages.sources import data_params, numbers, read


def test_numbers_and_truth_values_stay_what_was_written(tmp_path):
    written = ["1.0", "1e5", "-0", "1E+400", "12345678901234567890123", "0.1000", "true", "false", "NaN"]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(f'{{"text": {value}, "label": "x"}}\n' for value in written))
    assert [row["text"] for row in read("jsonl", file)] == written


def test_strings_stay_text_and_null_is_none(tmp_path):
    file = tmp_path / "a.jsonl"
    texts = ["007", "NA", "null", "None", "n/a", "a\u2028b\r\nc\x85", '"', "\N{GRINNING FACE}", ""]
    file.write_bytes("".join(json.dumps({"text": text, "label": None}) + "\r\n" for text in texts).encode())
    assert read("jsonl", file) == [{"text": text, "label": None} for text in texts]


def test_a_row_is_numbered_by_its_line_and_a_byte_order_mark_is_taken_off(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n\n{"text": "b"}')
    assert numbers("jsonl", file) == [1, 3]


def test_a_carriage_return_between_tokens_ends_no_row(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"text":\r"a",\r"label": "b"}\n{"text": "c"}\r\n')
    assert read("jsonl", file) == [{"text": "a", "label": "b"}, {"text": "c"}]


def test_the_columns_are_the_keys_of_the_first_objects(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a"}\n{"text": "b", "label": "x"}\n')
    assert jsonl.columns(file, data_params()) == ["text", "label"]


def test_lists_and_objects_are_left_out_unless_they_are_used(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a", "scores": [1, 2], "more": {"x": 1}}\n')
    assert read("jsonl", file) == [{"text": "a"}]
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: 'scores' holds a list, not a text; write it as a string"):
        read("jsonl", file, **{"columns.text": "scores"})


texts = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(table=st.lists(st.dictionaries(texts, texts | st.none()), min_size=1), ascii_only=st.booleans())
def test_whatever_json_writes_is_read_back_the_same(tmp_path, table, ascii_only):
    file = tmp_path / "a.jsonl"
    file.write_bytes("".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in table).encode())
    assert read("jsonl", file) == table


BROKEN = {
    "empty": (b"", ["the file is empty"]),
    "not JSON": (b'{"text": "a"}\n{"text": b}\n', ["line 2", "not JSON at character 10", "one whole JSON object"]),
    "cut off": (b'{"text": "a"}\n{"text": "b', ["line 2", "not JSON"]),
    "two objects on a line": (b'{"text": "a"} {"text": "b"}\n', ["line 1", "character 15", "one whole JSON object"]),
    "a whole file of JSON": (b'[\n{"text": "a"}\n]\n', ["line 1", "not JSON", "each line"]),
    "a list": (b'["a", "b"]\n', ["line 1", "it is a list, not an object"]),
    "a string": (b'"a"\n', ["line 1", "not an object"]),
    "null": (b"null\n", ["line 1", "it is null"]),
    "a key twice": (b'{"text": "a"}\n{"text": "b", "text": "c"}\n', ["line 2", "'text'", "more than once", "keep one"]),
    "half a surrogate pair": (b'{"text": "a\\ud800"}\n', ["line 1", "'text' holds '\\ud800'", "remove it"]),
    "not utf-8": (b'{"text": "a"}\n{"text": "\xe9"}\n', ["line 2", "byte 0xe9 at offset 24", "set data.encoding"]),
    "too deep": (b"[" * 100_000 + b"\n", ["line 1", "nested too deeply"]),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named_with_the_place_and_the_remedy(tmp_path, kind):
    content, expected = BROKEN[kind]
    file = tmp_path / "broken.jsonl"
    file.write_bytes(content)
    with pytest.raises(DataError) as error:
        read("jsonl", file)
    for part in ["broken.jsonl", *expected]:
        assert part in str(error.value)


@pytest.mark.parametrize("knob", [{"delimiter": ";"}, {"quoting": "none"}, {"names": ["text", "label"]}])
def test_options_of_delimited_text_are_refused(tmp_path, knob):
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a"}\n')
    with pytest.raises(ParamsError, match=f"data.{next(iter(knob))}: .* data.format is jsonl; set it to null"):
        read("jsonl", file, **knob)
