"""The `remint` command. What needs the training stack is started as `python -m stages.<verb>`."""

import os
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from pipeline import checkout
from stages.errors import RemintError

app = typer.Typer(
    help="Retrain a transformer and get the same model again. `dvc repro` runs what params.yaml describes.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""For a command that leaves its arguments, --help too, to the stage that it starts."""


def become(stage: str, arguments: list[str]) -> NoReturn:
    """Replace this process by `python -m stages.<stage>`: its input, output, signals and exit code are the stage's."""
    # Never a folder named stages that happens to lie where the command is called (-P): the one beside pipeline/.
    above = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout.CODE), *([above] if above else [])])}
    os.execve(sys.executable, [sys.executable, "-P", "-m", f"stages.{stage}", *arguments], environment)


@app.command()
def check() -> None:
    """Look at all that a run needs; run nothing.

    Params, installed versions, raw data, model, device, memory and disk: a line for each that is right, and all that is
    not at the end (exit 2, or 4 where nothing but disk is lacking).
    """
    checkout.require(Path.cwd())
    become("check_run", [])


@app.command(context_settings=PASSED_ON)
def predict(context: typer.Context) -> None:
    """Predict the rows of a file (predict --help).

    remint predict models/exported rows.csv out.csv
    """
    become("predict", context.args)


@app.command()
def summary() -> None:
    """Say what the finished run has come to."""
    from pipeline import summary as room

    checkout.require(Path.cwd())
    paths = room.paths(Path("dvc.yaml"))
    test, selection = room.read(paths["test_metrics"]), room.read(paths["selection"])
    parity = room.read(paths["exported"] / "parity.json")
    print("\n".join(room.lines(test, selection, parity, paths["exported"])))


@app.command()
def verify(
    commit: Annotated[str, typer.Option(help="A commit, branch or tag.")] = "HEAD",
    stage: Annotated[str | None, typer.Option(help="This stage alone, and what its inputs lack.")] = None,
    json_file: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write JSON; - prints it.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the temporary clone where it is.")] = False,
) -> None:
    """Run a commit anew in a temporary clone, and compare every output with its dvc.lock.

    With this environment, no cache and no state. Exit 0: all that was compared is equal; 3: something differs.
    """
    from pipeline import verify as room
    from pipeline import verify_report

    checkout.require(Path.cwd())
    report, error = room.verify(Path.cwd(), commit, stage=stage, keep=keep)
    text = "\n".join(verify_report.lines(report, alone=stage is not None))
    print(text, file=sys.stderr if json_file == "-" else sys.stdout)
    if json_file == "-":
        print(verify_report.as_json(report), end="")
    elif json_file is not None:
        Path(json_file).write_text(verify_report.as_json(report), encoding="utf-8")
    room.refuse(report, error)


@app.command()
def clean(
    older_than: Annotated[float, typer.Option(metavar="DAYS", help="Only what has not changed for so long.")] = 0.0,
    keep_unfinished: Annotated[
        bool, typer.Option("--keep-unfinished", help="Leave what a training could go on from.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """List what trainings and killed runs have left; remove it when told to.

    Unfinished and ended trainings in the state folder, and .*.partial of this checkout. Nothing else is touched.
    """
    from pipeline import clean as room

    checkout.require(Path.cwd())
    room.clean(Path.cwd(), older_than_days=older_than, keep_unfinished=keep_unfinished, yes=yes)


@app.command()
def run(
    stage: Annotated[str | None, typer.Option(help="all that this stage needs; without it, the whole graph")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a knob, written into params.yaml: train.learning_rate=3e-5")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="how often what the machine failed is tried again")] = 2,
    train_slots: Annotated[int, typer.Option(min=1, help="trainings at once on this machine")] = 1,
) -> None:
    """Run the graph as a Prefect flow, in the foreground.

    On the server that PREFECT_API_URL names, or on a temporary one. Ends with a table, and with the exit code of what
    went wrong.
    """
    checkout.require(Path.cwd())
    from pipeline import overrides
    from pipeline.flows import foreground

    knobs = dict(overrides.parse_override(one) for one in set_ or [])
    parameters = {"stage": stage, "overrides": knobs or None, "retries": retries, "train_slots": train_slots}
    sys.exit(foreground.run(Path.cwd(), parameters))


@app.command()
def version() -> None:
    """Print the version and where its code lies."""
    try:
        found = version_of("remint")
    except PackageNotFoundError:
        found = "(not installed)"
    print(f"remint {found}, {checkout.CODE}")


def main() -> None:
    """Run the command line; end with the exit code of what went wrong, as a stage does."""
    try:
        app()
    except RemintError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
