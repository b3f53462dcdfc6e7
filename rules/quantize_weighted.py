"""Quantize layers with constant weights: Conv (1-D, 2-D, 3-D), Gemm, MatMul.

A pair on the activation (one scale for the tensor) and one on the weights (one scale an output
channel), both or neither: with the weights alone TensorRT dequantizes them at every inference, with
the activation alone it quantizes for nothing. The bias stays float: TensorRT rejects int32 biases.

A MatMul whose output is cut into attention heads (Split, Slice or Gather, and a Transpose) has one
scale for all weights: the compiler moves the cut into the weights, and where they have a scale a
channel it then dequantizes them and multiplies in float (measured with TensorRT-RTX 1.7.1 and a
float32 body).

So have MatMul weights of more than two dimensions: onnxruntime takes no other.

A layer that the model has half quantized is completed: what has a pair keeps it, the rest gets one.

Left in float, because int8 is slower there or has no kernel: ConvTranspose, depthwise and groups of
fewer than 4 channels, fewer than 16 rows (bound by reading the weights), fewer than 16 channels both in
and out.
"""

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
    if node.op == "MatMul" and (layer.weight.rank or 0) > 2:
        axis, why = None, "weights of MatMul, one scale: they have more than two dimensions"
    elif node.op == "MatMul" and _is_cut_into_heads(node):
        axis, why = None, f"weights of {node.op}, one scale: its output is cut into heads"
    return [
        Quantize(node, 1 - layer.index, because=f"{node.op} runs in int8"),
        Quantize(node, layer.index, axis=axis, because=why),
    ]


def _is_cut_into_heads(node: Node) -> bool:
    """Whether several parts of the output are taken, and transposed before or after that."""
    todo, cuts, turned = list(node.outputs), 0, False
    while todo:
        for user in todo.pop().users:
            moves = user.op in REARRANGES
            biased = user.op == "Add" and any(t is not None and t.is_constant for t in user.inputs)
            cut = user.op in ("Split", "Slice", "Gather")
            if not user.domain and (moves or biased or cut):
                todo += user.outputs
                cuts += len(user.outputs) if cut else 0
                turned |= user.op == "Transpose"
    return cuts > 1 and turned


def _net(channels: int, groups: int = 1, op: str = "Conv"):
    """A model of one layer with random weights."""
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, {channels}, 8, 8] x) => (y) {{ y = {op} <group = {groups}> (x, w) }}"""
    )
    weights = np.linspace(-1, 1, channels * channels // groups, dtype=np.float32)
    shape = (channels, channels // groups, 1, 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights.reshape(shape), "w"))
    return model


EXAMPLES = [
    Fires(lambda: _net(16)),
    Skips(lambda: _net(8), because="too few"),
    Skips(lambda: _net(16, groups=16), because="depthwise"),
    Skips(lambda: _net(16, op="ConvTranspose"), because="ConvTranspose"),
]
