"""`remint verify`: what it says of a commit that is as it should be, and of each thing that is not."""

import json
import re

import psutil
import pytest

from tests.end_to_end import project as projects


@pytest.fixture
def temporary(project):
    """Where the clone is made; the project's processes make nothing else there."""
    folder = project.home / "temporary"
    folder.mkdir()
    project.environment["TMPDIR"] = str(folder)
    return folder


@pytest.fixture
def verify(project, temporary):
    """Run it in the project; what it printed, and its JSON where it got as far. The project stays as it was."""

    def run(*arguments, code=0):
        found = project.home / "found.json"
        found.unlink(missing_ok=True)
        before = everything(project.root)
        command = ["python", "-m", "pipeline.cli", "verify", "--json", str(found), *arguments]
        done = project.run(*command, code=code)
        assert everything(project.root) == before
        assert list(temporary.iterdir()) == []
        said = done.stdout + done.stderr
        return said, json.loads(found.read_text(encoding="utf-8")) if found.is_file() else None

    return run


def everything(root):
    """Each file under a folder, with its size, mode and time, git's and DVC's own too."""
    found = {}
    for file in root.rglob("*"):
        if file.is_file():
            of = file.lstat()
            found[str(file.relative_to(root))] = (of.st_size, of.st_mode, of.st_mtime_ns)
    return found


def status(found):
    return {one["path"]: one["status"] for one in found["outputs"] if one["status"] != "not compared"}


def test_a_commit_that_was_run_is_equal_and_says_what_was_run_and_what_was_taken(verify, project):
    said, found = verify("--stage", "prepare")
    assert status(found) == {"data/code": "equal", "data/prepared": "equal"}
    assert (found["ran"], found["taken"]) == (["check", "prepare"], ["data/fetched"])
    assert found["inputs"] == []
    assert found["environment"]["deviations"] == []
    assert "runs      check, prepare" in said
    assert "takes     data/fetched, as recorded, from the checkout's cache or from git" in said
    assert re.search(r"^data/prepared +prepare +equal$", said, re.MULTILINE)
    assert "2 of 2 outputs compared: equal to dvc.lock of the commit" in said
    assert "not compared, since its stage was not run:" in said
    assert "Running stage 'prepare'" in said


def test_a_row_that_was_committed_without_a_run_is_named_with_its_column(verify, project):
    project.replace("data/raw/rows.csv", "\nr7,", "\nr7,again ")
    project.commit()
    said, found = verify("--stage", "prepare", code=3)
    assert status(found) == {"data/code": "equal", "data/prepared": "differs"}
    assert "data/raw/rows.csv is not what dvc.lock was made with: prepare" in said
    prepared = next(one for one in found["outputs"] if one["path"] == "data/prepared")
    explained = [text for file, text in prepared["files"].items() if file.endswith(".parquet")]
    assert len(explained) == 1
    assert re.fullmatch(r"row \d+, column text: (.*) in the commit's, now again \1", explained[0])
    assert "error: 1 of 2 outputs are not what dvc.lock of" in said


def test_a_line_of_code_is_named_whether_it_changes_an_output_or_not(verify, project):
    project.append("stages/prepare.py", "# A line more.\n")
    project.commit()
    said, found = verify("--stage", "prepare", code=3)
    # The digest of the code is an output, too: the commit has code that dvc.lock was not made with.
    assert status(found) == {"data/code": "differs", "data/prepared": "equal"}
    assert "stages/prepare.py is not what dvc.lock was made with: prepare" in said
    project.replace(
        "stages/data/data_report.py", '"rows": len(rows),\n        "labels"', '"rows": 0,\n        "labels"'
    )
    project.commit()
    said, found = verify("--stage", "prepare", code=3)
    assert status(found) == {"data/code": "differs", "data/prepared": "differs"}
    assert re.search(r"report\.json: splits\.train\.rows: \d+ in the commit's, now 0; 3 values differ in all", said)
    # data_report.py is no input of the stage by itself: what imports it is followed.
    assert "changed since" in said
    assert "stages/data/data_report.py, stages/prepare.py" in said
    assert "prepare.json: " in said


def test_another_version_of_a_library_is_named_with_what_it_has_changed(verify, project):
    lock = (project.root / "requirements/stages.txt").read_text(encoding="utf-8")
    pinned = next(line for line in lock.splitlines() if line.startswith("numpy=="))
    project.replace("requirements/stages.txt", pinned, "numpy==0.0.1")
    project.commit()
    said, found = verify("--stage", "prepare")
    assert status(found) == {"data/code": "equal", "data/prepared": "equal"}
    installed = pinned.removeprefix("numpy==")
    assert found["environment"]["deviations"] == [{"package": "numpy", "wanted": "==0.0.1", "found": installed}]
    assert f"numpy: {installed} installed, the commit says ==0.0.1" in said
    assert "requirements/stages.txt is not what dvc.lock was made with: prepare" in said


@pytest.mark.slow
def test_of_a_commit_its_own_knobs_count_and_not_those_of_the_checkout(verify, project):
    project.set(**{"prepare.seed": 14})
    project.commit()
    project.set(**{"prepare.seed": 15})
    said, found = verify("--stage", "prepare", code=3)
    assert "what is not committed in this checkout is not looked at" in said
    assert found["uncommitted"]
    assert "prepare.seed: 13 in dvc.lock, 14 in the commit: prepare" in said
    assert status(found)["data/prepared"] == "differs"
    _, found = verify("--commit", "HEAD~1", "--stage", "prepare")
    assert found["inputs"] == []


