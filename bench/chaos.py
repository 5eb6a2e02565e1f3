"""Kill a run anywhere, type `dvc repro` until it ends, and compare every byte with what an undisturbed run makes.

    python bench/chaos.py --kills 50 --seed 1

One round after the other, each in a copy of a small prepared project. See bench/README.md and docs/reliability.md.
"""

import argparse
import dataclasses
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import chaos_workspace
from bench.chaos_disk import Surroundings
from bench.chaos_faults import Fault, catalogue
from bench.chaos_run import LIMIT_SECONDS, Run
from bench.chaos_strike import MissedError, Strike
from bench.chaos_workspace import Workspace

GRACE_SECONDS = 35.0
"""From the end of dvc until whoever is left of its run is an orphan: stages/lifetime.py's, and a little."""
MOST_RUNS = 6
DRAWS = 5
"""How often a moment is drawn anew where the run was over before."""


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of one fault."""

    number: int
    fault: str
    where: str
    """The stage that was begun last, and of a training the step that it had reached."""
    code: str
    """How the struck run ended: dvc's exit code, negative for a signal, and the stage's where dvc tells it."""
    runs: int
    """How often `dvc repro` was typed, the struck run included, until it ended with 0."""
    repeated: float
    """Steps of the training that were made and had to be made again."""
    orphans: int
    differences: list[str]
    """What is not as after an undisturbed run, by name."""
    seconds: float

    @property
    def good(self) -> bool:
        """Whether it ended in the same bytes, by itself, and left nobody."""
        return not self.orphans and not self.differences


def orphans(run: Run) -> int:
    """How many processes of a run are alive when dvc and the grace time are over."""
    until = time.monotonic() + GRACE_SECONDS
    while (left := len(run.members())) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def go_on(fault: Fault, strike: Strike, surroundings: Surroundings) -> tuple[int, int | None, str | None]:
    """Type `dvc repro` until it ends with 0.

    Returns how often it was typed, the step that the training was gone on from (None: nothing was trained), and what
    the last one said, if it failed.
    """
    trained_from: int | None = None
    for runs in range(2, MOST_RUNS + 1):
        log = strike.folder / f"run-{runs}.log"
        target = [fault.target] if fault.target else []
        with Run(strike.project, log, *target, prefix=surroundings.prefix, state=surroundings.state) as run:
            run.wait_for(lambda: False, seconds=LIMIT_SECONDS)
            if trained_from is None:
                trained_from = run.trains_from()
            if run.code() == 0:
                return runs, trained_from, None
    return MOST_RUNS, trained_from, f"run {MOST_RUNS} ended with {run.code()}; see {log}"


def play(number: int, fault: Fault, workspace: Workspace, folder: Path, draw: random.Random) -> Row:
    """One round: a copy, a run, its fault, and `dvc repro` until it ends.

    Raises:
        MissedError: the run was over before the fault could strike.
    """
    began = time.monotonic()
    points = list(workspace.seconds)
    point = fault.point or draw.choices(points, weights=[workspace.seconds[name] for name in points])[0]
    project = chaos_workspace.copy(workspace.points[point], folder)
    strike = Strike(draw, workspace, point, project, folder)
    target = [fault.target] if fault.target else []
    with (
        fault.surround(strike) as surroundings,
        Run(
            project,
            folder / "run-1.log",
            *target,
            prefix=surroundings.prefix,
            environment=surroundings.environment,
            state=surroundings.state,
        ) as struck,
    ):
        strike.run = struck
        fault.strike(strike)
        struck.wait_for(lambda: False, seconds=LIMIT_SECONDS)
        if struck.code() == 0 and not fault.survivable:
            raise MissedError("the run went on to its end")
        left = 0 if fault.at_once else orphans(struck)
        surroundings.lift()
        runs, trained_from, failure = (1, None, None) if struck.code() == 0 else go_on(fault, strike, surroundings)
        left = orphans(struck) if fault.at_once else left
        found = {} if failure else chaos_workspace.outcome(project)
        stage_code = struck.stage_code()
        return Row(
            number=number,
            fault=fault.name,
            where=where(strike),
            code=f"{'hung' if struck.code() is None else struck.code()}{f' ({stage_code})' if stage_code else ''}",
            runs=runs,
            repeated=0 if trained_from is None else max(0.0, strike.step - trained_from),
            orphans=left,
            differences=[failure]
            if failure
            else chaos_workspace.differences(found, workspace.references[fault.target]),
            seconds=time.monotonic() - began,
        )


def where(strike: Strike) -> str:
    """Stage and step at the strike, and what the fault says of itself."""
    step = f" step {strike.step:.0f}" if strike.stage.startswith("train@") else ""
    return f"{strike.stage}{step}{f', {strike.note}' if strike.note else ''}"


def play_until_struck(number: int, fault: Fault, workspace: Workspace, folder: Path, draw: random.Random) -> Row:
    """play(), with a new moment where one was missed; the folder of a round that went well is removed."""
    for attempt in range(DRAWS):
        of_attempt = folder / f"round-{number}-{attempt}"
        of_attempt.mkdir()
        try:
            row = play(number, fault, workspace, of_attempt, draw)
        except MissedError as error:
            print(f"{number} {fault.name}: {error}; another moment is drawn", file=sys.stderr)
            missed = str(error)
        else:
            if row.good:
                shutil.rmtree(of_attempt)
            return row
    return Row(number, fault.name, "-", "-", 0, 0, 0, [f"never struck: {missed}"], 0)


def schedule(faults: list[Fault], kills: int, seed: int) -> list[Fault]:
    """Every fault once in a drawn order before any of them comes again."""
    draw = random.Random(seed)
    chosen: list[Fault] = []
    while len(chosen) < kills:
        chosen += draw.sample(faults, len(faults))
    return chosen[:kills]


def table(rows: list[Row], *, markdown: bool) -> str:
    """A line for each round."""
    heading = ["", "fault", "stage and step", "exit code", "runs", "steps repeated", "orphans", "same bytes"]
    lines = [
        [
            row.number,
            row.fault,
            row.where,
            row.code,
            row.runs,
            round(row.repeated),
            row.orphans,
            "no" if row.differences else "yes",
        ]
        for row in rows
    ]
    text: str = tabulate(lines, heading, tablefmt="github" if markdown else "simple", disable_numparse=True)
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="rounds, each with one fault")
    parser.add_argument("--seed", type=int, default=1, help="of the order of faults and of their moments")
    parser.add_argument("--only", help="faults whose name holds this")
    parser.add_argument("--json", type=Path, help="a file for the rows, with what differs")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--folder", type=Path, help="where the copies lie (default: a temporary folder)")
    return parser.parse_args()


def usable(only: str | None) -> list[Fault]:
    """The faults that this machine has the tools for; says which it has not."""
    faults = [fault for fault in catalogue() if not only or only in fault.name]
    for fault in faults:
        if not fault.needs():
            print(f"left out: {fault.name} (no strace, or no unshare --mount, here)", file=sys.stderr)
    return [fault for fault in faults if fault.needs()]


def main() -> int:
    args = arguments()
    # Of what a shell has started in the background, or nohup, SIGINT is ignored, and so by all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faults = usable(args.only)
    if not faults:
        raise SystemExit(f"no fault is named {args.only}")
    folder = args.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    chosen = schedule(faults, args.kills, args.seed)
    workspaces: Mapping[int, Workspace] = {
        processes: chaos_workspace.whole(folder / f"reference-{processes}", processes=processes)
        for processes in sorted({fault.processes for fault in chosen})
    }
    print(f"the references took {time.monotonic() - began:.0f} s", file=sys.stderr)
    rows = []
    for number, fault in enumerate(chosen, 1):
        draw = random.Random(f"{args.seed}/{number}")
        row = play_until_struck(number, fault, workspaces[fault.processes], folder, draw)
        rows.append(row)
        print(f"{table([row], markdown=False).splitlines()[-1]}  {row.seconds:.0f} s", file=sys.stderr)
        for difference in row.differences:
            print(f"    {difference}", file=sys.stderr)
        if args.json:
            args.json.write_text(json.dumps([dataclasses.asdict(one) for one in rows], indent=2) + "\n")
    print(table(rows, markdown=args.markdown))
    good = sum(row.good for row in rows)
    left = sum(row.orphans for row in rows)
    print(f"\n{good} of {len(rows)} as undisturbed, {left} orphans, {time.monotonic() - began:.0f} s")
    if good == len(rows):
        shutil.rmtree(folder)
        return 0
    print(f"the rounds that went wrong are in {folder}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
