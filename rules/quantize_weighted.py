"""Quantize layers with constant weights: Conv (1-D, 2-D, 3-D), Gemm, MatMul.

A pair on the activation (one scale for the tensor) and one on the weights (one scale an output
channel), both or neither: with the weights alone TensorRT dequantizes them at every inference, with
the activation alone it quantizes for nothing. The bias stays float: TensorRT rejects int32 biases.

A MatMul whose output is cut into attention heads (Split, Slice or Gather, and a Transpose) has one
scale for all weights: the compiler moves the cut into the weights, and where they have a scale a
channel it then dequantizes them and multiplies in float (measured with TensorRT-RTX 1.7.1 and a
float32 body).

So have MatMul weights of more than two dimensions: onnxruntime takes no other.

A layer that the model has half quantized is completed: what has a pair keeps it, the rest gets one. Not
so where the model's codes are none that a product in int8 reads: int4, fp8, a scale for each block.

Left in float, because int8 is slower there or has no kernel: ConvTranspose, depthwise and groups of
fewer than 4 channels, fewer than 16 rows (bound by reading the weights), fewer than 16 channels both in
and out.
"""

from functools import partial
from typing import Any

import numpy as np

from onnxq.rule import REARRANGES, Fires, Float, Node, Quantize, Skips, is_float, layer_of, place


@place("Conv", "ConvTranspose", "Gemm", "MatMul")
def quantize_weighted(node: Node) -> list[Quantize | Float]:
    layer = layer_of(node, quantized=True)
    if layer is None or not is_float(layer.weight.dtype):
        return []
    if layer.ineligible is not None:
        return [Float(node, layer.ineligible)]
    axis: int | None = layer.axis
    why = f"weights of {node.op}, one scale an output channel"
    if node.op == "MatMul" and layer.weight.rank not in (2, None):
        axis, why = None, "weights of MatMul, one scale: they have more than two dimensions"
    elif node.op == "MatMul" and _is_cut_into_heads(node):
        axis, why = None, f"weights of {node.op}, one scale: its output is cut into heads"
    return [
        Quantize(node, 1 - layer.index, because=f"{node.op} runs in {node.format.name}"),
        Quantize(node, layer.index, axis=axis, because=why),
    ]


def _is_cut_into_heads(node: Node) -> bool:
    """Whether several parts of the output are taken, and transposed before or after that."""
    todo, cuts, turned = list(node.outputs), 0, False
    while todo:
        for user in todo.pop().users:
            moves = user.op in REARRANGES
            added = [t for t in user.inputs if t is not None and not t.is_constant]
            biased = user.op in ("Add", "Sum") and len(added) == 1
            cut = user.op in ("Split", "Slice", "Gather")
            if not user.domain and (moves or biased or cut):
                todo += user.outputs
                cuts += len(user.outputs) if cut else 0
                turned |= user.op == "Transpose"
    return cuts > 1 and turned


