"""Assignments to slices, as exporters write them, for targets without an importer of ScatterND."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxq

# `x[:, 1:3] = 0` of torch.onnx.export: indices and updates are spread over shapes that are computed.
TRACED = """<ir_version: 7, opset_import: ["" : 11]>
    g (float[N, 6, 5] x) => (float[N, 6, 5] z)
    <int64 zero = {0}, int64 one = {1}, int64[2] column = {-1, 1}, int64[2] rows = {1, 2},
     int64[2] none = {-1, -1}, int64[2] ones = {1, 1}, int64[1] rest = {5}, int64[1] first = {1},
     int64[1] end = {3}, float value = {0}> {
        r = Relu (x)  part = Slice (r, first, end, first, first)  size = Shape (part)
        v = Expand (value, size)  s = Shape (r)  n = Gather (s, zero)  count = Cast <to = 7> (n)
        range = Range (zero, count, one)  batch = Reshape (range, column)  a = Add (batch, rows)
        grid = Shape (a)  k = Equal (grid, none)  w = Where (k, ones, grid)
        b = Expand (batch, w)  i0 = Unsqueeze <axes = [-1]> (b)
        c = Expand (rows, w)  i1 = Unsqueeze <axes = [-1]> (c)
        i = Concat <axis = -1> (i0, i1)  to = Concat <axis = 0> (grid, rest)  u = Reshape (v, to)
        z = ScatterND (r, i, u) }"""
# `x[:, ::2, 1:3] = y` with dynamo=True: a slice of a slice, each turned so that its axis comes first.
TURNED = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 6, 5] x, float[N, 3, 2] y) => (float[N, 6, 5] z)
    <int64[1] one = {1}, int64[1] two = {2}, int64[1] zero = {0}, int64[1] end = {6},
     int64[2, 1] inner = {1, 2}, int64[3, 1] outer = {0, 2, 4}> {
        r = Relu (x)  part = Slice (r, zero, end, one, two)
        a = Transpose <perm = [2, 1, 0]> (part)  b = Transpose <perm = [2, 1, 0]> (y)
        c = ScatterND (a, inner, b)  d = Transpose <perm = [1, 2, 0]> (c)
        e = Transpose <perm = [1, 0, 2]> (r)  f = ScatterND (e, outer, d)
        z = Transpose <perm = [1, 0, 2]> (f) }"""
# `x[..., -1] = y` with dynamo=True
LAST = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 6, 5] x, float[N, 6] y) => (float[N, 6, 5] z) <int64[1] axis = {2}, int64 last = {-1}> {
        r = Relu (x)  u = Unsqueeze (y, axis)  s = Shape (u)  i = Expand (last, s)
        z = ScatterElements <axis = 2> (r, i, u) }"""


@pytest.mark.parametrize("text", [TRACED, TURNED, LAST])
@pytest.mark.parametrize("target", ["tensorrt-7", "tensorrt-8.0"])
def test_no_scatter_is_left_and_every_bit_is_the_same(text: str, target: str) -> None:
    model = onnx.parser.parse_model(text)
    made = onnxq.sanitize(model, target=target)
    assert not any(node.op_type.startswith("Scatter") for node in made.model.graph.node)
    before, after = (
        onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
        for one in (model, made.model)
    )
    random = np.random.default_rng(0)
    for count in (1, 3):
        feed = {
            entry.name: random.standard_normal([count, *entry.shape[1:]]).astype(np.float32)
            for entry in before.get_inputs()
        }
        (wanted,), (given,) = before.run(None, feed), after.run(None, feed)
        assert wanted.shape == given.shape
        assert wanted.tobytes() == given.tobytes()


def test_a_target_with_an_importer_keeps_the_scatter() -> None:
    made = onnxq.sanitize(onnx.parser.parse_model(LAST), target="tensorrt-8.2")
    assert [node.op_type for node in made.model.graph.node].count("ScatterElements") == 1
