import shutil

import pytest

from pipeline import checkout_lock, git, remote, retention
from stages.errors import MachineError, UserError
from tests import toy_project
from tests.toy_project import rerun

NIGHTS = 4


def quiet(line):
    """Says nothing."""


def model(toy, commit):
    """The model of a commit, as a fresh clone gets it; None where the remote has it no more."""
    folder = toy.root.parent / f"at-{commit[:9]}"
    shutil.rmtree(folder, ignore_errors=True)
    other = toy.clone(folder.name)
    other.git("checkout", "--quiet", commit)
    try:
        remote.pull(other.root, say=quiet)
    except UserError:
        return None
    return other.read("models/best/model")


@pytest.fixture(scope="module")
def nights(made_toy, tmp_path_factory):
    """A checkout with a commit for each of some nights, each of other rows, and something else in between."""
    toy = toy_project.copy(made_toy, tmp_path_factory.mktemp("nights"))
    commits = [toy.head()]
    for night in range(1, NIGHTS):
        rerun(toy, f"text,label\nof,{night}\n")
        commits.append(toy.commit(f"Night {night}"))
        toy.write("README.md", f"After night {night}")
        toy.commit("Notes")
        toy.dvc("push", "--quiet")
    toy.git("push", "--quiet")
    return toy, commits


@pytest.fixture
def kept_nights(nights, tmp_path, alone):
    toy, commits = nights
    return toy_project.copy(toy, tmp_path), commits


def test_the_last_runs_keep_their_bytes_and_older_ones_do_not(kept_nights):
    toy, commits = kept_nights
    removed = retention.collect(toy.root, runs=2, cloud=True, say=quiet)
    assert removed.local > 0
    assert removed.remote > 0
    assert [model(toy, commit) is not None for commit in commits] == [False, False, True, True]
    toy.git("checkout", "--quiet", commits[-2])
    toy.dvc("checkout", "--quiet")
    assert toy.git("branch", "--list", "remint-kept/*") == ""
    again = retention.collect(toy.root, runs=2, branch="main", cloud=True, say=quiet)
    assert (again.local, again.remote) == (0, 0)
    # What is gone for good is no reason not to go on.
    assert retention.collect(toy.root, runs=4, branch="main", cloud=True, say=quiet).kept == again.kept + 2


def test_without_cloud_the_remote_keeps_all(kept_nights):
    toy, commits = kept_nights
    assert retention.collect(toy.root, runs=1, say=quiet).remote == 0
    toy.git("checkout", "--quiet", commits[0])
    toy.dvc("pull", "--quiet")


def test_a_dry_run_counts_and_removes_nothing(kept_nights):
    toy, commits = kept_nights
    said = []
    found = retention.collect(toy.root, runs=1, cloud=True, dry=True, say=said.append)
    assert said == [f"2 commits are kept; {found.local} objects of the cache and {found.remote} of the remote can go"]
    assert retention.collect(toy.root, runs=1, cloud=True, say=quiet) == found
    assert model(toy, commits[0]) is None


def test_tags_branches_of_others_and_the_checkout_keep_theirs(kept_nights):
    toy, commits = kept_nights
    toy.git("tag", "v1", commits[0])
    other = toy.clone("other")
    other.git("switch", "--quiet", "--create", "theirs", commits[1])
    other.git("push", "--quiet", "origin", "theirs")
    # What has run here and is not committed.
    rerun(toy, "text,label\nnot,committed\n")
    retention.collect(toy.root, runs=1, cloud=True, say=quiet)
    assert [model(toy, commit) is not None for commit in commits] == [True, True, False, True]
    shutil.rmtree(toy.root / "models/best")
    toy.dvc("checkout", "--quiet")


def test_a_cache_that_lacks_the_lists_of_files_gets_them_before_anything_goes(kept_nights):
    toy, commits = kept_nights
    other = toy.clone("other")
    other.dvc("config", "--local", "remote.store.url", str(toy.root.parent / "store"))
    removed = retention.collect(other.root, runs=2, cloud=True, say=quiet)
    assert removed.remote > 0
    assert [model(toy, commit) is not None for commit in commits] == [False, False, True, True]


def test_a_list_that_is_now_there_and_now_not_stops_it(kept_nights, monkeypatch):
    toy, commits = kept_nights
    answers = iter([{"a", "b"}, {"a"}, {"a", "b"}, {"b"}])
    monkeypatch.setattr(retention, "_lacking_lists", lambda checkout, commits: next(answers))
    with pytest.raises(MachineError, match="now has a list of files and now has not; nothing is removed"):
        retention.collect(toy.root, runs=1, cloud=True, say=quiet)
    assert model(toy, commits[0]) is not None


def test_what_it_can_not_know_it_does_not_remove(kept_nights):
    toy, commits = kept_nights
    with pytest.raises(UserError, match="a shallow clone does not know"):
        retention.collect(toy.clone("shallow", "--depth", "1").root)
    with pytest.raises(UserError, match="0 runs are to be kept"):
        retention.collect(toy.root, runs=0)
    with checkout_lock.held(toy.root, "a run"), pytest.raises(MachineError, match="a run"):
        retention.collect(toy.root)
    toy.git("remote", "set-url", "origin", "../gone.git")
    with pytest.raises(MachineError, match=r"(?s)git fetch origin: .*what its branches use is not known"):
        retention.collect(toy.root, runs=1, cloud=True)
    toy.git("remote", "set-url", "origin", "../origin.git")
    toy.dvc("cache", "dir", "--local", str(toy.root.parent / "shared"))
    with pytest.raises(UserError, match="a cache outside of the checkout can be other checkouts', too"):
        retention.collect(toy.root)
    assert git.files(toy.root, commits[0], "dvc.lock") == ["dvc.lock"]


def test_branches_that_a_killed_removal_has_left_are_gone_after_the_next(kept_nights):
    toy, commits = kept_nights
    toy.git("branch", f"remint-kept/{commits[0]}", commits[0])
    retention.collect(toy.root, runs=1, say=quiet)
    assert toy.git("branch", "--list", "remint-kept/*") == ""
