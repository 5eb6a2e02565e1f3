"""Texts and pairs become token ids: as the tokenizer itself would cut them, in one pass."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages import sequences
from tests import tiny

WORDS = [*tiny.FILLER, "12", "unknown", "[SEP]"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny.model(tmp_path_factory.mktemp("base")))


def by_the_library(tokenizer: Any, max_length: int, *texts: list[str]) -> dict[str, Any]:
    cut = tokenizer(*texts, truncation=True, max_length=max_length, return_attention_mask=False)
    whole = tokenizer(*texts, return_attention_mask=False, verbose=False)
    return {
        **cut,
        "length": [len(ids) for ids in cut["input_ids"]],
        "num_tokens": [len(ids) for ids in whole["input_ids"]],
    }


@FEW
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=5),
    max_length=st.integers(3, 20),
    side=st.sampled_from(["right", "left"]),
)
def test_a_text_is_cut_as_the_tokenizer_cuts_it(tokenizer, texts, max_length, side):
    tokenizer.truncation_side = side
    assert sequences.encode({"text": texts}, tokenizer, max_length=max_length) == by_the_library(
        tokenizer, max_length, texts
    )


@FEW
@given(
    pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5),
    max_length=st.integers(5, 20),
    side=st.sampled_from(["right", "left"]),
)
def test_a_pair_is_cut_longest_first_as_the_tokenizer_cuts_it(tokenizer, pairs, max_length, side):
    tokenizer.truncation_side = side
    texts, others = [first for first, _ in pairs], [second for _, second in pairs]
    encoded = sequences.encode({"text": texts, "text_pair": others}, tokenizer, max_length=max_length)
    assert encoded == by_the_library(tokenizer, max_length, texts, others)


def test_a_tokenizer_written_in_python_is_cut_the_same_way():
    from transformers import ByT5Tokenizer

    tokenizer = ByT5Tokenizer()
    rows = {"text": ["short", "a rather long text"], "text_pair": ["x", "and a long second one"]}
    encoded = sequences.encode(rows, tokenizer, max_length=12)
    assert encoded == by_the_library(tokenizer, 12, rows["text"], rows["text_pair"])
    assert encoded["length"] == [8, 12]


def test_each_text_is_tokenized_once(tokenizer):
    class Counting:
        truncation_side = "right"
        calls = 0

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return tokenizer(*args, **kwargs)

    counting = Counting()
    encoded = sequences.encode({"text": ["please " * 50, "please"]}, counting, max_length=8)
    assert encoded["num_tokens"] == [52, 3]
    assert encoded["length"] == [8, 3]
    assert counting.calls == 1


def test_an_empty_text_is_its_special_tokens(tokenizer):
    encoded = sequences.encode({"text": [""]}, tokenizer, max_length=8)
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"][0]) == ["[CLS]", "[SEP]"]
    assert encoded["length"] == [2]


def test_no_padding_and_no_attention_mask_are_made(tokenizer):
    encoded = sequences.encode({"text": ["please", "please my the"]}, tokenizer, max_length=8)
    assert list(encoded) == ["input_ids", "token_type_ids", "length", "num_tokens"]
    assert [len(ids) for ids in encoded["input_ids"]] == [3, 5]


@given(first=st.integers(0, 50), second=st.integers(0, 50), room=st.integers(0, 60))
def test_truncation_fills_the_room_and_never_cuts_the_shorter_text_below_the_longer(first, second, room):
    shares = sequences.longest_first(first, second, room)
    assert sum(shares) == min(room, first + second)
    assert 0 <= shares[0] <= first
    assert 0 <= shares[1] <= second
    assert min(shares) >= min(first, second, room // 2)


def test_a_batch_is_padded_to_its_own_longest_row(tokenizer, tmp_path: Path):
    encoded = sequences.encode({"text": ["please", "please my the"]}, tokenizer, max_length=8)
    rows = [{"input_ids": ids} for ids in encoded["input_ids"]]
    batch = sequences.collator(tokenizer)(rows)
    assert batch["input_ids"].shape == (2, 5)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
