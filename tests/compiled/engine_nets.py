"""Small nets whose engines tell something, and an independent reading of the compiler's log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxq.compiled.reading import EngineReading, read
from onnxq.graph.model import Model
from onnxq.run import trt
from onnxq.run.engine_log import EngineLayer, parse_layers

Node = onnx.NodeProto
FLOAT = TensorProto.FLOAT

CHANNELS, SIZE = 32, 16


def weights(name: str, shape: tuple[int, ...], *, quantized: bool) -> tuple[list[Node], list[TensorProto]]:
    """Weights called `name`: codes and a DequantizeLinear, or floats."""
    rng = np.random.default_rng(len(name))
    if not quantized:
        return [], [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)]
    codes = rng.integers(-127, 128, shape).astype(np.int8)
    node = helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s"], [name], name=f"{name}_dq")
    return [node], [
        numpy_helper.from_array(codes, f"{name}_q"),
        numpy_helper.from_array(np.float32(0.01), f"{name}_s"),
    ]


def pair(source: str, name: str) -> tuple[list[Node], list[TensorProto]]:
    """A Q/DQ pair from `source` to `name`."""
    scales = [f"{name}_s", f"{name}_z"]
    quantize = helper.make_node("QuantizeLinear", [source, *scales], [f"{name}_q"], name=f"{name}_quant")
    dequantize = helper.make_node("DequantizeLinear", [f"{name}_q", *scales], [name], name=f"{name}_dq")
    return [quantize, dequantize], [
        numpy_helper.from_array(np.float32(0.05), f"{name}_s"),
        numpy_helper.from_array(np.int8(0), f"{name}_z"),
    ]


def convolutions(*, quantized: bool = True) -> onnx.ModelProto:
    """A convolution with both operands quantized, a grouped one, one of quantized weights, one transposed."""
    nodes: list[Node] = []
    held: list[TensorProto] = []

    def add(more: tuple[list[Node], list[TensorProto]]) -> None:
        nodes.extend(more[0])
        held.extend(more[1])

    first = "x"
    if quantized:
        add(pair("x", "xd"))
        first = "xd"
    add(weights("wa", (CHANNELS, CHANNELS, 3, 3), quantized=quantized))
    nodes.append(helper.make_node("Conv", [first, "wa"], ["a"], name="both", pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Relu", ["a"], ["ar"], name="relu"))
    add(weights("wb", (CHANNELS, CHANNELS // 4, 3, 3), quantized=False))
    nodes.append(helper.make_node("Conv", ["ar", "wb"], ["b"], name="grouped", group=4, pads=[1, 1, 1, 1]))
    add(weights("wc", (CHANNELS, CHANNELS, 3, 3), quantized=quantized))
    nodes.append(helper.make_node("Conv", ["b", "wc"], ["c"], name="half", pads=[1, 1, 1, 1]))
    add(weights("wd", (CHANNELS, CHANNELS // 2, 2, 2), quantized=False))
    nodes.append(helper.make_node("ConvTranspose", ["c", "wd"], ["y"], name="up", strides=[2, 2]))
    x = helper.make_tensor_value_info("x", FLOAT, [1, CHANNELS, SIZE, SIZE])
    y = helper.make_tensor_value_info("y", FLOAT, [1, CHANNELS // 2, 2 * SIZE, 2 * SIZE])
    return _model(nodes, [x], [y], held)


def fp4_product() -> onnx.ModelProto:
    """A product in NVFP4: codes of four bits, a float8 scale for 16 of them, a float32 one for those."""
    codes = TensorProto(name="w", data_type=TensorProto.FLOAT4E2M1, dims=[128, 64], raw_data=bytes(4096))
    scales = TensorProto(name="ws", data_type=TensorProto.FLOAT8E4M3FN, dims=[8, 64], raw_data=b"\x38" * 512)
    held = [codes, scales, *(numpy_helper.from_array(np.float32(0.1), name) for name in ("wss", "xs"))]
    dequantize = "DequantizeLinear"
    block = {"axis": -1, "block_size": 16}
    quantize = {"domain": "trt", "scale_type": TensorProto.FLOAT8E4M3FN, **block}
    nodes = [
        helper.make_node(dequantize, ["ws", "wss"], ["wsf"], name="ws_dq"),
        helper.make_node(dequantize, ["w", "wsf"], ["wf"], name="w_dq", axis=0, block_size=16),
        helper.make_node("TRT_FP4DynamicQuantize", ["x", "xs"], ["xq", "xqs"], name="x_q", **quantize),
        helper.make_node(dequantize, ["xqs", "xs"], ["xsf"], name="xs_dq"),
        helper.make_node(dequantize, ["xq", "xsf"], ["xf"], name="x_dq", **block),
        helper.make_node("MatMul", ["xf", "wf"], ["y"], name="product"),
    ]
    x = helper.make_tensor_value_info("x", FLOAT, [32, 128])
    y = helper.make_tensor_value_info("y", FLOAT, [32, 64])
    return _model(nodes, [x], [y], held, opset=23)


def mx_product() -> onnx.ModelProto:
    """A product whose weights are MXFP8: float8 codes, an exponent for 32 of them; they stand transposed."""
    codes = TensorProto(name="w", data_type=TensorProto.FLOAT8E4M3FN, dims=[64, 128], raw_data=b"\x38" * 8192)
    held = [codes, numpy_helper.from_array(np.full((64, 4), 120, np.uint8), "ws")]
    block = {"axis": -1, "block_size": 32, "domain": "trt"}
    to_float = {"output_dtype": FLOAT, **block}
    to_codes = {"output_dtype": TensorProto.FLOAT8E4M3FN, **block}
    nodes = [
        helper.make_node("TRT_MXFP8DequantizeLinear", ["w", "ws"], ["wf"], name="w_dq", **to_float),
        helper.make_node("TRT_MXFP8DynamicQuantize", ["x"], ["xq", "xs"], name="x_q", **to_codes),
        helper.make_node("TRT_MXFP8DequantizeLinear", ["xq", "xs"], ["xf"], name="x_dq", **to_float),
        helper.make_node("Transpose", ["wf"], ["wt"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["xf", "wt"], ["y"], name="product"),
    ]
    x = helper.make_tensor_value_info("x", FLOAT, [32, 128])
    y = helper.make_tensor_value_info("y", FLOAT, [32, 64])
    return _model(nodes, [x], [y], held, opset=19)


def attention() -> onnx.ModelProto:
    """softmax(Q K) V of three inputs in float16, which the compiler fuses, and one of two heads for eight."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"], name="scores"),
        helper.make_node("Softmax", ["s"], ["p"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="mix"),
        helper.make_node("Attention", ["gq", "gk", "gv"], ["gy"], name="grouped"),
    ]
    shapes = {"q": [1, 4, 64, 32], "k": [1, 4, 32, 64], "v": [1, 4, 64, 32], "y": [1, 4, 64, 32]}
    shapes |= {"gq": [1, 8, 64, 32], "gk": [1, 2, 64, 32], "gv": [1, 2, 64, 32], "gy": [1, 8, 64, 32]}
    infos = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT16, dims) for name, dims in shapes.items()
    }
    outputs = [infos.pop(name) for name in ("y", "gy")]
    return _model(nodes, [*infos.values()], outputs, [], opset=23)


