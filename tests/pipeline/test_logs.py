import os
import shutil
import subprocess
import sys
import time

import pytest

from pipeline import dvc_cli, logs
from tests import tiny

DAY = 86400


def write(checkout, run, *stages, age_days=0.0):
    for stage in stages:
        file = logs.file_of(checkout, run, stage)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{stage} of {run}\n")
        when = time.time() - age_days * DAY
        os.utime(file, (when, when))


@pytest.mark.parametrize(
    "name",
    [
        "train@13",
        "data/raw/rows.csv.dvc",
        "sub/dvc.yaml:train",
        "../../etc",
        "..",
        ".hidden",
        "a b%2F",
        "größe",
        "x" * 999,
    ],
)
def test_any_name_makes_a_file_in_the_folder_of_its_run(tmp_path, name):
    file = logs.file_of(tmp_path, name, name)
    write(tmp_path, name, name)
    assert file.resolve().parent.parent == tmp_path / "logs"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    if len(name) < 100:
        assert logs.runs(tmp_path)[0].name == name
        assert list(logs.runs(tmp_path)[0].files) == [name]


def test_no_two_stages_share_a_file(tmp_path):
    names = ["a/b", "a_b", "a%2Fb", "a:b", "A/b", "x" * 998 + "a", "x" * 998 + "b"]
    assert len({logs.file_of(tmp_path, "run", name) for name in names}) == len(names)


def test_names_that_people_read_stay_as_they_are(tmp_path):
    assert logs.file_of(tmp_path, "2026-12-01 fearless-otter", "train@13") == (
        tmp_path / "logs/2026-12-01 fearless-otter/train@13.log"
    )


def test_runs_are_listed_the_latest_first_with_their_stages(tmp_path):
    write(tmp_path, "old", "check", age_days=2)
    write(tmp_path, "new", "train@13", "check", age_days=1)
    found = logs.runs(tmp_path)
    assert [(run.name, list(run.files)) for run in found] == [("new", ["check", "train@13"]), ("old", ["check"])]
    assert found[0].files["check"].read_text() == "check of new\n"


def test_a_checkout_without_logs_has_none_to_list_or_remove(tmp_path):
    assert logs.runs(tmp_path) == []
    assert logs.remove_old(tmp_path, keep_runs=0, keep_days=0) == []


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({"keep_runs": 2}, ["a", "b"]),
        ({"keep_days": 2.5}, ["a", "b", "c"]),
        ({"keep_runs": 1, "keep_days": 2.5}, ["a"]),
        ({"keep_runs": 3, "keep_days": 0.5}, ["a"]),
        ({"keep_runs": 0, "spared": ["d"]}, ["d"]),
        ({}, ["a", "b", "c", "d"]),
    ],
)
def test_what_is_beyond_the_last_runs_or_too_old_goes(tmp_path, how, left):
    for age, name in enumerate("abcd"):
        write(tmp_path, name, "check", "train@13", age_days=age)
    removed = logs.remove_old(tmp_path, **how)
    assert sorted(run.name for run in logs.runs(tmp_path)) == left
    assert sorted(run.name for run in removed) == sorted({*"abcd"} - {*left})


def test_what_else_lies_in_the_folder_stays(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/stage.log").touch()
    (tmp_path / "logs/of_a_person").mkdir(parents=True)
    (tmp_path / "logs/of_a_person/notes.txt").touch()
    (tmp_path / "logs/of_a_person/run.log").touch()
    (tmp_path / "logs/run.txt").touch()
    (tmp_path / "logs/link").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    assert logs.remove_old(tmp_path, keep_runs=0) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_neither_git_nor_dvc_looks_at_them(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in (".gitignore", ".dvcignore"):
        shutil.copy(tiny.ROOT / name, checkout)
    for command in (["git", "init", "--quiet"], [sys.executable, "-m", "dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    write(checkout, "run", "check")
    (checkout / "dvc.yaml").write_text("stages: {check: {cmd: 'true'}}\n")
    (checkout / "logs/run/dvc.yaml").write_text("no graph at all")
    shown = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=checkout, check=True, capture_output=True)
    assert b"logs" not in shown.stdout
    assert set(dvc_cli.graph(checkout)) == {"check"}
