"""A base model is fit for the task, or refused with what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from stages.errors import ModelError
from stages.model import base_model
from stages.tasks import single_label
from tests import tiny


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.model(tmp_path / "model")


def edit(file: Path, **values: Any) -> None:
    """Set keys of a JSON file; None takes a key out."""
    old = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in {**old, **values}.items() if value is not None}))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as refused:
        base_model.check(folder, single_label, name="own/model", trust_remote_code=False)
    assert str(refused.value).startswith("own/model: ")
    return str(refused.value)


def test_a_fit_model_passes(model: Path):
    base_model.check(model, single_label, name="own/model", trust_remote_code=False)


def test_an_unknown_model_type_is_refused_with_the_nearest(model: Path):
    edit(model / "config.json", model_type="brt")
    message = refusal(model)
    assert "model_type brt" in message
    assert "did you mean bert?" in message


def test_a_config_without_a_model_type_is_refused_whatever_its_folder_is_called(tmp_path: Path):
    folder = tiny.model(tmp_path / "bert-tiny")
    edit(folder / "config.json", model_type=None)
    assert "config.json has no model_type" in refusal(folder)


@pytest.mark.parametrize(("text", "finding"), [("{", "not readable as JSON"), ("[]", "holds no JSON object")])
def test_a_config_that_is_not_json_is_refused(model: Path, text: str, finding: str):
    (model / "config.json").write_text(text)
    assert finding in refusal(model)


def test_a_config_that_its_architecture_refuses_is_refused(model: Path):
    edit(model / "config.json", hidden_size="wide")
    assert "config.json is not one of a bert" in refusal(model)


def test_a_tokenizer_without_its_files_is_refused(model: Path):
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (model / name).unlink()
    assert "its tokenizer knows no word" in refusal(model)


def test_a_tokenizer_that_does_not_load_is_refused(model: Path):
    (model / "tokenizer.json").write_text('{"version": "1.0"}')
    (model / "vocab.txt").unlink()
    assert "its tokenizer does not load" in refusal(model)


def test_the_tokenizer_of_another_model_is_refused(model: Path):
    edit(model / "config.json", vocab_size=20)
    assert f"its tokenizer has {len(tiny.vocabulary())} tokens, and the model has embeddings for 20" in refusal(model)


def test_code_in_another_repository_is_refused_even_where_it_is_trusted(model: Path):
    edit(model / "tokenizer_config.json", auto_map={"AutoTokenizer": ["other/repository--code.Own", None]})
    with pytest.raises(ModelError, match="lies in another repository"):
        base_model.check(model, single_label, name="own/model", trust_remote_code=True)
    assert "model.trust_remote_code" in refusal(model)


def longest(folder: Path) -> tuple[int | None, str]:
    config = base_model.load_config(folder, name="m", trust_remote_code=False)
    tokenizer = base_model.load_tokenizer(folder, name="m")
    return base_model.longest_input(config, tokenizer, trust_remote_code=False)


def test_the_longest_input_is_the_smaller_of_the_models_and_the_tokenizers(model: Path):
    assert longest(model)[0] == 64
    edit(model / "tokenizer_config.json", model_max_length=48)
    assert longest(model) == (48, "model_max_length 48 in tokenizer_config.json")
    edit(model / "tokenizer_config.json", model_max_length=10**30)
    assert longest(model) == (64, "max_position_embeddings 64 in config.json")


def test_of_robertas_positions_padding_takes_the_first(model: Path):
    edit(model / "config.json", model_type="roberta", pad_token_id=1)
    edit(model / "tokenizer_config.json", model_max_length=None)
    assert longest(model) == (62, "max_position_embeddings 64 in config.json, of which 2 are padding's")


def test_a_model_of_relative_positions_takes_any_length(model: Path):
    from transformers import T5Config

    T5Config(vocab_size=100, d_model=8, num_layers=1, num_heads=1, d_kv=8, d_ff=8).save_pretrained(model)
    edit(model / "tokenizer_config.json", model_max_length=None)
    assert longest(model) == (None, "")


@pytest.mark.parametrize(
    ("model_type", "taken"), [("bert", True), ("roberta", True), ("gpt2", True), ("distilbert", False)]
)
def test_whether_the_model_takes_token_types_is_known(model: Path, model_type: str, taken: bool):
    edit(model / "config.json", model_type=model_type)
    config = base_model.load_config(model, name="m", trust_remote_code=False)
    assert base_model.takes_token_types(config, single_label) is taken


def test_every_model_whose_config_has_a_number_of_token_types_takes_them():
    import inspect

    import transformers

    models = transformers.AutoModelForSequenceClassification._model_mapping
    seen = 0
    for kind in models:
        if hasattr(kind, "type_vocab_size"):
            seen += 1
            assert "token_type_ids" in inspect.signature(models[kind].forward).parameters, kind
    assert seen > 10


@pytest.mark.parametrize(("max_length", "fits"), [(61, True), (62, True), (63, False), (64, False)])
def test_of_robertas_length_the_quick_answer_is_the_exact_one(model: Path, max_length: int, fits: bool):
    edit(model / "config.json", model_type="roberta", pad_token_id=1)
    config = base_model.load_config(model, name="m", trust_remote_code=False)
    tokenizer = base_model.load_tokenizer(model, name="m")
    found, _ = base_model.longest_input(config, tokenizer, trust_remote_code=False, at_least=max_length)
    assert (found >= max_length) is fits
