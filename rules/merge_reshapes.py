"""Turn a Reshape of a Reshape into one, or into none.

Reshape, Flatten, Squeeze and Unsqueeze keep the elements and their order, so that of two in a row
only the last one's shape counts.

    before    y = Unsqueeze(Reshape(x, [0, 8, -1]), [2])
    after     y = Reshape(x, [0, 8, 1, -1])

A pair that gives the shape back disappears. The new shape must be right for every size of the
dynamic dimensions: a dimension is a known size, or the one that x has at the same place (0), or the
single one that the Reshape itself finds (-1).
"""

import numpy as np

from onnxq.rule import (
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    constant,
    is_static,
    known_elements,
    made_by,
    op,
    remake,
    required,
    rule,
)

Dim = int | str | None

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@rule(*RESHAPES, stage="fuse")
def merge_reshapes(node: Node) -> Value | None:
    before = made_by(node.inputs[0], *RESHAPES)
    if before is None:
        return None
    (source,), out = required(before, 1), node.outputs[0]
    if source.shape is not None and source.shape == out.shape and None not in source.shape:
        return source
    if is_static(out.shape) and not is_static(source.shape):
        raise Skip("it holds for one size of the dynamic dimensions only")
    if node.op == "Reshape":
        wanted = constant(node.inputs[1])
        if wanted is not None and (wanted.all() or node.attr("allowzero", 0)):
            return remake(node, source, node.inputs[1])
    if source.shape is None or out.shape is None:
        raise Skip(f"the rank of {(source if source.shape is None else out).name!r} is not known")
    found = {*_found(node), *_found(before)}
    return op.Reshape(source, np.array(_target(source, out, found), np.int64))


def _target(source: Tensor, out: Tensor, found: set[Dim]) -> list[int]:
    """The shape of `out` for a Reshape of `source`.

    A Reshape that copies a size (0) and finds another (-1) fails where the first is 0. So it does
    only what a Reshape of the original does too, which finds the sizes `found`.
    """
    assert source.shape is not None
    assert out.shape is not None
    if 0 in out.shape:
        raise Skip("a dimension has the size 0")
    target, missing = [], []
    for axis, dim in enumerate(out.shape):
        copied = dim is not None and source.shape[axis : axis + 1] == (dim,)
        target.append(dim if isinstance(dim, int) else 0 if copied else -1)
        if target[-1] == -1:
            missing.append(dim)
    if len(missing) > 1:
        raise Skip(f"{len(missing)} dimensions of {out.name!r} are dynamic: a Reshape finds one size only")
    if missing and 0 in target and missing[0] not in found:
        raise Skip(f"{missing[0]} could not be found where the other dynamic dimension is 0")
    return target


def _found(node: Node) -> list[Dim]:
    """The sizes that a Reshape finds itself (-1)."""
    wanted = known_elements(required(node, 2)[1]) if node.op == "Reshape" else None
    shape = node.outputs[0].shape
    if wanted is None or shape is None:
        return []
    return [dim for dim, size in zip(shape, wanted, strict=False) if size == -1]


def _net(x: str, body: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{x}] x) => (y) <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[3] rest = {{0, 0, -1}},
        int64[2] rows = {{-1, 4}}, int64[2] pair = {{0, 8}}, int64[2] flat = {{2, 8}}> {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("2, 4", "a = Unsqueeze (x, one)  b = Reshape (a, rows)  y = Relu (b)"),
        gone="Reshape",
        becomes="y = Relu (x)",
    ),
    Fires(
        _net("N, 4", "a = Unsqueeze (x, two)  b = Squeeze (a, two)  y = Relu (b)"),
        gone="Reshape",
        becomes="y = Relu (x)",
    ),
    Fires(
        _net("N, M", "a = Unsqueeze (x, one)  y = Reshape (a, rows)"),
        gone="Unsqueeze",
        becomes="y = Reshape (x, {-1, 4})",
    ),
    Fires(
        _net("2, 8", "a = Unsqueeze (x, one)  y = Reshape (a, rest)"),
        gone="Unsqueeze",
        becomes="y = Reshape (x, {2, 1, 8})",
    ),
    Fires(
        _net("N, 8, A, B", "a = Reshape (x, rest)  y = Unsqueeze (a, two)"),
        gone="Unsqueeze",
        becomes="y = Reshape (x, {0, 8, 1, -1})",
    ),
    Fires(
        _net("N, 8, 1", "a = Squeeze (x, two)  y = Reshape (a, pair)"),
        gone="Squeeze",
        becomes="y = Reshape (x, {0, 8})",
    ),
    Fires(
        _net("2, 2, 4", "a = Flatten (x)  y = Unsqueeze (a, one)"),
        gone="Flatten",
        becomes="y = Reshape (x, {2, 1, 8})",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[0, 4] x) => (y) <int64[1] one = {1}, int64[2] none = {3, 0}> {
            a = Unsqueeze (x, one)  y = Reshape <allowzero = 1> (a, none) }""",
        gone="Unsqueeze",
        becomes="y = Reshape <allowzero = 1> (x, {3, 0})",
    ),
    Skips(
        _net("N, M, A", "a = Unsqueeze (x, one)  y = Flatten <axis = 3> (a)"), because="finds one size only"
    ),
    Skips(_net("N, 1, M", "a = Squeeze (x, one)  y = Unsqueeze (a, two)"), because="the other dynamic"),
    Skips(_net("0, 4", "a = Unsqueeze (x, one)  y = Unsqueeze (a, two)"), because="the size 0"),
    Skips(_net("N, 4", "a = Unsqueeze (x, one)  y = Reshape (a, flat)"), because="holds for one size"),
    Skips(_net("", "a = Flatten (x)  y = Unsqueeze (a, one)"), because="the rank of"),
    Skips(_net("2, 8", "a = Relu (x)  y = Reshape (a, flat)")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[] x, int64[1] s) => (y) <int64[1] a = {0}> { r = Reshape (x, s)  y = Unsqueeze (r, a) }""",
        because="the rank of 'x'",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x, int64[R] s, int64[1] t) => (y) { r = Reshape (x, t)  y = Reshape (r, s) }""",
        because="the rank of 'y'",
    ),
]
