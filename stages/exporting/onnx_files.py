"""Make ONNX files: a model in PyTorch -> fp32, fp32 -> int8. The same model gives the same bytes, in any folder."""

import contextlib
import inspect
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.serving.onnx_session import OUTPUT

ONE_FILE_BYTES = 2_000_000_000  # a protobuf message ends at 2 GiB: larger weights lie in a .data file beside the graph


def sidecar(file: Path) -> Path:
    """Where the weights of a large model lie, if there is such a file: it belongs to the ONNX file."""
    return file.with_name(f"{file.name}.data")


def remove(file: Path) -> None:
    """Delete an ONNX file with its sidecar."""
    for path in (file, sidecar(file)):
        path.unlink(missing_ok=True)


def inputs_taken(model: Any, candidates: Sequence[str]) -> list[str]:
    """Of the tokenizer's outputs, those that the model's forward has a parameter for, in order.

    Most models swallow others by **kwargs: a DistilBERT has no token_type_ids even where its tokenizer makes them.
    """
    parameters = inspect.signature(model.forward).parameters
    return [name for name in candidates if name in parameters]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notes on standard output, and its warnings about operators that no model here has."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        log.setLevel(level)


def _strip(program: Any) -> None:
    """Take off what tells how and where the graph was traced: stack traces with paths, names of the trace's nodes.

    The shapes within the graph go too (whoever needs them infers them), and with them the trace's names of axes.
    """
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    ClearMetadataAndDocStringPass()(program)
    program.metadata_props.clear()
    graph = program.graph
    inner = [value for node in graph for value in node.outputs if value not in set(graph.outputs)]
    for value in inner:
        value.shape = value.type = None
    for value in [*inner, *graph.inputs, *graph.outputs, *graph.initializers.values()]:
        value.metadata_props.clear()


def _name_axes(program: Any) -> None:
    """Name the free axes of inputs and outputs: batch, sequence."""
    import onnx_ir

    names = {0: "batch", 1: "sequence"}
    for value in [*program.graph.inputs, *program.graph.outputs]:
        axes = enumerate(value.shape)
        value.shape = onnx_ir.Shape([size if isinstance(size, int) else names.get(axis) for axis, size in axes])


def write_fp32(model: Any, sample: Mapping[str, Any], file: Path, *, opset: int) -> None:
    """Trace a model (in evaluation mode, on the CPU) by a sample batch, and write it with free batch and length.

    The sample has at least 2 rows and some padding: an axis of size 1 would be frozen, and a mask of ones left out.
    """
    import onnx_ir
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    assert not model.training, "a model in training mode would be exported with its dropout"
    free = {name: dict.fromkeys(range(tensor.dim()), torch.export.Dim.DYNAMIC) for name, tensor in sample.items()}
    with _quiet():
        config = OnnxConfig(dynamic=True, dynamic_shapes=free, opset_version=opset)
        program = OnnxExporter().export(model, dict(sample), config=config).program
    assert OUTPUT in [value.name for value in program.graph.outputs]
    _strip(program)
    _name_axes(program)
    num_bytes = sum(value.const_value.nbytes for value in program.graph.initializers.values())
    onnx_ir.save(program, file, external_data=sidecar(file).name if num_bytes > ONE_FILE_BYTES else None)


def write_int8(fp32: Path, file: Path) -> None:
    """Quantize an ONNX file: weights to int8 for each channel once, activations to uint8 for each batch as it comes."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.registry import IntegerOpsRegistry
    from onnxruntime.quantization.shape_inference import quant_pre_process

    large = sidecar(fp32).exists()
    prepared = file.with_name(f"{file.name}.prepared")
    try:
        # Without the optimization, whose fusions are those of the CPU it runs on.
        quant_pre_process(
            fp32,
            prepared,
            skip_optimization=True,
            skip_symbolic_shape=True,
            save_as_external_data=large,
            all_tensors_to_one_file=large,
            external_data_location=sidecar(prepared).name if large else None,
        )
        quantize_dynamic(
            prepared,
            file,
            # ONNX has an Attention of its own from opset 23 on: it would be taken for ONNX Runtime's.
            op_types_to_quantize=[kind for kind in IntegerOpsRegistry if kind != "Attention"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=large,
        )
    finally:
        remove(prepared)
