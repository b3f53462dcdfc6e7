"""Write `SkipLayerNormalization` and `EmbedLayerNormalization` as sums and a LayerNormalization.

onnxruntime's optimizer joins them; TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = SkipLayerNormalization(x, skip, gamma, beta, bias)
    after     y = LayerNormalization(x + skip + bias, gamma, beta)

    before    y, mean, inverse = SkipLayerNormalization(x, skip, gamma)
    after     mean, inverse = ReduceMean(x + skip), 1 / sqrt(variance(x + skip) + epsilon), besides

    before    y = EmbedLayerNormalization(ids, segments, word, position, segment, gamma, beta, , positions)
    after     y = LayerNormalization(word[ids] + position[positions] + segment[segments], gamma, beta)

Before opset 17 there is no LayerNormalization: it is (s - mean(s)) / sqrt(variance(s) + epsilon) * gamma + beta
then. Half precision is computed in float32, as the operator does: a sum that is rounded to float16 is no longer
what its mean is taken from.
"""

import numpy as np
from _opsets import reduced

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Tensor, Value, op, operands, rule

_FLOAT, _INT32 = 1, 6  # onnx.TensorProto.DataType
_SHORT = {"float16": 10, "bfloat16": 16}


@rule(
    "com.microsoft.SkipLayerNormalization",
    "com.microsoft.EmbedLayerNormalization",
    stage="compat",
    lacks="onnxruntime-fusions",
)
def unfuse_layer_normalization(node: Node) -> Close | Except:
    gamma, beta = operands(node, 7)[5:] if node.op == "EmbedLayerNormalization" else operands(node, 4)[2:]
    if gamma is None or gamma.dtype is None:
        raise Skip("the type of gamma is not known")
    short = _SHORT.get(str(gamma.dtype))
    if node.op == "SkipLayerNormalization":
        x, skip, _, _, bias = operands(node, 5)
        total = _sum(short, x, skip, bias)
        results = {3: _narrow(total, short)}
        results[1], results[2] = _statistics(node, total)
    else:
        ids, segments, words, places, kinds, _, _, mask, positions = operands(node, 9)
        place = _first(places, ids) if positions is None else op.Gather(places, positions)
        segment = None if segments is None else op.Gather(kinds, segments)
        total = _sum(short, op.Gather(words, ids), place, segment)
        results = {2: _narrow(total, short)}
        results[1] = _none(ids) if mask is None else _ones(node, mask)
    parameters = [_wide(value, short) for value in (gamma, beta) if value is not None]
    results[0] = _narrow(_normalized(node, total, *parameters), short)
    read = {index for index, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output}
    given = Close({index: results[index] for index in sorted(read)})
    if node.op == "SkipLayerNormalization" and read & {1, 2}:
        return Except(given, "extreme-input", "of what overflows no variance is known")
    return given


def _sum(short: int | None, *terms: Value | None) -> Value:
    first, *others = (_wide(term, short) for term in terms if term is not None)
    for term in others:
        first = op.Add(first, term)
    return first


def _wide(value: Value, short: int | None) -> Value:
    return value if short is None else op.Cast(value, to=_FLOAT)


def _narrow(value: Value, short: int | None) -> Value:
    return value if short is None else op.Cast(value, to=short)


def _first(places: Tensor | None, ids: Tensor | None) -> Value:
    """The rows of the table of positions 0, 1, ... for a sequence of ids [batch, length]."""
    length = op.Slice(op.Shape(ids), np.array([1]), np.array([2]))
    return op.Slice(places, np.array([0]), length, np.array([0]))


def _ones(node: Node, mask: Tensor) -> Value:
    """How many elements of each row of a mask are one: int32 [batch]."""
    ones = op.Cast(op.Equal(mask, np.array(1, np.int32)), to=_INT32)
    if node.opset < 13:
        return op.ReduceSum(ones, axes=[1], keepdims=0)
    return op.ReduceSum(ones, np.array([1]), keepdims=0)


def _none(ids: Tensor | None) -> Value:
    """What is counted where there is no mask: 0 for each row, int32 [batch]."""
    return op.Expand(np.zeros(1, np.int32), op.Slice(op.Shape(ids), np.array([0]), np.array([1])))


def _statistics(node: Node, total: Value) -> tuple[Value, Value]:
    """The mean and the inverse deviation of each row, float32 [..., 1]."""
    mean = reduced(node, "ReduceMean", total, [-1], keepdims=1)
    centered = op.Sub(total, mean)
    variance = reduced(node, "ReduceMean", op.Mul(centered, centered), [-1], keepdims=1)
    return mean, op.Reciprocal(op.Sqrt(op.Add(variance, np.float32(node.attr("epsilon", 1e-12)))))


