"""Quantize layers with constant weights: Conv (1-D, 2-D, 3-D), Gemm, MatMul.

A pair on the activation (one scale for the tensor) and one on the weights (one scale an output
channel), both or neither: with the weights alone TensorRT dequantizes them at every inference, with
the activation alone it quantizes for nothing. The bias stays float: TensorRT rejects int32 biases.

Left in float, because int8 is slower there or has no kernel: ConvTranspose, depthwise and groups of
fewer than 4 channels, fewer than 16 rows (matrix-vector products), fewer than 16 channels both in
and out.
"""

import numpy as np

from onnxq.rule import Fires, Float, Node, Quantize, Skips, layer_of, place


@place("Conv", "ConvTranspose", "Gemm", "MatMul")
def quantize_weighted(node: Node) -> list[Quantize | Float]:
    layer = layer_of(node)
    if layer is None or layer.weight.dtype != np.float32:
        return []
    if layer.ineligible is not None:
        return [Float(node, layer.ineligible)]
    return [
        Quantize(node, 1 - layer.index, because=f"{node.op} runs in int8"),
        Quantize(node, layer.index, axis=layer.axis, because=f"{node.op} runs in int8"),
    ]


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