def _net(body: str, w: tuple[int, ...] = (16, 16, 1, 1), x: str = "1, 16, 8, 8", kind: str = "float") -> Any:
    """A model with weights `w`, of float32 or int32."""
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({kind}[{x}] x) => (y) <float scale = {{0.1}}, int8 zero = {{0}}, int64[5] cut = {{1, 16, 3, 2, 8}},
            int64 first = {{0}}, int64 second = {{1}}, int64[1] n0 = {{0}}, int64[1] n16 = {{16}},
            int64[1] n32 = {{32}}, int64[1] n1 = {{1}}, int64[1] n2 = {{2}}, float[1] bias = {{0.5}}> {{ {body} }}"""
    )
    weights = np.linspace(-9, 9, int(np.prod(w))).astype("float32" if kind == "float" else "int32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights.reshape(w), "w"))
    return model


_SLICES = "q = Slice (a, n0, n16, n2)  k = Slice (a, n16, n32, n2)  t = Transpose <perm = [0, 2, 1]> (k)  y = MatMul (q, t)"
_HEADS = "[l] a = MatMul (x, w)  c = Reshape (a, cut)  "

EXAMPLES = [
    Fires(lambda: _net("[l] y = Conv (x, w)"), plan="x -> l:0; w axis 0 -> l:1"),
    Fires(lambda: _net("[l] y = Conv <group = 4> (x, w)", (32, 4, 3, 3)), plan="x -> l:0; w axis 0 -> l:1"),
    Fires(lambda: _net("[l] y = Conv (x, w)", (16, 16, 3), "1, 16, 24"), plan="x -> l:0; w axis 0 -> l:1"),
    Fires(lambda: _net("[l] y = Gemm (x, w)", (16, 24), "32, 16"), plan="x -> l:0; w axis 1 -> l:1"),
    Fires(
        lambda: _net("[l] y = Gemm <transB = 1> (x, w)", (24, 16), "32, 16"),
        plan="x -> l:0; w axis 0 -> l:1",
    ),
    Fires(lambda: _net("[l] y = MatMul (x, w)", (16, 24), "32, 16"), plan="x -> l:0; w axis 1 -> l:1"),
    Fires(lambda: _net("[l] y = MatMul (w, x)", (24, 16), "16, 32"), plan="x -> l:1; w axis 0 -> l:0"),
    Fires(lambda: _net("[l] y = MatMul (x, w)", (2, 16, 24), "2, 16, 16"), plan="x -> l:0; w -> l:1"),
    Fires(
        lambda: _net(
            _HEADS
            + "t = Transpose <perm = [2, 0, 3, 1, 4]> (c)  q = Gather (t, first)  k = Gather (t, second)"
            "  y = Mul (q, k)",
            (48, 48),
            "1, 16, 48",
        ),
        plan="x -> l:0; w -> l:1",
    ),
    Fires(
        lambda: _net(
            "[l] a = MatMul (x, w)  q, k = Split <axis = 2> (a)  t = Transpose <perm = [0, 2, 1]> (k)"
            "  y = MatMul (q, t)",
            (48, 48),
            "1, 16, 48",
        ),
        plan="x -> l:0; w -> l:1",
    ),
    *(
        Fires(partial(_net, f"{first}  {_SLICES}", (48, 48), "1, 16, 48"), plan=plan)
        for first, plan in (
            ("[l] a = MatMul (x, w)", "x -> l:0; w -> l:1"),
            ("[l] m = MatMul (x, w)  a = Add (m, bias)", "x -> l:0; w -> l:1"),
            ("[l] m = MatMul (x, w)  a = Add (bias, m)", "x -> l:0; w -> l:1"),
            ("[l] m = MatMul (x, w)  a = Sum (m, bias, bias)", "x -> l:0; w -> l:1"),
            ("[l] m = MatMul (x, w)  a = Identity (m)", "x -> l:0; w -> l:1"),
            ("[l] m = MatMul (x, w)  u = Unsqueeze (m, n0)  a = Squeeze (u, n0)", "x -> l:0; w -> l:1"),
            # what computes values is not passed
            ("[l] m = MatMul (x, w)  a = Add (m, x)", "x -> l:0; w axis 1 -> l:1"),
            ("[l] m = MatMul (x, w)  a = Sum (m, bias, x)", "x -> l:0; w axis 1 -> l:1"),
            ("[l] m = MatMul (x, w)  a = Mul (m, bias)", "x -> l:0; w axis 1 -> l:1"),
            ("[l] m = MatMul (x, w)  a = Tanh (m)", "x -> l:0; w axis 1 -> l:1"),
        )
    ),
    Fires(  # only a MatMul's
        lambda: _net(
            f"[l] a = Gemm (x, w)  {_SLICES.replace('n2', 'n1').replace('0, 2, 1', '1, 0')}",
            (48, 48),
            "16, 48",
        ),
        plan="x -> l:0; w axis 1 -> l:1",
    ),
    Fires(  # not turned
        lambda: _net(
            "[l] a = MatMul (x, w)  q, k = Split <axis = 2> (a)  y = Mul (q, k)", (48, 48), "1, 16, 48"
        ),
        plan="x -> l:0; w axis 1 -> l:1",
    ),
    Fires(  # not cut
        lambda: _net(
            _HEADS + "t = Transpose <perm = [2, 0, 3, 1, 4]> (c)  y = Gather (t, first)",
            (48, 48),
            "1, 16, 48",
        ),
        plan="x -> l:0; w axis 1 -> l:1",
    ),
    Fires(  # half quantized by the model
        lambda: _net(
            "q = QuantizeLinear (w, scale, zero)  d = DequantizeLinear (q, scale, zero)  [l] y = Conv (x, d)"
        ),
        plan="x -> l:0",
    ),
    Fires(
        lambda: _net(
            "q = QuantizeLinear (x, scale, zero)  d = DequantizeLinear (q, scale, zero)  [l] y = Conv (d, w)"
        ),
        plan="w axis 0 -> l:1",
    ),
    Skips(lambda: _net("y = Conv (x, w)", (8, 8, 1, 1), "1, 8, 8, 8"), because="too few"),
    Skips(lambda: _net("y = Conv <group = 16> (x, w)", (16, 1, 1, 1)), because="depthwise"),
    Skips(lambda: _net("y = Conv <group = 8> (x, w)", (16, 2, 1, 1)), because="2 channels a group"),
    Skips(lambda: _net("y = ConvTranspose (x, w)"), because="ConvTranspose"),
    Skips(lambda: _net("y = MatMul (x, w)", (16, 24), "1, 16"), because="1 row"),
    Skips(lambda: _net("y = MatMul (x, w)", (16, 24), "32, 16", "int32")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[32, 16] x, float[16, 16] z) => (y) { y = MatMul (x, z) }"""
    ),
]
