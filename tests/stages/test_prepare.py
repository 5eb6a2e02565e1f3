import json
import logging
import os
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import prepare, splits
from stages.errors import DataError, ParamsError
from tests import tiny

MRPC = tiny.ROOT.parent / "shared/data/glue_mrpc"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(here, raw, **overrides):
    """Run the stage as its command does, and read what it wrote: the splits and the report."""
    tiny.write_params(here / "params.yaml", **{"data.raw": str(raw), **overrides})
    prepare.main(raw, here / "prepared")
    written = {name: splits.read_rows(here / "prepared", name) for name in splits.NAMES if exists(here, name)}
    return written, json.loads((here / "prepared/report.json").read_text())


def exists(here, split):
    return (here / f"prepared/{split}.parquet").exists()


def refused(here, raw, error=DataError, **overrides):
    """Run the stage, see it refuse and write nothing, and give its message."""
    with pytest.raises(error) as caught:
        run(here, raw, **overrides)
    assert not (here / "prepared").exists()
    assert not list(here.glob(".*"))
    return str(caught.value)


def per_split(here, **tables):
    """A folder with one csv for each split, and the overrides that name them."""
    for split, table in tables.items():
        tiny.write_csv(here / f"raw/{split}.csv", table)
    return {"raw": here / "raw", "data.files": {split: f"{split}.csv" for split in tables}}


def changed(table, index, **values):
    """A table with some fields of a row replaced."""
    return [*table[:index], {**table[index], **values}, *table[index + 1 :]]


def without(table, column):
    return [{name: value for name, value in row.items() if name != column} for row in table]


def test_one_file_is_cut_into_three_splits_that_keep_its_order(here):
    written, report = run(here, tiny.write_csv(here / "rows.csv", tiny.rows(60)))
    assert {name: rows.num_rows for name, rows in written.items()} == {"train": 42, "validation": 6, "test": 12}
    ids = {name: rows["id"].to_pylist() for name, rows in written.items()}
    assert sorted(id_ for split in ids.values() for id_ in split) == sorted(row["id"] for row in tiny.rows(60))
    for split in ids.values():
        assert split == sorted(split, key=lambda id_: int(id_[1:]))
    assert splits.read_label_names(here / "prepared") == ["billing", "delivery", "refund"]
    assert report["splits"]["test"]["labels"] == {"billing": 4, "delivery": 4, "refund": 4}


def test_what_is_written_is_what_was_in_the_file(here):
    table = tiny.rows(30)
    raw = tiny.write_csv(here / "rows.csv", table)
    written, _ = run(here, raw, **{"data.columns.text_pair": "text_pair"})
    assert written["train"].schema.names == ["id", "text", "text_pair", "label", "channel"]
    assert set(written["train"].schema.types) == {pa.string()}
    by_id = {row["id"]: {name: row[name] for name in written["train"].schema.names} for row in table}
    rows = [row for name in splits.NAMES for row in written[name].to_pylist()]
    assert len(rows) == 30
    assert all(by_id[row["id"]] == row for row in rows)


