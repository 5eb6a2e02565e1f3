"""Questions to a graph of stages: {stage: the stages it waits for}."""

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from stages.errors import UserError
from stages.lookup import nearest


def group_of(stage: str) -> str:
    """The name that dvc.yaml has for a stage: train, of train@13."""
    return stage.partition("@")[0]


def in_order(graph: Mapping[str, set[str]]) -> list[str]:
    """Every stage after the ones it waits for."""
    return list(TopologicalSorter({name: graph[name] for name in sorted(graph)}).static_order())


def with_what_follows(changed: Iterable[str], graph: Mapping[str, set[str]]) -> set[str]:
    """Stages, and all that wait for one of them, through any number of others."""
    found = set(changed)
    for stage in in_order(graph):
        if graph.get(stage, set()) & found:
            found.add(stage)
    return found


def needed_for(stage: str | None, graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The part of a graph that a stage needs, or all items of a matrix; all of it for None.

    Raises:
        UserError: there is no such stage.
    """
    if stage is None:
        return dict(graph)
    pending = [name for name in graph if stage in (name, group_of(name))]
    if not pending:
        raise UserError(f"{stage}: there is no such stage in dvc.yaml{nearest(stage, sorted(graph))}")
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(graph[name])
    return {name: graph[name] for name in graph if name in found}
