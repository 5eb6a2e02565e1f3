"""From the start of the process to the end of its first step: fresh, and going on at 90 % of a long epoch.

    python -m bench.resume_speed --rows 400000 --rounds 3

A tiny model, batches of 8. The state to go on with is made by stopping at the first steps and setting its step; what is
skipped is what would be after that many real steps.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from stages import checkpoints, splits
from tests import tiny
from tests.training_runs import ROOT, encode

FIRST_STEP = """
import sys
from pathlib import Path
from stages import command, train
from stages.training import training_state
def end(self, args, state, control, **_):
    raise SystemExit(9)
training_state.ShowProgress.on_step_end = end
*paths, seed = sys.argv[1:]
command.set_up_libraries(offline=True)
command.set_up_logging()
train.main(*map(Path, paths), int(seed))
"""
SAVE_FIRST = FIRST_STEP.replace(
    "    raise SystemExit(9)", "    import os, signal\n    os.kill(os.getpid(), signal.SIGTERM)"
)


def long_epoch(folder: Path, base: Path, rows: int) -> Path:
    """Encoded rows, so many to train on, of 4 to 30 tokens."""
    encoded = encode(folder / "encoded", base, "single_label")
    draw = np.random.default_rng(0)
    lengths = draw.integers(4, 31, size=rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = draw.integers(5, 40, size=int(offsets[-1]))
    columns = {
        "input_ids": pa.ListArray.from_arrays(offsets, pa.array(tokens, pa.int32())),
        "token_type_ids": pa.ListArray.from_arrays(offsets, pa.array(np.zeros_like(tokens), pa.int8())),
        "length": pa.array(lengths, pa.int32()),
        "labels": pa.array(draw.integers(0, 3, size=rows), pa.int64()),
    }
    splits.write_encoded(encoded, "train", pa.table(columns))
    return encoded


def seconds(folder: Path, script: str, encoded: Path, base: Path, *, says: str) -> float:
    """Run to the end of the first step; the wall time."""
    out = [folder / "models/checkpoints/13", folder / "models/history/13.csv", "13"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "REMINT_STATE": str(folder / "state"), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, encoded, base, *out],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    if says not in done.stderr:
        raise RuntimeError(done.stderr)
    return took


def move_to(state: Path, step: int) -> Path:
    """Make the saved state one of a later step."""
    moved = state.with_name(f"checkpoint-{step}")
    state.rename(moved)
    file = moved / "trainer_state.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, "global_step": step}), encoding="utf-8")
    checkpoints.complete(moved, step=step)
    return moved


def main() -> None:
    """Print both times of each round and the median difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        base = tiny.model(root / "base")
        encoded = long_epoch(root, base, args.rows)
        (root / "raw.csv").touch()
        tiny.write_params(root / "params.yaml", **{"data.raw": "raw.csv", "runtime.save_steps": 10**6})
        seconds(root, SAVE_FIRST, encoded, base, says="starting at step 0")
        (saved,) = (root / "state").glob("*/resume/checkpoint-*")
        steps = args.rows // 8
        moved = move_to(saved, int(0.9 * steps))
        kept = root / "kept"
        moved.parent.rename(kept)
        differences = []
        for _ in range(args.rounds):
            fresh = seconds(root, FIRST_STEP, encoded, base, says="starting at step 0")
            shutil.copytree(kept, moved.parent, dirs_exist_ok=True)
            resumed = seconds(root, FIRST_STEP, encoded, base, says=f"going on from step {int(0.9 * steps)}")
            shutil.rmtree(moved.parent)
            differences.append(resumed - fresh)
            print(f"fresh {fresh:.2f} s, going on at step {int(0.9 * steps)} of {steps}: {resumed:.2f} s", flush=True)
        print(f"median difference {statistics.median(differences):+.2f} s")


if __name__ == "__main__":
    main()
