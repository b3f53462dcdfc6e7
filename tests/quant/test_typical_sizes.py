"""Layers of which inference leaves a size open are placed by the size that they have in a sample."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """A product of the rows of which the sum is positive: inference does not know how many."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[64, 32] x) => (float[k, 32] y) <int64[1] one = {1}> {
            sum = ReduceSum <keepdims = 0> (x, one)  positive = Relu (sum)  at = NonZero (positive)
            rows = Squeeze (at)  taken = Gather (x, rows)  [m] y = MatMul (taken, w) }"""
    )
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


@pytest.mark.parametrize(("positive", "kept"), [(20, []), (3, ["3 rows"])])
def test_rows_behind_what_inference_cannot_tell_are_those_of_a_sample(
    model: onnx.ModelProto, positive: int, kept: list[str]
) -> None:
    x = np.random.default_rng(1).uniform(0.1, 1, (4, 64, 32)).astype(np.float32)
    x[:, positive:] *= -1
    data = [{"x": one} for one in x]
    plan = onnxq.quantize(model, data, compile=False, repair="none", body="fp32").report["plan"]
    (layer,) = plan["layers"]
    assert layer["format"] == ("float" if kept else "int8")
    assert layer["macs"] == positive * 32 * 32
    assert [entry["because"].partition(":")[0] for entry in plan["kept_float"]] == kept
