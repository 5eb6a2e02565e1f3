"""What `remint verify` has found, as lines to read and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipeline import comparison
from pipeline.values import some, times

if TYPE_CHECKING:
    from pipeline.verify import Report

SHOWN = 3
"""Files of one output, or names of one list, that are written out; JSON has more of them."""


def beginning(report: "Report", *, alone: bool) -> list[str]:
    """What is known before anything runs."""
    return [*_heading(report), *_environment(report), *_plan(report, alone=alone), ""]


def lines(report: "Report", *, alone: bool) -> list[str]:
    """All of it."""
    return [*beginning(report, alone=alone), *_inputs(report), *_outputs(report), "", *_sum(report)]


def as_json(report: "Report") -> str:
    """All of it, for programs."""
    counts = {status.replace(" ", "_"): len(report.of(status)) for status in ("equal", "differs", "not compared")}
    return json.dumps({**asdict(report), "counts": counts}, indent=2, ensure_ascii=False, default=str) + "\n"


def _heading(report: "Report") -> Iterator[str]:
    yield f"commit    {report.commit}"
    if report.uncommitted:
        yield "          what is not committed in this checkout is not looked at"


def _environment(report: "Report") -> Iterator[str]:
    here = report.environment
    cores = times(here["cores"], "core", "cores")
    yield f"machine   {here['machine']}, {here['cpu']}, {cores}, Python {here['python']}"
    deviations = here["deviations"]
    if not deviations:
        yield f"versions  {times(here['packages'], 'package', 'packages')} as the commit's requirements/stages.txt says"
        return
    yield f"versions  {len(deviations)} of {here['packages']} packages are not those of the commit:"
    for one in deviations:
        yield f"          {one['package']}: {one['found'] or 'none'} installed, the commit says {one['wanted']}"


def _plan(report: "Report", *, alone: bool) -> Iterator[str]:
    yield f"runs      {', '.join(report.ran)}" + ("" if alone else " (all of the graph)")
    if report.taken:
        yield f"takes     {', '.join(report.taken)}, as recorded, from the checkout's cache or from git"


def _inputs(report: "Report") -> Iterator[str]:
    if not report.inputs:
        return
    yield "Not what dvc.lock was made with:"
    for one in report.inputs:
        yield f"  {comparison.describe(one)}: {', '.join(one.stages)}"
        if one.changed and one.changed != [one.name]:
            yield f"    changed since {report.lock_commit[:9]}, which has that dvc.lock: {some(one.changed, SHOWN)}"
    yield ""


def _outputs(report: "Report") -> Iterator[str]:
    compared = [one for one in report.outputs if one.status != "not compared"]
    left = [one for one in report.outputs if one.status == "not compared"]
    paths = max((len(one.path) for one in compared), default=0)
    stages = max((len(one.stage) for one in compared), default=0)
    for one in compared:
        yield f"{one.path:<{paths}}  {one.stage:<{stages}}  {one.status}"
        yield from _differences(one)
    for why in dict.fromkeys(one.why for one in left):
        yield f"not compared, since {why}: {', '.join(one.path for one in left if one.why == why)}"


def _differences(one: comparison.Output) -> Iterator[str]:
    shown = dict(list(one.files.items())[:SHOWN])
    for file, explanation in shown.items():
        yield f"    {explanation}" if file == "." else f"    {file}: {explanation}"
    if one.number_of_files > len(shown):
        yield f"    {times(one.number_of_files, 'file', 'files')} of it differ in all"


def _sum(report: "Report") -> Iterator[str]:
    equal, differing = len(report.of("equal")), len(report.of("differs"))
    yield f"{equal} of {times(equal + differing, 'output', 'outputs')} compared: equal to dvc.lock of the commit"
    if not differing:
        return
    reasons = [
        *(["inputs that dvc.lock was not made with"] if report.inputs else []),
        *(["other versions"] if report.environment["deviations"] else []),
    ]
    if reasons:
        yield f"There are {' and '.join(reasons)}: see above."
    else:
        yield "Inputs and versions are the same. dvc.lock does not say on which machine it was made:"
        yield "another type of CPU, or another number of threads or cores, changes last bits (docs/reliability.md)."
