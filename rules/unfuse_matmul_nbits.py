"""Write onnxruntime's `MatMulNBits` as a MatMul of weights that a DequantizeLinear reads in blocks.

Its weights are codes of 2, 4 or 8 bits, with a scale for each block of a column. TensorRT-RTX takes some of them,
and wants a plugin for those:

    input tensor A must be FP16.
    block_size must be one of 32/64/128.
    only 4-bit and 8-bit MatMulNBits are supported.
    failed to load MatMulNBits plugin.

    before    y = com.microsoft.MatMulNBits<bits=4, block_size=32>(x, codes, scales)
    after     y = MatMul(x, DequantizeLinear<axis=0, block_size=32>(int4(codes - 8), scales))

Codes less their zero points are int4 where they fit, else int8. Onnxq raises the opset to 21 for it, which blocks
need. Where that is not possible, for a TensorRT before 10, with float zero points, or where the last block is a part
of one, the weights become float, of up to 256 MiB.
"""

import ml_dtypes
import numpy as np

from onnxq.rule import Close, Fires, Node, Skip, Skips, Value, constant, op, operands, required, rule

_MAX_BYTES = 1 << 28


@rule("com.microsoft.MatMulNBits", stage="compat", lacks="onnxruntime-fusions")
def unfuse_matmul_nbits(node: Node) -> Close:
    x, packed, scale = required(node, 3)
    zero, index, bias = operands(node, 6)[3:]
    bits, block = node.attr("bits", 4), node.attr("block_size")
    weights, steps, shifts = packed.constant, scale.constant, constant(zero)
    if weights is None or steps is None or (zero is not None and shifts is None):
        raise Skip("its weights are computed at run time")
    if index is not None:
        raise Skip("it has an order of its own of the rows (g_idx)")
    if bits not in (2, 4, 8):
        raise Skip(f"its weights have {bits} bits")
    rows, columns = node.attr("K"), node.attr("N")
    blocks = -(-rows // block)
    codes = _unpacked(weights.reshape(columns, -1), bits)[:, : blocks * block]
    scales = steps.reshape(columns, blocks)
    if shifts is None:
        zeros = np.full((columns, blocks), 1 << (bits - 1))
    elif shifts.dtype == np.uint8:
        zeros = _unpacked(shifts.reshape(columns, -1), bits)[:, :blocks]
    else:
        zeros = shifts.reshape(columns, blocks).astype(np.float32)
    shifted = (codes - np.repeat(zeros, block, axis=1))[:, :rows].T
    y = op.MatMul(x, _weights(node, shifted, scales, rows % block == 0))
    return Close(y if bias is None else op.Add(y, bias))


def _weights(node: Node, codes: np.ndarray, scales: np.ndarray, whole: bool) -> Value | np.ndarray:
    """The weights of codes [rows, columns] and scales [columns, blocks]."""
    block = node.attr("block_size")
    blocks = node.opset >= 21 and node.limit("weight-blocks") != 0
    if blocks and whole and codes.dtype.kind == "i" and codes.min() >= -128 and codes.max() <= 127:
        narrow = ml_dtypes.int4 if codes.min() >= -8 and codes.max() <= 7 else np.int8
        steps = np.ascontiguousarray(scales.T)
        return op.DequantizeLinear(
            np.ascontiguousarray(codes).astype(narrow), steps, axis=0, block_size=block
        )
    if codes.size * scales.itemsize > _MAX_BYTES:
        raise Skip(f"its weights would take {codes.size * scales.itemsize >> 20} MiB; raise the opset to 21")
    floats: np.ndarray = codes.astype(np.float32) * np.repeat(scales.T, block, axis=0)[: len(codes)]
    return floats.astype(scales.dtype)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Codes of a few bits, the lowest of a byte first, as integers: [rows, codes]."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    apart: np.ndarray = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return apart.reshape(len(packed), -1).astype(np.int64)


def _net(attributes: str, inputs: str, opset: int = 21) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (float[B, 32] x, float16[B, 32] h, float[2, 1, 16] r, uint8[2, 2, 8] v) => (y)
        <uint8[2, 2, 8] w = {{1, 35, 69, 103, 137, 171, 205, 239, 18, 52, 86, 120, 154, 188, 222, 240,
        9, 8, 7, 6, 5, 4, 3, 2, 255, 254, 17, 34, 51, 68, 85, 102}}, float[4] s = {{0.1, 0.2, 0.03, 0.4}}, uint8[2] z = {{120, 53}}, uint8[2] o = {{255, 255}},
        uint8[2, 1, 16] q = {{1, 35, 69, 103, 137, 171, 205, 239, 18, 52, 86, 120, 154, 188, 222, 240,
        9, 8, 7, 6, 5, 4, 3, 2, 255, 254, 17, 34, 51, 68, 85, 102}}, float16[2] hs = {{14336, 13312}},
        float[2, 2] f = {{7.5, 8, 3, 9}}, float[2] b = {{1, -2}}> {{
        y = com.microsoft.MatMulNBits <N = 2, {attributes}> ({inputs}) }}"""


_FOUR = "K = 32, bits = 4, block_size = 16"

EXAMPLES = [
    Fires(
        _net(_FOUR, "x, w, s"),
        gone="MatMulNBits",
        becomes="""
        _1 = DequantizeLinear <axis = 0, block_size = 16> (int4 [32, 2], [2, 2] {0.1, 0.03, 0.2, 0.4})
        y = MatMul (x, _1)""",
    ),
    Fires(
        _net(_FOUR, "x, w, s, z, , b"),
        gone="MatMulNBits",
        becomes="""
        _1 = DequantizeLinear <axis = 0, block_size = 16> (int8 [32, 2], [2, 2] {0.1, 0.03, 0.2, 0.4})
        _2 = MatMul (x, _1); y = Add (_2, {1.0, -2.0})""",
    ),
    Fires(_net(_FOUR, "x, w, s, f"), gone="MatMulNBits", becomes="y = MatMul (x, float32 [32, 2])"),
    Fires(_net(_FOUR, "x, w, s, z", 17), gone="MatMulNBits"),
    Fires(
        _net(_FOUR, "x, w, s"),
        gone="MatMulNBits",
        limits={"weight-blocks": 0},
        becomes="y = MatMul (x, float32 [32, 2])",
    ),
    Skips(_net(_FOUR, "x, v, s"), because="at run time"),
    Fires(
        _net(_FOUR, "x, w, s, o"),
        becomes="""
        _1 = DequantizeLinear <axis = 0, block_size = 16> (int8 [32, 2], [2, 2] {0.1, 0.03, 0.2, 0.4})
        y = MatMul (x, _1)""",
    ),
    Fires(
        _net("K = 32, bits = 4, block_size = 32", "h, q, hs"),
        becomes="""
        _1 = DequantizeLinear <axis = 0, block_size = 32> (int4 [32, 2], float16 [1, 2] {0.5, 0.25})
        y = MatMul (h, _1)""",
    ),
]