def _normalized(node: Node, total: Value, gamma: Value, beta: Value | None = None) -> Value:
    epsilon = node.attr("epsilon", 1e-12)
    if node.opset >= 17:
        parameters = [gamma] if beta is None else [gamma, beta]
        return op.LayerNormalization(total, *parameters, epsilon=epsilon)
    centered = op.Sub(total, op.ReduceMean(total, axes=[-1]))
    variance = op.ReduceMean(op.Mul(centered, centered), axes=[-1])
    y = op.Mul(op.Div(centered, op.Sqrt(op.Add(variance, np.array(epsilon, gamma.dtype)))), gamma)
    return y if beta is None else op.Add(y, beta)


_SKIP = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (%s[N, 3, 4] x, %s[N, 3, 4] s) => (%s) <%s[4] g = {1, -2, 0.5, 3}, %s[4] b = {0.1, 0, -1, 2},
        %s[4] c = {0.3, -0.4, 1.5, 1}> { %s = com.microsoft.SkipLayerNormalization <epsilon = 0.01> (%s) }"""
_HALF = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (float16[N, 3, 4] x, float16[N, 3, 4] s, float16[4] g, float16[4] b) => (%s) {
        %s = com.microsoft.SkipLayerNormalization (x, s, g, b) }"""
# The rows' values are as far apart as they are large. Of 10.5 and 10.8 few digits would be left, and
# onnxruntime 1.23 takes a variance as the difference of two squares, which loses twice as many.
_EMBED = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (int32[N, T] i, int32[N, T] s, int32[N, T] m, int32[1, T] p) => (%s)
        <float[9, 3] w = {5, -2, -1, -3, 7, -6, -7, 4, -7, -8, 8, -3, -7, -1, 6, -3, 2, 2, -3, 5, -1, -1, -8, 7,
                          3, -4, -6},
         float[9, 3] l = {-0.1, 1.5, -0.3, -1.4, -0.4, 0.8, -0.3, -0.1, 0.7, -0.7, -0.9, -0.5, 1.4, 1.2, -1.5,
                          -0.4, -0.6, -0.7, 0.6, -1.3, -0.2, 0.3, 0.1, -0.7, -1.1, -0.3, 0.7},
         float[4, 3] k = {0.1, -0.3, -0.9, 0.3, 0.6, -0.2, -0.5, 0.3, -0.8, -0.6, 0.7, -0.4},
         float[3] g = {1, -2, 0.5}, float[3] b = {0.1, 0.3, -1}> {
        %s = com.microsoft.EmbedLayerNormalization <epsilon = 0.01> (%s) }"""


def _skip(opset: int, kind: str, outputs: str, inputs: str) -> str:
    read = outputs.replace(", , ,", ",")
    return _SKIP % (opset, kind, kind, read, kind, kind, kind, outputs, inputs)


EXAMPLES = [
    Fires(
        _skip(17, "float", "y", "x, s, g, b"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Add (x, s)
        y = LayerNormalization <epsilon = 0.01> (_1, {1.0, -2.0, 0.5, 3.0}, {0.1, 0.0, -1.0, 2.0})""",
    ),
    Fires(
        _skip(17, "float", "y, , , z", "x, s, g, b, c"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Add (x, s); z = Add (_1, {0.3, -0.4, 1.5, 1.0})
        y = LayerNormalization <epsilon = 0.01> (z, {1.0, -2.0, 0.5, 3.0}, {0.1, 0.0, -1.0, 2.0})""",
    ),
    Fires(
        _skip(17, "float", "y", "x, s, g, , c"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Add (x, s); _2 = Add (_1, {0.3, -0.4, 1.5, 1.0})
        y = LayerNormalization <epsilon = 0.01> (_2, {1.0, -2.0, 0.5, 3.0})""",
    ),
    Fires(
        _skip(11, "float", "y, , , z", "x, s, g, b, c"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Add (x, s); z = Add (_1, {0.3, -0.4, 1.5, 1.0}); _2 = ReduceMean <axes = [-1]> (z)
        _3 = Sub (z, _2); _4 = Mul (_3, _3); _5 = ReduceMean <axes = [-1]> (_4); _6 = Add (_5, 0.01)
        _7 = Sqrt (_6); _8 = Div (_3, _7); _9 = Mul (_8, {1.0, -2.0, 0.5, 3.0})
        y = Add (_9, {0.1, 0.0, -1.0, 2.0})""",
    ),
    Fires(
        _skip(13, "float", "y", "x, s, g"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Add (x, s); _2 = ReduceMean <axes = [-1]> (_1); _3 = Sub (_1, _2); _4 = Mul (_3, _3)
        _5 = ReduceMean <axes = [-1]> (_4); _6 = Add (_5, 0.01); _7 = Sqrt (_6); _8 = Div (_3, _7)
        y = Mul (_8, {1.0, -2.0, 0.5, 3.0})""",
    ),
    Fires(
        _HALF % (11, "y", "y"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Cast <to = 1> (x); _2 = Cast <to = 1> (s); _3 = Add (_1, _2); _4 = ReduceMean <axes = [-1]> (_3)
        _5 = Sub (_3, _4); _6 = Mul (_5, _5); _7 = ReduceMean <axes = [-1]> (_6); _8 = Add (_7, 1e-12)
        _9 = Sqrt (_8); _10 = Div (_5, _9); _11 = Cast <to = 1> (g); _12 = Mul (_10, _11)
        _13 = Cast <to = 1> (b); _14 = Add (_12, _13); y = Cast <to = 10> (_14)""",
    ),
    Fires(
        _HALF % (17, "y, z", "y, , , z"),
        gone="SkipLayerNormalization",
        becomes="""_1 = Cast <to = 1> (x); _2 = Cast <to = 1> (s); _3 = Add (_1, _2); _4 = Cast <to = 1> (g)
        _5 = Cast <to = 1> (b); _6 = LayerNormalization <epsilon = 1e-12> (_3, _4, _5)
        y = Cast <to = 10> (_6); z = Cast <to = 10> (_3)""",
    ),
    Fires(
        _EMBED % (17, "y, c, e", "y, c, e", "i, s, w, l, k, g, b, m"),
        gone="EmbedLayerNormalization",
        becomes="""_1 = Gather (float32 [9, 3], i); _2 = Shape (i); _3 = Slice (_2, {1}, {2})
        _4 = Slice (float32 [9, 3], {0}, _3, {0}); _5 = Add (_1, _4)
        _6 = Gather ([4, 3] {0.1, -0.3, -0.9, 0.3, 0.6, -0.2, -0.5, 0.3, -0.8, -0.6, 0.7, -0.4}, s)
        e = Add (_5, _6); y = LayerNormalization <epsilon = 0.01> (e, {1.0, -2.0, 0.5}, {0.1, 0.3, -1.0})
        _7 = Equal (m, int32 1); _8 = Cast <to = 6> (_7); c = ReduceSum <keepdims = 0> (_8, {1})""",
    ),
    Fires(_EMBED % (11, "y, c", "y, c", "i, s, w, l, k, g, b, m, p"), gone="EmbedLayerNormalization"),
    Fires(
        _EMBED % (17, "y", "y, c", "i, , w, l, , g, b"),
        gone="EmbedLayerNormalization",
        becomes="""_1 = Gather (float32 [9, 3], i); _2 = Shape (i); _3 = Slice (_2, {1}, {2})
        _4 = Slice (float32 [9, 3], {0}, _3, {0}); _5 = Add (_1, _4)
        y = LayerNormalization <epsilon = 0.01> (_5, {1.0, -2.0, 0.5}, {0.1, 0.3, -1.0})""",
    ),
    Fires(
        _EMBED % (17, "y", "y, c", "i, , w, l, , g, b, , p"),
        gone="EmbedLayerNormalization",
        becomes="""_1 = Gather (float32 [9, 3], i); _2 = Gather (float32 [9, 3], p); _3 = Add (_1, _2)
        y = LayerNormalization <epsilon = 0.01> (_3, {1.0, -2.0, 0.5}, {0.1, 0.3, -1.0})""",
    ),
    Fires(_skip(17, "float", "y, m, v, z", "x, s, g, b, c"), gone="SkipLayerNormalization"),
    Fires(_skip(18, "float", "y, m, v", "x, s, g, b"), gone="SkipLayerNormalization"),
    Fires(
        _EMBED % (17, "y, c", "y, c", "i, , w, l, , g, b"),
        gone="EmbedLayerNormalization",
        becomes="""_1 = Gather (float32 [9, 3], i); _2 = Shape (i); _3 = Slice (_2, {1}, {2})
        _4 = Slice (float32 [9, 3], {0}, _3, {0}); _5 = Add (_1, _4)
        y = LayerNormalization <epsilon = 0.01> (_5, {1.0, -2.0, 0.5}, {0.1, 0.3, -1.0})
        _6 = Shape (i); _7 = Slice (_6, {0}, {1}); c = Expand (int32 {0}, _7)""",
    ),
    Skips(
        (_EMBED % (17, "y", "y, c", "i, , w, l, , h, b")).replace(
            "{\n        y", "{ h = com.microsoft.QuickGelu (g)\n        y"
        ),
        because="type of gamma",
    ),
]