def track_with_dvc(project):
    """Raw data leave git for DVC, in a commit with the lock file of before."""
    project.run("git", "rm", "--cached", "--quiet", "data/raw/rows.csv")
    project.run("dvc", "add", "--quiet", "data/raw/rows.csv")
    project.commit()


def test_raw_data_that_dvc_tracks_come_from_the_cache_of_the_checkout(verify, project):
    track_with_dvc(project)
    _, found = verify("--stage", "prepare")
    assert status(found) == {"data/code": "equal", "data/prepared": "equal"}


@pytest.mark.slow
def test_raw_data_come_from_the_default_remote_where_the_cache_has_lost_them_or_it_is_said(verify, project):
    track_with_dvc(project)
    project.run("dvc", "remote", "add", "--default", "store", "../home/store")
    project.commit()
    project.run("dvc", "push", "--quiet", "data/raw/rows.csv")
    (tracked,) = project.root.glob("data/raw/*.dvc")
    md5 = re.search(r"md5: (\w+)", tracked.read_text(encoding="utf-8"))[1]
    (project.root / f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}").unlink()
    _, found = verify("--stage", "prepare")
    assert status(found) == {"data/code": "equal", "data/prepared": "equal"}
    (project.home / f"store/files/md5/{md5[:2]}/{md5[2:]}").unlink()
    said, _ = verify("--stage", "prepare", code=2)
    assert "error: data/raw/rows.csv: neither in this checkout's cache nor in the default remote of DVC" in said


def test_raw_data_that_are_nowhere_are_named(verify, project):
    project.run("git", "rm", "--cached", "--quiet", "data/raw/rows.csv")
    project.append(".gitignore", "/data/raw/rows.csv\n")
    project.commit()
    said, found = verify("--stage", "prepare", code=2)
    assert "error: data/raw/rows.csv: an input that is neither in git nor in DVC at that commit" in said
    assert found["failure"].startswith("data/raw/rows.csv")
    assert {one["why"] for one in found["outputs"]} == {"the run ended before its stage did", "its stage was not run"}


def test_mistakes_are_named_before_anything_is_cloned(verify, project):
    assert "error: no-such: there is no such commit" in verify("--commit", "no-such", code=2)[0]
    said, _ = verify("--stage", "prepar", code=2)
    assert "error: prepar: no stage of the commit's dvc.lock; it has check, fetch_model" in said
    first = project.run("git", "rev-list", "--max-parents=0", "HEAD").stdout.strip()
    assert f"error: {first}: there is no dvc.lock in that commit" in verify("--commit", first, code=2)[0]
    (project.root / ".git").rename(project.root / "not-git")
    assert "no checkout of git" in verify(code=2)[0]


@pytest.fixture
def under_way(project, temporary):
    """`remint verify` of all while its first stage runs."""
    command = ["python", "-m", "pipeline.cli", "verify"]
    with projects.under_way(project, command, lambda said: "Running stage 'fetch_model'" in said) as process:
        yield process


def ask_to_end(process):
    process.terminate()


@pytest.mark.parametrize(
    ("stop", "code"), [(ask_to_end, 143), pytest.param(projects.press_ctrl_c, 130, marks=pytest.mark.slow)]
)
def test_one_that_is_stopped_leaves_neither_a_folder_nor_a_process(project, temporary, under_way, stop, code):
    family = psutil.Process(under_way.pid).children(recursive=True)
    assert len(family) >= 2
    stop(under_way)
    assert under_way.wait(timeout=60) == code
    assert [process for process in family if process.is_running()] == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_nobody_outlives_one_that_is_killed(project, under_way):
    family = psutil.Process(under_way.pid).children(recursive=True)
    under_way.kill()
    under_way.wait()
    _, alive = psutil.wait_procs(family, timeout=40)
    assert alive == []


@pytest.mark.slow
def test_a_whole_commit_is_run_anew_and_equal(verify, project):
    said, found = verify()
    assert set(status(found).values()) == {"equal"}
    assert found["counts"] == {"equal": len(found["outputs"]), "differs": 0, "not_compared": 0}
    assert len(found["outputs"]) >= 13
    assert "train@13" in said


@pytest.mark.slow
def test_a_line_of_export_changes_the_model_s_folder_alone(verify, project):
    project.replace("stages/export.py", "max_length=params.encode.max_length,", "max_length=31,")
    project.commit()
    said, found = verify("--stage", "export", code=3)
    assert found["ran"] == ["check", "export"]
    assert status(found) == {"data/code": "differs", "models/exported": "differs"}
    assert "remint.json: max_length: 32 in the commit's, now 31" in said


@pytest.mark.slow
def test_what_the_cache_has_lost_is_made_again(verify, project):
    md5 = project.output_md5("data/encoded")
    (project.root / f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}").unlink()
    _, found = verify("--stage", "export")
    assert found["ran"] == ["check", "encode", "export"]
    assert set(status(found).values()) == {"equal"}


@pytest.mark.slow
def test_a_clone_that_is_kept_is_named_and_json_alone_is_printed_where_it_is_asked_for(project, temporary):
    command = ["python", "-m", "pipeline.cli", "verify", "--stage", "fetch_data", "--keep", "--json", "-"]
    done = project.run(*command)
    assert status(json.loads(done.stdout)) == {"data/code": "equal", "data/fetched": "equal"}
    (kept,) = temporary.iterdir()
    assert f"kept: {kept}" in done.stderr
    assert (kept / "clone/data/fetched").is_dir()
