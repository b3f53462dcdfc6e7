"""What only moves, selects or repeats values keeps the format and the scale of its input.

MaxPool, Reshape, Transpose, Slice, Split and their kin commute with quantization: they run in int8
whichever side the pair is on. Where their output is quantized, so is their source, with the same
scale, so that all its readers share one int8 copy.

A Resize does where it repeats values (`nearest`), not where it interpolates; a Pad where it pads
with zeros or with values of the tensor. AveragePool computes new values, and does not.

What is cut out of a Concat of probabilities and of boxes (scores beside boxes) does not: in the scale of the
whole, scores are nothing.
"""

from functools import partial
from typing import Any

from _probabilities import cut_from_a_mixture

from onnxq.rule import MOVES, Fires, Follow, Node, Skip, Skips, constant, place

_CUTS = ("Slice", "Split", "Gather")


@place(*MOVES, "Pad", "Resize")
def movement_keeps_scale(node: Node) -> list[Follow]:
    if node.op == "Resize" and (node.attr("mode") != "nearest" or node.attr("extrapolation_value")):
        return []
    if node.op == "Pad" and node.attr("mode") == "constant":
        value = node.operands(3)[2]
        filled = constant(value)
        if value is not None and (filled is None or bool(filled != 0)):
            return []
    if node.op in _CUTS and cut_from_a_mixture(node.inputs[0]):
        raise Skip("a part of a Concat of probabilities and of boxes: one scale does not hold both")
    return [Follow(node, 0, f"{node.op} moves values")]


def _net(move: str, x: str = "1, 16, 8, 16") -> Any:
    """A layer of 16 channels behind what moves values."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{x}] x, float r) => (y) <int64[8] p = {{0, 0, 1, 0, 0, 0, 1, 0}}, float zero = {{0}}, float v = {{3}}, float size = {{640}},
            float[4] s = {{1, 1, 2, 1}}, int64[1] n0 = {{0}}, int64[1] n2 = {{2}}, int64[1] n4 = {{4}},
            int64[3] flat = {{16, 8, 16}}, int64[4] wide = {{2, 16, 8, 16}}, int64[4] twice = {{1, 1, 2, 1}}> {{
            {move}  [l] y = MatMul (c, w) }}"""
    )
    weights = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def _fires(move: str, x: str = "1, 16, 8, 16") -> Fires:
    plan = "x -> m:0; c -> l:0; w axis 1 -> l:1; one scale: c, x"
    return Fires(lambda: _net(f"[m] {move}", x), after=("quantize_weighted",), plan=plan)


EXAMPLES = [
    _fires("c = MaxPool <kernel_shape = [2, 1]> (x)"),
    _fires("c = Reshape (x, flat)"),
    _fires("c = Flatten <axis = 3> (x)"),
    _fires("c = Squeeze (x, n0)"),
    _fires("c = Unsqueeze (x, n0)"),
    _fires("c = Transpose <perm = [0, 2, 1, 3]> (x)"),
    _fires("c = Slice (x, n0, n4, n2)"),
    _fires("c, d = Split <axis = 2> (x)"),
    _fires("c = DepthToSpace <blocksize = 2> (x)", "1, 16, 8, 8"),
    _fires("c = SpaceToDepth <blocksize = 2> (x)", "1, 4, 8, 32"),
    _fires("c = Expand (x, wide)"),
    _fires("c = Tile (x, twice)"),
    _fires("c = Gather <axis = 2> (x, n4)"),
    _fires("c = Identity (x)"),
    _fires("c = Pad (x, p)"),
    _fires("c = Pad (x, p, zero)"),
    _fires('c = Pad <mode = "edge"> (x, p)'),
    _fires('c = Pad <mode = "edge"> (x, p, v)'),
    _fires('c = Resize <mode = "nearest"> (x, , s)'),
    Fires(  # a part of values of one kind
        lambda: _net("o = Sigmoid (x)  d = Concat <axis = 2> (x, o)  [m] c = Slice (d, n0, n4, n2)"),
        after=("quantize_weighted",),
        plan="d -> m:0; c -> l:0; w axis 1 -> l:1; one scale: c, d",
    ),
    *(
        Skips(
            partial(_net, f"o = Sigmoid (x)  b = Mul (x, size)  d = Concat <axis = 2> (b, o)  {cut}"),
            because="probabilities",
        )
        for cut in (
            "c = Slice (d, n0, n4, n2)",
            "c, e = Split <axis = 2> (d)",
            "c = Gather <axis = 2> (d, n4)",
            "e = Concat <axis = 2> (d, x)  c = Slice (e, n0, n4, n2)",
        )
    ),
    Skips(lambda: _net("c = AveragePool <kernel_shape = [2, 1]> (x)")),
    Skips(lambda: _net('c = Resize <mode = "linear"> (x, , s)')),
    Skips(lambda: _net("c = Pad (x, p, v)")),
    Skips(lambda: _net("c = Pad (x, p, r)")),
    Skips(
        """<ir_version: 5, opset_import: ["" : 10]>
        g (float[1, 8] x) => (y) { y = Pad <pads = [0, 1, 0, 1], value = 3.0> (x) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 4, 4] x) => (y) <float[8] r = {0, 0, 0, 0, 1, 1, 2, 2}, float[4] s = {1, 1, 2, 2}> {
            y = Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize",
                        extrapolation_value = 3.0> (x, r, s) }"""
    ),
]
