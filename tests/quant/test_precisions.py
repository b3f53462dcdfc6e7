"""Models in float16, bfloat16 and double: the pairs are the same, with casts around them."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from test_compiled import NETS

import onnxq
from onnxq.run import trt

KINDS = {
    "float16": (np.float16, TensorProto.FLOAT16),
    "bfloat16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
    "double": (np.float64, TensorProto.DOUBLE),
}


def recast(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """A float32 model in another type."""
    dtype, elem_type = KINDS[kind]
    graph = model.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(values.astype(dtype), tensor.name))
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = elem_type
    return model


def samples(model: onnx.ModelProto, dtype: type) -> list[dict[str, np.ndarray]]:
    size = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal(size).astype(dtype)} for _ in range(6)]


@functools.cache
def readers(name: str) -> list[Any]:
    """The edges that read the pairs of a net in float32."""
    report = onnxq.quantize(
        NETS[name](), samples(NETS[name](), np.float32), compile=False, repair="none"
    ).report
    return [site["readers"] for site in report["plan"]["sites"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NETS)
def test_every_layer_runs_in_int8(name: str, kind: str) -> None:
    model = recast(NETS[name](), kind)
    compiler = trt.installed() is not None and (kind == "float16" or name in ("residual", "matmul"))
    result = onnxq.quantize(model, samples(model, KINDS[kind][0]), compile=compiler, repair="none")
    plan = result.report["plan"]
    assert [site["readers"] for site in plan["sites"]] == readers(name)
    (accuracy,) = result.report["accuracy"]
    assert accuracy["sqnr_db"] > 25
    assert [o.type.tensor_type.elem_type for o in result.model.graph.output] == [KINDS[kind][1]]
    if compiler:
        engine = result.report["engine"]
        assert engine["status"] == "compiled", engine["reason"]
        assert engine["not_int8"] == []
    again = onnxq.quantize(result.model, samples(model, KINDS[kind][0]), compile=False, repair="none")
    assert again.report["plan"]["sites"] == []


def test_a_model_of_two_half_types_is_calibrated() -> None:
    text = """<ir_version: 9, opset_import: ["" : 19]> g (bfloat16[32, 32] x, float16[32, 32] u) => (y) {
        c = Cast <to = 10> (x)  a = Add (c, u)  y = MatMul (a, w) }"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((32, 32)).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    values = [rng.standard_normal((2, 32, 32)) for _ in range(4)]
    data = [{"x": x.astype(ml_dtypes.bfloat16), "u": u.astype(np.float16)} for x, u in values]
    report = onnxq.quantize(model, data, compile=False, repair="none").report
    assert [layer["format"] for layer in report["plan"]["layers"]] == ["int8"]
    assert report["accuracy"][0]["sqnr_db"] > 25
