import csv

import pytest

from stages.errors import DataError
from stages.sources import tsv
from tests import tiny
from tests.stages.sources import data_params, numbers, read

SHARED = tiny.ROOT.parent / "shared/data"
MRPC = SHARED / "glue_mrpc"
SPAM = SHARED / "sms_spam/SMSSpamCollection"


def test_a_double_quote_is_a_character_like_any_other(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_bytes(b'text\tlabel\n"open\ta\nsay ""x"\tb\r\nnull\t007\n')
    assert read("tsv", file) == [
        {"text": '"open', "label": "a"},
        {"text": 'say ""x"', "label": "b"},
        {"text": "null", "label": "007"},
    ]
    assert numbers("tsv", file) == [2, 3, 4]


def test_quotes_enclose_fields_where_quoting_is_minimal(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_bytes(b'text\tlabel\n"a\tb\nc"\td\n')
    assert read("tsv", file, quoting="minimal") == [{"text": "a\tb\nc", "label": "d"}]


def test_a_tab_within_a_text_is_named(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_bytes(b"text\tlabel\na\tb\nc\td\te\n")
    with pytest.raises(
        DataError, match=r"a\.tsv, line 3: 3 field\(s\) found, 2 expected.*out of the texts, or set data.quoting to min"
    ):
        read("tsv", file)


@pytest.mark.skipif(not MRPC.exists(), reason="the MRPC data are not beside the checkout")
@pytest.mark.parametrize(("name", "count"), [("train.tsv", 3668), ("dev.tsv", 408), ("test.tsv", 1725)])
def test_mrpc_has_its_published_number_of_rows(name, count):
    rows = read("tsv", MRPC / name)
    with (MRPC / name).open(newline="", encoding="utf-8-sig") as stream:
        expected = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows == expected
    assert len(rows) == count
    assert ("Quality" in tsv.columns(MRPC / name, data_params())) == (name != "test.tsv")
    assert {"#1 String", "#2 String"} <= set(rows[0])


@pytest.mark.skipif(not SPAM.exists(), reason="the SMS spam data are not beside the checkout")
def test_sms_spam_has_its_published_number_of_rows():
    labels = [row["label"] for row in read("tsv", SPAM, names=["label", "text"])]
    assert (len(labels), labels.count("ham"), labels.count("spam")) == (5574, 4827, 747)
