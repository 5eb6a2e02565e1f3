"""Kill a tiny training at a chosen moment, start it again, and compare it with one that nobody disturbed: cell by cell.

    python -m bench.resume_cells                    # all cells, and the same with a bare Trainer beside them
    python -m bench.resume_cells --only "2 ranks"   # those whose name holds it

Each cell is a number of processes (torchrun, gloo), a precision, a moment of the kill, and a collator: that of the task
with 0 data-loader workers, or one that masks at random with 2. All of them train with dropout, length grouping, groups
of 4 micro-batches of which an epoch's last holds a single row, and early stopping, which does stop. Equal means: for
each step the rows, the loss, the learning rate and the gradient norm, and every byte of the outputs. See
docs/reliability.md.
"""

import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages import checkpoints
from tests import tiny
from tests.training_runs import encode

MOMENTS = {
    # moment: (what kills, at which step, steps between two saves); an epoch has 5 steps
    "mid-epoch": ("step", 4, 3),
    "epoch's end": ("next", 5, 5),
    "during evaluation": ("evaluation", 5, 3),
    "during a save": ("save", 6, 3),
    "second epoch": ("step", 8, 7),
}
RESUMED_AT = {"mid-epoch": 3, "epoch's end": 5, "during evaluation": 3, "during a save": 3, "second epoch": 7}
SITE = Path(__file__).with_name("resume_cells_site.py")
"""What a training process is started with: it keeps a trace, kills the process at the moment, masks at random."""


@dataclass(frozen=True)
class Cell:
    """One way to be killed."""

    processes: int
    precision: str
    moment: str
    masked: bool
    """A collator that masks at random, and two data-loader workers; else the task's own, and none."""

    @property
    def name(self) -> str:
        """As the table has it."""
        ranks = "1 process" if self.processes == 1 else f"{self.processes} ranks"
        return (
            f"{ranks}, {self.precision}, {self.moment}, {'masking, 2 workers' if self.masked else 'plain, 0 workers'}"
        )


CELLS = [Cell(*one) for one in itertools.product((1, 2), ("fp32", "bf16"), MOMENTS, (False, True))]


@dataclass
class Training:
    """What a training left: its exit code, its log, and what is compared."""

    code: int
    said: str
    trace: dict[str, Any]
    digests: dict[str, str]


def inputs(folder: Path) -> tuple[Path, Path]:
    """The encoded rows and the base model that all cells share."""
    base = tiny.model(folder / "base", dropout=0.1)
    return encode(folder / "encoded", base, "single_label"), base


def prepare(folder: Path, cell: Cell) -> None:
    """A folder with a params.yaml, and what a training process is started with."""
    folder.mkdir(parents=True)
    (folder / "raw.csv").touch()
    (folder / "sitecustomize.py").write_text(SITE.read_text(encoding="utf-8"), encoding="utf-8")
    tiny.write_params(
        folder / "params.yaml",
        **{
            "data.raw": "raw.csv",
            "train.processes": cell.processes,
            "train.precision": cell.precision,
            "train.max_rows_per_device": 2 if cell.processes == 1 else 1,
            "train.num_train_epochs": 5.0,
            "train.early_stopping": {"metric": "eval_loss", "patience": 2, "min_delta": 10.0},
            "runtime.save_steps": MOMENTS[cell.moment][2],
            "runtime.dataloader_num_workers": 2 if cell.masked else 0,
        },
    )


def environment(folder: Path, cell: Cell, *, kill: bool) -> dict[str, str]:
    """What tells the started processes what to do."""
    what, step, _ = MOMENTS[cell.moment]
    ours = {
        "PYTHONPATH": f"{folder}:{tiny.ROOT}",
        "REMINT_STATE": str(folder / "state"),
        "CELL_TRACE": str(folder / "trace"),
        "CELL_MASKED": str(int(cell.masked)),
        "CELL_KILL": f"{what} {step}" if kill else "",
        "OMP_NUM_THREADS": "1",
    }
    return {**os.environ, **ours}


