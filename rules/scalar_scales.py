"""Give a Q/DQ pair of one scale a scalar.

Some quantizers write the scale of a tensor with the shape [1]. ONNX's checker and onnxruntime take it for one
scale; TensorRT takes it for one scale a channel, says nothing, and the layers behind it run in float.
Measured with TensorRT-RTX 1.7.1: a convolution whose input is quantized so runs in float; weights of such a
scale cost an operation more.

    before    y = DequantizeLinear(QuantizeLinear(x, [0.05], [0]), [0.05], [0])
    after     y = DequantizeLinear(QuantizeLinear(x, 0.05, 0), 0.05, 0)

Where the axis has one channel, both are the same.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, remake, rule


@rule("QuantizeLinear", "DequantizeLinear", stage="compat", lacks="one-element-scales")
def scalar_scales(node: Node) -> Value | None:
    source, *given = node.operands(3)
    if node.attr("block_size") or not any(value is not None and value.shape == (1,) for value in given):
        return None
    return remake(node, source, *(_scalar(value) for value in given if value is not None))


def _scalar(value: Tensor) -> np.ndarray:
    numbers = constant(value)
    if numbers is None:
        raise Skip(f"{value.name!r} is computed at run time")
    if numbers.size != 1:
        raise Skip(f"{value.name!r} has {numbers.size} values, the other operand has one")
    return numbers.reshape(())


def _net(body: str, opset: int = 17) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (float[N, 2, 4] x, float[1] r) => (y) <float[1] s = {{0.05}}, int8[1] z = {{0}}, float t = {{0.05}}, int8 o = {{0}},
        float[2] sc = {{0.1, 0.2}}, int8[2] zc = {{0, 0}}, int8[1, 3] w = {{1, -2, 127}}, int8[4] v = {{1, 2, 3, 4}}> {{ {body} }}"""


_PAIR = "q = QuantizeLinear (x, %s)  y = DequantizeLinear (q, %s)"

EXAMPLES = [
    Fires(
        _net(_PAIR % ("s, z", "s, z")),
        becomes="q = QuantizeLinear (x, 0.05, int8 0); y = DequantizeLinear (q, 0.05, int8 0)",
    ),
    Fires(
        _net(_PAIR % ("s, z", "t, o")),
        becomes="q = QuantizeLinear (x, 0.05, int8 0); y = DequantizeLinear (q, 0.05, int8 0)",
    ),
    Fires(
        _net(_PAIR % ("s, z", "s")),
        becomes="q = QuantizeLinear (x, 0.05, int8 0); y = DequantizeLinear (q, 0.05)",
    ),
    Fires(
        _net(_PAIR.replace(" (", " <axis = 2> (") % ("s, z", "s, z")),
        becomes="""q = QuantizeLinear <axis = 2> (x, 0.05, int8 0); y = DequantizeLinear <axis = 2> (q, 0.05, int8 0)""",
    ),
    Fires(
        _net("y = DequantizeLinear <axis = 0> (w, s, z)"),
        becomes="y = DequantizeLinear <axis = 0> (int8 [1, 3] {1, -2, 127}, 0.05, int8 0)",
    ),
    Fires(
        _net("y = DequantizeLinear (w, s)"), becomes="y = DequantizeLinear (int8 [1, 3] {1, -2, 127}, 0.05)"
    ),
    Skips(_net(_PAIR % ("t, o", "t, o"))),
    Skips(_net(_PAIR % ("sc, zc", "sc, zc"))),
    Skips(_net(_PAIR % ("r, z", "r, z")), because="at run time"),
    Skips(_net("y = DequantizeLinear <axis = 0, block_size = 4> (v, s, z)", opset=21)),
]
