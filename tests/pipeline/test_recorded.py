import pytest

from pipeline import recorded
from stages.errors import DataError, UserError

LOCK = """
schema: '2.0'
stages:
  select:
    cmd: select
    deps:
    - path: models/scores
      md5: s0.dir
    outs:
    - path: models/best
      md5: b0.dir
  check:
    cmd: check
    deps:
    - path: params.yaml
      md5: p0
    outs:
    - path: data/code
      md5: c0.dir
  prepare:
    cmd: prepare 'data/raw/rows.csv'
    deps:
    - path: data/raw/rows.csv
      md5: r0
    - path: data/code/prepare.json
      md5: c1
    params:
      params.yaml:
        prepare:
          seed: 13
          files:
          leakage: {a: [1, 2], none: {}}
        data.hub:
      other.yaml:
        x: 1
    outs:
    - path: data/prepared
      md5: d0.dir
  score@13:
    cmd: score 13
    deps:
    - path: data/prepared
      md5: d0.dir
    outs:
    - path: models/scores/13.json
      md5: s1
  score@14:
    cmd: score 14
    deps:
    - path: data/prepared
      md5: d0.dir
    - path: s3://bucket/rows
      etag: e0
    outs:
    - path: models/scores/14.json
      md5: s2
"""


@pytest.fixture
def stages():
    return recorded.read(LOCK, name="dvc.lock")


def test_a_stage_has_its_command_inputs_params_and_outputs(stages):
    prepare = stages["prepare"]
    assert prepare.command == "prepare 'data/raw/rows.csv'"
    assert prepare.inputs == {"data/raw/rows.csv": "r0", "data/code/prepare.json": "c1"}
    assert prepare.params == {
        "prepare.seed": 13,
        "prepare.files": None,
        "prepare.leakage.a": [1, 2],
        "prepare.leakage.none": {},
        "data.hub": None,
        "other.yaml: x": 1,
    }
    assert prepare.outputs == {"data/prepared": "d0.dir"}
    assert stages["score@14"].inputs["s3://bucket/rows"] == "e0"


@pytest.mark.parametrize("text", ["", "stages: [", "stages: {a: 1}", "schema: '2.0'", "[1]"])
def test_what_is_no_lock_file_is_named(text):
    with pytest.raises(DataError, match=r"dvc\.lock of v1: not a dvc\.lock that can be read"):
        recorded.read(text, name="dvc.lock of v1")


def test_the_name_of_a_matrix_stands_for_all_of_it(stages):
    assert recorded.named("score", stages) == ["score@13", "score@14"]
    assert recorded.named("score@14", stages) == ["score@14"]
    with pytest.raises(UserError, match=r"scores: no stage of the commit's dvc\.lock; it has select, check, prepare"):
        recorded.named("scores", stages)


def test_an_input_is_written_by_whoever_writes_it_or_in_it_or_around_it(stages):
    assert recorded.producers("data/prepared", stages) == [("prepare", "data/prepared")]
    assert recorded.producers("data/code/prepare.json", stages) == [("check", "data/code")]
    assert [name for name, _ in recorded.producers("models/scores", stages)] == ["score@13", "score@14"]
    assert recorded.producers("data/prep", stages) == []
    assert recorded.given(list(stages), stages) == ["data/raw/rows.csv", "params.yaml", "s3://bucket/rows"]
    assert recorded.given(["prepare"], stages) == ["data/raw/rows.csv"]


def test_where_all_is_at_hand_the_stage_runs_alone(stages):
    plan = recorded.plan(["select"], stages, is_at_hand=lambda path, digest: True)
    assert plan == recorded.Plan(["select"], ["models/scores/13.json", "models/scores/14.json"])


def test_what_is_not_at_hand_is_made_and_what_that_needs(stages):
    lacking = {"models/scores/14.json", "data/prepared", "data/code"}
    plan = recorded.plan(["select"], stages, is_at_hand=lambda path, digest: path not in lacking)
    assert plan == recorded.Plan(["check", "prepare", "score@14", "select"], ["models/scores/13.json"])


def test_what_is_at_hand_is_asked_by_its_recorded_digest(stages):
    asked = {}
    recorded.plan(["prepare"], stages, is_at_hand=lambda path, digest: asked.setdefault(path, digest) == "")
    assert asked == {"data/code": "c0.dir"}
