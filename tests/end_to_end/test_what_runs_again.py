"""After a change, the stages that run are those which it can reach, and no others."""

import pytest

from tests.end_to_end.project import STAGES


@pytest.fixture
def best_before(project):
    return project.output_md5("models/best")


def after_best(project, best_before):
    """What follows select_best: nothing where the same checkpoint was chosen again."""
    return [] if project.output_md5("models/best") == best_before else ["test", "export"]


def test_another_selection_metric_chooses_again_and_trains_nothing(project, best_before):
    project.set(**{"select_best.metric": "log_loss"})
    ran = project.repro()
    # export compares by that metric, so it runs also where the best stays the best.
    assert set(ran) == {"check", "select_best", "export", *after_best(project, best_before)}


def test_another_opset_only_exports(project):
    project.set(**{"export.opset": 19})
    assert project.repro() == ["check", "export"]


def test_another_learning_rate_trains_and_what_follows(project):
    project.set(**{"train.learning_rate": 1e-3})
    assert project.repro() == ["check", "train@13", "evaluate@13", "select_best", "test", "export"]


def test_one_changed_row_runs_all_that_is_made_from_rows(project):
    project.replace("data/raw/rows.csv", "\nr7,", "\nr7,again ")
    ran = project.repro()
    assert sorted(ran) == sorted(set(STAGES) - {"check", "fetch_model", "fetch_data"})


def test_a_line_of_export_only_exports(project):
    project.append("stages/export.py", "# A line more.\n")
    assert project.repro() == ["check", "export"]


def test_another_seed_trains_that_seed_alone(project, best_before):
    project.set(seeds=[13, 14])
    ran = project.repro()
    assert ran == ["check", "train@14", "evaluate@14", "select_best", *after_best(project, best_before)]


@pytest.mark.parametrize("folder", ["metrics", "tasks", "sources"])
def test_a_file_that_nobody_chose_runs_only_the_check(project, folder):
    used = {"metrics": "f1_macro", "tasks": "single_label", "sources": "csv"}[folder]
    text = (project.root / f"stages/{folder}/{used}.py").read_text(encoding="utf-8")
    (project.root / f"stages/{folder}/unused.py").write_text(text, encoding="utf-8")
    assert project.repro() == ["check"]


def test_a_knob_that_decides_no_byte_runs_only_the_check(project):
    project.set(**{"runtime.save_steps": 77})
    assert project.repro() == ["check"]


def test_another_version_of_a_tool_runs_nothing(project):
    tools = (project.root / "requirements/tools.txt").read_text(encoding="utf-8")
    version = next(line for line in tools.splitlines() if line.startswith("ruff=="))
    project.replace("requirements/tools.txt", version, "ruff==99.0.0")
    assert project.repro() == []


def test_a_compiled_file_or_a_tool_s_cache_runs_nothing(project):
    for name in ("stages/__pycache__/train.cpython-311.pyc", "stages/.mypy_cache/x", "stages/tasks/single_label.py~"):
        file = project.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("left by a tool", encoding="utf-8")
    assert project.repro() == []
    assert project.changed() == []
