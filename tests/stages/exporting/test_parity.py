from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from numpy.typing import NDArray

from stages import lookup, tasks
from stages.errors import GateError
from stages.exporting import parity

LOGITS = np.array([[3.0, 0.0], [0.0, 3.0], [1.0, 0.0], [0.0, 1.0], [0.2, 0.0]], np.float32)


def compare(other: NDArray[Any], metric: str = "f1_macro", name: str = parity.INT8) -> dict[str, Any]:
    """Compare made-up logits with LOGITS on 5 rows, in batches of 2, as if a model had made them."""
    rows = Dataset.from_dict(
        {
            "input_ids": [[row] * (5 - row) for row in range(5)],
            "length": [5 - row for row in range(5)],
            "labels": [0, 1] * 2 + [0],
        }
    )

    def collate(features: list[dict[str, Any]]) -> dict[str, Any]:
        return {"rows": [feature["input_ids"][0] for feature in features]}

    forwards = {parity.PYTORCH: lambda batch: LOGITS[batch["rows"]], name: lambda batch: other[batch["rows"]]}
    task = lookup.find(tasks, "single_label")
    return parity.measure(forwards, rows, task, collate, metric=metric, batch_size=2)


def test_the_largest_difference_of_any_logit_and_the_share_of_equal_predictions_are_found() -> None:
    other = LOGITS.copy()
    other[4] = [0.0, 0.5]
    found = compare(other)
    assert found[parity.INT8]["max_logit_difference"] == 0.5
    assert found[parity.INT8]["equal_predictions"] == 0.8
    assert found[parity.PYTORCH]["f1_macro"] == 1.0
    assert found[parity.INT8]["f1_macro"] == pytest.approx(0.8)
    assert found["rows"] == 5


def test_how_much_int8_loses_follows_the_direction_of_the_metric() -> None:
    worse = LOGITS.copy()
    worse[4] = [0.0, 0.5]
    assert parity.int8_loss(compare(worse)) == pytest.approx(0.2)
    assert parity.int8_loss(compare(worse, "log_loss")) > 0
    assert parity.int8_loss(compare(LOGITS * 2, "log_loss")) < 0
    assert parity.check_int8(compare(LOGITS * 2, "log_loss"), max_metric_drop=0.0, optional=False)


def test_a_loss_over_the_limit_is_refused_with_its_numbers_or_recorded() -> None:
    worse = compare(-LOGITS)
    with pytest.raises(GateError, match=r"it loses 1 of f1_macro on the 5 rows .*max_metric_drop 0\.5 .*0\.00%"):
        parity.check_int8(worse, max_metric_drop=0.5, optional=False)
    assert not parity.check_int8(worse, max_metric_drop=0.5, optional=True)
    assert "it loses 1 of f1_macro" in worse[parity.INT8]["left_out"]


def test_an_fp32_model_passes_up_to_the_tolerance() -> None:
    near = compare(LOGITS + np.float32(0.25), name=parity.FP32)
    parity.check_fp32(near, tolerance=0.25)
    with pytest.raises(GateError, match=r"differs from PyTorch's by 0\.25, which is over export\.tolerance 0\.2 "):
        parity.check_fp32(near, tolerance=0.2)


def test_logits_that_are_not_numbers_pass_no_gate() -> None:
    broken = LOGITS.copy()
    broken[0, 0] = np.nan
    with pytest.raises(GateError):
        parity.check_fp32(compare(broken, name=parity.FP32), tolerance=1.0)