def trace(folder: Path) -> dict[str, Any]:
    """The rows of each step and rank. A step that was done twice must have had the same ones."""
    found: dict[str, Any] = {}
    for file in sorted(folder.glob("trace.*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            key = f"rows of step {entry['step']}, rank {entry['rank']}"
            if found.setdefault(key, entry["rows"]) != entry["rows"]:
                found[key] = ["two different batches"]
    return found


def run(folder: Path, encoded: Path, base: Path, cell: Cell, *, kill: bool) -> Training:
    """The train stage, as dvc.yaml starts it."""
    out, history = folder / "models/checkpoints/13", folder / "models/history/13.csv"
    done = subprocess.run(
        [sys.executable, "-m", "stages.launch", "stages.train", encoded, base, out, history, "13"],
        cwd=folder,
        env=environment(folder, cell, kill=kill),
        capture_output=True,
        text=True,
        check=False,
    )
    steps: dict[str, Any] = {}
    if history.is_file():
        with history.open(encoding="utf-8") as stream:
            steps = {f"history of step {row['step']}": row for row in csv.DictReader(stream)}
    models = folder / "models"
    files = sorted(file for file in models.rglob("*") if file.is_file()) if models.is_dir() else []
    digests = {str(file.relative_to(models)): checkpoints.digest(file) for file in files}
    return Training(done.returncode, done.stdout + done.stderr, {**trace(folder), **steps}, digests)


def difference(found: Training, expected: Training) -> str:
    """The first difference, in a few words; nothing where both are the same."""
    for kind, theirs, ours in (("", expected.trace, found.trace), ("", expected.digests, found.digests)):
        for name in theirs | ours:
            if theirs.get(name) != ours.get(name):
                return f"{kind}{name} differ{'s' if not name.startswith('rows') else ''}"
    return ""


def verdict(folder: Path, encoded: Path, base: Path, cell: Cell, expected: Training) -> str:
    """Kill, start again, compare: "equal", or what was not as it should be."""
    prepare(folder, cell)
    struck = run(folder, encoded, base, cell, kill=True)
    if struck.code == 0 or struck.digests:
        return f"the killed training exited {struck.code} and left {len(struck.digests)} files: {struck.said[-300:]}"
    again = run(folder, encoded, base, cell, kill=False)
    if again.code != 0:
        return f"exit {again.code} when started again: {again.said[-300:]}"
    if f"going on from step {RESUMED_AT[cell.moment]}" not in again.said:
        return f"not resumed at step {RESUMED_AT[cell.moment]}: {again.said[-300:]}"
    return difference(again, expected) or "equal"


def undisturbed(folder: Path, encoded: Path, base: Path, cell: Cell) -> Training:
    """The training that nobody kills."""
    prepare(folder, cell)
    done = run(folder, encoded, base, cell, kill=False)
    if done.code != 0 or not done.digests:
        raise RuntimeError(f"{cell.name}, undisturbed: exit {done.code}\n{done.said}")
    return done


def main() -> None:
    """Print the table as Markdown; exit 1 where a cell of ours is not equal."""
    from bench import resume_cells_bare as bare

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--no-bare", action="store_true", help="leave out the bare Trainer")
    args = parser.parse_args()
    chosen = [cell for cell in CELLS if args.only in cell.name]
    print("| cell | remint | bare Trainer |\n|---|---|---|", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        encoded, base = inputs(root)
        expected: dict[Any, Training] = {}
        expected_bare: dict[Any, Any] = {}
        for number, cell in enumerate(chosen):
            key = (cell.processes, cell.precision, cell.masked)
            if key not in expected:
                expected[key] = undisturbed(root / f"undisturbed{number}", encoded, base, cell)
                if not args.no_bare:
                    expected_bare[key] = bare.undisturbed(root / f"undisturbed_bare{number}", encoded, base, cell)
            ours = verdict(root / f"cell{number}", encoded, base, cell, expected[key])
            theirs = (
                "-" if args.no_bare else bare.verdict(root / f"bare{number}", encoded, base, cell, expected_bare[key])
            )
            failed += ours != "equal"
            print(f"| {cell.name} | {ours} | {theirs} |", flush=True)
    print(f"\n{len(chosen) - failed} of {len(chosen)} cells equal")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
