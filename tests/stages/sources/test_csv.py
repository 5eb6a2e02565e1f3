import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.errors import DataError, ParamsError
from stages.sources import csv as source
from tests import tiny
from tests.stages.sources import data_params, numbers, read

BANKING = tiny.ROOT.parent / "shared/data/banking77"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_everything_that_looks_like_a_type_stays_text(tmp_path):
    values = ["007", "NA", "null", "None", "n/a", "1.0", "1e5", "true", "", " x "]
    file = write(tmp_path / "a.csv", b"text,label\n" + b"".join(f"{value},7\n".encode() for value in values))
    assert [row["text"] for row in read("csv", file)] == values
    assert {row["label"] for row in read("csv", file)} == {"7"}


def test_a_type_is_not_fixed_by_the_rows_at_the_beginning(tmp_path):
    values = [str(number) for number in range(20_000)] + ["0x", "later"]
    file = write(tmp_path / "a.csv", ("text,label\n" + "".join(f"{value},1\n" for value in values)).encode())
    assert [row["text"] for row in read("csv", file)] == values


def test_byte_order_mark_crlf_line_breaks_in_quotes_and_unicode_separators_are_read_as_the_csv_module_does(tmp_path):
    content = (
        'text,label\r\n"one\r\ntwo\nthree",a\r\n'
        'with \u2028 and \u0085 and \x0c inside,b\r\n"say ""hello"", then\tgo",c\r\n'
    )
    file = write(tmp_path / "a.csv", b"\xef\xbb\xbf" + content.encode())
    expected = list(csv.DictReader(io.StringIO(content, newline="")))
    assert read("csv", file) == expected
    assert len(expected) == 3
    assert source.columns(file, data_params()) == ["text", "label"]


def test_a_row_is_numbered_by_the_line_it_starts_on(tmp_path):
    file = write(tmp_path / "a.csv", b'text,label\n"two\nlines",a\nnext,b\n\nafter a blank line,c\n')
    assert numbers("csv", file) == [2, 4, 6]


fields = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(table=st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(fields, min_size=width, max_size=width))))
def test_whatever_the_csv_module_writes_is_read_back_the_same(tmp_path, table):
    width = len(table[0]) if table else 1
    header = ["a", "b", "c", "d"][:width]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *table])
    assert [list(row.values()) for row in read("csv", tmp_path / "a.csv")] == table


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "latin-1"])
def test_an_encoding_is_what_data_encoding_says(tmp_path, encoding):
    file = write(tmp_path / "a.csv", "text,label\ncafé,é\n".encode(encoding))
    assert read("csv", file, encoding=encoding) == [{"text": "café", "label": "é"}]


def test_delimiter_quoting_and_names_are_what_params_say(tmp_path):
    file = write(tmp_path / "a.csv", b'"yes";"no\n')
    assert read("csv", file, delimiter=";", quoting="none", names=["text", "label"]) == [
        {"text": '"yes"', "label": '"no'}
    ]


def test_a_long_field_is_read(tmp_path):
    file = write(tmp_path / "a.csv", b"text,label\n" + b"x" * 300_000 + b",a\n")
    assert len(read("csv", file)[0]["text"]) == 300_000


BROKEN = {
    "empty": (b"", ["the file is empty", "data.raw"]),
    "only blank lines": (b"\n\n", ["the file is empty"]),
    "a field too many": (b"text,label\na,b\nc,d,e\n", ["line 3", "3 field(s) found, 2 expected", "double quotes"]),
    "a field too few": (
        b"text,label,id\na,b,c\nd,e\n",
        ["line 3", "2 field(s) found, 3 expected", "(text, label, id)"],
    ),
    "another delimiter": (b"text,label\na;b\n", ["line 2", "1 field(s)", "set data.delimiter"]),
    "not utf-8": (
        b"text,label\nok,a\ncaf\xe9,b\n",
        ["line 3", "byte 0xe9 at offset 19", "set data.encoding", "latin-1"],
    ),
    "not utf-8, far in": (
        b"text,label\n" + b"0123456,a\n" * 100_000 + b"\xff,b\n",
        ["line 100002", "byte 0xff at offset 1000011", "set data.encoding"],
    ),
    "cut off within a character": (b"text,label\ncaf\xc3", ["line 2", "byte 0xc3 at offset 14", "set data.encoding"]),
    "utf-16 unannounced": ("text,label\na,b\n".encode("utf-16-le"), ["line 1", "NUL", "set data.encoding"]),
    "a NUL": (b"text,label\na\0,b\n", ["line 2", "NUL", "remove it"]),
    "a quote that is never closed": (
        b'text,label\na,b\n"c""d",e\n"f\n",g\nh,"i\nj,k\nl,m\n',
        ["line 6:", "a double quote opens a field here, and none closes it up to line 8", "data.quoting to none"],
    ),
    "a quote that opens in the second line of a row": (
        b'text,label,id\n"a ""x""\nb",5" screen,"c\nd\n',
        ["line 3:", "a double quote opens a field here", "data.quoting to none"],
    ),
    "text after a closing quote": (
        b'text,label\n"a" b,c\n',
        ["line 2", "text after the double quote that closes a field", "double each quote"],
    ),
    "a column twice": (b"text,label,text\na,b,c\n", ["columns 1 and 3 are both named 'text'", "name each column once"]),
    "a column without a name": (b"text,,label\na,b,c\n", ["column 2 of 3 has no name", "data.names"]),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named_with_the_place_and_the_remedy(tmp_path, kind):
    content, expected = BROKEN[kind]
    file = write(tmp_path / "broken.csv", content)
    with pytest.raises(DataError) as error:
        read("csv", file)
    for part in ["broken.csv", *expected]:
        assert part in str(error.value)


def test_a_header_that_names_repeats_is_not_taken_for_a_row(tmp_path):
    file = write(tmp_path / "a.csv", b"text,label\na,b\n")
    with pytest.raises(DataError, match=r"line 1: it is the header that data.names repeats.*set data.names to null"):
        read("csv", file, names=["text", "label"])


def test_too_many_names_are_named(tmp_path):
    file = write(tmp_path / "a.csv", b"a,b\n")
    with pytest.raises(DataError, match=r"line 1: 2 field\(s\) found, 3 expected.*data.names has 3 names"):
        read("csv", file, names=["text", "label", "id"])


@pytest.mark.parametrize("delimiter", ['"', "\n"])
def test_a_delimiter_that_can_not_separate_is_refused(tmp_path, delimiter):
    file = write(tmp_path / "a.csv", b"text,label\na,b\n")
    with pytest.raises(ParamsError, match=r"data\.delimiter"):
        read("csv", file, delimiter=delimiter)


@pytest.mark.skipif(not BANKING.exists(), reason="the banking77 data are not beside the checkout")
@pytest.mark.parametrize(("name", "count"), [("train.csv", 10_003), ("test.csv", 3_080)])
def test_banking77_has_its_published_number_of_rows(name, count):
    with (BANKING / name).open(newline="", encoding="utf-8") as stream:
        expected = list(csv.DictReader(stream))
    assert read("csv", BANKING / name) == expected
    assert len(expected) == count
