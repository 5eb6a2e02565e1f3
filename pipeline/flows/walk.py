"""A walk through DVC's graph, a Prefect task for each stage: what may run side by side does.

DVC alone knows what has to run and keeps what ran. Prefect shows it, tries again what the machine failed, and stops it.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import task
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.tasks import exponential_backoff

from pipeline import dvc_cli, logs
from pipeline.flows import slots
from pipeline.graph import group_of, in_order
from pipeline.report import NOT_RUN, Report, Result

LONGEST_LINE = 50_000
"""Characters of one entry in Prefect's log: the server refuses entries of more than 1,000,000 bytes."""

OF_THE_MACHINE = (4, 5)
"""Exit codes that a second try can mend; a training goes on from what was saved."""


@dataclass
class Walk:
    """What the tasks of one run share."""

    checkout: Path
    run: str
    """The name that its logs have."""

    graph: Mapping[str, set[str]]
    to_do: set[str]
    """The stages that are not up to date, and those that wait for one of them."""

    deadline_minutes: Mapping[str, float]
    train_slots: int
    stop: threading.Event = field(default_factory=threading.Event)
    results: dict[str, Result] = field(default_factory=dict)

    def report(self) -> Report:
        """What became of every stage."""
        return Report({stage: self.results.get(stage, Result(NOT_RUN)) for stage in in_order(self.graph)})


_WALKS: dict[str, Walk] = {}
"""By flow run: a task's own parameters are shown to people, and are the stage alone."""


def say_to(log: Any) -> Callable[[str], None]:
    """Pass lines on to a run's log; long ones in pieces, nothing cut off."""

    def say(line: str) -> None:
        for start in range(0, max(len(line), 1), LONGEST_LINE):
            log.info("%s", line[start : start + LONGEST_LINE])

    return say


def may_try_again(task_: Any, run: Any, state: State[Any]) -> bool:
    """Whether what failed was the machine's fault, and nobody asked to stop."""
    try:
        state.result()
    except dvc_cli.StageFailed as error:
        return error.code in OF_THE_MACHINE and error.why != "stopped"
    except Exception:
        return False
    return False


def _bring_up_to_date(walk: Walk, stage: str) -> dvc_cli.Outcome:
    deadline = walk.deadline_minutes.get(stage, walk.deadline_minutes.get(group_of(stage)))
    kind = slots.slot_of(walk.checkout, stage)
    slot: AbstractContextManager[Mapping[str, str]] = contextlib.nullcontext({})
    if kind:
        slot = slots.taken(kind, walk.train_slots, walk.stop)
    with slot as environment:
        return dvc_cli.reproduce(
            walk.checkout,
            stage,
            say=say_to(get_run_logger()),
            deadline_seconds=None if deadline is None else 60 * deadline,
            stop=walk.stop,
            log=logs.file_of(walk.checkout, walk.run, stage),
            environment=environment,
        )


@task(task_run_name="{stage}", persist_result=False, retry_condition_fn=may_try_again)
def update(stage: str) -> State[Any]:
    """Bring one stage up to date; the state's name is the outcome."""
    walk = _WALKS[str(flow_run.get_id())]
    if stage not in walk.to_do:
        walk.results[stage] = Result("unchanged")
        return Completed(name="Unchanged")
    began = time.monotonic()
    try:
        outcome = _bring_up_to_date(walk, stage)
    except dvc_cli.StageFailed as error:
        walk.results[stage] = Result("failed", time.monotonic() - began, error.code, error.message)
        raise
    walk.results[stage] = Result(outcome, time.monotonic() - began)
    return Completed(name=outcome.capitalize())


def take(walk: Walk, *, retries: int, retry_delay_seconds: float) -> Report:
    """Every stage after the ones it waits for. Where this process is told to stop, the stages are, and waited for."""
    again = update.with_options(
        retries=retries, retry_delay_seconds=exponential_backoff(retry_delay_seconds), retry_jitter_factor=0.2
    )
    run = str(flow_run.get_id())
    futures: dict[str, Any] = {}
    _WALKS[run] = walk
    try:
        for stage in in_order(walk.graph):
            before = [futures[one] for one in walk.graph[stage]]
            futures[stage] = again.submit(stage, wait_for=before, return_state=False)
        for future in futures.values():
            future.wait()
    finally:
        # Also where a signal ends the wait: the threads of the tasks end with the trees that they hold.
        walk.stop.set()
        for future in futures.values():
            with contextlib.suppress(Exception):
                future.wait()
        del _WALKS[run]
    return walk.report()
