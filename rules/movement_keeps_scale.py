"""What only moves, selects or repeats values keeps the format and the scale of its input.

MaxPool, Reshape, Transpose, Slice, Split and their kin commute with quantization: they run in int8
whichever side the pair is on. Where their output is quantized, so is their source, with the same
scale, so that all its readers share one int8 copy.

A Resize does where it repeats values (`nearest`), not where it interpolates; a Pad where it pads
with zeros or with values of the tensor. AveragePool computes new values, and does not.
"""

from onnxq.rule import MOVES, Fires, Follow, Node, Skips, constant, place


@place(*MOVES, "Pad", "Resize")
def movement_keeps_scale(node: Node) -> list[Follow]:
    source = node.inputs[0]
    if source is None or source.is_constant:
        return []
    if node.op == "Resize" and (node.attr("mode") != "nearest" or node.attr("extrapolation_value")):
        return []
    if node.op == "Pad" and node.attr("mode") == "constant":
        value = node.attr("value", 0.0) if node.opset < 11 else node.operands(3)[2]
        filled = constant(value) if not isinstance(value, float) else value
        if value is not None and (filled is None or bool(filled != 0)):
            return []
    return [Follow(node, 0, f"{node.op} moves values")]


def _net(move: str, x: str = "1, 16, 8, 8"):
    """A convolution of 16 channels behind what moves values."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{x}] x) => (y) <int64[8] p = {{0, 0, 1, 1, 0, 0, 1, 1}}, float v = {{0}}, float[4] s = {{1, 1, 2, 2}}> {{
            [m] c = {move}  [l] y = Conv (c, w) }}"""
    )
    weights = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16, 1, 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


_PLAN = "x -> m:0; c -> l:0; w axis 0 -> l:1; one scale: c, x"

EXAMPLES = [
    *(
        Fires(lambda move=move: _net(move), after=("quantize_weighted",), plan=_PLAN)
        for move in (
            "MaxPool <kernel_shape = [2, 2]> (x)",
            "Transpose <perm = [0, 1, 3, 2]> (x)",
            "Pad (x, p, v)",
            "Pad (x, p)",
            'Pad <mode = "edge"> (x, p)',
            'Resize <mode = "nearest"> (x, , s)',
        )
    ),
    Fires(
        lambda: _net("DepthToSpace <blocksize = 2> (x)", "1, 64, 4, 4"),
        after=("quantize_weighted",),
        plan=_PLAN,
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 4, 4] x) => (y) <float[4] s = {1, 1, 2, 2}> {
            y = Resize <mode = "linear"> (x, , s) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x) => (y) <int64[4] p = {0, 1, 0, 1}, float v = {3}> { y = Pad (x, p, v) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 4, 4] x) => (y) <float[8] r = {0, 0, 0, 0, 1, 1, 2, 2}, float[4] s = {1, 1, 2, 2}> {
            y = Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize",
                        extrapolation_value = 3.0> (x, r, s) }"""
    ),
]
