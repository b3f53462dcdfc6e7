"""Write `QAttention` and `QEmbedLayerNormalization` as the float operators, of values that are dequantized.

onnxruntime's quantizer makes them of its own fusions; TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.QAttention(x, w, bias, xs, ws, mask, xz, wz, past)
    after     y = com.microsoft.Attention(DequantizeLinear(x, xs, xz), DequantizeLinear(w, ws, wz), bias, mask, past)

What becomes of the float ones is the matter of `unfuse_attention` and `unfuse_layer_normalization`.
"""

from typing import Any

import numpy as np
from _quantized import read_out, real, stated

from onnxq.rule import Close, Fires, Node, Skip, Skips, Value, op, operands, required, rule

DOMAIN = "com.microsoft."


@rule(DOMAIN + "QAttention", DOMAIN + "QEmbedLayerNormalization", stage="compat", lacks="onnxruntime-fusions")
def unfuse_quantized_bert(node: Node) -> Close:
    if node.opset < 10:
        raise Skip(f"opset {node.opset} has no DequantizeLinear")
    inputs = _attention(node) if node.op == "QAttention" else _embedding(node)
    new = getattr(op["com.microsoft"], node.op.removeprefix("Q"))
    results = new(*_given(*inputs), outputs=len(node.outputs), **node.attrs)
    return Close(dict(enumerate(results if isinstance(results, tuple) else (results,))))


def _attention(node: Node) -> list[Value | np.ndarray | None]:
    x, w, bias, scale_x, scale_w = required(node, 5)
    mask, zero_x, zero_w, past = operands(node, 9)[5:]
    stated(scale_x, scale_w)
    return [real(x, scale_x, zero_x, node), real(w, scale_w, zero_w, node), bias, mask, past]


def _embedding(node: Node) -> list[Value | np.ndarray | None]:
    ids, segments, *tables = operands(node, 7)
    mask, *steps = operands(node, 18)[7:]
    scales, zeros = steps[:5], steps[5:]
    stated(*scales)
    floats: list[Value | np.ndarray | None] = []
    readers: tuple[Any, ...] = (real, real, real, read_out, read_out)
    for read, table, scale, zero in zip(readers, tables, scales, zeros, strict=True):
        there = [one for one in (table, scale) if one is not None]
        floats.append(read(*there, zero, node) if there else None)
    return [ids, segments, *floats, mask]


def _given(*inputs: Value | np.ndarray | None) -> tuple[Value | np.ndarray | None, ...]:
    """Inputs, without those at the end that are left out."""
    count = max(index for index, value in enumerate(inputs, 1) if value is not None)
    return inputs[:count]


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (uint8[N, 3, 4] x, int32[2, 3] i, int32[2, 3] k, float r, int32[N, 3] m) => (%s) <int8[4, 12] w = {1, -2, 3, 4, 5, 6, 7, -8, 9, 10,
        11, 12, 13, -14, 15, 16, 17, 18, 19, 20, 21, 22, -23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, -39,
        40, 41, 42, 43, 44, 45, 46, 47, 48}, float[12] b = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}, float xs = {0.05},
        float ws = {0.02}, uint8 xz = {114}, int8 wz = {0}, uint8[3, 4] t = {1, 2, 3, 40, 50, 60, 70, 80, 9, 10, 110, 12},
        uint8[4] g = {1, 200, 3, 4}, uint8 z = {128}> { %s = com.microsoft.%s }"""

EXAMPLES = [
    Fires(
        _NET % ("y", "y", "QAttention <num_heads = 2> (x, w, b, xs, ws, m, xz, wz)"),
        gone="QAttention",
        becomes="""_1 = DequantizeLinear (x, 0.05, uint8 114)
        _2 = DequantizeLinear (int8 [4, 12], 0.02, int8 0)
        y = com.microsoft.Attention <num_heads = 2> (_1, _2, {0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0}, m)""",
    ),
    Fires(
        _NET
        % (
            "y",
            "y, n",
            "QEmbedLayerNormalization (i, k, t, t, t, g, g, , xs, xs, ws, ws, ws, z, z, z, z, z)",
        ),
        gone="QEmbedLayerNormalization",
        becomes="""
        _1 = DequantizeLinear (uint8 [3, 4] {1, 2, 3, 40, 50, 60, 70, 80, 9, 10, 110, 12}, 0.05, uint8 128)
        _2 = DequantizeLinear (uint8 [3, 4] {1, 2, 3, 40, 50, 60, 70, 80, 9, 10, 110, 12}, 0.05, uint8 128)
        _3 = DequantizeLinear (uint8 [3, 4] {1, 2, 3, 40, 50, 60, 70, 80, 9, 10, 110, 12}, 0.02, uint8 128)
        y, _4 = com.microsoft.EmbedLayerNormalization (i, k, _1, _2, _3, {-2.54, 1.4399999, -2.5, -2.48}, {-2.54, 1.4399999, -2.5, -2.48})""",
    ),
    Fires(
        _NET
        % ("y", "y, n", "QEmbedLayerNormalization (i, , t, t, , g, g, , xs, xs, , ws, ws, z, z, , z, z)"),
        becomes="""_1 = DequantizeLinear (uint8 [3, 4] {1, 2, 3, 40, 50, 60, 70, 80, 9, 10, 110, 12}, 0.05, uint8 128)
        _2 = DequantizeLinear (uint8 [3, 4] {1, 2, 3, 40, 50, 60, 70, 80, 9, 10, 110, 12}, 0.05, uint8 128)
        y, _3 = com.microsoft.EmbedLayerNormalization (i, , _1, _2, , {-2.54, 1.4399999, -2.5, -2.48}, {-2.54, 1.4399999, -2.5, -2.48})""",
    ),
    Skips(
        _NET % ("y", "y", "QAttention <num_heads = 2> (x, w, b, r, ws, m, xz, wz)"),
        because="--freeze r=VALUE",
    ),
]
