import pytest

from pipeline import graph
from stages.errors import UserError

GRAPH = {
    "export": {"best"},
    "best": {"train@13", "train@14"},
    "train@13": {"encode"},
    "train@14": {"encode"},
    "encode": set(),
    "other": set(),
}


def test_every_stage_comes_after_the_ones_it_waits_for():
    order = graph.in_order(GRAPH)
    assert sorted(order) == sorted(GRAPH)
    assert all(order.index(before) < order.index(stage) for stage in GRAPH for before in GRAPH[stage])


def test_what_waits_for_a_change_may_change_too():
    assert graph.with_what_follows(["train@14"], GRAPH) == {"train@14", "best", "export"}
    assert graph.with_what_follows([], GRAPH) == set()


@pytest.mark.parametrize(
    ("stage", "needed"),
    [
        ("train@13", {"train@13", "encode"}),
        ("train", {"train@13", "train@14", "encode"}),
        (None, set(GRAPH)),
    ],
)
def test_a_stage_needs_what_it_waits_for(stage, needed):
    assert set(graph.needed_for(stage, GRAPH)) == needed


def test_an_unknown_stage_is_named_with_the_nearest():
    with pytest.raises(UserError, match=r"trian: there is no such stage in dvc.yaml.*train"):
        graph.needed_for("trian", GRAPH)
