"""What the machine is, as far as it decides bits, and what `auto` stands for on it."""

import os
import platform
from pathlib import Path


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(wanted: int | None, *, processes: int) -> int:
    """OpenMP threads of each process; null in params is the cores divided by the processes."""
    return wanted or max(1, cores() // processes)


def cpu_flags() -> set[str]:
    """The instruction sets of the CPU, where the system tells (Linux)."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith(("flags", "Features"))), set())


def resolve_precision(precision: str) -> str:
    """What `auto` stands for here: bf16 where the hardware multiplies it fast, else fp32."""
    if precision != "auto":
        return precision
    import torch

    if torch.cuda.is_available():
        return "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp32"
    return "bf16" if cpu_flags() & {"avx512_bf16", "amx_bf16", "bf16"} else "fp32"


def kind() -> dict[str, str]:
    """The class of machine: across classes kernels differ, and so do the last bits."""
    import torch

    if torch.cuda.is_available():
        return {"device": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return {"device": platform.machine(), "cpu": str(torch.backends.cpu.get_cpu_capability())}
