import json

import pytest

from stages import checkpoints, evaluate, lookup, metrics, scoring, splits
from stages.errors import DataError
from stages.tasks import single_label
from tests import tiny
from tests.stages.test_train import encode


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two checkpoints of one seed, and encoded rows."""
    root = tmp_path_factory.mktemp("trained")
    encode(root / "encoded", tiny.model(root / "base"), "single_label")
    for step in (5, 10):
        folder = tiny.model(root / f"13/checkpoint-{step}", num_labels=3, seed=step)
        checkpoints.complete(folder, step=step)
    return root


@pytest.fixture
def inside(trained, tmp_path, monkeypatch):
    tiny.write_params(tmp_path / "params.yaml", **{"data.raw": ".", "evaluate.batch_size": 4})
    monkeypatch.chdir(tmp_path)
    return trained


def test_every_checkpoint_is_scored_by_all_metrics_that_three_labels_have(inside, tmp_path):
    evaluate.main(inside / "encoded", inside / "13", tmp_path / "scores/13.json")
    scores = json.loads((tmp_path / "scores/13.json").read_text())
    assert list(scores) == ["checkpoint-5", "checkpoint-10"]
    assert list(scores["checkpoint-5"]) == metrics.available(single_label.METRICS, 3)
    assert "f1_binary" not in scores["checkpoint-5"]
    assert [path.name for path in (tmp_path / "scores").iterdir()] == ["13.json"]


def test_the_scores_are_those_of_a_plain_forward_pass(inside, tmp_path):
    evaluate.main(inside / "encoded", inside / "13", tmp_path / "scores/13.json")
    scores = json.loads((tmp_path / "scores/13.json").read_text())
    rows = splits.read_encoded(inside / "encoded", "validation")
    forward = scoring.load_forward(inside / "13/checkpoint-5", single_label)
    collate = single_label.collator(scoring.load_tokenizer(inside / "13/checkpoint-5"))
    one_by_one = [
        forward(collate([{name: row[name] for name in ("input_ids", "token_type_ids")}])).argmax() for row in rows
    ]
    accuracy = lookup.find(metrics, "accuracy").score(one_by_one, scoring.references(rows))
    assert scores["checkpoint-5"]["accuracy"] == accuracy


def test_the_same_checkpoints_give_the_same_bytes(inside, tmp_path):
    for name in ("a", "b"):
        evaluate.main(inside / "encoded", inside / "13", tmp_path / name / "13.json")
    assert (tmp_path / "a/13.json").read_bytes() == (tmp_path / "b/13.json").read_bytes()


def test_a_torn_checkpoint_is_not_scored(inside, tmp_path):
    import shutil

    shutil.copytree(inside / "13", tmp_path / "13")
    weights = tmp_path / "13/checkpoint-10/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(DataError, match="checkpoint-10"):
        evaluate.main(inside / "encoded", tmp_path / "13", tmp_path / "scores/13.json")
    assert not (tmp_path / "scores/13.json").exists()
