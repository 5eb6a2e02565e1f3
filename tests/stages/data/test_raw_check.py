import pytest

from stages.data.raw_check import check
from stages.errors import DataError, ParamsError
from stages.params import Params
from tests import tiny


def params(**overrides):
    return Params.model_validate(tiny.params(**overrides))


def test_it_says_what_each_file_holds_and_what_is_cut_from_it(tmp_path):
    raw = tiny.write_csv(tmp_path / "rows.csv", tiny.rows(40))
    assert check(raw, params()) == [
        f"train: {raw} (0.0 MB), columns id, text, text_pair, label, score, channel",
        "validation (0.1 of its rows) and test (0.2 of its rows) cut from train, stratified, with seed 13",
    ]


def test_it_reads_only_the_beginning_of_a_file(tmp_path):
    raw = tiny.write_csv(tmp_path / "rows.csv", tiny.rows(20_000))
    raw.write_bytes(raw.read_bytes() + b"ragged\n")
    assert len(check(raw, params())) == 2


@pytest.mark.parametrize(
    ("overrides", "error", "said"),
    [
        ({"data.columns.text": "txt"}, DataError, "there is no column 'txt'"),
        ({"data.files": {"train": "a.csv"}}, DataError, "data.files"),
        ({"data.columns.label": None}, ParamsError, "data.columns.label"),
        ({"task.type": "regression", "select_best.metric": "mse"}, ParamsError, "prepare.split_by"),
    ],
)
def test_what_prepare_would_refuse_is_named(tmp_path, overrides, error, said):
    raw = tiny.write_csv(tmp_path / "rows.csv", tiny.rows(40))
    with pytest.raises(error, match=said):
        check(raw, params(**overrides))


def test_a_file_with_only_a_header_is_named(tmp_path):
    (tmp_path / "rows.csv").write_text("id,text,label,channel\n")
    with pytest.raises(DataError, match=r"rows\.csv: it has columns and no row"):
        check(tmp_path / "rows.csv", params())
