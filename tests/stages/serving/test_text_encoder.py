import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from stages import lookup, tasks
from stages.errors import DataError
from stages.serving.text_encoder import TextEncoder
from tests import tiny, tiny_export

MAX_LENGTH = 12
SETTINGS = {
    "max_length": MAX_LENGTH,
    "pad_token_id": 0,
    "pad_token_type_id": 0,
    "padding_side": "right",
    "truncation_side": "right",
}
WORDS = st.lists(st.sampled_from([*tiny.vocabulary()[:20], "Mañana", "[SEP]", "🙂", "a\u0301"]), max_size=25)
TEXTS = st.one_of(WORDS.map(" ".join), st.text(max_size=40))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_export.best(tmp_path_factory.mktemp("model"))


def encoded(model: Path, rows: dict[str, list[str]], side: str = "right") -> tuple[Any, dict[str, list[Any]]]:
    """The encode stage's token ids, and the tokenizer that made them."""
    tokenizer = AutoTokenizer.from_pretrained(model, truncation_side=side)
    return tokenizer, lookup.find(tasks, "single_label").encode(rows, tokenizer, max_length=MAX_LENGTH)


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), side=st.sampled_from(["left", "right"]))
def test_token_ids_of_texts_are_those_of_the_encode_stage(model: Path, texts: list[str], side: str) -> None:
    _, expected = encoded(model, {"text": texts}, side)
    found = TextEncoder(model, {**SETTINGS, "truncation_side": side}).encode([texts])
    assert [row.ids for row in found] == expected["input_ids"]
    assert [row.type_ids for row in found] == expected["token_type_ids"]


@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), side=st.sampled_from(["left", "right"]))
def test_token_ids_of_pairs_are_those_of_the_encode_stage(model: Path, pairs: list[Any], side: str) -> None:
    firsts, seconds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    _, expected = encoded(model, {"text": firsts, "text_pair": seconds}, side)
    found = TextEncoder(model, {**SETTINGS, "truncation_side": side}).encode([firsts, seconds])
    assert [row.ids for row in found] == expected["input_ids"]
    assert [row.type_ids for row in found] == expected["token_type_ids"]
    assert max(len(row.ids) for row in found) <= MAX_LENGTH


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_is_the_one_that_the_model_was_trained_on(model: Path, side: str) -> None:
    rows = {"text": ["my card", "refund the item i want back", ""], "text_pair": ["late", "why", "box again"]}
    tokenizer, ids = encoded(model, rows)
    tokenizer.padding_side = side
    columns = {name: ids[name] for name in ("input_ids", "token_type_ids")}
    expected = lookup.find(tasks, "single_label").collator(tokenizer)(
        [{name: values[index] for name, values in columns.items()} for index in range(3)]
    )
    encoder = TextEncoder(model, {**SETTINGS, "padding_side": side})
    found = encoder.pad(encoder.encode([rows["text"], rows["text_pair"]]))
    assert set(found) == set(expected)
    for name, values in found.items():
        assert values.dtype == np.int64
        assert (values == expected[name].numpy()).all(), name


def test_a_padding_and_truncation_that_the_tokenizer_file_holds_are_not_used(model: Path, tmp_path: Path) -> None:
    held = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    held["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    held["padding"] = {
        "strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(held), encoding="utf-8")
    texts = ["my card is late again", "why"]
    assert TextEncoder(tmp_path, SETTINGS).encode([texts]) == TextEncoder(model, SETTINGS).encode([texts])


def test_no_rows_give_no_rows(model: Path) -> None:
    assert TextEncoder(model, SETTINGS).encode([[], []]) == []


def test_a_tokenizer_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tokenizer\.json: there is no such file"):
        TextEncoder(tmp_path, SETTINGS)
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"tokenizer\.json: not readable as a tokenizer"):
        TextEncoder(tmp_path, SETTINGS)
