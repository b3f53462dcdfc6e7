"""Write a `TensorScatter` that TensorRT has no kernel for as a `ScatterElements`.

It updates a cache of [batch, heads, length, size] in place, of floats, along the length, without going round at its end,
where the cache is an input of the model and the result an output of it:

    Assertion failed: mode == "linear": Only linear mode is supported for now, got circular
    Assertion failed: cacheDims == 4: The past_cache tensor is required to be 4D, got 3D.
    Assertion failed: axis == -2: Sequence dimension must be -2, got -3
    The cache tensor must be a network input.
    The output tensor must be a network output.

Row r of what comes is written at write index + r, in the mode `circular` modulo the length:

    before    y = TensorScatter<mode="circular">(cache, rows, at)
    after     y = ScatterElements(cache, Mod(at + [0, 1, ...], length), rows)

It only moves values, and takes an index for each value that comes (8 bytes).
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, operands, required, rule


@rule("TensorScatter", stage="compat", lacks="tensor-scatter-forms")
def scatter_into_cache(node: Node) -> Value | None:
    cache, rows = required(node, 2)
    at = operands(node, 3)[2]
    if cache.shape is None or rows.shape is None:
        raise Skip(f"the rank of {cache.name!r} or of {rows.name!r} is not known")
    rank, circular = len(cache.shape), node.attr("mode") == "circular"
    axis = node.attr("axis", -2) % rank
    floats = cache.dtype is not None and cache.dtype.name in ("float32", "float16", "bfloat16")
    if (rank, axis, circular) == (4, 2, False) and floats and cache.is_input and node.outputs[0].is_output:
        return None
    count, length = rows.shape[axis], cache.shape[axis]
    if not isinstance(count, int) or not isinstance(length, int) or length < 1:
        raise Skip(f"dimension {axis} of {cache.name!r} or of {rows.name!r} is dynamic, or 0")
    if count > length:
        raise Skip(f"{count} rows are written to {length} places: which of them stay is not said")
    along = tuple(count if one == axis else 1 for one in range(rank))
    places: Value | np.ndarray = np.arange(count).reshape(along)
    if at is not None:
        places = op.Add(op.Reshape(at, np.array([-1] + [1] * (rank - 1))), places)
        places = op.Mod(places, np.array(length)) if circular else places
    return op.ScatterElements(cache, op.Expand(places, op.Shape(rows)), rows, axis=axis)


def _net(attributes: str, cache: str = "[2, 3, 8, 4]", rows: str = "[2, 3, 2, 4]", more: str = ", at") -> str:
    return f"""<ir_version: 10, opset_import: ["" : 24]>
    g (float{cache} c, float{rows} r, int64[2] at) => (float{cache} y) {{
        y = TensorScatter {attributes} (c, r{more}) }}"""


_UNKNOWN = """<ir_version: 12, opset_import: ["" : 24]>
    g (float[M] x, int64[R] s, float[2, 3, 8, 4] r) => (y) {{
        a = Reshape (x, s)  y = TensorScatter <mode = "circular"> ({}) }}"""

EXAMPLES = [
    Fires(
        _net('<mode = "circular">'),
        becomes="""_1 = Reshape (at, {-1, 1, 1, 1}); _2 = Add (_1, [1, 1, 2, 1] {0, 1}); _3 = Mod (_2, 8)
                   _4 = Shape (r); _5 = Expand (_3, _4); y = ScatterElements <axis = 2> (c, _5, r)""",
    ),
    Fires(_net('<mode = "circular", axis = 1>', "[2, 8, 3, 4]", "[2, 3, 3, 4]"), gone="TensorScatter"),
    Fires(_net('<mode = "circular">', "[2, 8, 4]", "[2, 8, 4]"), gone="TensorScatter"),
    Fires(_net('<mode = "circular">', more=""), gone="TensorScatter"),
    Fires(
        _net("", "[2, 8, 4]", "[2, 2, 4]"),
        becomes="""_1 = Reshape (at, {-1, 1, 1}); _2 = Add (_1, [1, 2, 1] {0, 1}); _3 = Shape (r)
                   _4 = Expand (_2, _3); y = ScatterElements <axis = 1> (c, _4, r)""",
    ),
    Fires(_net("<axis = 1>", "[2, 8, 3, 4]", "[2, 2, 3, 4]"), gone="TensorScatter"),
    Fires(_net("").replace("y = T", "d = Neg (c)  y = T").replace("(c, r", "(d, r"), gone="TensorScatter"),
    Fires(_net("").replace("y = T", "d = T").replace("at) }", "at)  y = Neg (d) }"), gone="TensorScatter"),
    Fires(_net("").replace("float", "int32"), gone="TensorScatter"),
    Skips(_net("")),
    Skips(_net("<axis = 2>", more="")),
    Skips(_net('<mode = "circular">', "[2, 3, L, 4]"), because="dynamic"),
    Skips(_net('<mode = "circular">', rows="[2, 3, R, 4]"), because="dynamic"),
    Skips(_net('<mode = "circular">', "[2, 3, 0, 4]", "[2, 3, 0, 4]"), because="or 0"),
    Skips(_UNKNOWN.format("a, r"), because="the rank of 'a'"),
    Skips(_UNKNOWN.format("r, a"), because="of 'a' is not known"),
    Skips(_net('<mode = "circular">', "[2, 3, 1, 4]"), because="2 rows are written to 1 places"),
]
