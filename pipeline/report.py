"""What a run has come to: a line for each stage, whose fault a failure was, and the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_RUN = "not run"

FAULTS = {
    1: "a bug; its traceback is in the log",
    2: "the input: params.yaml or the data",
    3: "a gate: the model is not good enough",
    4: "the machine",
    5: "nobody: it was stopped, and its state is saved",
}
"""Exit code of a stage -> whose fault it was."""


@dataclass(frozen=True)
class Result:
    """What became of one stage."""

    outcome: str
    """ran, unchanged, restored, failed, or not run."""

    seconds: float = 0.0
    code: int = 0
    message: str = ""


@dataclass
class Report:
    """What became of every stage of a run, in the order of the graph."""

    results: dict[str, Result] = field(default_factory=dict)

    @property
    def failed(self) -> dict[str, Result]:
        """The stages that failed."""
        return {stage: result for stage, result in self.results.items() if result.code}

    @property
    def exit_code(self) -> int:
        """That of the first stage that failed, or 0."""
        return next((result.code for result in self.failed.values()), 0)

    @property
    def changed(self) -> bool:
        """Whether any stage ran or was restored."""
        return any(result.outcome in ("ran", "restored") for result in self.results.values())

    def why(self) -> str:
        """Each failure: the stage, whose fault it was, and what it said last."""
        return "\n".join(
            f"{stage} failed (exit {result.code}), the fault of {FAULTS[result.code]}:\n{result.message}"
            for stage, result in self.failed.items()
        )


def table(report: Report) -> list[str]:
    """Stage, outcome and seconds, in columns."""
    width = max([5, *(len(stage) for stage in report.results)])
    head = f"{'stage':<{width}}   {'outcome':<9}   seconds"
    lines = [
        f"{stage:<{width}}   {result.outcome:<9}   {result.seconds:>7.1f}" for stage, result in report.results.items()
    ]
    return [head, *lines]


def metric_lines(changes: Mapping[str, tuple[float | None, float | None]]) -> list[str]:
    """Each metric by name: its value at HEAD, its value now, and the change."""
    width = max([6, *(len(name) for name in changes)])
    lines = [f"{'metric':<{width}}   {'HEAD':>9}   {'now':>9}   {'change':>9}"]
    for name, (old, new) in changes.items():
        change = f"{new - old:+9.4f}" if old is not None and new is not None else f"{'-':>9}"
        lines.append(f"{name:<{width}}   {_number(old)}   {_number(new)}   {change}")
    return lines


def _number(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:>9.4f}"