def _model(
    nodes: list[Node],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    held: list[TensorProto],
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "net", inputs, outputs, held)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("trt", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11 if opset > 21 else 9)


# --- an engine, and what its log says -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log, as a reader of it sees it: each tensor is (bytes, type, shape)."""

    name: str
    kind: str
    inputs: list[tuple[float, str, list[int]]]
    constants: list[tuple[float, str, list[int]]]
    outputs: list[tuple[float, str, list[int]]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A net, its engine, the reading under test and the independent one."""

    path: Path
    engine: trt.Engine
    reading: EngineReading
    lines: list[Line]


_WIDTHS = {"Float": 4, "Half": 2, "Int8": 1, "FP8": 1, "FP8UE8M0": 1, "FP4E2M1": 0.5}
_TENSOR = re.compile(r"\{ Name: .*?, Dimensions: \[(.*?)\].*?Datatype: (\w+)")


def lines_of(message: str) -> list[Line]:
    """The kernels of a log message, each field found by a search of its own."""
    found = []
    for text in message.splitlines():
        head = re.match(r"Name: (.*?), LayerType: (\w+), ", text)
        if head is None or head[2] in ("signal", "wait"):
            continue
        parts = re.split(r", (?:Inputs|Constants|Outputs|TacticName): ", text)
        fields = dict(
            zip(re.findall(r", (Inputs|Constants|Outputs|TacticName): ", text), parts[1:], strict=True)
        )
        tensors = [
            [_tensor(dims, dtype) for dims, dtype in _TENSOR.findall(fields.get(key, ""))]
            for key in ("Inputs", "Constants", "Outputs")
        ]
        found.append(Line(head[1], head[2], *tensors))
    return found


def _tensor(dims: str, dtype: str) -> tuple[float, str, list[int]]:
    shape = [int(size) for size in dims.split(",") if size]
    return float(np.prod(shape)) * _WIDTHS[dtype], dtype, shape


def compiled(model: onnx.ModelProto, path: Path, sm: int = 89) -> Compiled:
    """Compiles a model, and reads its engine in both ways."""
    onnx.save(model, path)
    messages: list[str] = []

    def spy(message: str) -> tuple[EngineLayer, ...]:
        messages.append(message)
        return parse_layers(message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trt, "parse_layers", spy)
        engine = trt.compile_engine(path, sm=sm)
    assert engine.status == "compiled", engine.reason
    assert engine.unread == ""
    return Compiled(path, engine, read(engine.layers, Model.open(path)), lines_of(messages[0]))
