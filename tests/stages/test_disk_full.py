"""A disk that fills up, or that is read only, for real: a small tmpfs that only the stage's process sees."""

import os
import shutil
import subprocess
import sys

import pytest

from stages import checkpoints
from tests import tiny
from tests.training_runs import encode

ON_A_SMALL_DISK = 'mount -t tmpfs -o "$1" tmpfs "$2"; shift 2; "$@"; code=$?; ls -A "$0"; exit $code'


def in_own_mounts():
    """The command that makes room for mounts of one's own, as root or in a user namespace."""
    for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        if shutil.which("unshare") and subprocess.run([*command, "true"], check=False).returncode == 0:
            return command
    return None


UNSHARE = in_own_mounts()
pytestmark = pytest.mark.skipif(UNSHARE is None, reason="this system lets nobody mount a small disk (unshare --mount)")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    root = tmp_path_factory.mktemp("inputs")
    base = tiny.model(root / "base")
    return encode(root / "encoded", base, "single_label"), base


def run(folder, disk, mounted_as, *module):
    """Run a module with a disk of its own in place of a folder; what lies there afterwards is its output."""
    disk.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT), "REMINT_STATE": str(folder / "state")}
    return subprocess.run(
        [
            *UNSHARE,
            "sh",
            "-c",
            ON_A_SMALL_DISK,
            str(disk),
            mounted_as,
            str(disk),
            sys.executable,
            "-m",
            *map(str, module),
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_that_finds_no_room_leaves_nothing(tmp_path, inputs):
    _, base = inputs
    digest = checkpoints.digest(base / "model.safetensors")
    (tmp_path / "raw.csv").touch()
    knobs = {"data.raw": "raw.csv", "model.name": str(base), "model.sha256": digest}
    tiny.write_params(tmp_path / "params.yaml", **knobs)
    result = run(tmp_path, tmp_path / "models", "size=64k", "stages.fetch_model", "models/base")
    assert result.returncode == 4, result.stderr
    assert "No space left on device; free some disk space and run the same command again" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("size", "where"), [("size=100k", "the first weights"), ("size=500k", "a later save")])
def test_a_training_whose_state_finds_no_room_ends_as_the_machine_s_fault(tmp_path, inputs, size, where):
    """Case 21's last part: whatever is written when the disk fills up, also by torch.save and safetensors."""
    encoded, base = inputs
    (tmp_path / "raw.csv").touch()
    tiny.write_params(tmp_path / "params.yaml", **{"data.raw": "raw.csv", "runtime.save_steps": 2})
    out, history = tmp_path / "models/checkpoints/13", tmp_path / "models/history/13.csv"
    result = run(tmp_path, tmp_path / "state", size, "stages.launch", "stages.train", encoded, base, out, history, "13")
    assert result.returncode == 4, (where, result.stderr)
    assert "free some disk space and run the same command again" in result.stderr
    assert "Traceback" not in result.stderr
    assert not out.exists()


def test_a_state_folder_that_is_read_only_ends_as_the_machine_s_fault(tmp_path, inputs):
    encoded, base = inputs
    (tmp_path / "raw.csv").touch()
    tiny.write_params(tmp_path / "params.yaml", **{"data.raw": "raw.csv"})
    out, history = tmp_path / "models/checkpoints/13", tmp_path / "models/history/13.csv"
    result = run(tmp_path, tmp_path / "state", "ro", "stages.launch", "stages.train", encoded, base, out, history, "13")
    assert result.returncode == 4, result.stderr
    assert "Read-only file system; see to the permissions of that path" in result.stderr
    assert "Traceback" not in result.stderr
    assert not out.exists()
