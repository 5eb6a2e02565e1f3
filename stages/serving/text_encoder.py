"""Texts -> padded batches of token ids, as the encode stage makes them, by the tokenizers library alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages import sequences
from stages.errors import DataError

TOKENIZER = "tokenizer.json"


class Tokens(NamedTuple):
    """One row, truncated, not padded."""

    ids: list[int]
    type_ids: list[int]


class TextEncoder:
    """The tokenizer of an exported model, set up by what its remint.json says."""

    def __init__(self, exported: Path, settings: Mapping[str, Any]) -> None:
        """Load tokenizer.json.

        Raises:
            DataError: it is missing (a tokenizer written in Python has none) or not readable.
        """
        from tokenizers import Tokenizer

        file = exported / TOKENIZER
        if not file.is_file():
            raise DataError(f"{file}: there is no such file, and a tokenizer without it runs in transformers alone")
        try:
            self.tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"{file}: not readable as a tokenizer: {error}; export the model again") from None
        self.settings = settings
        # The file may hold a padding and a truncation of its own, from whoever saved it first.
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, texts: Sequence[Sequence[str]]) -> list[Tokens]:
        """Token ids of rows, truncated, longest text first; `texts` has one sequence, or two of pairs."""
        rows: Iterable[Any] = texts[0] if len(texts) == 1 else zip(*texts, strict=True)
        return [self._truncated(encoding) for encoding in self.tokenizer.encode_batch_fast(list(rows))]

    def _truncated(self, encoding: Any) -> Tokens:
        ids, type_ids, max_length = encoding.ids, encoding.type_ids, self.settings["max_length"]
        if len(ids) <= max_length:
            return Tokens(ids, type_ids)
        places = sequences.kept(encoding.sequence_ids, max_length, side=self.settings["truncation_side"])
        return Tokens([ids[place] for place in places], [type_ids[place] for place in places])

    def pad(self, rows: Sequence[Tokens]) -> dict[str, NDArray[np.int64]]:
        """A batch as long as its longest row: model input name -> ids (rows, tokens)."""
        length = max(len(row.ids) for row in rows)
        fill = {
            "input_ids": self.settings["pad_token_id"],
            "token_type_ids": self.settings["pad_token_type_id"],
            "attention_mask": 0,
        }
        batch = {name: np.full((len(rows), length), value, np.int64) for name, value in fill.items()}
        for index, row in enumerate(rows):
            end = len(row.ids)
            place = slice(length - end, length) if self.settings["padding_side"] == "left" else slice(0, end)
            batch["input_ids"][index, place] = row.ids
            batch["token_type_ids"][index, place] = row.type_ids
            batch["attention_mask"][index, place] = 1
        return batch
