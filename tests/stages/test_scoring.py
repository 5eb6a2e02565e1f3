"""Case 26, and the order of rows."""

import subprocess
import sys

import numpy as np
import pytest
from datasets import Dataset

from stages import scoring
from stages.tasks import single_label
from tests import tiny


def collate(items):
    import torch

    longest = max(len(item["input_ids"]) for item in items)
    rows = [item["input_ids"] + [0] * (longest - len(item["input_ids"])) for item in items]
    return {"input_ids": torch.tensor(rows)}


@pytest.fixture
def rows():
    ids = [[i + 1] * (1 + (i * 7) % 5) for i in range(13)]
    return Dataset.from_dict({"input_ids": ids, "length": [len(row) for row in ids], "labels": list(range(13))})


def test_thirteen_rows_in_batches_of_four_come_back_in_their_order(rows):
    """Case 27."""

    def forward(batch):
        first = batch["input_ids"][:, 0].numpy()
        return np.stack([first, -first], axis=1).astype(np.float32)

    seen = []
    decoded = scoring.decode(forward, rows, single_label, collate, batch_size=4, progress=seen.append)
    assert seen == [4, 4, 4, 1]
    expected = 1 / (1 + np.exp(-2.0 * np.arange(1, 14)))
    np.testing.assert_allclose(decoded["probabilities"][:, 0], expected)
    assert scoring.references(rows).tolist() == list(range(13))


def test_batches_hold_model_inputs_alone_the_longest_rows_first(rows):
    sizes = [batch["input_ids"].shape[1] for _, batch in scoring.batches(rows, collate, batch_size=4)]
    assert sizes == sorted(sizes, reverse=True)
    indices = [index for part, _ in scoring.batches(rows, collate, batch_size=4) for index in part]
    assert sorted(indices) == list(range(13))
    assert all(set(batch) == {"input_ids"} for _, batch in scoring.batches(rows, collate, batch_size=4))


TOKEN_MODEL = """
import resource
import numpy as np
from datasets import Dataset
from stages import scoring

class Tokens:
    @staticmethod
    def decode(logits):
        return {"predictions": logits.argmax(axis=-1).astype(np.int32)}

rows = Dataset.from_dict({"input_ids": [[1] * 128] * 2000, "length": [128] * 2000})
# Not zeros: their pages take no memory until they are written. The limit: what held all of it would end here.
forward = lambda batch: np.full((len(batch), 128, 30000), 0.5, np.float32)
resource.setrlimit(resource.RLIMIT_DATA, (4 * 2**30, 4 * 2**30))
decoded = scoring.decode(forward, rows, Tokens, lambda items: items, batch_size=16)
assert decoded["predictions"].shape == (2000, 128)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20)
"""


def test_logits_of_a_token_model_are_never_held_for_a_whole_split():
    """2,000 rows x 128 tokens x 30,000 words would be 30 GB of logits."""
    command = [sys.executable, "-c", TOKEN_MODEL]
    result = subprocess.run(command, cwd=tiny.ROOT, capture_output=True, text=True, check=True)
    assert float(result.stdout) < 1.5
