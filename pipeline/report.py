"""What a run has come to: a line for each stage, whose fault a failure was, and the exit code."""

from dataclasses import dataclass, field
from typing import Self

from stages.errors import RemintError

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

    error: Result | None = None
    """What ended the run before any stage: a mistake in params.yaml, another run in this checkout."""

    @classmethod
    def of_error(cls, error: RemintError) -> Self:
        """Of a run that did not get to its stages."""
        return cls(error=Result("failed", code=error.exit_code, message=str(error)))

    @property
    def failed(self) -> dict[str, Result]:
        """The stages that failed."""
        return {stage: result for stage, result in self.results.items() if result.code}

    @property
    def exit_code(self) -> int:
        """That of what failed first, or 0."""
        return self.error.code if self.error else next((result.code for result in self.failed.values()), 0)

    @property
    def changed(self) -> bool:
        """Whether any stage ran or was restored."""
        return any(result.outcome in ("ran", "restored") for result in self.results.values())

    def why(self) -> str:
        """Each failure: the stage, whose fault it was, and what it said last."""
        if self.error:
            fault = FAULTS[self.error.code]
            return f"the run did not begin (exit {self.error.code}), the fault of {fault}:\n{self.error.message}"
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


class RunFailed(RemintError):  # noqa: N818 - what it is, said of the run
    """A run that did not bring all of its stages up to date."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.report = report
        self.exit_code = report.exit_code  # type: ignore[misc]

    def __str__(self) -> str:
        return self.report.why()
