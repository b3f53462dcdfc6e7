"""Unroll a Loop or a Scan with layers inside that int8 makes faster.

What is inside of a Loop stays float: nothing is measured there, and TensorRT takes no Q/DQ pairs there.

    before    y = Loop(2, true, x) { a -> Tanh(MatMul(a, W)) }
    after     y = Tanh(MatMul(Tanh(MatMul(x, W)), W))

Only layers of constant weights count, in sizes from which the target's kernels gain. The number of iterations must be
a constant and the condition never false; at most 500 nodes in all. The weights stay one constant. Equal bit for bit.

128 iterations of a MatMul and a Tanh are 257 kernels of tensorrt-rtx 1.7.1, built in 2 s, and `quantize` takes 53 s.
"""

from _loops import unrolled

from onnxq.rule import Fires, Node, Skips, Value, layer_of, rule


@rule("Loop", "Scan", stage="clean")
def unroll_layers(node: Node) -> dict[int, Value] | None:
    for one in node.body("body").nodes:
        layer = layer_of(one)
        if layer is not None and layer.ineligible is None:
            return unrolled(node, f"its layer {one.name!r} stays float inside", 500)
    return None


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[%d, 16] x, int64 k) => (y) <int64 n = {2}, bool on = {1}, float[16, 16] w = {%s}> {
        y = Loop (%s, on, x) <body = b (int64 i, bool c, float[%d, 16] a) => (bool d, float[%d, 16] r) {
            d = Identity (c)  v = Transpose (w)  p = MatMul (a, v)  r = Tanh (p) }> }"""


def _net(rows: int = 16, trip: str = "n") -> str:
    return _NET % (rows, ", ".join(["0.5"] * 256), trip, rows, rows)


_LIMITS = {"int8-rows": 16, "int8-channels": 16}

EXAMPLES = [
    Fires(
        _net(),
        limits=_LIMITS,
        after=("fold_constants",),
        becomes="""y: float32[16, 16]; _1 = MatMul (x, float32 [16, 16]); _2 = Tanh (_1)
        _3 = MatMul (_2, float32 [16, 16]); y = Tanh (_3)""",
    ),
    Skips(_net(rows=8), limits=_LIMITS, after=("fold_constants",)),
    Skips(_net(trip="k"), limits=_LIMITS, after=("fold_constants",), because="stays float inside"),
]
