"""Give an LSTM, GRU or RNN the layout that TensorRT takes: steps first.

TensorRT ignores `layout=1`, without a word: it takes the batch for the steps. With initial states it says

    IRecurrenceLayer must have inputs with same shape.

    before    Y, Y_h = GRU<layout=1>(x, W, R, B, , h)
    after     Y = Transpose(GRU(Transpose(x), W, R, B, , Transpose(h)))

x is [batch, steps, size] with it, Y [batch, steps, directions, hidden], the states [batch, directions, hidden].
onnxruntime does not run it either. Values are only moved: equal bit for bit.
"""

from onnxq.rule import Fires, Node, Skips, Value, op, operands, remake, rule


@rule("LSTM", "GRU", "RNN", stage="compat", lacks="recurrent-batch-first")
def transpose_batch_first(node: Node) -> dict[int, Value] | None:
    if not node.attr("layout", 0):
        return None
    x, w, r, b, lengths, h, c, p = operands(node, 8)
    inputs = [_swapped(x), w, r, b, lengths, _swapped(h), _swapped(c), p]
    while inputs[-1] is None:
        inputs.pop()
    results = remake(node, *inputs, outputs=len(node.outputs), layout=None)
    given = results if isinstance(results, tuple) else (results,)
    moved = [op.Transpose(given[0], perm=[2, 0, 1, 3]), *map(_swapped, given[1:])]
    return {index: value for index, value in enumerate(moved) if value is not None}


def _swapped(value: Value | None) -> Value | None:
    return None if value is None else op.Transpose(value, perm=[1, 0, 2])


_NET = """<ir_version: 8, opset_import: ["" : 14]>
    g (float[N, 3, 2] x, float[N, 1, 1] h) => (%s) <float[1, 1, 2] w = {0.5, -1}, float[1, 1, 1] r = {0.25},
        float[1, 2] b = {0.5, 0.25}, float[1, 4, 2] w4 = {1, 2, -1, 0.5, 0.25, 3, 1, -2}, float[1, 4, 1] r4 = {1, -0.5, 0.5, 2}>
    { %s }"""


def _net(node: str, outputs: str = "float[N, 3, 1, 1] y, float[N, 1, 1] s") -> str:
    return _NET % (outputs, node)


EXAMPLES = [
    Fires(
        _net("y, s = RNN <hidden_size = 1, layout = 1> (x, w, r, b, , h)"),
        becomes="""_1 = Transpose <perm = [1, 0, 2]> (x); _2 = Transpose <perm = [1, 0, 2]> (h)
        _3, _4 = RNN <hidden_size = 1> (_1, [1, 1, 2] {0.5, -1.0}, [1, 1, 1] {0.25}, [1, 2] {0.5, 0.25}, , _2)
        y = Transpose <perm = [2, 0, 1, 3]> (_3); s = Transpose <perm = [1, 0, 2]> (_4)""",
    ),
    Fires(
        _net(
            "y, s, z = LSTM <hidden_size = 1, layout = 1> (x, w4, r4)",
            "float[N, 3, 1, 1] y, float[N, 1, 1] z",
        )
    ),
    Skips(_net("y, s = RNN <hidden_size = 1> (x, w, r, b)")),
]
