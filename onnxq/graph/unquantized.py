"""A quantized model without its Q/DQ pairs: what it was made of, as far as that can be told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.model import Model
from onnxq.graph.view import Node

QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QLinear", "QGemm")
"""How the names of operators begin that quantize, dequantize, or compute with codes and scales."""

_CODES = ("int8", "uint8", "int16", "uint16", "int32")


def centre_codes(model: Model) -> None:
    """Moves all zero points of one dimension or none to where codes are around 0: 0, of uint8 128.

    So rules make pairs, and no arithmetic, of operators that compute with codes. The model computes something
    else then: it is of use where only its operators and shapes count, for the kernels of an engine.

    Args:
        model: the model, which is changed.
    """
    for raw in (raw for graph in model.graphs() for raw in graph.nodes if raw.op.startswith(QUANTIZED)):
        for tensor in Node(model, raw).inputs:
            if tensor is None or not tensor.is_constant or tensor.rank not in (0, 1):
                continue
            if tensor.dtype in (np.int8, np.uint8):
                assert tensor.constant is not None
                zero = np.full_like(tensor.constant, 128 if tensor.dtype == np.uint8 else 0)
                tensor.tensor._values = model.constant("", zero)._values


def unquantized(model: onnx.ModelProto, data_dir: Path | None = None) -> onnx.ModelProto:
    """A copy of a model whose tensors are not quantized, and whose quantized constants are floats again.

    Those in subgraphs stay. What is left keeps its names.

    Args:
        model: the model; its pairs are QuantizeLinear and DequantizeLinear, with any zero point.
        data_dir: the folder that its external data is relative to, None where its weights are in it.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    graph = found.graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            held[node.output[0]] = node.attribute[0].t
    outputs = {info.name for info in graph.output}
    instead: dict[str, str] = {}
    types: dict[str, int] = {}  # of what was quantized
    kept = []
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = instead.get(name, name)
        source = node.input[0] if node.input else ""
        if node.op_type == "QuantizeLinear" and node.output[0] not in outputs:
            instead[node.output[0]] = source
            types[source] = _type(held, node.input[1])
        elif node.op_type == "DequantizeLinear":
            made = _dequantized(node, held, data_dir)
            wanted = _type(held, node.input[1])
            if made is not None:
                graph.initializer.append(made)
                held[made.name] = made
            elif types.get(source, wanted) != wanted:
                kept.append(
                    onnx.helper.make_node("Cast", [source], [node.output[0]], f"{node.name}_cast", to=wanted)
                )
            elif node.output[0] in outputs:
                kept.append(onnx.helper.make_node("Identity", [source], [node.output[0]], node.name))
            else:
                instead[node.output[0]] = source
        else:
            if source in types:  # what only moves codes moves floats now
                types.update(dict.fromkeys(node.output, types[source]))
            kept.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(kept)
    read = {name for node in graph.node for name in node.input} | outputs
    left = [tensor for tensor in graph.initializer if tensor.name in read or _bodies(graph)]
    del graph.initializer[:]
    graph.initializer.extend(left)
    return found


def _bodies(graph: onnx.GraphProto) -> bool:
    """Whether there are subgraphs, which may read constants too."""
    return any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)


def _type(held: Mapping[str, onnx.TensorProto], scale: str) -> int:
    return held[scale].data_type if scale in held else onnx.TensorProto.FLOAT


def _dequantized(
    node: onnx.NodeProto, held: Mapping[str, onnx.TensorProto], data_dir: Path | None
) -> onnx.TensorProto | None:
    """What a DequantizeLinear of constants gives; None where its input is no constant of codes."""
    tensors = [held.get(name) for name in node.input if name]
    codes = tensors[0]
    if codes is None or None in tensors:
        return None
    base = str(data_dir or "")
    values = numpy_helper.to_array(codes, base)
    if values.dtype.name not in _CODES:
        return None
    scale, zero = (None if t is None else numpy_helper.to_array(t, base) for t in (*tensors[1:], None)[:2])
    assert scale is not None
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    block = next((a.i for a in node.attribute if a.name == "block_size"), 0)
    if block:
        scale = np.repeat(scale, block, axis)
        zero = None if zero is None else np.repeat(zero, block, axis)
    elif scale.ndim == 1 and scale.size > 1:
        along = [1] * values.ndim
        along[axis] = -1
        scale = scale.reshape(along)
        zero = None if zero is None else zero.reshape(along)
    shifted = values.astype(np.float32) - (0 if zero is None else zero.astype(np.float32))
    return numpy_helper.from_array((shifted * scale).astype(scale.dtype), node.output[0])