def test_what_looks_like_a_number_or_a_null_stays_text(here):
    texts = ["007", "NA", "null", "None", "n/a", "1.0"]
    table = [
        {**row, "text": texts[index % 6] + str(index // 6) * (index // 6), "label": ["01", "1"][index % 2]}
        for index, row in enumerate(tiny.rows(60))
    ]
    written, _ = run(here, tiny.write_csv(here / "rows.csv", table), **{"prepare.leakage": "warn"})
    held = {row["id"]: row["text"] for name in splits.NAMES for row in written[name].to_pylist()}
    assert held == {row["id"]: row["text"] for row in table}
    assert splits.read_label_names(here / "prepared") == ["01", "1"]


def test_the_same_bytes_in_two_processes_and_at_two_paths(here):
    digests = []
    for place, hash_seed in (("one", "1"), ("two/deeper", "2")):
        folder = here / place
        tiny.write_csv(folder / "data/rows.csv", changed(tiny.rows(60), 3, text=" "))
        tiny.write_params(folder / "params.yaml", **{"data.raw": "data/rows.csv", "prepare.max_rows": 20})
        raw = folder / "data/rows.csv" if place == "one" else "data/rows.csv"
        environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT), "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "stages.prepare", str(raw), "prepared"]
        subprocess.run(command, cwd=folder, env=environment, check=True)
        digests.append({file.name: file.read_bytes() for file in (folder / "prepared").iterdir()})
    assert digests[0] == digests[1]
    assert sorted(digests[0]) == ["labels.json", "report.json", "test.parquet", "train.parquet", "validation.parquet"]


def test_another_seed_gives_other_splits(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    first, _ = run(here, raw)
    again, _ = run(here, raw)
    other, _ = run(here, raw, **{"prepare.seed": 14})
    assert first["test"].equals(again["test"])
    assert not first["test"].equals(other["test"])


def test_files_that_are_given_are_the_splits_and_what_is_not_given_is_cut_from_train(here):
    given = per_split(here, train=tiny.rows(40), test=[{**row, "id": f"t{row['id']}"} for row in tiny.rows(9, seed=1)])
    written, _ = run(here, **given)
    assert {name: rows.num_rows for name, rows in written.items()} == {"train": 36, "validation": 4, "test": 9}
    assert written["test"]["id"].to_pylist() == [f"tr{index}" for index in range(9)]


def test_no_test_split_is_made_where_none_is_asked_for(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(40))
    written, report = run(here, raw, **{"prepare.test_fraction": 0.0})
    assert sorted(written) == sorted(report["splits"]) == ["train", "validation"]


def test_a_folder_is_read_in_the_order_of_its_files_names(here):
    table = tiny.rows(40)
    tiny.write_csv(here / "raw/b.csv", changed(table[:30], 0, text=""))
    tiny.write_csv(here / "raw/a.csv", table[30:])
    (here / "raw/readme.txt").write_text("not a row")
    written, report = run(
        here,
        here / "raw",
        **{"data.columns.id": None, "prepare.split_by": "random", "prepare.validation_fraction": 0.5},
    )
    ids = written["train"]["id"].to_pylist()
    assert ids == sorted(ids, key=lambda id_: (id_[0], int(id_.split("-")[1])))
    assert {id_.split("-")[0] for id_ in ids} == {"a.csv", "b.csv"}
    assert sum(facts["rows"] for facts in report["splits"].values()) == 40
    empty = [row for facts in report["splits"].values() for row in facts["empty_texts"]["shown"]]
    assert empty == [{"id": "b.csv-2", "place": "b.csv:2"}]


def test_ids_that_are_made_name_the_line_and_stay_the_same_when_the_splits_change(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    texts = []
    for seed in (1, 2):
        written, _ = run(here, raw, **{"data.columns.id": None, "prepare.seed": seed})
        texts.append({row["id"]: row["text"] for name in splits.NAMES for row in written[name].to_pylist()})
    assert texts[0] == texts[1] == {f"row-{index + 2}": row["text"] for index, row in enumerate(tiny.rows(60))}


def test_ids_that_are_made_for_given_files_begin_with_the_split(here):
    tables = {split: tiny.rows(12, seed=seed) for seed, split in enumerate(splits.NAMES)}
    written, _ = run(here, **per_split(here, **tables), **{"data.columns.id": None})
    for split in splits.NAMES:
        assert written[split]["id"].to_pylist() == [f"{split}-{index + 2}" for index in range(12)]


def test_a_stratified_cut_gives_every_split_its_share_of_each_class(here):
    table = [{**row, "label": "rare" if index % 10 == 0 else "common"} for index, row in enumerate(tiny.rows(200))]
    _, report = run(here, tiny.write_csv(here / "rows.csv", table))
    assert report["splits"]["validation"]["labels"] == {"common": 18, "rare": 2}
    assert report["splits"]["test"]["labels"] == {"common": 36, "rare": 4}


def test_max_rows_is_a_seeded_sample_of_train_alone(here, caplog):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    whole, _ = run(here, raw)
    with caplog.at_level(logging.INFO, logger="stages"):
        some, report = run(here, raw, **{"prepare.max_rows": 10})
    assert some["test"].equals(whole["test"])
    ids = some["train"]["id"].to_pylist()
    assert len(ids) == 10
    assert (
        ids == [id_ for id_ in whole["train"]["id"].to_pylist() if id_ in ids] != whole["train"]["id"].to_pylist()[:10]
    )
    assert report["left_out_by_max_rows"] == 32
    assert "train 10 rows, validation 6 rows, test 12 rows" in caplog.text
    assert "32 over max_rows" in caplog.text


def test_labels_that_are_given_keep_their_order_and_one_that_train_never_has_is_warned_of(here, caplog):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    names = ["refund", "complaint", "delivery", "billing"]
    _, report = run(here, raw, **{"data.labels": names})
    assert splits.read_label_names(here / "prepared") == names
    assert report["splits"]["train"]["labels"] == {"refund": 14, "complaint": 0, "delivery": 14, "billing": 14}
    assert "train has no row with the label complaint" in caplog.text


REGRESSION = {
    "task.type": "regression",
    "select_best.metric": "pearson",
    "data.columns.label": "score",
    "prepare.split_by": "random",
}


def test_the_labels_of_a_regression_are_numbers(here):
    written, report = run(here, tiny.write_csv(here / "rows.csv", tiny.rows(60)), **REGRESSION)
    assert written["train"].schema.field("label").type == pa.float64()
    scores = {row["id"]: float(row["score"]) for row in tiny.rows(60)}
    assert all(scores[row["id"]] == row["label"] for row in written["train"].to_pylist())
    assert splits.read_label_names(here / "prepared") == []
    assert set(report["splits"]["train"]["labels"]) == {"min", "mean", "max", "standard_deviation"}


@pytest.mark.parametrize("label", ["high", "nan", "1e999", "-1e39"])
def test_what_is_no_number_is_refused_in_a_regression(here, label):
    raw = tiny.write_csv(here / "rows.csv", changed(tiny.rows(60), 4, score=label))
    message = refused(here, raw, **REGRESSION)
    assert "1 of 60 rows have a label that can't be read" in message
    assert "rows.csv:6" in message


def test_minus_one_is_a_number_like_any_other_in_a_regression(here):
    written, _ = run(here, tiny.write_csv(here / "rows.csv", changed(tiny.rows(60), 4, score="-1")), **REGRESSION)
    assert -1.0 in [label for name in splits.NAMES for label in written[name]["label"].to_pylist()]


def test_a_stratified_cut_of_numbers_is_refused(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    message = refused(here, raw, error=ParamsError, **{**REGRESSION, "prepare.split_by": "stratified"})
    assert "prepare.split_by" in message
    assert "set it to random" in message


def test_labels_of_a_regression_can_not_be_named(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    assert "data.labels" in refused(here, raw, error=ParamsError, **REGRESSION, **{"data.labels": ["a", "b"]})


@pytest.mark.parametrize("mark", ["-1", "", None])
def test_a_test_split_without_labels_is_kept_unlabelled(here, mark):
    test = [{**row, "id": f"t{row['id']}", "label": mark} for row in tiny.rows(9, seed=1)]
    if mark is None:
        test = without(without(without(test, "label"), "id"), "channel")
    written, report = run(here, **per_split(here, train=tiny.rows(40), test=test))
    assert not splits.has_labels(written["test"])
    assert written["test"].schema == written["train"].schema
    assert report["splits"]["test"]["labels"] is None
    if mark is None:
        assert written["test"]["id"].to_pylist()[:2] == ["test-2", "test-3"]
        assert written["test"]["channel"].null_count == 9


@pytest.mark.parametrize("split", ["train", "validation"])
def test_rows_marked_as_unlabelled_are_refused_where_labels_are_learned_or_scored(here, split):
    tables = {"train": tiny.rows(40), "validation": [{**row, "id": f"v{row['id']}"} for row in tiny.rows(30, seed=1)]}
    tables[split] = [{**row, "label": "-1"} for row in tables[split]]
    message = refused(here, **per_split(here, **tables), **{"prepare.test_fraction": 0.0})
    count = len(tables[split])
    assert (
        f"{split}: {count} of {count} rows have a label that can't be read: -1 marks a row without a label" in message
    )
    assert "where it is a class, write it as a word" in message
    assert f"{split}.csv:2, {split}.csv:3" in message
    assert f"and {count - 10} more" in message


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_rows_without_a_label_among_labelled_ones_are_named(here, split):
    tables = {
        name: [{**row, "id": f"{name}{row['id']}"} for row in tiny.rows(30, seed=len(name))] for name in splits.NAMES
    }
    tables[split] = changed(changed(tables[split], 7, label=""), 2, label=" ")
    message = refused(here, **per_split(here, **tables))
    assert f"{split}: 2 of 30 rows have no label: {split}.csv:4, {split}.csv:9; give each a label" in message


def test_a_test_split_with_some_rows_marked_as_unlabelled_is_refused(here):
    test = [{**row, "id": f"t{row['id']}"} for row in tiny.rows(9, seed=1)]
    message = refused(here, **per_split(here, train=tiny.rows(40), test=changed(test, 0, label="-1")))
    assert "test: 1 of 9 rows have a label that can't be read" in message
    assert "test.csv:2" in message


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_label_that_train_does_not_have_is_named_with_its_rows_and_the_nearest(here, split):
    tables = {
        name: [{**row, "id": f"{name}{row['id']}"} for row in tiny.rows(30, seed=len(name))] for name in splits.NAMES
    }
    tables[split] = changed(tables[split], 5, label="refunds")
    message = refused(here, **per_split(here, **tables))
    assert f"{split}: 1 row(s) have the label 'refunds' ({split}.csv:7)" in message
    assert "not among the labels of train: billing, delivery, refund; did you mean refund?" in message


def test_a_label_that_is_not_among_those_given_is_named(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    message = refused(here, raw, **{"data.labels": ["billing", "delivery", "refunds"]})
    assert "train: 14 row(s) have the label 'refund'" in message
    assert "not among data.labels: billing, delivery, refunds; did you mean refunds?" in message


def test_one_class_only_is_refused(here):
    raw = tiny.write_csv(here / "rows.csv", [{**row, "label": "spam"} for row in tiny.rows(40)])
    assert "all of its 28 rows have the label 'spam'" in refused(here, raw)


def test_a_sample_of_one_class_only_is_refused_by_the_knob_that_makes_it(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(40))
    assert "raise prepare.max_rows" in refused(here, raw, **{"prepare.max_rows": 1})


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("select_best.metric", "f1_binary", "select_best.metric"),
        (
            "train.early_stopping",
            {"metric": "f1_binary", "patience": 1, "min_delta": 0.0},
            "train.early_stopping.metric",
        ),
    ],
)
def test_a_metric_that_is_not_defined_for_so_many_labels_is_refused_before_anything_is_made_of_them(
    here, place, value, named
):
    """Case 23: three labels, a metric for two."""
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(60))
    message = refused(here, raw, error=ParamsError, **{place: value})
    assert message.startswith(f"{named}: f1_binary is not defined for these labels; there are ")
    assert ("eval_loss" in message) is (place == "train.early_stopping")
    assert "f1_macro, accuracy" in message
    two = tiny.write_csv(here / "two.csv", tiny.rows(60, labels=("billing", "refund")))
    assert run(here, two, **{place: value})


def test_a_label_column_of_null_is_refused(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(40))
    assert "data.columns.label" in refused(here, raw, error=ParamsError, **{"data.columns.label": None})


def test_rows_of_train_that_are_also_held_out_are_dropped_and_counted(here, caplog):
    train = tiny.rows(40)
    test = [{**row, "id": f"t{row['id']}"} for row in tiny.rows(9, seed=1)]
    test = changed(changed(test, 0, text=train[3]["text"]), 1, text=train[7]["text"])
    with caplog.at_level(logging.INFO, logger="stages"):
        written, report = run(here, **per_split(here, train=train, validation=[{**train[9], "id": "v"}], test=test))
    assert report["leakage"] == {
        "train_rows_in_validation": 1,
        "train_rows_in_test": 2,
        "validation_rows_in_test": 0,
        "dropped_from_train": 3,
    }
    assert not {"r3", "r7", "r9"} & set(written["train"]["id"].to_pylist())
    assert report["splits"]["train"]["rows"] == written["train"].num_rows == 37
    assert "dropped from train: 3 also in validation or test" in caplog.text


def test_a_text_in_two_splits_is_none_of_a_pair(here):
    train = tiny.rows(40)
    test = changed([{**row, "id": f"t{row['id']}"} for row in tiny.rows(9, seed=1)], 0, text=train[3]["text"])
    pair = {"data.columns.text_pair": "text_pair"}
    _, report = run(here, **per_split(here, train=train, test=test), **pair)
    assert report["leakage"]["dropped_from_train"] == 0
    test = changed(test, 0, text_pair=train[3]["text_pair"])
    _, report = run(here, **per_split(here, train=train, test=test), **pair)
    assert report["leakage"]["train_rows_in_test"] == 1


def test_rows_in_two_splits_are_kept_or_refused_where_that_is_asked_for(here, caplog):
    train = tiny.rows(40)
    tables = {"train": train, "validation": [{**train[9], "id": "v"}], "test": [{**train[5], "id": "t"}]}
    written, report = run(here, **per_split(here, **tables), **{"prepare.leakage": "warn"})
    assert written["train"].num_rows == 40
    assert report["leakage"]["dropped_from_train"] == 0
    found = "train: 2 of 40 rows have a text that validation or test has too (train.csv:7, train.csv:11)"
    assert found in caplog.text
    shutil.rmtree(here / "prepared")
    assert found in refused(here, **per_split(here, **tables), **{"prepare.leakage": "error"})


def test_a_train_split_that_is_all_held_out_is_refused(here):
    train = tiny.rows(9)
    tables = {"train": train, "validation": [{**row, "id": f"v{row['id']}"} for row in train]}
    message = refused(here, **per_split(here, **tables), **{"prepare.test_fraction": 0.0})
    assert "no row is left to learn from" in message


def test_empty_texts_duplicates_and_conflicts_are_reported(here, caplog):
    train = changed(tiny.rows(30), 3, text="")
    train = changed(changed(train, 10, text=train[0]["text"]), 12, text=train[0]["text"])
    tables = {"train": train, "validation": [{**row, "id": f"v{row['id']}"} for row in tiny.rows(9, seed=5)]}
    _, report = run(here, **per_split(here, **tables), **{"prepare.test_fraction": 0.0})
    facts = report["splits"]["train"]
    assert facts["empty_texts"] == {"rows": 1, "shown": [{"id": "r3", "place": "train.csv:5"}]}
    assert "train: 1 row(s) have an empty text: train.csv:5" in caplog.text
    assert facts["duplicates"] == 2
    assert facts["words"]["text"]["min"] == 0
    assert facts["characters"]["text"]["max"] == max(len(row["text"]) for row in train)
    assert report["same_text_different_labels"] == {
        "texts": 1,
        "shown": [
            {
                "text": train[0]["text"],
                "rows": [
                    {"split": "train", "place": "train.csv:2", "id": "r0", "label": "billing"},
                    {"split": "train", "place": "train.csv:12", "id": "r10", "label": "delivery"},
                    {"split": "train", "place": "train.csv:14", "id": "r12", "label": "billing"},
                ],
            }
        ],
    }


def test_a_repeated_id_is_named_with_its_places(here):
    tables = {"train": changed(tiny.rows(40), 9, id="r3"), "test": [{**tiny.rows(1)[0], "id": "r5", "text": "new"}]}
    message = refused(here, **per_split(here, **tables))
    assert "2 id(s) stand more than once: r3 (train.csv:5, train.csv:11); r5 (train.csv:7, test.csv:2)" in message
    assert "set data.columns.id to null" in message


def test_a_missing_id_is_named(here):
    message = refused(here, tiny.write_csv(here / "rows.csv", changed(tiny.rows(40), 9, id="")))
    assert "1 row(s) have no id: rows.csv:11" in message


@pytest.mark.parametrize(
    ("count", "knobs", "said"),
    [
        (2, {"prepare.split_by": "random"}, "2 row(s) in rows.csv are too few"),
        (9, {"prepare.validation_fraction": 0.01}, "too few to cut validation (0.01 of the rows)"),
        (6, {}, "a class has too few rows to be in every split"),
        (12, {}, "set prepare.split_by to random"),
    ],
)
def test_too_few_rows_for_the_splits_are_refused(here, count, knobs, said):
    assert said in refused(here, tiny.write_csv(here / "rows.csv", tiny.rows(count)), **knobs)


def test_a_class_too_rare_for_every_split_is_named(here):
    table = changed(changed(tiny.rows(100), 0, label="odd"), 1, label="odd")
    message = refused(here, tiny.write_csv(here / "rows.csv", table))
    assert "the smallest of 4 classes: odd (2)" in message
    assert "merge or leave out rare classes" in message


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"data.columns.text": "txt"}, "there is no column 'txt'; there are 'id', 'text', 'text_pair', 'label'"),
        ({"data.columns.label": "lable"}, "did you mean label?"),
        ({"data.columns.extra": ["channel", "created"]}, "there is no column 'created'"),
        ({"data.delimiter": ";"}, "set data.delimiter"),
    ],
)
def test_a_missing_column_is_named_with_those_there_are(here, knobs, said):
    message = refused(here, tiny.write_csv(here / "rows.csv", tiny.rows(40)), **knobs)
    assert said in message
    assert "rows.csv" in message


