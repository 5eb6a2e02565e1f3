import json
import os
import shutil
import stat
import statistics
from pathlib import Path

import pytest

from stages import checkpoints, select_best
from stages.errors import DataError, ParamsError
from tests import tiny


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """A checkpoint as train leaves it, but for its place."""
    folder = tiny.model(tmp_path_factory.mktemp("weights") / "model", num_labels=3)
    config = json.loads((folder / "config.json").read_text())
    names = ["billing", "delivery", "refund"]
    config |= {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def workspace(tmp_path, monkeypatch, weights):
    """Make models/ from scores: seed -> {step: f1_macro}. All checkpoints but for their names have the same weights."""
    monkeypatch.chdir(tmp_path)

    def make(by_seed: dict[int, dict[int, float]], **overrides) -> Path:
        tiny.write_params(tmp_path / "params.yaml", seeds=list(by_seed), **overrides)
        for seed, scores in by_seed.items():
            for step in scores:
                folder = checkpoints.checkpoint_path(Path("models/checkpoints") / str(seed), step)
                shutil.copytree(weights, folder)
                (folder / "which").write_text(f"{seed} {step}")
                checkpoints.complete(folder)
            write_scores(seed, {f"checkpoint-{step}": {"f1_macro": f1, "log_loss": f1} for step, f1 in scores.items()})
        return tmp_path

    return make


def write_scores(seed: int, scores: dict[str, dict[str, float]]) -> None:
    Path("models/scores").mkdir(parents=True, exist_ok=True)
    Path(f"models/scores/{seed}.json").write_text(json.dumps(scores))


def run() -> dict:
    """Run the stage; what it chose, with a check that what it copied is that."""
    models = Path("models")
    select_best.main(models / "checkpoints", models / "scores", models / "best", models / "selection.json")
    selection = json.loads((models / "selection.json").read_text())
    best = selection["best"]
    assert (models / "best/which").read_text() == f"{best['seed']} {best['checkpoint'].removeprefix('checkpoint-')}"
    return selection


def chosen() -> tuple[int, str]:
    best = run()["best"]
    return best["seed"], best["checkpoint"]


def test_the_best_score_wins_whatever_the_times_of_the_files(workspace):
    workspace({13: {5: 0.5, 10: 0.9, 15: 0.6, 20: 0.6}})
    assert chosen() == (13, "checkpoint-10")
    for age, step in enumerate((5, 10, 15, 20)):
        for path in [
            *Path(f"models/checkpoints/13/checkpoint-{step}").iterdir(),
            Path(f"models/checkpoints/13/checkpoint-{step}"),
        ]:
            os.utime(path, (1_000_000 - age, 1_000_000 - age))
    first = [(p.name, checkpoints.digest(p)) for p in sorted(Path("models/best").iterdir())]
    assert chosen() == (13, "checkpoint-10")
    assert [(p.name, checkpoints.digest(p)) for p in sorted(Path("models/best").iterdir())] == first


def test_of_equals_the_earliest_step_is_kept_by_number_and_not_by_name(workspace):
    workspace({13: {100: 0.7, 20: 0.7, 9: 0.2}})
    assert chosen() == (13, "checkpoint-20")


def test_of_equals_of_two_seeds_the_earlier_step_is_kept_then_the_seed_that_stands_first(workspace):
    workspace({7: {20: 0.7}, 3: {10: 0.7, 20: 0.1}, 1: {10: 0.7}})
    assert chosen() == (3, "checkpoint-10")


def test_the_direction_is_the_metrics_own(workspace):
    workspace({13: {5: 0.5, 10: 0.9}}, **{"select_best.metric": "log_loss"})
    selection = run()
    assert selection["best"] == {"seed": 13, "checkpoint": "checkpoint-5", "score": 0.5}
    assert selection["greater_is_better"] is False


def test_the_selection_reports_each_seed_and_the_mean_and_deviation_of_their_bests(workspace):
    workspace({13: {5: 0.5, 10: 0.9}, 42: {5: 0.8, 10: 0.7}})
    assert run() == {
        "metric": "f1_macro",
        "greater_is_better": True,
        "best": {"seed": 13, "checkpoint": "checkpoint-10", "score": 0.9},
        "seeds": {
            "13": {"checkpoint": "checkpoint-10", "score": 0.9},
            "42": {"checkpoint": "checkpoint-5", "score": 0.8},
        },
        "mean": pytest.approx(0.85),
        "sd": pytest.approx(statistics.stdev([0.9, 0.8])),
        "metrics": {"f1_macro": 0.9, "log_loss": 0.9},
    }


def test_a_single_seed_has_no_deviation(workspace):
    workspace({13: {5: 0.5}})
    assert run()["sd"] is None


def test_seeds_come_from_params_and_not_from_what_lies_there(workspace, tmp_path):
    workspace({13: {5: 0.5}, 42: {5: 0.99}})
    tiny.write_params(tmp_path / "params.yaml", seeds=[13])
    selection = run()
    assert selection["best"]["seed"] == 13
    assert list(selection["seeds"]) == ["13"]


def test_the_best_loads_with_its_label_names(workspace):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    workspace({13: {5: 0.5}})
    run()
    assert checkpoints.fault(Path("models/best")) is None
    model = AutoModelForSequenceClassification.from_pretrained("models/best")
    assert model.config.id2label == {0: "billing", 1: "delivery", 2: "refund"}
    assert model.config.label2id == {"billing": 0, "delivery": 1, "refund": 2}
    assert AutoTokenizer.from_pretrained("models/best")("refund")["input_ids"]


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_checkpoints_that_are_read_only_links_into_a_cache_are_copied_and_left_as_they_are(workspace, tmp_path, link):
    workspace({13: {5: 0.5, 10: 0.9}})
    cache = tmp_path / "cache"
    cache.mkdir()
    cached = {}
    for index, file in enumerate(sorted(Path("models/checkpoints").rglob("*"))):
        if file.is_file():
            kept = cache / str(index)
            file.rename(kept)
            kept.chmod(0o444)
            link(kept, file)
            cached[kept] = checkpoints.digest(kept)
    for _ in range(2):
        assert chosen() == (13, "checkpoint-10")
    for file in Path("models/best").iterdir():
        assert not file.is_symlink()
        assert file.stat().st_nlink == 1
        assert file.stat().st_mode & stat.S_IWUSR
        file.write_bytes(b"changed")
    assert len(cached) > 10
    assert {kept: checkpoints.digest(kept) for kept in cached} == cached


def test_a_metric_that_the_scores_do_not_have_is_refused_with_those_there_are(workspace):
    workspace({13: {5: 0.5}}, **{"select_best.metric": "f1_micro"})
    with pytest.raises(
        ParamsError, match=r"13\.json has no f1_micro for checkpoint-5; it has f1_macro, log_loss"
    ) as error:
        run()
    assert error.value.exit_code == 2
    assert not Path("models/best").exists()


def test_a_seed_without_scores_is_refused(workspace, tmp_path):
    workspace({13: {5: 0.5}})
    tiny.write_params(tmp_path / "params.yaml", seeds=[13, 42])
    with pytest.raises(DataError, match=r"models/scores/42\.json: there is no such file; run the evaluate stage"):
        run()
    assert not Path("models/best").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_score_that_is_not_a_finite_number_is_refused(workspace, value):
    workspace({13: {5: 0.5, 10: 0.6}})
    write_scores(13, {"checkpoint-5": {"f1_macro": 0.5}, "checkpoint-10": {"f1_macro": value}})
    with pytest.raises(DataError, match=r"f1_macro of checkpoint-10 is .*, not a finite number"):
        run()
    assert not Path("models/best").exists()


@pytest.mark.parametrize(
    ("content", "reason"), [("{}", "holds no checkpoint"), ('{"checkpoint-5": ', "not readable as JSON")]
)
def test_scores_that_say_nothing_are_refused(workspace, content, reason):
    workspace({13: {5: 0.5}})
    Path("models/scores/13.json").write_text(content)
    with pytest.raises(DataError, match=reason):
        run()


def test_a_damaged_checkpoint_is_refused_and_the_former_best_is_kept(workspace):
    workspace({13: {5: 0.5, 10: 0.4}})
    run()
    write_scores(13, {"checkpoint-5": {"f1_macro": 0.5}, "checkpoint-10": {"f1_macro": 0.9}})
    weights = Path("models/checkpoints/13/checkpoint-10/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"checkpoint-10: model\.safetensors has"):
        run()
    assert Path("models/best/which").read_text() == "13 5"
    assert not list(Path("models").glob(".*"))


def test_a_scored_checkpoint_that_is_not_there_is_refused(workspace):
    workspace({13: {5: 0.5}})
    write_scores(13, {"checkpoint-5": {"f1_macro": 0.5}, "checkpoint-10": {"f1_macro": 0.9}})
    with pytest.raises(DataError, match="checkpoint-10: it has no manifest"):
        run()
