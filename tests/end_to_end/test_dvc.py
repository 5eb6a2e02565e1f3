"""What DVC offers beside repro works on this graph: its run-cache, linked caches, experiments, metrics, plots."""

import hashlib
import json

import pytest

from stages.params import load_params
from tests.end_to_end.project import ran, surplus


def cache_faults(project):
    """The objects of DVC's cache that no longer hold what their name says; and how many there are."""
    objects = [file for file in (project.root / ".dvc/cache/files/md5").rglob("*") if file.is_file()]
    named = {file: (file.parent.name + file.name).removesuffix(".dir") for file in objects}
    return [file for file, md5 in named.items() if hashlib.md5(file.read_bytes()).hexdigest() != md5], len(objects)


def test_without_the_lock_file_nothing_trains_again(project):
    lock = (project.root / "dvc.lock").read_text(encoding="utf-8")
    (project.root / "dvc.lock").unlink()
    # Their outputs are not in DVC's cache, or not all of them: nothing else may run.
    assert set(project.repro()) <= {"check", "evaluate@13", "select_best", "test"}
    assert (project.root / "dvc.lock").read_text(encoding="utf-8") == lock


def test_a_linked_cache_survives_that_its_stages_run_again(project):
    project.run("dvc", "config", "--local", "cache.type", "hardlink")
    project.run("dvc", "checkout", "--relink", "--force")
    weights = next((project.root / "models/checkpoints/13").rglob("model.safetensors"))
    assert weights.stat().st_nlink > 1
    assert weights.stat().st_mode & 0o222 == 0
    before = cache_faults(project)
    assert before[0] == []
    for _ in range(2):
        assert project.repro("--force", "--single-item", "train@13") == ["train@13"]
    assert project.repro("--force", "--single-item", "prepare", "encode") == ["prepare", "encode"]
    assert cache_faults(project) == before
    assert project.changed() == []


def test_an_experiment_runs_elsewhere_and_is_compared(project):
    # In a workspace of its own: it sees what is in git and in DVC's cache, nothing else.
    said = project.run("dvc", "exp", "run", "--temp", "--name", "gentle", "-S", "train.learning_rate=1e-3").stdout
    assert "train@13" in ran(said)
    assert not {"prepare", "encode", "fetch_model"} & set(ran(said))
    assert project.changed() == []
    shown = project.run("dvc", "exp", "show", "--csv").stdout
    assert "gentle" in shown
    assert "train.learning_rate" in shown.splitlines()[0]
    compared = json.loads(project.run("dvc", "metrics", "diff", "--json", "HEAD", "gentle").stdout)
    assert "models/test_metrics.json" in compared["diff"] if "diff" in compared else compared
    params = json.loads(project.run("dvc", "params", "diff", "--json", "HEAD", "gentle").stdout)
    assert params["params.yaml"]["train.learning_rate"]["new"] == 0.001


@pytest.mark.slow
def test_a_queued_experiment_sees_what_is_in_git_and_runs(project):
    """Case 9."""
    project.run("dvc", "exp", "run", "--queue", "--name", "later", "-S", "train.learning_rate=1e-3")
    said = project.run("dvc", "exp", "run", "--run-all", "--jobs", "1")
    assert "train@13" in ran(said.stdout + said.stderr)
    assert "later" in project.run("dvc", "exp", "show", "--csv").stdout
    assert project.changed() == []


@pytest.mark.slow
def test_an_experiment_elsewhere_names_what_is_not_in_git(project):
    """Case 9: rows that neither git nor DVC tracks are not there."""
    project.run("git", "rm", "--quiet", "--cached", "data/raw/rows.csv")
    project.append(".gitignore", "/data/raw/rows.csv\n")
    project.commit()
    done = project.run("dvc", "exp", "run", "--temp", "-S", "train.learning_rate=1e-3", code=255)
    assert "data/raw/rows.csv" in done.stdout + done.stderr


def test_plots_show_the_losses_and_the_confusion_matrix(project):
    project.run("dvc", "plots", "show")
    page = (project.root / "dvc_plots/index.html").read_text(encoding="utf-8")
    assert "eval_loss" in page
    assert "predicted" in page
    assert surplus(project.changed()) == []


@pytest.mark.parametrize("written", ["0.00001", ".00001", "1e-5", "1E-5"])
def test_values_set_for_an_experiment_arrive_as_themselves(project, written):
    settings = {
        "train.learning_rate": written,
        "train.max_rows_per_device": "null",
        "train.full_determinism": "false",
        "test.slices": "[]",
    }
    options = [option for place, value in settings.items() for option in ("-S", f"{place}={value}")]
    project.run("dvc", "exp", "run", *options, "check")
    params = load_params(project.root / "params.yaml")
    assert params.train.learning_rate == 0.00001
    assert params.train.max_rows_per_device is None
    assert params.train.full_determinism is False
    assert params.test.slices == []


def test_a_bad_value_set_for_an_experiment_is_named(project):
    done = project.run("dvc", "exp", "run", "-S", "train.learning_rate=abc", "check", code=255)
    assert "train.learning_rate" in done.stderr
