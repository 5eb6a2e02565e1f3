"""Which state of another number of processes is found, without a training."""

import copy

import pytest

from stages import checkpoints, identity, outputs
from stages.training import other_world

FACTS = {
    "seed": 13,
    "processes": 1,
    "threads": 2,
    "train": {"processes": 1, "threads": None, "learning_rate": 1e-3, "allow_resume_on_other_world": False},
}


def state(root, name, facts, step=6):
    """A run's folder with one whole state."""
    identity.record(root / name, facts)
    saved = root / name / f"resume/checkpoint-{step}"
    saved.mkdir(parents=True)
    (saved / "optimizer.pt").write_text("state")
    outputs.write_json(saved / "trainer_state.json", {"log_history": []})
    checkpoints.complete(saved, step=step)
    return saved


def others(**changes):
    made = copy.deepcopy(FACTS)
    made.update(processes=2, threads=1)
    made["train"].update(processes=2, **changes)
    return made


@pytest.fixture
def own(tmp_path):
    identity.record(tmp_path / "own", FACTS)
    return tmp_path / "own"


def test_a_run_of_another_number_of_processes_is_found_and_the_furthest_comes_first(tmp_path, own):
    state(tmp_path, "two", others(), step=6)
    state(tmp_path, "four", {**others(), "processes": 4}, step=9)
    found = other_world.candidates(tmp_path, own, FACTS)
    assert [(path.name, processes) for path, processes in found] == [("checkpoint-9", 4), ("checkpoint-6", 2)]


def test_a_run_of_other_params_a_torn_one_and_a_folder_without_facts_are_not(tmp_path, own):
    state(tmp_path, "other", others(learning_rate=1e-4))
    torn = state(tmp_path, "torn", others())
    (torn / "optimizer.pt").write_text("other")
    state(tmp_path, "old", others())
    (tmp_path / "old" / identity.FACTS).write_text("{")
    assert other_world.candidates(tmp_path, own, FACTS) == []


def test_it_is_copied_only_where_that_is_allowed_and_stays_where_it_was(tmp_path, own, caplog):
    saved = state(tmp_path, "two", others())
    other_world.take_over(tmp_path, own, FACTS, allowed=False)
    assert "to go on with it, set train.processes to 2 again" in caplog.text
    assert not (own / "resume").exists()
    other_world.take_over(tmp_path, own, FACTS, allowed=True)
    assert checkpoints.newest_whole(own / "resume")[0] == own / "resume/checkpoint-6"
    assert checkpoints.fault(saved) is None
    assert other_world.facts_of(own) == {"resumed_on_other_world": [{"step": 6, "processes": 2}]}


def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path, own, caplog):
    state(tmp_path, "two", others())
    with identity.claimed(tmp_path / "two"):
        other_world.take_over(tmp_path, own, FACTS, allowed=True)
    assert "not going on with the run of 2 process(es)" in caplog.text
    assert not (own / "resume").exists()
    assert other_world.facts_of(own) == {}


def test_a_run_that_has_a_state_of_its_own_goes_on_with_that(tmp_path, own):
    state(tmp_path, "two", others(), step=9)
    mine = own / "resume/checkpoint-3"
    mine.mkdir(parents=True)
    outputs.write_json(mine / "trainer_state.json", {"log_history": []})
    checkpoints.complete(mine, step=3)
    other_world.take_over(tmp_path, own, FACTS, allowed=True)
    assert [path.name for path in (own / "resume").iterdir()] == ["checkpoint-3"]
