"""One text, or a pair of texts, in; one vector of logits out: what the tasks of that shape share."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

TEXT_COLUMNS = ("text", "text_pair")


def encode(rows: Mapping[str, list[Any]], tokenizer: Any, *, max_length: int) -> dict[str, list[Any]]:
    """Tokenize texts or pairs, truncating the longest first; `num_tokens` is the length before truncation.

    No padding is stored, and no attention mask: both follow from the lengths when a batch is made. The result equals
    `tokenizer(..., truncation=True, max_length=max_length)`; `max_length` has room for the special tokens.
    """
    texts = [rows["text"]] + ([rows["text_pair"]] if "text_pair" in rows else [])
    whole = tokenizer(*texts, truncation=False, return_attention_mask=False, verbose=False)
    columns: dict[str, list[Any]] = {name: list(values) for name, values in whole.items()}
    num_tokens = [len(ids) for ids in columns["input_ids"]]
    too_long = [index for index, count in enumerate(num_tokens) if count > max_length]
    # Each text is tokenized once. A tokenizer's own truncation would need a second pass, and also makes every pairing
    # of what it cuts off: on pairs of 150 words at 128 tokens it takes three times as long as the tokenizing.
    encodings = getattr(whole, "encodings", None)
    if encodings is not None:
        for index in too_long:
            places = kept(encodings[index].sequence_ids, max_length, side=tokenizer.truncation_side)
            for values in columns.values():
                values[index] = [values[index][place] for place in places]
    elif too_long:  # a tokenizer written in Python does not say which token is of which text
        some = [[text[index] for index in too_long] for text in texts]
        short = tokenizer(*some, truncation=True, max_length=max_length, return_attention_mask=False)
        for name, values in columns.items():
            for index, cut in zip(too_long, short[name], strict=True):
                values[index] = cut
    return {**columns, "length": [len(ids) for ids in columns["input_ids"]], "num_tokens": num_tokens}


def kept(sequence_ids: Sequence[int | None], max_length: int, *, side: Literal["left", "right"]) -> list[int]:
    """The places of the tokens that stay when a row is truncated, longest text first, as the tokenizers library does.

    `sequence_ids` has 0 for a token of the first text, 1 for one of the second, None for a special token (all stay).
    """
    texts = [[place for place, of in enumerate(sequence_ids) if of == text] for text in (0, 1)]
    room = max_length - sequence_ids.count(None)
    shares = longest_first(len(texts[0]), len(texts[1]), room)
    stay = {place for place, of in enumerate(sequence_ids) if of is None}
    for places, share in zip(texts, shares, strict=True):
        stay.update(places[:share] if side == "right" else places[len(places) - share :])
    return sorted(stay)


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text stay when both have to share `room`.

    The longer one is cut, at most down to the shorter one; what is then still too much is taken from both, and an odd
    token stays with the longer one.
    """
    shorter, longer = sorted((first, second))
    if shorter + longer > room:
        longer = max(shorter, room - shorter)
    if shorter + longer > room:
        shorter, longer = room // 2, room - room // 2
    return (longer, shorter) if first > second else (shorter, longer)


def collator(tokenizer: Any) -> Any:
    """Pad each batch to its own longest row."""
    from transformers import DataCollatorWithPadding

    return DataCollatorWithPadding(tokenizer)


def onnx_inputs(model_inputs: Sequence[str]) -> list[str]:
    """All that the tokenizer makes for the model."""
    return list(model_inputs)
