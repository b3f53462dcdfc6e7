"""Quantize the residual input of an Add that a convolution feeds.

TensorRT fuses `relu(conv(y) + x)` into the convolution, whose output has the precision of the
residual input `x`. So `x` is quantized, with the pair that the block's first convolution reads, and
the branch that ends in the convolution is not: a pair there would only split the fusion.

- One branch ends in a convolution: the other is quantized.
- Both do (a downsampling shortcut): the shorter branch is quantized.
- Otherwise the Add reads what is quantized for others anyway.
"""

from onnxq.rule import Fires, Node, Quantize, Read, Skips, Tensor, layer_of, place


@place("Add")
def residual_add(node: Node) -> list[Quantize | Read]:
    one, other = node.inputs
    if one is None or other is None or one.is_constant or other.is_constant:
        return []
    if one == other or one.shape is None or one.shape != other.shape:
        return []
    ends = [_fused(one, node), _fused(other, node)]
    if ends[0] is not None and ends[1] is not None:
        index = 0 if _length(ends[0]) <= _length(ends[1]) else 1
        beside = ends[1 - index]
        return [Quantize(node, index, because="shortcut of a residual Add", beside=beside)]
    for index in (0, 1):
        if ends[1 - index] is not None:
            beside = ends[1 - index]
            return [Quantize(node, index, because="residual input of an Add", beside=beside)]
    return [Read(node, index, "an Add reads what is int8 already") for index in (0, 1)]


def _fused(value: Tensor, add: Node) -> Node | None:
    """The convolution into which the Add is fused on this side."""
    producer = value.producer
    if producer is None or producer.op != "Conv" or len(value.users) != 1 or value.is_output:
        return None
    layer = layer_of(producer)
    return producer if layer is not None and layer.ineligible is None else None


def _length(node: Node) -> int:
    """The number of nodes back to a tensor that several read, or that has no producer."""
    count, value = 0, node.inputs[0]
    while value is not None and len(value.users) == 1 and value.producer is not None:
        count += 1
        value = value.producer.inputs[0]
    return count


def _block(shortcut: str):
    """A residual block of two convolutions."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 8, 8] x) => (y) {{
            a = Conv (x, w)  r = Relu (a)  b = Conv (r, w)  {shortcut}  s = Add (b, z)  y = Relu (s) }}"""
    )
    weights = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16, 1, 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


EXAMPLES = [
    Fires(lambda: _block("z = Identity (x)")),
    Fires(lambda: _block("z = Conv (x, w)")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x, float[8] z) => (float[1, 8] y) { y = Add (x, z) }"""
    ),
]
