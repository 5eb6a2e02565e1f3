"""The best checkpoint -> a save_model folder, ONNX in fp32 and int8, both compared with PyTorch, and a model card."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stages import checkpoints, command, hardware, lookup, outputs, scoring, splits, tasks
from stages.errors import DataError
from stages.exporting import model_card, onnx_files, parity, saved_model
from stages.params import ColumnsParams, ExportParams, load_params
from stages.serving.onnx_session import onnx_forward

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)

# What int8's sums depend on: with AVX2 or AVX-512 alone, for one, sums of two products saturate at 16 bits.
INT8_FLAGS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm")


def sample(rows: "Dataset", collate: Callable[[list[Any]], Any], names: list[str]) -> dict[str, Any]:
    """Two rows to trace a model by, the longest and the shortest, with padding even where they are equally long."""
    lengths = splits.numbers(rows, "length").tolist()
    ends = [lengths.index(max(lengths)), lengths.index(min(lengths))]
    _, batch = next(scoring.batches(rows.select(ends), collate, batch_size=2))
    made = {name: batch[name] for name in names if name in batch}
    if "attention_mask" in made:
        made["attention_mask"][-1, ..., -1] = 0
    return made


def write_onnx(model: Any, traced: dict[str, Any], folder: Path, params: ExportParams) -> list[str]:
    """Write the ONNX files that are wanted; their names."""
    fp32, int8 = folder / parity.FP32, folder / parity.INT8
    onnx_files.write_fp32(model, traced, fp32, opset=params.opset)
    if params.int8 == "off":
        return [fp32.name]
    onnx_files.write_int8(fp32, int8)
    found = hardware.cpu_flags()
    log.info("int8 is compared on a CPU with: %s", ", ".join(flag for flag in INT8_FLAGS if flag in found) or "unknown")
    return [fp32.name, int8.name]


def check(report: parity.Report, folder: Path, params: ExportParams) -> None:
    """Refuse a model that is not near enough to PyTorch's; take int8 out of the folder where it is optional."""
    for name in (parity.FP32, parity.INT8):
        if name in report:
            log.info("%s", parity.describe(report, name))
    parity.check_fp32(report, tolerance=params.tolerance)
    if parity.INT8 not in report:
        report[parity.INT8] = {"left_out": "export.int8 is off"}
    elif not parity.check_int8(report, max_metric_drop=params.max_metric_drop, optional=params.int8 == "optional"):
        onnx_files.remove(folder / parity.INT8)


def settings(tokenizer: Any, columns: ColumnsParams, text_columns: tuple[str, ...], **facts: Any) -> dict[str, Any]:
    """What remint.json tells `remint predict`: where the texts are, and how batches are made of them."""
    named = columns.model_dump()
    return {
        **facts,
        "columns": {name: named[name] for name in text_columns if named[name] is not None},
        "pad_token_id": tokenizer.pad_token_id,
        "pad_token_type_id": tokenizer.pad_token_type_id,
        "padding_side": tokenizer.padding_side,
        "truncation_side": tokenizer.truncation_side,
    }


def read_if_there(file: Path) -> dict[str, Any]:
    """What a JSON file holds; a best that was made by hand may lack it."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def write_facts(facts: dict[str, Any], report: parity.Report, encoded: Path, test_metrics: Path, folder: Path) -> None:
    """Write what was measured, and the model card, into the folder of the model."""
    outputs.write_json(folder / "parity.json", report)
    card = model_card.render(
        facts,
        report,
        auto_model=lookup.find(tasks, facts["task"]).AUTO_MODEL,
        config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
        origins={name: read_if_there(folder / name) for name in ("source.json", "training.json")},
        test=json.loads(test_metrics.read_text(encoding="utf-8")),
        rows={name: len(splits.read_encoded(encoded, name)) for name in splits.present(encoded)},
        digests={file.name: checkpoints.digest(file) for file in sorted(encoded.iterdir())},
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def main(encoded: Path, best: Path, test_metrics: Path, exported: Path) -> None:
    """Export models/best, and refuse what is not near enough to it on the validation rows."""
    params = load_params()
    task: tasks.Task = lookup.find(tasks, params.task.type)
    if not test_metrics.is_file():
        raise DataError(f"{test_metrics}: there is no such file; run the test stage first (dvc repro test)")
    rows = splits.read_encoded(encoded, "validation")

    with outputs.folder(exported) as folder:
        saved_model.copy(best, folder)
        tokenizer, model = saved_model.load(folder, task.AUTO_MODEL)
        collate = task.collator(tokenizer)
        traced = sample(rows, collate, onnx_files.inputs_taken(model, task.onnx_inputs(tokenizer.model_input_names)))
        made = write_onnx(model, traced, folder, params.export)
        forwards = {parity.PYTORCH: scoring.load_forward(folder, task)}
        forwards.update({name: onnx_forward(folder / name) for name in made})
        metric, batch_size = params.select_best.metric, params.evaluate.batch_size
        report = parity.measure(forwards, rows, task, collate, metric=metric, batch_size=batch_size)
        check(report, folder, params.export)
        facts = settings(
            tokenizer,
            params.data.columns,
            task.TEXT_COLUMNS,
            task=params.task.type,
            label_names=splits.read_label_names(encoded),
            max_length=params.encode.max_length,
            inputs=list(traced),
        )
        outputs.write_json(folder / "remint.json", facts)
        knobs = {"select_best": params.select_best.model_dump(), "export": params.export.model_dump()}
        write_facts({**facts, **knobs}, report, encoded, test_metrics, folder)


if __name__ == "__main__":
    command.run(main)
