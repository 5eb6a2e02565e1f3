"""Raw rows to an exported model, twice, in two clones, without a network."""

import json
import subprocess

import pytest

from tests.end_to_end.project import STAGES, Project, surplus


@pytest.fixture(scope="module")
def other_clone(first_run, tmp_path_factory):
    """A clone of what has never run, in another place, for another user, with nothing cached, after `dvc repro`."""
    folder = tmp_path_factory.mktemp("second") / "a place with spaces"
    clone = Project(folder / "clone", folder / "home", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    first_run.project.run("git", "clone", "--quiet", ".", str(clone.root))
    clone.run("git", "reset", "--quiet", "--hard", "HEAD~1")
    assert not (clone.root / "dvc.lock").exists()
    return clone, clone.repro()


def test_every_stage_runs_once(first_run):
    assert sorted(first_run.ran) == sorted(STAGES)


def test_a_model_is_exported_and_scored_on_the_test_split(first_run):
    exported = first_run.project.root / "models/exported"
    assert {"config.json", "model.safetensors", "model.onnx", "model.int8.onnx", "parity.json", "README.md"} <= {
        file.name for file in exported.iterdir()
    }
    assert json.loads((first_run.project.root / "models/test_metrics.json").read_text())


def test_git_shows_only_the_lock_file_and_the_metrics(first_run):
    assert "dvc.lock" in first_run.changed
    assert surplus(first_run.changed) == []


def test_a_second_run_runs_nothing(project):
    assert project.repro() == []
    assert project.changed() == []


def test_two_clones_give_the_same_bytes(other_clone):
    clone, ran = other_clone
    assert sorted(ran) == sorted(STAGES)
    assert surplus(clone.changed()) == []
    clone.run("git", "add", "--all")
    # The first one's dvc.lock and metrics are committed there: an output that differs shows by its md5.
    assert clone.run("git", "diff", "--cached", "origin/main").stdout == ""


def test_no_process_reaches_beyond_its_machine(first_run, other_clone):
    for project in (first_run.project, other_clone[0]):
        refused = project.home / "refused.txt"
        assert not refused.exists(), refused.read_text()


def test_the_watch_over_sockets_refuses_and_writes_down(tmp_path):
    watched = Project(tmp_path, tmp_path / "home")
    code = "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')"
    done = subprocess.run(["python", "-c", code], env=watched.environment, capture_output=True, text=True, timeout=60)
    assert "a test refuses to reach 192.0.2.1" in done.stderr
    assert (watched.home / "refused.txt").read_text().startswith("getaddrinfo 192.0.2.1")


def test_no_output_names_the_place_it_was_made_in(first_run):
    places = [str(first_run.project.root).encode(), str(first_run.project.home).encode()]
    files = [file for folder in ("data", "models") for file in (first_run.project.root / folder).rglob("*")]
    files = [file for file in files if file.is_file()]
    assert len(files) > 20
    assert [file for file in files if any(place in file.read_bytes() for place in places)] == []


def test_a_run_keeps_nothing_outside_of_the_project_but_its_state(first_run):
    home = first_run.project.home
    left = {file.relative_to(home).parts[0] for file in home.rglob("*") if file.is_file()}
    # No cache of a hub, no id of this machine for somebody's statistics.
    assert left == {".gitconfig", "dvc", "state"}
