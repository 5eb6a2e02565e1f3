import pytest

from stages.data.text_lines import read_lines
from stages.errors import DataError, ParamsError


def lines(tmp_path, content, encoding="utf-8", newline=""):
    (tmp_path / "a.txt").write_bytes(content)
    return list(read_lines(tmp_path / "a.txt", encoding, newline=newline))


def test_lines_keep_their_breaks_and_unicode_separators_are_none(tmp_path):
    content = "\ufeffa\nb\r\nc\rd\u2028e\x85f\x0bg"
    assert lines(tmp_path, content.encode()) == ["a\n", "b\r\n", "c\r", "d\u2028e\x85f\x0bg"]
    assert lines(tmp_path, content.encode(), newline="\n") == ["a\n", "b\r\n", "c\rd\u2028e\x85f\x0bg"]


def test_only_the_first_character_can_be_a_byte_order_mark(tmp_path):
    assert lines(tmp_path, "\ufeff\ufeffa\n\ufeffb".encode()) == ["\ufeffa\n", "\ufeffb"]


@pytest.mark.parametrize("encoding", ["shift_jis", "gbk", "cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize("before", [0, 8191, 8192, 20_000])
def test_an_undecodable_byte_is_named_with_its_offset(tmp_path, encoding, before):
    bad = b"\x81" if encoding == "cp1252" else b"\xff"
    with pytest.raises(DataError, match=rf"a\.txt, line 2: the byte 0x{bad.hex()} at offset {before + 1} is not"):
        lines(tmp_path, b"\n" + b"a" * before + bad + b"b" * 20_000, encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf8000", "base64"])
def test_what_is_no_encoding_of_text_is_refused(tmp_path, encoding):
    with pytest.raises(ParamsError, match=rf"data.encoding: .*{encoding}.*utf-8"):
        lines(tmp_path, b"a\n", encoding=encoding)
