import copy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stages.errors import ParamsError
from stages.params import Params, load_params
from tests import tiny


def write(folder, **overrides):
    return tiny.write_params(folder / "params.yaml", **overrides)


def mistakes(folder, **overrides):
    """The lines of the error that a params.yaml with these overrides gives, without the first."""
    with pytest.raises(ParamsError) as caught:
        load_params(write(folder, **overrides))
    first, *lines = str(caught.value).splitlines()
    assert first.endswith(f"has {len(lines)} mistake{'s' if len(lines) > 1 else ''}:")
    return [line.strip() for line in lines]


def test_the_repositorys_own_params_are_right():
    assert isinstance(load_params(tiny.ROOT / "params.yaml"), Params)


def test_every_mistake_is_named_at_once(tmp_path):
    lines = mistakes(
        tmp_path,
        **{
            "task.type": "singel_label",
            "prepare.seed": "13",
            "prepare.validation_fraction": 2,
            "train.learnig_rate": 1e-5,
            "train.arguments": {"adam_beta1": "high", "output_dir": "x"},
            "export.int8": "of",
        },
    )
    assert [line.split(":")[0] for line in lines] == [
        "task.type",
        "prepare.seed",
        "prepare.validation_fraction",
        "train.arguments.adam_beta1",
        "train.arguments.output_dir",
        "train.learnig_rate",
        "export.int8",
    ]


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        ("train.learning_rate", "abc", "Input should be a valid number, not 'abc'"),
        ("train.learning_rate", None, "Input should be a valid number, not null"),
        ("train.learning_rate", 0, "Input should be greater than 0, not 0"),
        ("train.learning_rate", float("nan"), "Input should be a finite number, not nan"),
        ("train.batch_size", True, "Input should be a valid integer, not true"),
        ("train.batch_size", 8.5, "Input should be a valid integer, not 8.5"),
        ("prepare.seed", "13", "Input should be a valid integer, not '13'"),
        ("train.full_determinism", "yes", "Input should be a valid boolean, not 'yes'"),
        ("train.eval_strategy", "epochs", "Input should be 'epoch' or 'steps', not 'epochs'; did you mean epoch?"),
        ("train.optim", "adamw_troch", "there is no optimizer adamw_troch; there are adamw_torch, adamw_torch_fused"),
        ("train.optim", "adamw_troch", "did you mean adamw_torch?"),
        ("train.optim", "adamw_bnb_8bit", "adamw_bnb_8bit needs the package bitsandbytes, which is not in requir"),
        ("train.lr_scheduler_type", "cosin", "there is no schedule cosin; there are linear, cosine"),
        ("data.encoding", "utf-9", "Python knows no encoding utf-9"),
        ("data.delimiter", "tab", "String should have at most 1 character, not 'tab'"),
        ("data.columns.extra", ["a", "a"], "a is in it more than once"),
        ("data.labels", ["no", 1], 'Input should be a valid string, not 1; write it in quotes: "1"'),
        ("data.columns.text", 2020, "Input should be a valid string, not 2020; write it in quotes"),
        ("data.columns", "text", "should be a section with the keys text, text_pair, label, id, extra, not 'text'"),
        ("data.files", {"trian": "x", "train": "y"}, "Input should be 'train', 'validation' or 'test', not 'trian'"),
        ("data.format", "cvs", "there is no stages/sources/cvs.py; there are csv, "),
        ("task.type", "single-label", "did you mean single_label?"),
        ("model.sha256", "ABC", "String should match pattern '^[0-9a-f]{64}$', not 'ABC'"),
        ("select_best.metric", "f1_makro", "did you mean f1_macro?"),
        ("export", None, "should be a section with the keys opset, int8, tolerance, max_metric_drop, not null"),
        ("seeds", [], "List should have at least 1 item after validation, not 0"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(tmp_path, place, value, expected):
    (line,) = mistakes(tmp_path, **{place: value})
    assert line.startswith(f"{place}")
    assert expected in line


@pytest.mark.parametrize(
    ("overrides", "place", "expected"),
    [
        ({"model.sha256": None}, "model.sha256", "required for a local folder or a package"),
        ({"model.revision": "main"}, "model.revision", "it is for Hub ids"),
        ({"data.files": {"test": "a.csv"}}, "data.files.train", "it is missing"),
        ({"data.hub": {"name": "a/b", "config": None, "revision": None}}, "data.format", "set it to parquet, not csv"),
        ({"data.raw": "data/raw/bob's.csv"}, "data.raw", "no single quote can stand in a command of dvc.yaml; rename"),
        ({"prepare.validation_fraction": 0.8}, "prepare.validation_fraction", "leaves no rows to train on"),
        ({"train.processes": 3}, "train.batch_size", "8 rows can't be shared out evenly over 3 processes"),
        ({"train.max_rows_per_device": 3}, "train.max_rows_per_device", "3 does not divide the 8 rows of batch_size"),
        (
            {"train.processes": 2, "train.max_rows_per_device": 3},
            "train.max_rows_per_device",
            "3 does not divide the 8 rows of batch_size, 4 for each of 2 processes",
        ),
        ({"train.eval_strategy": "steps"}, "train.eval_steps", "a number of steps is needed"),
        ({"train.eval_steps": 5}, "train.eval_steps", "it is null where eval_strategy is epoch, not 5"),
        ({"train.max_steps": 0}, "train.max_steps", "or -1 where num_train_epochs decides, not 0"),
        (
            {"select_best.metric": "mse"},
            "select_best.metric",
            "single_label does not produce mse; it produces f1",
        ),
        (
            {"train.early_stopping": {"metric": "eval_los", "patience": 1, "min_delta": 0.0}},
            "train.early_stopping.metric",
            "did you mean eval_loss?",
        ),
        (
            {"task.type": "regression", "select_best.metric": "mse", "train.label_smoothing_factor": 0.1},
            "train.label_smoothing_factor",
            "has no classes to smooth over",
        ),
        ({"test.slices": ["chanel"]}, "test.slices", "did you mean channel?"),
    ],
)
def test_knobs_that_contradict_each_other_are_named(tmp_path, overrides, place, expected):
    (line,) = mistakes(tmp_path, **overrides)
    assert line.startswith(f"{place}: ")
    assert expected in line


def test_a_key_that_there_is_not_is_answered_with_the_nearest(tmp_path):
    assert mistakes(tmp_path, **{"train.learnig_rate": 1e-5}) == [
        "train.learnig_rate: there is no such key; did you mean learning_rate?"
    ]


def test_a_key_in_the_wrong_section_is_answered_with_the_right_one(tmp_path):
    assert mistakes(tmp_path, **{"export.learning_rate": 1e-5}) == [
        "export.learning_rate: there is no such key; there is train.learning_rate"
    ]


def test_an_old_name_of_transformers_is_answered_with_the_one_that_replaced_it_and_our_knob(tmp_path):
    assert mistakes(tmp_path, **{"train.warmup_ratio": 0.1}) == [
        "train.warmup_ratio: there is no such key: warmup_steps replaced it, which below 1 is a share of all steps; "
        "here train.warmup_steps decides it"
    ]


def test_a_missing_key_and_a_missing_section_are_named(tmp_path):
    params = tiny.params()
    del params["train"]["optim"], params["export"]
    YAML(typ="safe").dump(params, tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match=r"train\.optim: it is missing(.|\n)*export: it is missing"):
        load_params(tmp_path / "params.yaml")


@pytest.mark.parametrize("written", ["1e-5", "1E-5", "1.0e-05", ".00001", "0.00001", "+1e-5", "1e-05"])
def test_a_number_is_the_same_however_it_is_written(tmp_path, written):
    text = (tiny.ROOT / "params.yaml").read_text(encoding="utf-8")
    assert "learning_rate: 1.0e-4" in text
    (tmp_path / "params.yaml").write_text(text.replace("learning_rate: 1.0e-4", f"learning_rate: {written}"))
    assert load_params(tmp_path / "params.yaml").train.learning_rate == 1e-5


def test_null_booleans_and_lists_reach_a_stage_as_themselves(tmp_path):
    params = load_params(write(tmp_path, **{"data.labels": ["null", "no"], "train.full_determinism": False}))
    assert params.model.revision is None
    assert params.train.full_determinism is False
    assert params.data.labels == ["null", "no"]
    assert params.data.columns.extra == ["channel"]


def test_words_that_an_older_yaml_took_for_booleans_are_text(tmp_path):
    text = (tiny.ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text.replace("labels: null", "labels: [on, off, yes, no]"))
    assert load_params(tmp_path / "params.yaml").data.labels == ["on", "off", "yes", "no"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("task: {type: [", "line 1"),
        ("seeds: [1]\nseeds: [2]\n", 'line 2, column 1: not readable as YAML: found duplicate key "seeds"'),
        ("a: \x00", "not readable as YAML"),
        ("when: 2020-13-45", "not readable as YAML"),
        ("", "it holds no sections"),
        ("- 1", "it holds no sections"),
    ],
)
def test_a_file_that_is_no_params_yaml_says_where(tmp_path, text, expected):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ParamsError) as caught:
        load_params(tmp_path / "params.yaml")
    assert str(tmp_path / "params.yaml") in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(ParamsError, match="there is no such file"):
        load_params(tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match="it is a folder"):
        load_params(tmp_path)
    (tmp_path / "params.yaml").write_bytes(b"task: \xff\xfe")
    with pytest.raises(ParamsError, match="not readable as YAML"):
        load_params(tmp_path / "params.yaml")


