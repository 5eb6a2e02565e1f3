import pytest

from stages.data import raw_files
from stages.errors import DataError
from stages.params import DataParams
from tests import tiny


def locate(raw, **knobs):
    data = tiny.params(**{f"data.{key}": value for key, value in knobs.items()})["data"]
    return raw_files.locate(raw, DataParams.model_validate(data))


@pytest.fixture
def raw(tmp_path):
    for name in ("train.csv", "dev.csv", ".hidden.csv", "UPPER.CSV", "notes.txt"):
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / "raw" / name).write_text("id,text,label,channel\n1,a,b,c\n")
    (tmp_path / "other.csv").write_text("id,text,label,channel\n1,a,b,c\n")
    return tmp_path / "raw"


def test_a_file_is_train(raw):
    assert locate(raw / "dev.csv") == {"train": [raw / "dev.csv"]}


def test_of_a_folder_the_files_of_the_format_are_train_in_the_order_of_their_names(raw):
    assert locate(raw) == {"train": [raw / "UPPER.CSV", raw / "dev.csv", raw / "train.csv"]}


def test_files_that_are_named_are_the_splits(raw):
    assert locate(raw, files={"validation": "dev.csv", "train": "train.csv"}) == {
        "train": [raw / "train.csv"],
        "validation": [raw / "dev.csv"],
    }


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"train": "trian.csv"},
            r"data.files.train: there is no file .*trian.csv; there are .* did you mean train.csv\?",
        ),
        ({"train": "../other.csv"}, "data.files.train: ../other.csv lies outside .*raw"),
        ({"train": "train.csv", "test": "./train.csv"}, "data.files.test: .* is train already; name another file"),
        ({"train": "deeper/train.csv"}, "there is no folder .*deeper either"),
    ],
)
def test_a_file_that_can_not_be_a_split_is_named(raw, files, said):
    with pytest.raises(DataError, match=said):
        locate(raw, files=files)


def test_raw_that_is_not_there_is_named_with_what_is(raw):
    with pytest.raises(DataError, match=r"data.raw: there is no .*rwa; there are other.csv, raw/ in "):
        locate(raw.parent / "rwa")


def test_files_of_a_file_are_refused(raw):
    with pytest.raises(DataError, match=r"data.files: its files are relative to data.raw, and .* is a file"):
        locate(raw / "dev.csv", files={"train": "train.csv"})


def test_a_folder_without_a_file_of_the_format_is_refused(raw):
    with pytest.raises(
        DataError, match=r"no file in .*raw ends in .jsonl or .ndjson; there are .*notes.txt.*data.format"
    ):
        locate(raw, format="jsonl")
