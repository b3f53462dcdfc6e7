"""Scores a quantized model by the same measures whoever made it: `python -m benchmarks.corpus_score`.

Q/DQ pairs are counted in the file. The int8 share is read from the engine: the multiply-accumulates
of the eligible layers that it runs in int8, of all that the float model has. SQNR is that of the
worst output against the float model in onnxruntime.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import onnxq
from onnxq.base.errors import OnnxqError
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.run import ort, trt
from onnxq.run.compare import compare_models

LIMIT = 999.0
"""The SQNR (dB) that stands for equal outputs, and its negative for outputs that are not finite."""

_QDQ = ("QuantizeLinear", "DequantizeLinear")


def score(original: Path, quantized: Path, held_out: Path, report: Path | None = None) -> dict[str, Any]:
    """The measures of a quantized model.

    Args:
        original: the float model.
        quantized: what a tool made of it.
        held_out: a folder of .npz files, one for each sample.
        report: onnxq's report, which has the engine already.

    Returns:
        qdq: pairs; int8: the share, None where nothing is eligible or there is no engine; engine:
        `compiled` or `failed`, and reason: why; sqnr: dB, or None with why_not.
    """
    feeds = [dict(np.load(path)) for path in sorted(held_out.glob("*.npz"))]
    model = onnx.load(quantized)
    if report is not None:
        engine = _reported(json.loads(report.read_text("utf-8"))["engine"])
    else:
        name_nodes(model.graph)
        engine = compile_for(model, feeds[0])
    found = {
        "qdq": sum(node.op_type == "DequantizeLinear" for node in model.graph.node),
        "engine": engine.status,
        "reason": engine.reason,
        "int8": int8_share(original, model, engine, feeds[0]) if engine.layers else None,
    }
    try:
        found["sqnr"] = _worst_sqnr(original, quantized, feeds)
    except OnnxqError as error:
        found["why_not"] = str(error)
    return found


def int8_share(
    original: Path, quantized: onnx.ModelProto, engine: trt.Engine, feeds: Mapping[str, np.ndarray]
) -> float | None:
    """The share of the float model's eligible multiply-accumulates that an engine runs in int8.

    Args:
        original: the float model; None is eligible in it where the share is None.
        quantized: the model that the engine was compiled from, each node with a name of its own.
        engine: the engine.
        feeds: a sample, for the sizes of dynamic dimensions.
    """
    whole = sum(layer.macs or 0 for layer in _eligible(onnxq.sanitize(original, prove="never").model, feeds))
    layers = list(_eligible(without_qdq(quantized), feeds))
    runs = trt.int8_of(engine, [layer.node.name for layer in layers])
    int8 = {name for name, layer in runs.items() if layer is not None and layer.multiplies("int8")}
    return sum(layer.macs or 0 for layer in layers if layer.node.name in int8) / whole if whole else None


def without_qdq(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without its Q/DQ nodes; int8 weights become float ones of the same shape, all zero.

    Casts of constants are constants, as between the pairs and the layers of a model in half precision.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    graph = bare.graph
    source = {node.output[0]: node.input[0] for node in graph.node if node.op_type in _QDQ}
    for node in graph.node:
        for index, name in enumerate(node.input):
            while name in source:
                name = source[name]
            node.input[index] = name
    outputs = {info.name for info in graph.output}
    kept = [node for node in graph.node if node.op_type not in _QDQ or node.output[0] in outputs]
    stored = set(source.values())
    weights = [_as_float(tensor) if tensor.name in stored else tensor for tensor in graph.initializer]
    del graph.node[:], graph.initializer[:]
    held = {tensor.name: tensor for tensor in weights}
    for node in kept:
        if node.op_type == "Cast" and node.input[0] in held and node.output[0] not in outputs:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(node.attribute[0].i)
            values = numpy_helper.to_array(held[node.input[0]]).astype(dtype)
            held[node.output[0]] = numpy_helper.from_array(values, node.output[0])
        else:
            graph.node.append(node)
    graph.initializer.extend(held.values())
    return bare


def _as_float(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type not in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8):
        return tensor
    zeros = np.zeros(tuple(tensor.dims), np.float32)
    return numpy_helper.from_array(zeros, tensor.name)


def _eligible(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Iterator[Layer]:
    model = Model.open(proto)
    model.set_typical_input({name: array.shape for name, array in feeds.items()})
    for raw in model.graph.nodes:
        layer = layer_of(Node(model, raw))
        if layer is not None and layer.ineligible is None:
            yield layer


def name_nodes(graph: onnx.GraphProto) -> None:
    """Gives each node a name of its own, so that the engine's layers can be told apart."""
    taken: set[str] = set()
    for index, node in enumerate(graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.name or node.op_type}/{index}"
        taken.add(node.name)


def _reported(found: Mapping[str, Any]) -> trt.Engine:
    layers = [trt.EngineLayer(**layer) for layer in found["layers"]]
    return trt.Engine(found["status"], found["reason"], found["compiler"], found["sm"], tuple(layers))


def compile_for(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> trt.Engine:
    """The engine for the shapes of a sample."""
    shapes = {name: tuple(array.shape) for name, array in feeds.items()}
    sizes = {info.name: info.type.tensor_type.shape.dim for info in model.graph.input}
    profiles = {
        name: (shape,) * 3
        for name, shape in shapes.items()
        if any(not dim.HasField("dim_value") for dim in sizes.get(name, ()))
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        return trt.compile_engine(path, profiles=profiles)


def _worst_sqnr(original: Path, quantized: Path, feeds: Iterable[Mapping[str, np.ndarray]]) -> float | None:
    """The smallest SQNR of a float output, dB, within the limit; None where there is none."""
    found = compare_models(ort.load(original), ort.load(quantized), feeds)
    ratios = [entry.sqnr_db for entry in found if entry.sqnr_db is not None]
    return max(-LIMIT, min(LIMIT, *ratios)) if ratios else None


if __name__ == "__main__":
    result = score(*map(Path, sys.argv[1:]))
    print(json.dumps(result))
