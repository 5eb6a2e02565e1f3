import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from stages import export, lookup, scoring, splits, tasks
from stages.errors import DataError, GateError, ModelError
from stages.exporting import onnx_files
from stages.serving.onnx_session import onnx_forward
from tests import tiny, tiny_export

FILES = {
    "README.md",
    "config.json",
    "model.int8.onnx",
    "model.onnx",
    "model.safetensors",
    "parity.json",
    "remint.json",
    "source.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "training.json",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny_export.workspace(tmp_path_factory.mktemp("single"))
    tiny_export.run(made)
    return made


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A workspace that a test may change."""
    return shutil.copytree(root, tmp_path / "copy")


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def batch_of(rows: int, length: int, names: list[str]) -> dict[str, torch.Tensor]:
    """Random tokens; every second row has a third of it padded."""
    draw = torch.Generator().manual_seed(rows * 1000 + length)
    mask = torch.ones(rows, length, dtype=torch.long)
    mask[1::2, length - length // 3 :] = 0
    ids = torch.randint(5, len(tiny.vocabulary()), (rows, length), generator=draw) * mask
    made = {"input_ids": ids, "token_type_ids": torch.zeros_like(ids), "attention_mask": mask}
    return {name: made[name] for name in names}


def test_the_folder_holds_the_model_in_three_forms_and_what_was_measured(root: Path) -> None:
    assert {file.name for file in (root / "exported").iterdir()} == FILES
    found = read(root / "exported" / "parity.json")
    assert found["rows"] == 40
    assert found["model.onnx"]["max_logit_difference"] < 1e-4
    assert found["model.onnx"]["equal_predictions"] == 1.0
    assert found["model.onnx"]["f1_macro"] == found["pytorch"]["f1_macro"] > 0
    assert found["model.int8.onnx"]["max_logit_difference"] > found["model.onnx"]["max_logit_difference"]


def test_two_exports_give_the_same_bytes_in_any_folder(root: Path, tmp_path: Path) -> None:
    again = tiny_export.workspace(tmp_path / "elsewhere")
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "stages.export", "encoded", "best", "test_metrics.json", "exported"]
    subprocess.run(command, cwd=again, env=environment, check=True)
    assert tiny_export.digests(again / "exported") == tiny_export.digests(root / "exported")


def test_no_file_tells_where_or_how_it_was_made(root: Path) -> None:
    for file in sorted((root / "exported").iterdir()):
        content = file.read_bytes()
        for trace in (str(root).encode(), str(tiny.ROOT).encode(), b"site-packages", b"stack_trace", b".py"):
            assert trace not in content, f"{file.name} holds {trace!r}"


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("length", [3, 17, 200])
def test_any_number_of_rows_and_tokens_gives_what_pytorch_gives(root: Path, rows: int, length: int) -> None:
    exported = root / "exported"
    batch = batch_of(rows, length, read(exported / "remint.json")["inputs"])
    expected = scoring.load_forward(exported, lookup.find(tasks, "single_label"))(batch)
    found = onnx_forward(exported / "model.onnx")(batch)
    assert np.abs(found - expected).max() < 1e-4
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    assert onnx_forward(exported / "model.int8.onnx")(batch).shape == expected.shape


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("bert", ["input_ids", "token_type_ids", "attention_mask"]),
        ("distilbert", ["input_ids", "attention_mask"]),
        ("roberta", ["input_ids", "attention_mask"]),
    ],
)
def test_the_graph_takes_what_the_model_takes(root: Path, tmp_path: Path, kind: str, inputs: list[str]) -> None:
    exported = root / "exported" if kind == "bert" else tiny_export.run(tiny_export.workspace(tmp_path, kind=kind))
    made = AutoTokenizer.from_pretrained(exported)("my card")
    assert ("token_type_ids" in made) == (kind != "roberta")
    session = onnxruntime.InferenceSession(exported / "model.onnx")
    assert [value.name for value in session.get_inputs()] == inputs == read(exported / "remint.json")["inputs"]
    assert all(value.shape == ["batch", "sequence"] for value in session.get_inputs())
    assert [(value.name, value.shape) for value in session.get_outputs()] == [("logits", ["batch", 3])]
    assert read(exported / "parity.json")["model.onnx"]["max_logit_difference"] < 1e-4


def test_dropout_is_off_in_the_graph_and_in_what_it_is_compared_with(root: Path) -> None:
    exported = root / "exported"
    assert read(exported / "config.json")["hidden_dropout_prob"] > 0
    for name in ("model.onnx", "model.int8.onnx"):
        kinds = {node.op_type for node in onnx.load(exported / name).graph.node}
        assert kinds
        assert not {kind for kind in kinds if "Dropout" in kind or "Random" in kind}
    batch = batch_of(7, 17, ["input_ids", "attention_mask"])
    task = lookup.find(tasks, "single_label")
    first, second = (scoring.load_forward(exported, task)(batch) for _ in range(2))
    assert (first == second).all()


def test_a_model_in_training_mode_is_not_exported(root: Path, tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(root / "best").train()
    with pytest.raises(AssertionError, match="dropout"):
        onnx_files.write_fp32(model, batch_of(2, 8, ["input_ids"]), tmp_path / "model.onnx", opset=20)


def test_the_folder_can_be_moved_and_still_loads(root: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved" / "model"
    shutil.copytree(root / "exported", moved)
    model = AutoModelForSequenceClassification.from_pretrained(moved).eval()
    assert model.config.id2label == dict(enumerate(tiny_export.LABELS))
    assert model.config.label2id == {name: index for index, name in enumerate(tiny_export.LABELS)}
    batch = AutoTokenizer.from_pretrained(moved)(["my card is late", "refund"], padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**batch).logits.numpy()
    assert np.abs(onnx_forward(moved / "model.onnx")(batch) - expected).max() < 1e-4


def test_a_regression_on_pairs_is_exported(tmp_path: Path) -> None:
    exported = tiny_export.run(tiny_export.workspace(tmp_path, task_type="regression", pair=True))
    found = read(exported / "parity.json")
    assert found["metric"] == "mse"
    assert found["model.onnx"]["equal_predictions"] is None
    assert found["model.onnx"]["max_logit_difference"] < 1e-4
    assert read(exported / "remint.json")["columns"] == {"text": "text", "text_pair": "text_pair"}
    assert read(exported / "remint.json")["label_names"] == []


def spoil_int8(root: Path) -> None:
    """Make a model that is right on every row of validation, and whose activations int8 can't hold.

    One of the pooler's inputs is huge and has no weight: nothing changes but the scale of the others.
    """
    model = AutoModelForSequenceClassification.from_pretrained(root / "best")
    with torch.no_grad():
        model.bert.encoder.layer[1].output.LayerNorm.bias[0] = 1e5
        model.bert.pooler.dense.weight[:, 0] = 0
    tiny_export.center(model, scoring.load_tokenizer(root / "best"))
    model.save_pretrained(root / "best")
    task = lookup.find(tasks, "single_label")
    collate = task.collator(scoring.load_tokenizer(root / "best"))
    rows = splits.read_encoded(root / "encoded", "validation")
    decoded = scoring.decode(scoring.load_forward(root / "best", task), rows, task, collate, batch_size=64)
    labels = decoded["predictions"].tolist()
    assert len(set(labels)) > 1
    shutil.rmtree(root / "encoded")
    tiny_export.encode(root / "encoded", root / "best", task_type="single_label", labels=labels)


def test_int8_that_loses_too_much_ends_the_stage_with_exit_code_3_and_keeps_what_was_there(copy: Path) -> None:
    spoil_int8(copy)
    tiny_export.params(copy, **{"export.max_metric_drop": 0.01})
    before = tiny_export.digests(copy / "exported")
    command = [sys.executable, "-m", "stages.export", "encoded", "best", "test_metrics.json", "exported"]
    ended = subprocess.run(
        command, cwd=copy, env={**os.environ, "PYTHONPATH": str(tiny.ROOT)}, capture_output=True, text=True
    )
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 4, "a library speaks"  # the CPU, a line for each model, and the error
    assert lines[-1].startswith("error: model.int8.onnx: it loses 0.")
    assert "over export.max_metric_drop 0.01" in lines[-1]
    assert "PyTorch's 1.0000" in lines[-1]
    assert "set export.int8 to optional" in lines[-1]
    assert tiny_export.digests(copy / "exported") == before
    assert not list(copy.glob(".*partial"))


def test_int8_that_loses_too_much_is_left_out_where_it_is_optional(copy: Path) -> None:
    spoil_int8(copy)
    tiny_export.params(copy, **{"export.max_metric_drop": 0.01, "export.int8": "optional"})
    exported = tiny_export.run(copy)
    assert {file.name for file in exported.iterdir()} == FILES - {"model.int8.onnx"}
    found = read(exported / "parity.json")["model.int8.onnx"]
    assert "over export.max_metric_drop 0.01" in found["left_out"]
    assert found["f1_macro"] < 0.9
    assert found["left_out"] in (exported / "README.md").read_text(encoding="utf-8")


def test_int8_is_not_made_where_it_is_off_and_a_card_without_test_metrics_says_why(copy: Path) -> None:
    tiny_export.params(copy, **{"export.int8": "off"})
    nothing = {"rows": 0, "metrics": {}, "why": "there is no test split"}
    (copy / "test_metrics.json").write_text(json.dumps(nothing), encoding="utf-8")
    exported = tiny_export.run(copy)
    assert not (exported / "model.int8.onnx").exists()
    assert read(exported / "parity.json")["model.int8.onnx"] == {"left_out": "export.int8 is off"}
    assert "None: there is no test split." in (exported / "README.md").read_text(encoding="utf-8")


def test_an_fp32_model_that_differs_too_much_is_refused(copy: Path) -> None:
    tiny_export.params(copy, **{"export.tolerance": 1e-12})
    shutil.rmtree(copy / "exported")
    with pytest.raises(GateError, match=r"over export\.tolerance 1e-12 .*try another export\.opset"):
        tiny_export.run(copy)
    assert not (copy / "exported").exists()
    assert not list(copy.glob(".*partial"))


def test_a_newer_opset_is_exported_as_well(copy: Path) -> None:
    tiny_export.params(copy, **{"export.opset": 24})
    exported = tiny_export.run(copy)
    assert onnx.load(exported / "model.onnx").opset_import[0].version == 24
    assert read(exported / "parity.json")["model.int8.onnx"]["equal_predictions"] > 0.5


def test_the_weights_of_a_large_model_lie_beside_the_graph(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "ONE_FILE_BYTES", 1000)
    exported = tiny_export.run(copy)
    sidecars = {"model.onnx.data", "model.int8.onnx.data"}
    assert {file.name for file in exported.iterdir()} == FILES | sidecars
    moved = exported.rename(copy / "moved")
    batch = batch_of(2, 9, ["input_ids", "token_type_ids", "attention_mask"])
    expected = scoring.load_forward(moved, lookup.find(tasks, "single_label"))(batch)
    assert np.abs(onnx_forward(moved / "model.onnx")(batch) - expected).max() < 1e-4
    assert onnx_forward(moved / "model.int8.onnx")(batch).shape == expected.shape


def truncate(best: Path) -> None:
    weights = best / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def remove(best: Path) -> None:
    (best / "model.safetensors").unlink()


def change_a_bit(best: Path) -> None:
    from stages import checkpoints

    checkpoints.complete(best, step=1)
    content = bytearray((best / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (best / "model.safetensors").write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, remove, change_a_bit, shutil.rmtree])
def test_a_best_checkpoint_that_is_not_whole_is_named(copy: Path, damage: Any) -> None:
    damage(copy / "best")
    before = tiny_export.digests(copy / "exported")
    with pytest.raises(ModelError, match="run the select_best stage again"):
        tiny_export.run(copy)
    assert tiny_export.digests(copy / "exported") == before


def test_missing_test_metrics_are_named(copy: Path) -> None:
    (copy / "test_metrics.json").unlink()
    with pytest.raises(DataError, match=r"test_metrics\.json: there is no such file; run the test stage"):
        tiny_export.run(copy)


def test_the_card_tells_the_data_the_params_and_how_good_the_model_is(root: Path) -> None:
    card = (root / "exported" / "README.md").read_text(encoding="utf-8")
    assert "| f1_macro | 0.51 (0.42 to 0.63) | 0.17 |" in card
    assert "| chat | 20 | 0.52 |" in card
    assert "| billing | 0.5 | 0.4 | 0.44 | 14 |" in card
    assert tiny_export.digests(root / "encoded")["train.arrow"] in card
    assert "train 40 rows, validation 40 rows, test 40 rows" in card
    assert "| export.opset | 20 |" in card
    assert "| name | tiny |" in card
    assert "| train.learning_rate | 0.005 |" in card
    assert "remint predict" in card


def test_a_sample_to_trace_by_has_padding_even_where_all_rows_are_equally_long(root: Path) -> None:
    task = lookup.find(tasks, "single_label")
    rows = splits.read_encoded(root / "encoded", "validation").select([0])
    made = export.sample(rows, task.collator(scoring.load_tokenizer(root / "best")), ["input_ids", "attention_mask"])
    assert made["input_ids"].shape[0] == 2
    assert made["attention_mask"].min() == 0
    assert list(made) == ["input_ids", "attention_mask"]


def test_an_onnx_file_that_is_broken_or_missing_is_named(root: Path, tmp_path: Path) -> None:
    broken = tmp_path / "model.onnx"
    broken.write_bytes((root / "exported" / "model.onnx").read_bytes()[:1000])
    with pytest.raises(ModelError, match="ONNX Runtime can't load it"):
        onnx_forward(broken)
    with pytest.raises(ModelError, match="there is no such file"):
        onnx_forward(tmp_path / "other.onnx")
    with pytest.raises(ModelError, match="its graph takes attention_mask"):
        onnx_forward(root / "exported" / "model.onnx")(batch_of(1, 3, ["input_ids", "token_type_ids"]))
