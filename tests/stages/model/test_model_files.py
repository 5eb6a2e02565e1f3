"""Weights are whole, or refused with what to do about it."""

from pathlib import Path

import pytest

from stages.errors import ModelError
from stages.model import model_files
from tests import tiny


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.model(tmp_path / "model")


def refusal(folder: Path) -> str:
    listed = sorted(file.name for file in folder.iterdir())
    with pytest.raises(ModelError) as refused:
        model_files.weights(folder, name="own/model", listed=listed)
    assert str(refused.value).startswith("own/model: ")
    return str(refused.value)


def test_whole_weights_are_found(model: Path):
    assert model_files.weights(model, name="own/model", listed=[]) == [model / "model.safetensors"]


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_file_that_ends_too_early_is_refused(model: Path, kept: int):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert f"model.safetensors ({weights.stat().st_size:,} bytes) is no whole safetensors file" in refusal(model)


def test_a_header_that_is_not_readable_is_refused(model: Path):
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:8] + b"\xff" * 50 + whole[58:])
    assert "is no whole safetensors file" in refusal(model)


def test_a_pointer_of_git_lfs_is_told_from_weights(model: Path):
    (model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    assert "git lfs pull" in refusal(model)


def test_weights_without_a_tensor_are_refused(model: Path):
    from safetensors.numpy import save_file

    save_file({}, model / "model.safetensors")
    assert "holds no tensor" in refusal(model)


def test_a_missing_shard_is_named(model: Path):
    from transformers import BertModel

    BertModel.from_pretrained(model).save_pretrained(model, max_shard_size="40KB")
    (model / "model.safetensors").unlink(missing_ok=True)
    shards = sorted(model.glob("model-*.safetensors"))
    assert model_files.weights(model, name="own/model", listed=[]) == [*shards, model / model_files.INDEX]
    shards[1].unlink()
    assert shards[1].name in refusal(model)
    (model / model_files.INDEX).write_text("[]")
    assert "no weight_map" in refusal(model)


@pytest.mark.parametrize(
    ("other", "remedy"),
    [
        ("weights.pt", "look for a copy with safetensors"),
        ("flax_model.msgpack", "look for a copy with safetensors"),
        ("notes.txt", "it has config.json, notes.txt"),
    ],
)
def test_without_weights_the_message_goes_by_what_there_is(model: Path, other: str, remedy: str):
    (model / "model.safetensors").rename(model / other)
    message = refusal(model)
    assert other in message
    assert remedy in message
