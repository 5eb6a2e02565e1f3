"""How long a split's rows are in tokens, and how many of them were truncated: for a report and a line in the log."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)
MANY_TRUNCATED = 0.05
"""The share of truncated rows above which it is a warning."""

_RANKS = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}


def measure(num_tokens: NDArray[np.integer[Any]], *, max_length: int) -> dict[str, Any]:
    """Of the rows' numbers of tokens before truncation: how many are over max_length, and the numbers by rank.

    `p95` is the smallest number of tokens that at least 95 % of the rows do not go beyond; so for the median.
    """
    truncated = int((num_tokens > max_length).sum())
    quantiles = np.quantile(num_tokens, list(_RANKS.values()), method="inverted_cdf")
    return {
        "rows": len(num_tokens),
        "truncated": truncated,
        "truncated_share": truncated / len(num_tokens),
        "tokens": {name: int(value) for name, value in zip(_RANKS, quantiles, strict=True)},
    }


def tell(split: str, measured: dict[str, Any], *, max_length: int) -> None:
    """One line on a split; a warning where more than a few of its rows were truncated."""
    many = measured["truncated_share"] > MANY_TRUNCATED
    log.log(
        logging.WARNING if many else logging.INFO,
        "%s: %d rows of %d to %d tokens (half have at most %d, 95 %% at most %d); %d (%.1f %%) were truncated to %d%s",
        split,
        measured["rows"],
        *(measured["tokens"][name] for name in ("min", "max", "median", "p95")),
        measured["truncated"],
        100 * measured["truncated_share"],
        max_length,
        ", which is many: raise encode.max_length if what is cut off matters" if many else "",
    )
