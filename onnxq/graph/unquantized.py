"""A quantized model without its Q/DQ pairs: what it was made of, as far as that can be told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.formats import FORMATS, INT8, format_of
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ, Pair, PairIndex
from onnxq.graph.topology import Topology
from onnxq.graph.types import elem_type_of
from onnxq.graph.view import Tensor, every_node

QUANTIZED = (*QDQ, "QLinear", "QGemm")
"""How the names of operators begin that quantize, dequantize, or compute with codes and scales."""


def centre_codes(model: Model) -> None:
    """Moves all zero points of one dimension or none to where codes are around 0: 0, of uint8 128.

    So rules make pairs, and no arithmetic, of operators that compute with codes. The model computes something
    else then: it is of use where only its operators and shapes count, for the kernels of an engine.

    Args:
        model: the model, which is changed.
    """
    for node in every_node(model):
        for tensor in node.inputs if node.op.startswith(QUANTIZED) else ():
            if tensor is None or not tensor.is_constant or tensor.rank not in (0, 1):
                continue
            if tensor.dtype is not None and INT8.takes(format := format_of(tensor.dtype)):
                assert tensor.constant is not None
                zero = np.full_like(tensor.constant, (format.ends[0] + format.greatest + 1) // 2)
                tensor.tensor._values = model.constant("", zero)._values


def unquantized(model: onnx.ModelProto, data_dir: Path | None = None) -> onnx.ModelProto:
    """A copy of a model whose tensors are not quantized, and whose quantized constants are floats again.

    Those in subgraphs stay. What is left keeps its names.

    Args:
        model: the model; its pairs are QuantizeLinear and DequantizeLinear, with any zero point.
        data_dir: the folder that its external data is relative to, None where its weights are in it.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    held = PairIndex.of(Topology(model, None, data_dir), bodies=False)
    pairs = {pair.node.outputs[0].name: pair for pair in held}
    outputs = {info.name for info in graph.output}
    instead: dict[str, str] = {}
    types: dict[str, int] = {}  # of what was quantized
    kept = []
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = instead.get(name, name)
        source = node.input[0] if node.input else ""
        pair = pairs.get(node.output[0]) if node.output else None
        if pair is not None and not pair.dequantizes and node.output[0] not in outputs:
            instead[node.output[0]] = source
            types[source] = _type(pair.scale)
        elif pair is not None and pair.dequantizes:
            made, kind = _dequantized(pair), _type(pair.scale)
            if made is not None:
                graph.initializer.append(numpy_helper.from_array(made, node.output[0]))
            elif types.get(source, kind) != kind:
                kept.append(
                    onnx.helper.make_node("Cast", [source], [node.output[0]], f"{node.name}_cast", to=kind)
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
    every = _bodies(graph)
    left = [tensor for tensor in graph.initializer if every or tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(left)
    return copy


def _bodies(graph: onnx.GraphProto) -> bool:
    """Whether there are subgraphs, which may read constants too."""
    return any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)


def _type(scale: Tensor | None) -> int:
    if scale is None or not scale.is_constant or scale.dtype is None:
        return int(onnx.TensorProto.FLOAT)
    return elem_type_of(scale.dtype)


def _dequantized(pair: Pair) -> np.ndarray | None:
    """What a DequantizeLinear of constants gives; None where its input is no constant of codes."""
    codes = pair.codes.constant if pair.codes is not None else None
    grid = None if codes is None else pair.grid(codes.shape)
    if codes is None or grid is None or pair.scale is None:
        return None
    if codes.dtype.kind not in "iu" and pair.format not in FORMATS.values():  # weights of 4 bits stay
        return None
    steps, zeros = grid
    return np.asarray(((codes.astype(np.float32) - zeros) * steps).astype(pair.scale.dtype))