@pytest.mark.parametrize("column", ["text", "label", "id", "channel"])
def test_only_a_test_split_may_lack_columns(here, column):
    validation = without([{**row, "id": f"v{row['id']}"} for row in tiny.rows(9, seed=1)], column)
    message = refused(here, **per_split(here, train=tiny.rows(40), validation=validation))
    assert f"validation.csv: there is no column '{column}'" in message


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"data.columns.extra": ["channel", "label"]}, "label is the name that data/prepared gives to the label"),
        ({"data.columns.text_pair": "text"}, "text is named for more than one of"),
    ],
)
def test_a_column_can_not_be_two_things(here, knobs, said):
    assert said in refused(here, tiny.write_csv(here / "rows.csv", tiny.rows(40)), error=ParamsError, **knobs)


@pytest.mark.parametrize("content", [b"", b"id,text,label,channel\r\n"])
def test_a_file_without_rows_is_refused(here, content):
    (here / "rows.csv").write_bytes(content)
    message = refused(here, here / "rows.csv")
    assert "rows.csv" in message
    assert "data.raw and data.files name" in message


def test_a_broken_row_is_refused_and_what_was_there_is_left_alone(here):
    raw = tiny.write_csv(here / "rows.csv", tiny.rows(40))
    run(here, raw)
    before = {file.name: file.read_bytes() for file in (here / "prepared").iterdir()}
    raw.write_bytes(raw.read_bytes() + b"r40,caf\xe9,,refund,1.0,chat\r\n")
    offset = raw.read_bytes().index(b"\xe9")
    with pytest.raises(DataError, match=f"rows.csv, line 42: the byte 0xe9 at offset {offset} is not utf-8"):
        run(here, raw)
    assert {file.name: file.read_bytes() for file in (here / "prepared").iterdir()} == before


