"""How a process of a run ends, with all that it has started."""

import os
import subprocess
import sys

import psutil
import pytest

from tests import tiny

# A process that is stopped hears no signal but SIGKILL, as one that hangs in a library hears none.
STARTS_ONE_THAT_HANGS = """
import os, signal, subprocess, sys, time
from stages import lifetime
child = subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"])
os.waitpid(child.pid, os.WUNTRACED)
print(child.pid, flush=True)
lifetime.kill_after(0.5)
time.sleep(60)
"""

LAUNCHED = """
import os, signal, sys, time
from pathlib import Path
from stages import command
def main(how: str) -> None:
    Path("rank" + os.environ["RANK"]).write_text(str(os.getpid()))
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
command.run(main)
"""


def is_alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_whom_a_process_has_started_ends_with_it_even_if_it_hangs():
    process = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE_THAT_HANGS], cwd=tiny.ROOT, stdout=subprocess.PIPE, text=True
    )
    child = psutil.Process(int(process.stdout.readline()))
    try:
        assert process.wait(timeout=30) == -9
        _, alive = psutil.wait_procs([child], timeout=10)
        assert not [one for one in alive if is_alive(one.pid)]
    finally:
        if child.is_running():
            child.kill()


@pytest.mark.slow
def test_a_rank_that_hangs_does_not_outlive_a_run_whose_parent_was_killed(tmp_path):
    """A stopped rank hears neither the kernel's signal nor torchrun's, and its own watch stands still: case 1."""
    (tmp_path / "raw.csv").touch()
    (tmp_path / "work.py").write_text(LAUNCHED)
    tiny.write_params(tmp_path / "params.yaml", **{"data.raw": "raw.csv", "train.processes": 2})
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"),
            *(sys.executable, "-m", "stages.launch", "work", "hangs"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tiny.ROOT}:{tmp_path}", "DVC_STAGE": "train@13"},
    )
    ranks = [tmp_path / "rank0", tmp_path / "rank1"]
    while not all(rank.exists() and rank.read_text() for rank in ranks):
        assert parent.poll() is None
    family = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(family, timeout=40)
    left = [one.pid for one in alive if is_alive(one.pid)]
    for pid in left:
        os.kill(pid, 9)
    assert left == []