def places(tree, above=()):
    """All places of a tree of sections."""
    for key, value in tree.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from places(value, (*above, key))


GOOD = tiny.params()
PLACES = [place for place in places(GOOD) if place != ("train", "arguments")]
NOT_SECTIONS = [place for place in PLACES if not any(other[:-1] == place for other in PLACES)]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def mutated(place, change):
    made = copy.deepcopy(GOOD)
    section = made
    for key in place[:-1]:
        section = section[key]
    change(section, place[-1])
    return made


def refusal(tree, folder):
    """The message of the ParamsError that a tree gives, or None where it is right; anything else raised is a bug."""
    path = Path(folder) / "params.yaml"
    YAML(typ="safe").dump(tree, path)
    try:
        YAML(typ="safe").load(path)
    except YAMLError:
        reject()  # ruamel can't read all that it writes: of {":0": null}, {:0: null}
    try:
        load_params(path)
    except ParamsError as error:
        message = str(error)
    else:
        return None
    assert not any(word in message for word in ("Value error", "pydantic", "type=", "For further information"))
    assert all(len(line) < 1000 for line in message.splitlines())
    return message


FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@FOLDER
@given(place=st.sampled_from(PLACES))
def test_any_key_that_is_dropped_is_named(tmp_path, place):
    message = refusal(mutated(place, lambda section, key: section.pop(key)), tmp_path)
    assert f"  {'.'.join(place)}: it is missing" in message


