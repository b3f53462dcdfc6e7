"""Remove data movement that moves nothing.

A Reshape to the same static shape, a Transpose in the same order, a Slice of everything, a Pad by
nothing, an Expand or a Tile to the same shape, a Flatten of a matrix.

    before    y = Transpose<perm=[0, 1, 2]>(x)
    after     y = x
"""

from collections.abc import Sequence

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, constant, known_elements, required, rule


@rule(
    "Reshape",
    "Transpose",
    "Slice",
    "Pad",
    "Expand",
    "Tile",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    stage="clean",
)
def drop_noop_movement(node: Node) -> Value | None:
    (source,) = required(node, 1)
    return source if source.shape is not None and _moves_nothing(node, source.shape) else None


def _moves_nothing(node: Node, shape: Sequence[object]) -> bool:
    if node.op == "Transpose":
        order = list(range(len(shape)))
        return bool(node.attr("perm", order[::-1]) == order)
    if node.op == "Flatten":
        return len(shape) == 2 and node.attr("axis") in (1, -1)
    if node.op == "Pad":
        pads = node.attr("pads") if node.opset < 11 else constant(node.inputs[1])
        return pads is not None and not any(list(pads))
    # the rest keep the data where they keep the shape, symbols included
    return None not in shape and shape == node.outputs[0].shape and _is_plain(node) and _fits(node, shape)


def _fits(node: Node, shape: Sequence[object]) -> bool:
    """Whether an Expand runs: the shape that a file states of its output may be another one's."""
    sizes = known_elements(required(node, 2)[1]) if node.op == "Expand" else None
    pairs = zip(reversed(shape), [] if sizes is None else sizes[::-1], strict=False)
    return not any(isinstance(to, int) and isinstance(dim, int) and to not in (1, dim) for dim, to in pairs)


def _is_plain(node: Node) -> bool:
    """Whether the operator keeps the order of the elements when it keeps the shape."""
    if node.op != "Slice" or node.opset < 10:
        return True
    if node.opset == 10 and any(isinstance(dim, str) for dim in node.outputs[0].shape or ()):
        return False  # ONNX's inference keeps the symbol of a dimension that a Slice of opset 10 cuts
    steps = node.operands(5)[4]
    values = np.ones(1) if steps is None else constant(steps)
    return values is not None and bool((values > 0).all())


_EXPAND = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 8, 1] x) => (float[N, 8, 1] y) <int64[1] b = {0}, int64[1] e = {1}, int64[2] d = {%s}, float[N, 8, 1] a> {
        s = Shape (x)  n = Slice (s, b, e)  t = Concat <axis = 0> (n, d)  a = Expand (x, t)  y = Neg (a) }"""

EXAMPLES = [
    Fires(_EXPAND % "8, 1", becomes="y = Neg (x)"),
    Skips(_EXPAND % "7, 1"),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, 3}, int64[4] p = {0, 0, 0, 0}> {
            a = Reshape (x, s)  b = Transpose <perm = [0, 1]> (a)  c = Pad (b, p)
            d = Flatten (c)  y = Relu (d) }""",
        gone="Reshape",
        becomes="y = Relu (x)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3] x) => (float[N, 3] y) <int64[1] z = {0}, int64[1] e = {3}, int64[1] one = {1}> {
            a = Slice (x, z, e, one)  y = Relu (a) }""",
        gone="Slice",
        becomes="y = Relu (x)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3] x) => (float[3] y) <int64[1] s = {2}, int64[1] e = {-4}, int64[1] z = {0}, int64[1] m = {-1}> {
            y = Slice (x, s, e, z, m) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 10]>
        g (float[N, 3] x) => (float[M, 3] y) <int64[1] s = {1}, int64[1] e = {99}, int64[1] z = {0}> {
            a = Slice (x, s, e, z)  y = Relu (a) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 2] x) => (float[2, 2] y) { y = Transpose (x) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, M] x) => (float[A, B] y) <int64[2] s = {-1, 4}> { y = Reshape (x, s) }"""
    ),
    *(
        Skips(
            '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4] x, float[2, 3] m) => (y) '
            f"<int64[6] one = {{1, 0, 0, 0, 0, 0}}> {{ y = {call} }}"
        )
        for call in ("Flatten (x)", "Flatten <axis = 0> (m)", "Pad (x, one)", "Flatten <axis = 2> (m)")
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 9]>
        g (float[N, 3] x) => (y) { a = Slice <starts = [0], ends = [3], axes = [1]> (x)  y = Neg (a) }""",
        becomes="y = Neg (x)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 10]>
        g (float[2, 3] x) => (y) <int64[1] z = {0}, int64[1] e = {3}, int64[1] one = {1}> {
            a = Slice (x, z, e, one)  b = Pad <pads = [0, 0, 0, 0]> (a)  y = Neg (b) }""",
        becomes="y = Neg (x)",
    ),
    *(
        Skips(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[2, 3] x, float[] u, int64[4] w, int64[1] t) => (y) <int64[1] z = {{0}}, int64[1] e = {{3}},
                int64[1] one = {{1}}> {{ y = {call} }}"""
        )
        for call in ("Slice (x, z, e, one, t)", "Flatten (u)", "Pad (x, w)", "Transpose (u)")
    ),
    Skips(  # the shape stays, the data move
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (y) <int64[4] p = {0, 1, 0, -1}> { y = Pad (x, p) }"""
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[2, 3] x) => (y) <int64[4] p = {0, 0, 0, 0}> {
            a = Pad (x, p)  b = Flatten <axis = -1> (a)  y = Neg (b) }""",
        becomes="y = Neg (x)",
    ),
]
