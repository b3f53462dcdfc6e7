"""Five small nets, and what a plain run of a model gives for each of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from onnxq.body.emulate import Emulated
from onnxq.graph.half import speaks_half
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '

NETS = {
    "residual": """net (float[N, 16, 6, 6] x) => (float[N, 16, 6, 6] y) {
        [one] a = Conv <pads = [1, 1, 1, 1]> (x, w16x16x3x3, b16)  [act] r = Relu (a)
        [two] c = Conv (r, v16x16x1x1)  [add] s = Add (c, x)  [end] y = Relu (s) }""",
    "normalized": """net (float[N, 16, 6, 6] x) => (float[N, 32] y) {
        [one] a = Conv (x, w32x16x3x3)  [norm] n = BatchNormalization (a, p32, b32, m32, p32)
        [act] r = HardSwish (n)  [pool] g = GlobalAveragePool (r)  [flat] y = Flatten (g) }""",
    "branches": """net (float[N, 16, 8, 8] x) => (float[N, 32, 4, 4] y, float[N, 16, 4, 4] z) {
        [one] a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w16x16x3x3)
        [max] m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)  [join] y = Concat <axis = 1> (a, m)
        [two] z = Conv (y, v16x32x1x1, b16) }""",
    "perceptron": """net (float[N, 24, 16] x) => (float[N, 24, 16] y) {
        [one] a = MatMul (x, w16x32)  [bias] c = Add (a, b32)  [act] t = Tanh (c)
        [two] d = MatMul (t, v32x16)  [end] y = Add (d, b16) }""",
    "attention": """net (float[N, 24, 16] x) => (float[N, 24, 16] y) {
        [q] q = MatMul (x, w16x16)  [k] k = MatMul (x, v16x16)  [turn] t = Transpose <perm = [0, 2, 1]> (k)
        [score] s = MatMul (q, t)  [soft] p = Softmax <axis = -1> (s)  [mix] y = MatMul (p, x) }""",
}


def made(name: str) -> onnx.ModelProto:
    """A net with its weights: a constant's shape is in its name."""
    model = onnx.parser.parse_model(HEAD + NETS[name])
    random = np.random.default_rng(len(name))
    computed = {out for node in model.graph.node for out in node.output} | {"x"}
    for read in dict.fromkeys(one for node in model.graph.node for one in node.input):
        if read not in computed:
            shape = [int(size) for size in read[1:].split("x")]
            values = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)
            values = np.abs(values) + 0.5 if read[0] == "p" else values
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), read))
    return model


def samples_of(model: onnx.ModelProto, count: int = 4) -> list[dict[str, np.ndarray]]:
    """Random samples."""
    random = np.random.default_rng(7)
    shape = [d.dim_value or 1 for d in model.graph.input[0].type.tensor_type.shape.dim]
    return [{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(count)]


def dumped(
    model: onnx.ModelProto, names: Sequence[str], samples: Sequence[Mapping[str, np.ndarray]]
) -> list[dict[str, Any]]:
    """The values of tensors, by one plain run of the whole model a sample, node by node."""
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    types = {info.name: info for info in onnx.shape_inference.infer_shapes(model).graph.value_info}
    types |= {info.name: info for info in model.graph.output}
    del probed.graph.output[:]
    for name in names:
        kind = types[name].type.tensor_type.elem_type if name in types else TensorProto.FLOAT
        probed.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    runner = Emulated(probed) if speaks_half(probed) else ort.load(probed, optimize=False)
    return [dict(zip(names, runner.run(feeds, names), strict=True)) for feeds in samples]
