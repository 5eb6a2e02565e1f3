"""A mistake is named before anything is deleted, and leaves nothing behind for git to show."""

import pytest

from tests.end_to_end.project import surplus

OUTPUTS = ("data/fetched", "data/prepared", "data/encoded", "data/predictions", "models")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("train.learning_rate", "abc", "train.learning_rate"),
        ("train.learning_rate", -1.0, "train.learning_rate"),
        ("select_best.metric", "f1_makro", "did you mean f1_macro?"),
        ("task.type", "single_lable", "did you mean single_label?"),
        ("data.format", "cvs", "did you mean csv?"),
        ("data.raw", "data/raw/none.csv", "data/raw/none.csv"),
        ("train.arguments", {"evaluation_strategy": "steps"}, "eval_strategy"),
    ],
)
def test_a_bad_value_is_named_and_no_output_is_touched(project, place, value, message):
    before = project.digests(*OUTPUTS)
    assert len(before) > 20
    project.set(**{place: value})
    said = project.repro_fails()
    assert message in said
    assert "Traceback" not in said
    assert project.digests(*OUTPUTS) == before
    assert surplus(project.changed()) == []


def test_a_missing_section_is_named_and_no_output_is_touched(project):
    before = project.digests(*OUTPUTS, "data/code")
    project.replace("params.yaml", "seeds:", "seed:")
    assert "seeds" in project.repro_fails()
    assert project.digests(*OUTPUTS, "data/code") == before


def test_a_mistake_that_is_corrected_costs_no_stage(project):
    project.set(**{"train.batch_size": 0})
    assert "train.batch_size" in project.repro_fails()
    project.set(**{"train.batch_size": 8})
    assert set(project.repro()) <= {"check"}
    assert project.changed() == []


def test_a_bad_row_stops_prepare_and_leaves_nothing_to_git(project):
    project.append("data/raw/rows.csv", "r60,one field too few\n")
    said = project.repro_fails()
    assert "data/raw/rows.csv" in said
    assert "62" in said  # the line: a header, 60 rows, and this one
    assert "Traceback" not in said
    assert surplus(path for path in project.changed() if path != "data/raw/rows.csv") == []


def test_a_stage_that_writes_nothing_is_an_error_that_names_the_path(project):
    project.append("stages/fetch_data.py", "")
    (project.root / "stages/fetch_data.py").write_text('"""Write nothing, and succeed."""\n', encoding="utf-8")
    said = project.repro_fails()
    assert "data/fetched" in said
    assert "fetch_data" in said
