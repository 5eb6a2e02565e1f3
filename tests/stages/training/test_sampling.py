import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.training.sampling import FILLER, EpochRows, GlobalBatches, epoch_order, pieces


def lengths(rows: int) -> list[int]:
    return np.random.default_rng(0).integers(3, 60, rows).tolist()


def micro_batches(rows: int, *, processes: int, at_once: int, epoch: int = 0, batch_size: int = 8):
    """For each process, its micro-batches of an epoch, as rows."""
    made = []
    for rank in range(processes):
        batches = GlobalBatches(
            lengths(rows),
            seed=1,
            batch_size=batch_size,
            rows_at_once=at_once,
            rank=rank,
            processes=processes,
            group_by_length=True,
        )
        batches.epoch = epoch
        assert len(list(batches)) == len(batches)
        made.append([[i if i == FILLER else i % rows for i in batch] for batch in batches])
    return made


@pytest.mark.parametrize("grouped", [True, False])
def test_an_epoch_sees_each_row_once_in_an_order_of_its_own(grouped):
    def order(seed, epoch):
        return epoch_order(lengths(100), seed=seed, epoch=epoch, batch_size=8, group_by_length=grouped)

    assert sorted(order(1, 0)) == list(range(100))
    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(seed, epoch)) for seed, epoch in itertools.product((1, 2), (0, 1))}) == 4


def test_grouping_pads_less_and_puts_the_longest_row_first():
    rows = lengths(200)

    def padding(grouped):
        order = epoch_order(rows, seed=1, epoch=0, batch_size=8, group_by_length=grouped)
        parts = [[rows[i] for i in order[start : start + 8]] for start in range(0, 200, 8)]
        return sum(max(part) * len(part) - sum(part) for part in parts)

    assert padding(True) < padding(False) / 2
    assert rows[epoch_order(rows, seed=1, epoch=0, batch_size=8, group_by_length=True)[0]] == max(rows)


@given(rows=st.integers(1, 70), cut=st.sampled_from([(1, 8), (1, 2), (2, 4), (2, 2), (4, 1), (8, 1)]))
def test_any_number_of_processes_sees_the_same_global_batches(rows, cut):
    processes, at_once = cut
    accumulation = 8 // (processes * at_once)
    alone = micro_batches(rows, processes=1, at_once=8)[0]
    together = micro_batches(rows, processes=processes, at_once=at_once)
    assert len({len(batches) for batches in together}) == 1
    assert all(0 < len(batch) <= at_once for batches in together for batch in batches)
    for step, expected in enumerate(alone):
        window = slice(step * accumulation, (step + 1) * accumulation)
        seen = [row for batches in together for batch in batches[window] for row in batch]
        assert sorted(row for row in seen if row != FILLER) == sorted(expected)


def test_a_batch_smaller_than_the_number_of_processes_is_filled_up_with_rows_that_count_for_nothing():
    assert pieces([5], processes=2, rows_at_once=4) == [[5], [FILLER]]
    rows = [{"input_ids": [1], "labels": 2}, {"input_ids": [3], "labels": 0}]
    epoch_rows = EpochRows(rows, ignored_label=-100)
    assert epoch_rows[FILLER]["labels"] == -100
    assert epoch_rows[3] == {"input_ids": [3], "labels": 0, "row": 1, "epoch": 1}
    tags = EpochRows([{"labels": [1, 2]}], ignored_label=-100)
    assert tags[FILLER]["labels"] == [-100, -100]
