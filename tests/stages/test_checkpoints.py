import json
import os

import pytest

from stages import checkpoints
from stages.errors import DataError


@pytest.fixture
def root(tmp_path):
    for step in (5, 10, 100):
        folder = checkpoints.checkpoint_path(tmp_path, step)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes([step]) * 100)
        checkpoints.complete(folder, step=step)
    return tmp_path


def test_checkpoints_come_in_the_order_of_steps_whatever_their_file_times(root):
    """Case 22."""
    for age, step in enumerate((100, 10, 5)):
        os.utime(root / f"checkpoint-{step}", (age, age))
    assert [checkpoints.step_of(path) for path in checkpoints.list_checkpoints(root)] == [5, 10, 100]


def tear(folder, how):
    file = folder / "model.safetensors"
    match how:
        case "truncated":
            file.write_bytes(file.read_bytes()[:50])
        case "zeroed":
            file.write_bytes(bytes(100))
        case "missing":
            file.unlink()
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "torn manifest":
            (folder / "manifest.json").write_text('{"files": {"mod')
        case "empty":
            for each in folder.iterdir():
                each.unlink()


@pytest.mark.parametrize("how", ["truncated", "zeroed", "missing", "no manifest", "torn manifest", "empty"])
def test_a_torn_checkpoint_is_passed_over_and_refused_as_an_input(root, how):
    tear(root / "checkpoint-100", how)
    newest, passed_over = checkpoints.newest_whole(root)
    assert newest == root / "checkpoint-10"
    assert len(passed_over) == 1
    assert passed_over[0].startswith("checkpoint-100: ")
    with pytest.raises(DataError, match=r"checkpoint-100: .*; run the train stage again"):
        checkpoints.list_checkpoints(root)


def test_where_all_are_torn_there_is_nothing_to_go_on_from(root):
    for step in (5, 10, 100):
        tear(root / f"checkpoint-{step}", "zeroed")
    newest, passed_over = checkpoints.newest_whole(root)
    assert newest is None
    assert len(passed_over) == 3


def test_an_empty_folder_says_which_stage_to_run(tmp_path):
    with pytest.raises(DataError, match="dvc repro train"):
        checkpoints.list_checkpoints(tmp_path)


def test_the_manifest_has_the_size_and_digest_of_every_file(root):
    manifest = json.loads((root / "checkpoint-5/manifest.json").read_text())
    assert manifest["step"] == 5
    assert manifest["files"]["model.safetensors"]["size"] == 100
    assert len(manifest["files"]["model.safetensors"]["sha256"]) == 64