def test_a_json_row_without_its_text_is_named(here):
    lines = [json.dumps(row) for row in without(changed(tiny.rows(40), 4, score="x"), "score")]
    lines[4] = json.dumps({"id": "r4", "txt": "misspelt", "label": "refund"})
    (here / "rows.jsonl").write_text("\n".join(lines))
    message = refused(here, here / "rows.jsonl", **{"data.format": "jsonl"})
    assert "rows.jsonl, line 5: there is no column 'text'; there are 'id', 'txt', 'label'; did you mean txt?" in message


@pytest.mark.parametrize("name", ["jsonl", "parquet", "tsv"])
def test_every_format_gives_the_same_rows(here, name):
    table = tiny.rows(40)
    expected, _ = run(here, tiny.write_csv(here / "rows.csv", table))
    raw = here / f"rows.{name}"
    if name == "jsonl":
        raw.write_text("".join(json.dumps(row) + "\n" for row in table))
    elif name == "parquet":
        pq.write_table(pa.Table.from_pylist(table), raw)
    else:
        raw.write_text((here / "rows.csv").read_text().replace(",", "\t"))
    written, _ = run(here, raw, **{"data.format": name})
    assert all(written[split].equals(expected[split]) for split in splits.NAMES)


def test_a_failure_ends_the_command_with_exit_code_2_and_one_message(here):
    tiny.write_params(here / "params.yaml", **{"data.raw": "absent.csv"})
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    command = [sys.executable, "-m", "stages.prepare", "absent.csv", "prepared"]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: data.raw: there is no absent.csv; there are params.yaml in .")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not MRPC.exists(), reason="the MRPC data are not beside the checkout")
def test_mrpc_is_prepared_with_its_unlabelled_test_split(here):
    knobs = {
        "data.format": "tsv",
        "data.files": {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"},
        "data.columns.text": "#1 String",
        "data.columns.text_pair": "#2 String",
        "data.columns.label": "Quality",
        "data.columns.id": None,
        "data.columns.extra": [],
        "test.slices": [],
    }
    written, report = run(here, MRPC, **knobs)
    assert {name: rows.num_rows for name, rows in written.items()} == {"train": 3668, "validation": 408, "test": 1725}
    assert report["splits"]["train"]["labels"] == {"0": 1194, "1": 2474}
    assert not splits.has_labels(written["test"])
    first = written["train"].slice(0, 1).to_pylist()[0]
    assert first["text"] == (
        'Amrozi accused his brother , whom he called " the witness " , of deliberately distorting his evidence .'
    )
