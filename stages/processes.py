"""Rank zero and barriers: the only use of torch.distributed."""

import os
from datetime import timedelta
from typing import Any


def rank() -> int:
    """This process's number among those of the run, from 0."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """How many processes the run has."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this process writes outputs and log lines: rank zero alone does."""
    return rank() == 0


def forget_launcher() -> None:
    """Make a process that is alone be one that was not launched at all.

    Under torchrun accelerate wraps even a single process's model in DistributedDataParallel, which sums gradients in
    other memory and so ends in other bits than the same training without torchrun.
    """
    if world_size() == 1:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)


def agreed(answer: bool) -> bool:
    """Rank zero's answer, on every process, through the launcher's store: it may be asked for once, and before there is
    a process group.

    What a process reads from disk by itself, rank zero may be changing at that moment.
    """
    if world_size() == 1:
        return answer
    from torch.distributed import TCPStore

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, timeout=timedelta(minutes=30))
    if is_main():
        store.set("remint/answer", str(answer))
    return bool(store.get("remint/answer") == b"True")


def barrier() -> None:
    """Wait until every process of the run is here."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def gather(value: Any) -> list[Any]:
    """Each process's value, in the order of ranks, on every process."""
    import torch.distributed

    if not torch.distributed.is_initialized():
        return [value]
    values: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(values, value)
    return values
