"""The flow of a retraining: once by hand (`remint run`), or on a schedule."""

from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipeline import checkout_lock, dvc_cli
from pipeline import overrides as knobs
from pipeline.flows import walk as walks
from pipeline.graph import needed_for, with_what_follows
from pipeline.report import Report, RunFailed
from stages.errors import RemintError
from stages.params import load_params

SIDE_BY_SIDE = 16
"""Stages at once, where the graph allows it: most of them wait for a process."""


def said_of(report: Report) -> str:
    """How many stages came to what."""
    counts: dict[str, int] = {}
    for result in report.results.values():
        counts[result.outcome] = counts.get(result.outcome, 0) + 1
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


@flow(
    name="retrain",
    description="Bring the graph of dvc.yaml up to date, stage by stage.",
    task_runner=ThreadPoolTaskRunner(max_workers=SIDE_BY_SIDE),  # type: ignore[arg-type]
    persist_result=False,
)
def retrain(
    stage: str | None = None,
    overrides: dict[str, Any] | None = None,
    deadline_minutes: dict[str, Annotated[float, Field(gt=0)]] | None = None,
    retries: Annotated[int, Field(ge=0)] = 2,
    retry_delay_seconds: Annotated[float, Field(gt=0)] = 30.0,
    train_slots: Annotated[int, Field(ge=1)] = 1,
) -> State[Any]:
    """Bring the graph of dvc.yaml up to date, or what one stage needs, in the checkout that is the working folder.

    Args:
        stage: All that this stage (or every item of a matrix) needs; none: the whole graph.
        overrides: Knobs of params.yaml that are written into it: {"train.learning_rate": 3e-5}.
        deadline_minutes: The longest that a stage may take: {"train": 600}. At its end it is asked to stop, and saves.
        retries: How often a stage is tried again that the machine failed; a mistake or a gate never is.
        retry_delay_seconds: Before the first of these tries; twice as long before each further one.
        train_slots: How many stages that need a slot (dvc.yaml: meta) may run at once on this machine.
    """
    checkout, name = Path.cwd(), str(flow_run.get_name())
    try:
        with checkout_lock.held(checkout, f"flow run {name}"):
            if overrides:
                knobs.set_params(checkout, overrides)
            load_params()
            view = dvc_cli.look(checkout)
            graph = needed_for(stage, view.graph)
            to_do = with_what_follows(view.changed, view.graph) & set(graph)
            walk = walks.Walk(checkout, name, graph, to_do, deadline_minutes or {}, train_slots)
            report = walks.take(walk, retries=retries, retry_delay_seconds=retry_delay_seconds)
    except RemintError as error:
        report = Report.of_error(error)
    if report.exit_code:
        return Failed(message=report.why(), data=RunFailed(report))
    return Completed(message=said_of(report), data=report)
