"""Give `Clip` explicit bounds.

`torch.clamp(x, min=0)` exports a Clip without a maximum. TensorRT 7 rejects it:

    Assertion failed: inputs.at(2).is_weights() && "Clip max value must be an initializer!"

    before    y = Clip(x, low, )
    after     y = Clip(x, low, highest)

The lowest and the highest finite value are what the operator's definition says for a missing bound.
"""

from onnxq.rule import Fires, Node, Skip, Skips, Value, limits, op, operands, rule


@rule("Clip", stage="compat", lacks="clip-without-bounds")
def explicit_clip_bounds(node: Node) -> Value | None:
    x, low, high = operands(node, 3)
    if node.opset < 11 or x is None or (low is not None and high is not None):
        return None
    if x.dtype is None:
        raise Skip(f"the type of {x.name!r} is not known")
    lowest, highest = limits(x.dtype)
    return op.Clip(x, lowest if low is None else low, highest if high is None else high)


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) <float low = {0.5}> { y = Clip (x, low) }""",
        becomes="y = Clip (x, 0.5, 3.4028235e+38)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[N, 4] x) => (int32[N, 4] y) <int32 high = {3}> { y = Clip (x, , high) }""",
        becomes="y = Clip (x, int32 -2147483648, int32 3)",
    ),
    Skips("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) <float l = {0}, float h = {6}> { y = Clip (x, l, h) }"""),
    Skips("""<ir_version: 7, opset_import: ["" : 10]>
        g (float[N, 4] x) => (float[N, 4] y) { y = Clip <max = 6.0> (x) }"""),
]
