"""Which rows make which batch: a function of seed, epoch and the global batch, never of a running generator.

So a resumed training sees the rows that it would have seen, without reading those it skips, and any number of
processes sees the same global batches (accelerate's sharded sampler repeats rows to fill the last batch of an epoch).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

FILLER = -1
"""The index of a row that only keeps a process company in a batch smaller than the number of processes: no label."""


def epoch_order(lengths: Sequence[int], *, seed: int, epoch: int, batch_size: int, group_by_length: bool) -> list[int]:
    """All rows, shuffled for that epoch; grouped: rows of like length make a global batch, the longest row is first."""
    words = np.random.SeedSequence([seed, epoch]).generate_state(2)
    generator = torch.Generator().manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)
    if group_by_length:
        order: list[int] = get_length_grouped_indices(lengths, batch_size, generator=generator)
        return [int(index) for index in order]
    shuffled: list[int] = torch.randperm(len(lengths), generator=generator).tolist()
    return shuffled


def draws(seed: int, epoch: int, row: int) -> np.random.Generator:
    """A generator of that row's own in that epoch, for a collator that draws at random.

    So what is drawn depends on no other row, process, worker or resumed step.
    """
    return np.random.default_rng([seed, epoch, row + 1])  # the filler's row is -1, and a seed is not negative


def pieces(batch: Sequence[int], *, processes: int, rows_at_once: int) -> list[list[int]]:
    """Cut a global batch into an equal number of pieces for each process, of at most `rows_at_once` rows each.

    Piece j * processes + r is what rank r takes in accumulation step j. A piece without a row gets a filler.
    """
    count = -(-len(batch) // (processes * rows_at_once)) * processes
    return [part.tolist() or [FILLER] for part in np.array_split(np.asarray(batch), count)]


class GlobalBatches(Sampler[list[int]]):  # type: ignore[misc]
    """One process's micro-batches of an epoch; `epoch` is set before the epoch begins."""

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        seed: int,
        batch_size: int,
        rows_at_once: int,
        rank: int,
        processes: int,
        group_by_length: bool,
    ) -> None:
        self.lengths = lengths
        self.seed = seed
        self.batch_size = batch_size
        self.rows_at_once = rows_at_once
        self.rank = rank
        self.processes = processes
        self.group_by_length = group_by_length
        self.epoch = 0

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches of one process in a full global batch."""
        return self.batch_size // (self.processes * self.rows_at_once)

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch; the last may have a smaller batch."""
        return -(-len(self.lengths) // self.batch_size)

    def __len__(self) -> int:
        full, rest = divmod(len(self.lengths), self.batch_size)
        return full * self.accumulation_steps + -(-rest // (self.processes * self.rows_at_once))

    def __iter__(self) -> Iterator[list[int]]:
        order = epoch_order(
            self.lengths,
            seed=self.seed,
            epoch=self.epoch,
            batch_size=self.batch_size,
            group_by_length=self.group_by_length,
        )
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            mine = pieces(batch, processes=self.processes, rows_at_once=self.rows_at_once)[self.rank :: self.processes]
            # The epoch travels in the index: a data-loader worker has no other way to know it.
            yield from ([i if i == FILLER else self.epoch * len(order) + i for i in piece] for piece in mine)


class EpochRows(Dataset[dict[str, Any]]):  # type: ignore[misc]
    """Encoded rows by an index that carries the epoch: epoch * rows + row.

    Each item holds `row` and `epoch` beside its columns, for collators that draw at random from them.
    """

    def __init__(self, rows: Any, *, ignored_label: float) -> None:
        self.rows = rows
        self.ignored_label = ignored_label

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        epoch, row = (0, 0) if index == FILLER else divmod(index, len(self.rows))
        item: dict[str, Any] = {**self.rows[row], "row": FILLER if index == FILLER else row, "epoch": epoch}
        if index == FILLER:
            label = item["labels"]
            item["labels"] = [self.ignored_label] * len(label) if isinstance(label, list) else self.ignored_label
        return item
