"""Rows for a tiny training, a folder that the train stage runs in, and how it is started, broken off and read."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa

from stages import checkpoints, lookup, splits, tasks
from tests import tiny

ROOT = tiny.ROOT
TRAIN_ROWS, VALIDATION_ROWS = 33, 13


def encode(folder: Path, base: Path, task_type: str) -> Path:
    """33 rows to train on: with batches of 8, the last of an epoch has a single row."""
    from transformers import AutoTokenizer

    task: tasks.Task = lookup.find(tasks, task_type)
    tokenizer = AutoTokenizer.from_pretrained(base)
    rows = tiny.rows(TRAIN_ROWS + VALIDATION_ROWS)
    labels = [task.read_label(row["score" if task_type == "regression" else "label"]) for row in rows]
    names = task.label_names(labels, None)
    folder.mkdir(parents=True)
    for split, part in (("train", slice(TRAIN_ROWS)), ("validation", slice(TRAIN_ROWS, None))):
        tokens = task.encode({"text": [row["text"] for row in rows[part]]}, tokenizer, max_length=32)
        ids = task.label_ids(labels[part], names)
        columns = {
            "input_ids": pa.array(tokens["input_ids"], pa.list_(pa.int32())),
            "token_type_ids": pa.array(tokens["token_type_ids"], pa.list_(pa.int8())),
            "length": pa.array(tokens["length"], pa.int32()),
            "labels": pa.array(ids, pa.int64() if names else pa.float32()),
        }
        splits.write_encoded(folder, split, pa.table(columns))
    splits.write_label_names(folder, names)
    return folder


class Workspace:
    """A folder with a params.yaml in which the train stage runs."""

    def __init__(self, folder: Path, encoded: Path, base: Path) -> None:
        self.folder, self.encoded, self.base = folder, encoded, base
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "raw.csv").touch()

    def params(self, **overrides):
        tiny.write_params(self.folder / "params.yaml", **{"data.raw": "raw.csv", **overrides})

    def run(self, script: str | None = None, seed: int = 13, environment: dict[str, str] | None = None):
        """Start the stage as dvc.yaml does (or through a script that breaks something first)."""
        own = ["-c", script] if script else ["-m", "stages.launch", "stages.train"]
        out = self.folder / "models/checkpoints" / str(seed)
        history = self.folder / f"models/history/{seed}.csv"
        arguments = [str(self.encoded), str(self.base), str(out), str(history), str(seed)]
        ours = {"PYTHONPATH": str(ROOT), "REMINT_STATE": str(self.folder / "state"), **(environment or {})}
        return subprocess.run(
            [sys.executable, *own, *arguments],
            cwd=self.folder,
            env={**os.environ, **ours},
            capture_output=True,
            text=True,
            check=False,
        )

    def history(self, seed: int = 13):
        with (self.folder / f"models/history/{seed}.csv").open() as stream:
            return list(csv.DictReader(stream))

    def digests(self, seed: int = 13):
        root = self.folder / "models"
        return {
            str(file.relative_to(root)): checkpoints.digest(file) for file in sorted(root.rglob("*")) if file.is_file()
        }


BREAK_AT_STEP_7 = """
import sys
from pathlib import Path
from stages import train
from stages.training import training_state
def fail(self, args, state, control, **_):
    if state.global_step == 7:
        raise SystemExit(9)
training_state.ShowProgress.on_step_end = fail
*paths, seed = sys.argv[1:]
train.main(*map(Path, paths), int(seed))
"""


def start(workspace, **environment):
    """The stage as a process that a signal can be sent to, in a group of its own; as dvc starts it."""
    models = workspace.folder / "models"
    out = [models / "checkpoints/13", models / "history/13.csv", "13"]
    ours = {"PYTHONPATH": str(ROOT), "REMINT_STATE": str(workspace.folder / "state"), "DVC_STAGE": "train@13"}
    return subprocess.Popen(
        [sys.executable, "-m", "stages.launch", "stages.train", workspace.encoded, workspace.base, *out],
        cwd=workspace.folder,
        env={**os.environ, **ours, **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(line, process):
    """Read what a process says up to a line; the text so far."""
    said = ""
    for text in process.stderr:
        said += text
        if line in text:
            return said
    raise AssertionError(said)


def descendants(process):
    return psutil.Process(process.pid).children(recursive=True)