@FOLDER
@given(place=st.sampled_from(PLACES), name=st.from_regex(r"[a-z_]{1,12}", fullmatch=True), value=ANY)
def test_any_key_that_is_added_is_named(tmp_path, place, name, value):
    if (*place[:-1], name) in PLACES:
        return
    message = refusal(mutated((*place[:-1], name), lambda section, key: section.update({key: value})), tmp_path)
    if place[:-1] != ("train", "arguments"):
        assert f"  {'.'.join((*place[:-1], name))}: there is no such key" in message


@FOLDER
@given(place=st.sampled_from(PLACES), value=ANY)
@example(place=("train", "arguments"), value={"": 1, "fsdp": [1], "adam_beta1": float("nan")})
@example(place=("data", "files"), value={"": 1})
@example(place=("data", "encoding"), value="\x00")
@example(place=("model", "name"), value="\x00")
@example(place=("seeds",), value=[[1], [1]])
@example(place=("task",), value={":0": None})
@example(place=("data", "columns", "extra"), value=[])
def test_any_value_is_taken_or_named_and_never_another_exception(tmp_path, place, value):
    message = refusal(mutated(place, lambda section, key: section.update({key: value})), tmp_path)
    if message is not None:
        assert place[0] in message  # or the place that it contradicts is named first


@FOLDER
@given(place=st.sampled_from(NOT_SECTIONS))
def test_any_section_in_place_of_a_value_is_named(tmp_path, place):
    message = refusal(mutated(place, lambda section, key: section.update({key: {"a": {"b": 1}}})), tmp_path)
    assert f"  {'.'.join(place)}" in message


@pytest.mark.slow
def test_what_dvc_writes_for_an_experiment_is_the_same_number(tmp_path):
    def run(*command):
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)

    write(tmp_path)
    (tmp_path / "read.py").write_text(
        f"import sys; sys.path.insert(0, {str(tiny.ROOT)!r})\n"
        "from stages.params import load_params\n"
        "open('seen', 'w').write(repr(load_params().train.learning_rate))\n"
    )
    (tmp_path / "dvc.yaml").write_text(
        f"stages:\n  read:\n    cmd: {sys.executable} read.py\n    params: [train]\n    outs: [seen]\n"
    )
    run("git", "init", "-q")
    dvc = (sys.executable, "-m", "dvc")
    run(*dvc, "init", "-q")
    run("git", "add", "-A")
    run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x")
    for written in ("0.00001", "1e-5", ".00001"):
        run(*dvc, "exp", "run", "-f", "-S", f"train.learning_rate={written}")
        assert (tmp_path / "seen").read_text() == "1e-05"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(*dvc, "exp", "run", "-f", "-S", "train.learning_rate=abc")
    assert "train.learning_rate: Input should be a valid number, not 'abc'" in failed.value.stderr
