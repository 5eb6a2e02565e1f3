"""Start a module in params' train.processes processes under torchrun, and end with the exit code of the first to fail.

torchrun itself turns every exit code into 1.
"""

import logging
import os
import signal
import sys

from stages import command, hardware, lifetime
from stages.errors import MachineError, StoppedError
from stages.params import load_params

log = logging.getLogger(__name__)


def run_once(module: str, arguments: list[str], *, processes: int) -> None:
    """Run the module in each process, once.

    Raises:
        MachineError: a process was killed, or says that the machine failed it.
        StoppedError: a signal to this process has stopped them.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    # Any free port on this host: nothing is fixed that another training could hold.
    own = [
        "--nnodes=1",
        f"--nproc-per-node={processes}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
    ]
    try:
        run(parse_args([*own, "-m", module, *arguments]))
    except SignalException as error:
        # Its workers were sent the same signal, and have saved what they had by now.
        raise StoppedError(
            f"{module} was stopped by {signal.Signals(error.sigval).name}; the same command goes on from its last save"
        ) from None
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            raise MachineError(
                f"process {rank} of {module} was killed by signal {-failure.exitcode}; where that is 9, memory may "
                "have run out: free some, or lower train.max_rows_per_device; then run the same command again"
            ) from None
        told = failure.message["message"] if isinstance(failure.message, dict) else failure.message
        if failure.exitcode == MachineError.exit_code:
            raise MachineError(str(told).removeprefix("error: ")) from None
        command.record(failure.exitcode, str(told))
        print(told, file=sys.stderr)
        sys.exit(failure.exitcode)
    finally:
        # torchrun's own grace time is over by now, or a second signal has cut it short.
        lifetime.kill_children()


def main(module: str, arguments: list[str]) -> None:
    """Run `python -m MODULE ARGUMENTS` in each process; again, as often as params say, where the machine failed it."""
    params = load_params()
    processes = params.train.processes
    # Threads decide the last bits of sums: set here for each process, where torchrun would set 1 for several.
    os.environ["OMP_NUM_THREADS"] = str(hardware.threads(params.train.threads, processes=processes))
    for noisy in ("torch.distributed.elastic", "torch.distributed.run"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    for restarts_left in reversed(range(params.runtime.max_restarts + 1)):
        try:
            return run_once(module, arguments, processes=processes)
        except MachineError as error:
            if not restarts_left:
                raise
            log.warning("%s\nstarting %s again; %d restart(s) left after this one", error, module, restarts_left - 1)
    return None


if __name__ == "__main__":
    command.run(main)
