"""The faults of the chaos bench, by name: what strikes a run, when, and what the run is started in."""

import contextlib
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench import chaos_acts, chaos_disk, chaos_writes
from bench.chaos_acts import to_all, to_dvc, to_group, to_one_of
from bench.chaos_disk import Surroundings
from bench.chaos_strike import Act, Strike, anywhere, at, in_training
from bench.chaos_workspace import TRAIN

KILL, TERM, INTERRUPT = signal.SIGKILL, signal.SIGTERM, signal.SIGINT
LAUNCHER, RANK = "stages.launch", "stages.train"
RENAMES = "rename,renameat"
WRITES = "write,writev,pwrite64"


def no_surroundings(strike: Strike) -> AbstractContextManager[Surroundings]:
    """A run as anybody starts it."""
    return contextlib.nullcontext(Surroundings())


@dataclass(frozen=True)
class Fault:
    """What happens to a run."""

    name: str
    strike: Act
    processes: int = 1
    point: str | None = "encoded"
    """What has been run when the round begins; None: drawn from the whole graph, by how long its parts take."""
    target: str = TRAIN
    """What `dvc repro` is typed with."""
    surround: Callable[[Strike], AbstractContextManager[Surroundings]] = no_surroundings
    at_once: bool = False
    """Whether `dvc repro` is typed again before anybody has looked whether something is left of the struck one."""
    survivable: bool = False
    """Whether a run that goes on as if nothing were has been struck: else it is taken for missed."""
    needs: Callable[[], bool] = lambda: True
    """Whether this machine has the tools for it."""


def in_one_process() -> list[Fault]:
    """Signals to a training of one process, and what can be left of its state."""
    stopped = chaos_acts.stopped_for_a_while(chaos_acts.everybody)
    return [
        Fault("SIGKILL to all", at(in_training, to_all(KILL))),
        Fault("SIGKILL to the group", at(in_training, to_group(KILL))),
        Fault("SIGKILL to dvc", at(in_training, to_dvc(KILL))),
        Fault("SIGKILL to dvc, dvc repro at once", at(in_training, to_dvc(KILL)), at_once=True),
        Fault("SIGKILL to the launcher", at(in_training, to_one_of(LAUNCHER, KILL))),
        Fault("SIGTERM to dvc", at(in_training, to_dvc(TERM))),
        Fault("SIGTERM to the group", at(in_training, to_group(TERM))),
        Fault("SIGINT to the group (Ctrl-C)", at(in_training, to_group(INTERRUPT))),
        Fault("SIGSTOP to all, SIGCONT", at(in_training, stopped), survivable=True),
        Fault("last file truncated", chaos_acts.damage_state(chaos_acts.truncate)),
        Fault("last file zeroed", chaos_acts.damage_state(chaos_acts.zero)),
        Fault("last file missing", chaos_acts.damage_state(Path.unlink)),
        Fault("weights zeroed, training ended", chaos_acts.damage_weights(chaos_acts.zero)),
        Fault("SIGKILL between training's end and dvc.lock", chaos_acts.between_the_end_and_dvc_lock),
    ]


def in_two_processes() -> list[Fault]:
    """Signals to a training of two ranks. torchrun's agent has no process of its own: it lives in the launcher's."""
    stopped = chaos_acts.stopped_for_a_while(chaos_acts.one_rank)
    return [
        Fault("SIGKILL to all, 2 ranks", at(in_training, to_all(KILL)), processes=2),
        Fault("SIGKILL to torchrun, 2 ranks", at(in_training, to_one_of(LAUNCHER, KILL)), processes=2),
        Fault("SIGKILL to one of 2 ranks", at(in_training, to_one_of(RANK, KILL)), processes=2),
        Fault("SIGTERM to one of 2 ranks", at(in_training, to_one_of(RANK, TERM)), processes=2),
        Fault("SIGTERM to all, 2 ranks", at(in_training, to_all(TERM)), processes=2),
        Fault("SIGSTOP to one of 2 ranks, SIGCONT", at(in_training, stopped), processes=2, survivable=True),
        Fault("SIGSTOP to one of 2 ranks, SIGKILL to dvc", at(in_training, chaos_acts.stopped_for_good), processes=2),
    ]


def at_writes() -> list[Fault]:
    """A disk that is full, and failures and kills at one system call on one file of the state folder."""

    def at_call(
        name: str, calls: str, action: str, files: chaos_writes.Files = chaos_writes.file_of_a_save, processes: int = 1
    ) -> Fault:
        return Fault(
            name,
            chaos_writes.to_its_own_end,
            processes=processes,
            surround=chaos_writes.at_call(calls, action, files),
            needs=chaos_disk.has_strace,
        )

    small = chaos_writes.on_a_small_disk
    return [
        Fault("disk full", chaos_writes.to_its_own_end, surround=small, needs=chaos_disk.has_small_disks),
        at_call("ENOSPC at a write", WRITES, "error=ENOSPC:when=1+"),
        at_call("EIO at an fsync", "fsync", "error=EIO:when=1"),
        at_call("SIGKILL at a write", WRITES, "signal=KILL:when=1"),
        at_call("SIGKILL at a rename", RENAMES, "signal=KILL:when=1", chaos_writes.renamed_file),
        at_call("SIGKILL at a rename, 2 ranks", RENAMES, "signal=KILL:when=1", chaos_writes.renamed_file, 2),
    ]


def anywhere_in_the_graph() -> list[Fault]:
    """Signals at any moment of the whole graph, dvc's own work included."""

    def of_graph(name: str, strike: Act) -> Fault:
        return Fault(name, strike, point=None, target="")

    return [
        of_graph("SIGKILL to all, anywhere", at(anywhere, to_all(KILL))),
        of_graph("SIGKILL to dvc, anywhere", at(anywhere, to_dvc(KILL))),
        of_graph("SIGKILL to a stage, anywhere", at(anywhere, chaos_acts.kill_stage)),
        of_graph("SIGTERM to dvc, anywhere", at(anywhere, to_dvc(TERM))),
        of_graph("SIGINT to the group, anywhere", at(anywhere, to_group(INTERRUPT))),
    ]


def catalogue() -> list[Fault]:
    """All faults."""
    return [*in_one_process(), *in_two_processes(), *at_writes(), *anywhere_in_the_graph()]
