"""One text, or a pair of texts, in; one vector of logits out: what the tasks of that shape share."""

from collections.abc import Mapping, Sequence
from typing import Any

TEXT_COLUMNS = ("text", "text_pair")


def encode(rows: Mapping[str, list[Any]], tokenizer: Any, *, max_length: int) -> dict[str, list[Any]]:
    """Tokenize texts or pairs, truncating the longest first; `num_tokens` is the length before truncation.

    No padding is stored, and no attention mask: both follow from the lengths when a batch is made.
    """
    texts = [rows["text"]] + ([rows["text_pair"]] if "text_pair" in rows else [])
    whole = tokenizer(*texts, truncation=False, return_attention_mask=False, verbose=False)
    num_tokens = [len(ids) for ids in whole["input_ids"]]
    if max(num_tokens, default=0) > max_length:
        whole = tokenizer(*texts, truncation=True, max_length=max_length, return_attention_mask=False)
    return {**whole, "length": [len(ids) for ids in whole["input_ids"]], "num_tokens": num_tokens}


def collator(tokenizer: Any) -> Any:
    """Pad each batch to its own longest row."""
    from transformers import DataCollatorWithPadding

    return DataCollatorWithPadding(tokenizer)


def onnx_inputs(model_inputs: Sequence[str]) -> list[str]:
    """All that the tokenizer makes for the model."""
    return list(model_inputs)
