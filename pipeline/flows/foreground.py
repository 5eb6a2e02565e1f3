"""`remint run`: the flow in this very process, then what it has come to."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import metric_changes
from pipeline.report import Report, RunFailed, table


def metric_lines(checkout: Path) -> list[str]:
    """Each metric, and its change since HEAD."""
    changes = metric_changes.since(checkout)
    width = max((len(name) for name in changes), default=0)
    return [f"{name:<{width}}   {metric_changes.described(change)}" for name, change in changes.items()]


def run(checkout: Path, parameters: Mapping[str, Any]) -> int:
    """Run the flow with these parameters, print a table of the stages and the metrics; the exit code.

    On the server that PREFECT_API_URL names, or on a temporary one of Prefect's.
    """
    from pipeline.flows.retrain import retrain

    state: Any = retrain(**parameters, return_state=True)
    found: Any = state.result(raise_on_failure=False)
    if isinstance(found, Exception) and not isinstance(found, RunFailed):
        raise found  # a bug: it keeps its traceback
    report: Report = found.report if isinstance(found, RunFailed) else found
    print("\n".join(["", *table(report)]))
    if report.exit_code:
        print(f"\nerror: {report.why()}", file=sys.stderr)
    elif lines := metric_lines(checkout):
        print("\n".join(["", *lines]))
    return report.exit_code
