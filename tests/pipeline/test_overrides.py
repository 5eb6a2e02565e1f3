import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipeline.overrides import parse_override, set_params, with_overrides
from stages import params
from stages.errors import ParamsError
from tests import tiny


@pytest.fixture
def checkout(tmp_path):
    shutil.copyfile(tiny.ROOT / "params.yaml", tmp_path / "params.yaml")
    return tmp_path


def changed_lines(checkout):
    before = (tiny.ROOT / "params.yaml").read_text().splitlines()
    after = (checkout / "params.yaml").read_text().splitlines()
    assert len(before) == len(after)
    return [new for old, new in zip(before, after, strict=True) if new != old]


@pytest.mark.parametrize("written", ["1e-5", "1E-5", ".00001", "0.00001", "1.0e-05"])
def test_every_way_to_write_a_number_is_that_number(checkout, written):
    place, value = parse_override(f"train.learning_rate={written}")
    assert (place, value) == ("train.learning_rate", 1e-5)
    assert set_params(checkout, {place: value}) == {"train.learning_rate": (1e-4, 1e-5)}
    assert params.load_params(checkout / "params.yaml").train.learning_rate == 1e-5
    assert changed_lines(checkout) == ["  learning_rate: 1.0e-5"]


def test_null_booleans_lists_and_sections_are_themselves(checkout):
    texts = [
        "model.sha256=null",
        "model.trust_remote_code=true",
        "seeds=[13, 14]",
        "train.early_stopping={metric: eval_loss, patience: 2, min_delta: 0.0}",
        "model.name=nyu-mll/some-model",
        "data.labels=['on', 'a, b', '1e-5']",
        "train.arguments.adam_beta1=0.8",
    ]
    set_params(checkout, dict(map(parse_override, texts)))
    found = params.load_params(checkout / "params.yaml")
    assert found.model.sha256 is None
    assert found.model.trust_remote_code is True
    assert found.seeds == [13, 14]
    assert found.train.early_stopping.patience == 2
    assert found.data.labels == ["on", "a, b", "1e-5"]
    assert found.train.arguments == {"adam_beta1": 0.8}
    assert len(changed_lines(checkout)) == len(texts)


def test_all_else_in_the_file_stays_and_comments_keep_their_column(checkout):
    set_params(checkout, {"train.lr_scheduler_type": "cosine", "seeds": [1, 2], "train.weight_decay": 0.0})
    assert changed_lines(checkout) == [
        "seeds: [1, 2]                   # one training for each; select_best chooses among all of them",
        "  weight_decay: 0.0",
        "  lr_scheduler_type: cosine",
    ]


def test_the_value_that_is_there_already_is_not_written_again(checkout):
    path = checkout / "params.yaml"
    before = path.stat().st_mtime_ns
    assert set_params(checkout, {"train.learning_rate": 0.0001, "seeds": [13]}) == {}
    assert set_params(checkout, {}) == {}
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"train.learning_rat": 1e-5},
            r"params\.yaml has 1 mistake:\n  train\.learning_rat: .*did you mean learning_rate",
        ),
        ({"train.learning_rate": "fast"}, r"params\.yaml has 1 mistake:\n  train\.learning_rate: .*not 'fast'"),
        ({"seeds": 13, "train.optim": None}, r"has 2 mistakes"),
        ({"nothing.at.all": 1}, r"nothing\.at\.all: params\.yaml has no section nothing"),
        ({"data.hub.name": "x"}, r"data\.hub\.name: params\.yaml has no section hub there; set the whole"),
        ({"train.learning_rate": object()}, r"train\.learning_rate: .*can't be written as YAML"),
    ],
)
def test_what_describes_no_run_is_named_and_the_file_is_untouched(checkout, overrides, message):
    path = checkout / "params.yaml"
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with pytest.raises(ParamsError, match=message):
        set_params(checkout, {"train.weight_decay": 0.5, **overrides})
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [one.name for one in checkout.iterdir()] == ["params.yaml"]


@pytest.mark.parametrize(
    "text", ["train.learning_rate", "=3", "train.learning_rate=", "seeds=[1, 2", "x=!!python/name:os.system y"]
)
def test_an_override_that_is_none_is_named(text):
    with pytest.raises(ParamsError, match=text.partition("=")[0] or "to set a knob"):
        parse_override(text)


def test_a_file_that_is_written_in_another_way_keeps_its_way():
    text = (
        "a: 1.0e-4   # c\r\nb:\r\n  - x\r\n  - y # k\r\n# foot\r\nc: # empty\r\nd: {}\r\ne: [1,\r\n 2]\r\n"
        "h: |\r\n  text\r\ng:\r\n  p: 1\r\n  q: {z: 2}  # tail\r\n# end"
    )
    made = with_overrides(
        text, {"a": 12, "b": [1], "c": "w", "d.k": 1, "e": "x", "h": "one", "g.r": {"u": [None, True]}, "g.q.y": "a, b"}
    )
    assert made == (
        "a: 12       # c\r\nb:\r\n  [1]        # k\r\n# foot\r\nc: w  # empty\r\nd: {k: 1}\r\ne: x\r\n"
        "h: one\r\ng:\r\n  p: 1\r\n  q: {z: 2, y: 'a, b'}  # tail\r\n  r: {u: [null, true]}\r\n# end"
    )


def test_a_value_that_others_refer_to_is_left_to_a_person():
    with pytest.raises(ParamsError, match=r"a: can't be set in params\.yaml as it is written"):
        with_overrides("a: &x 3\nb: *x\n", {"a": 4})


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" \n"), max_size=9)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)


@settings(deadline=None)
@given(VALUES)
def test_any_value_is_read_back_as_itself_and_setting_it_again_changes_nothing(value):
    made = with_overrides("a: {b: 1, c: 2}   # kept\nd:\n  e: 0 # too\n", {"a.b": value, "d.e": value})
    found = YAML(typ="safe").load(made)
    assert repr(found) == repr({"a": {"b": value, "c": 2}, "d": {"e": value}})
    assert made.count("# kept") == made.count("# too") == 1
    assert with_overrides(made, {"a.b": value}) == made
