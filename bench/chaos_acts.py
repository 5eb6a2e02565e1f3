"""What can happen to a run of the chaos bench: signals, torn files, disks that fail."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
from ruamel.yaml import YAML

from bench.chaos_run import send
from bench.chaos_strike import Act, MissedError, Strike, in_training
from bench.chaos_workspace import STEPS, TRAIN
from stages import checkpoints
from tests.end_to_end.project import Project

OUTPUT = "models/checkpoints/13"


def to_dvc(number: int) -> Act:
    """A signal to dvc alone."""

    def act(strike: Strike) -> None:
        strike.run.process.send_signal(number)

    return act


def to_group(number: int) -> Act:
    """A signal to the process group of the terminal: torchrun starts its ranks in groups of their own."""

    def act(strike: Strike) -> None:
        os.killpg(strike.run.process.pid, number)

    return act


def to_all(number: int) -> Act:
    """A signal to every process of the run at once, as when a container is stopped."""

    def act(strike: Strike) -> None:
        for process in strike.run.members():
            send(process, number)

    return act


def to_one_of(module: str, number: int) -> Act:
    """A signal to one of the processes of a module."""

    def act(strike: Strike) -> None:
        processes = strike.processes(module)
        chosen = strike.draw.randrange(len(processes))
        strike.note = f"{chosen + 1} of {len(processes)}" if len(processes) > 1 else ""
        send(processes[chosen], number)

    return act


def kill_stage(strike: Strike) -> None:
    """SIGKILL to the process that dvc has started, whichever stage that is."""
    children: list[psutil.Process] = []

    def found() -> bool:
        with contextlib.suppress(psutil.Error):
            children[:] = psutil.Process(strike.run.process.pid).children()
        return bool(children)

    strike.reach(found)
    strike.mark()
    send(children[0], signal.SIGKILL)


def stopped_for_a_while(choose: Callable[[Strike], list[psutil.Process]]) -> Act:
    """SIGSTOP, some seconds of silence, SIGCONT."""

    def act(strike: Strike) -> None:
        seconds = strike.draw.uniform(2, 20)
        strike.note = f"{seconds:.0f} s"
        chosen = choose(strike)
        for process in chosen:
            send(process, signal.SIGSTOP)
        strike.run.sleep(seconds)
        for process in chosen:
            send(process, signal.SIGCONT)

    return act


def everybody(strike: Strike) -> list[psutil.Process]:
    """All processes of the run."""
    return strike.run.members()


def one_rank(strike: Strike) -> list[psutil.Process]:
    """One process of the training."""
    return [strike.draw.choice(strike.processes("stages.train"))]


def stopped_for_good(strike: Strike) -> None:
    """SIGSTOP to one rank, as if it hung, and SIGKILL to dvc: who is stopped hears no other signal."""
    send(one_rank(strike)[0], signal.SIGSTOP)
    strike.run.process.kill()


def damage_state(how: Callable[[Path], None]) -> Act:
    """SIGKILL to all in training; then harm to one of the two files that were written last in the newest whole state.

    Raises (when it strikes):
        MissedError: there is none.
    """

    def act(strike: Strike) -> None:
        in_training(strike, first_save=1)
        strike.mark()
        strike.run.kill()
        resume = strike.run.state / strike.workspace.training.identity / "resume"
        whole, _ = checkpoints.newest_whole(resume)
        if whole is None:
            raise MissedError("no state was whole yet")
        harm(strike, whole, how)

    return act


def damage_weights(how: Callable[[Path], None]) -> Act:
    """SIGKILL to all when the training has ended; then harm to the last weights, which are not handed over yet."""

    def act(strike: Strike) -> None:
        kill_at_the_end(strike, strike.run.ended_training)
        state = strike.run.state / strike.workspace.training.identity
        harm(strike, checkpoints.checkpoint_path(state / "weights", STEPS), how)

    return act


def harm(strike: Strike, folder: Path, how: Callable[[Path], None]) -> None:
    """Do something to one of the two files of a folder that were written last."""
    files = sorted((file for file in folder.iterdir() if file.is_file()), key=lambda file: file.stat().st_mtime_ns)
    file = strike.draw.choice(files[-2:])
    strike.note = str(file.relative_to(strike.run.state / strike.workspace.training.identity))
    how(file)


def truncate(file: Path) -> None:
    """Half of a file is gone."""
    os.truncate(file, file.stat().st_size // 2)


def zero(file: Path) -> None:
    """A file of the same size that holds nothing, as some file systems leave after a loss of power."""
    file.write_bytes(bytes(file.stat().st_size))


def between_the_end_and_dvc_lock(strike: Strike) -> None:
    """SIGKILL to all once the training is marked as finished, as its output appears, or a little later.

    Raises:
        MissedError: dvc.lock had the output already.
    """
    output = strike.project.root / OUTPUT
    when, seconds = strike.draw.choice([("marked as finished", 0.0), ("output there", 0.0), ("output there", 1.0)])
    there = output.is_dir if when == "output there" else (lambda: True)
    kill_at_the_end(strike, lambda: strike.run.ended_training() and there(), seconds=strike.draw.uniform(0, seconds))
    strike.note = when


def kill_at_the_end(strike: Strike, condition: Callable[[], bool], *, seconds: float = 0.0) -> None:
    """SIGKILL to all, some time after a condition holds.

    Raises:
        MissedError: dvc.lock had the output of the training already.
    """
    strike.reach(condition)
    strike.pause(seconds)
    strike.mark()
    strike.run.kill()
    expected = strike.workspace.references[TRAIN][f"dvc.lock {TRAIN} outs {OUTPUT}"]
    if recorded(strike.project, OUTPUT) == expected:
        raise MissedError("dvc.lock had the output already")


def recorded(project: Project, path: str) -> str | None:
    """The md5 that dvc.lock holds of an output, if it does."""
    lock = YAML(typ="safe").load(project.root / "dvc.lock")
    outs = [out for stage in lock["stages"].values() for out in stage["outs"]]
    return next((str(out["md5"]) for out in outs if out["path"] == path), None)
