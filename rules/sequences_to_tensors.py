"""Read the tensors that a sequence is made of, instead of the sequence.

Exporters write `torch.split`, lists and `torch.stack` with sequences. TensorRT has no importer for any of
their operators:

    No importer registered for op: SplitToSequence. (...) UNSUPPORTED_NODE: false
    No importer registered for op: SequenceAt. (...) UNSUPPORTED_NODE: false

    before    y = SequenceAt(SplitToSequence(x, 2, axis=1), 1)     y = ConcatFromSequence([a, b], axis=1)
    after     y = Slice(x, [2], [4], [1])                          y = Concat(a, b, axis=1)

The list has to be known: constructed, split into known pieces, inserted and erased at constant positions, mapped.
One that is split along a dynamic dimension may be joined again, counted, or read by its position. A computed
position wants tensors of one shape. Everything is only moved: it is equal bit for bit.
"""

import numpy as np
from _opsets import unsqueezed
from _sequences import items, split_of

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, is_static, op, operands, required, rule

_MOST = 64  # so many tensors are joined to read one at a computed position
_SCALAR = np.zeros(0, np.int64)


@rule("SequenceAt", "ConcatFromSequence", "SequenceLength", stage="clean")
def sequences_to_tensors(node: Node) -> Value | np.ndarray:
    (sequence,) = required(node, 1)
    if node.op == "SequenceLength":
        return _length(sequence)
    if node.op == "ConcatFromSequence":
        return _joined(node, sequence)
    place = operands(node, 2)[1]
    at = None if place is None else place.scalar
    if place is None or at is None:
        return _at_computed(node, sequence, place)
    split = split_of(sequence)
    if split is not None and not isinstance((split[0].shape or ())[split[1]], int):
        return _of_dynamic(node, split, int(at))
    found = items(sequence)
    if not -len(found) <= at < len(found):
        raise Skip(f"it reads number {at} of {len(found)} tensors")
    return found[int(at)]


def _length(sequence: Tensor) -> Value | np.ndarray:
    split = split_of(sequence)
    if split is None or isinstance((split[0].shape or ())[split[1]], int):
        return np.array(len(items(sequence)))
    x, axis, size, _ = split
    count = op.Gather(op.Shape(x), np.array(axis))
    return count if size == 1 else op.Div(op.Add(count, size - 1), size)


def _joined(node: Node, sequence: Tensor) -> Value:
    axis, is_new = int(node.attr("axis")), bool(node.attr("new_axis", 0))
    split = split_of(sequence)
    if split is not None and (split[0].rank or 0):
        x, along, rank, keeps = split[0], split[1], int(split[0].rank or 0), split[3]
        if keeps and not is_new and axis % rank == along:
            return x
        if not keeps:
            place = axis % rank if is_new else axis % (rank - 1)
            moved = _moved(x, along, place)
            return moved if is_new else _merged(node, moved, place)
    found = items(sequence)
    if not found:
        raise Skip("the sequence is empty")
    if is_new:
        joined = node.outputs[0].rank if found[0].rank is None else found[0].rank + 1
        if joined is None:
            raise Skip("the rank of its tensors is not known")
        axis %= joined
        found = [unsqueezed(node, value, [axis]) for value in found]
    return found[0] if len(found) == 1 else op.Concat(*found, axis=axis)


def _moved(x: Tensor, along: int, place: int) -> Value:
    """A tensor with one of its axes at another place."""
    order = [other for other in range(x.rank or 0) if other != along]
    order.insert(place, along)
    return x if along == place else op.Transpose(x, perm=order)


def _merged(node: Node, x: Value, place: int) -> Value:
    """A tensor whose axis `place` and the next one are one."""
    assert x.shape is not None
    one, other = x.shape[place : place + 2]
    whole = one * other if isinstance(one, int) and isinstance(other, int) else None
    sizes = [*x.shape[:place], whole, *x.shape[place + 2 :]]
    if sum(not isinstance(size, int) for size in sizes) <= 1:
        return op.Reshape(x, np.array([size if isinstance(size, int) else -1 for size in sizes]))
    if node.opset < 14:  # a 0 among the sizes would be taken from the old shape
        raise Skip(f"several sizes are dynamic, and opset {node.opset} has no Reshape to a size of 0")
    shape = op.Shape(x)
    counts = [op.Slice(shape, np.array([axis]), np.array([axis + 1])) for axis in range(len(sizes) + 1)]
    counts[place : place + 2] = [op.Mul(*counts[place : place + 2])]
    return op.Reshape(x, op.Concat(*counts, axis=0), allowzero=1)


def _at_computed(node: Node, sequence: Tensor, place: Tensor | None) -> Value:
    """The tensor at a position that is computed: all are put on one axis, unless they come from one."""
    split = split_of(sequence)
    if split is not None and split[2] == 1:
        x, axis, _, keeps = split
        return op.Gather(x, op.Reshape(place, np.array([1]) if keeps else _SCALAR), axis=axis)
    found = items(sequence)
    shapes = {value.shape for value in found}
    if not 1 <= len(found) <= _MOST or len(shapes) > 1 or not is_static(found[0].shape):
        shape = sorted(map(str, shapes))
        raise Skip(f"its position is computed, of {len(found)} tensors of shape {' and '.join(shape)}")
    return op.Gather(
        op.Concat(*(unsqueezed(node, value, [0]) for value in found), axis=0),
        op.Reshape(place, _SCALAR),
        axis=0,
    )


def _of_dynamic(node: Node, split: tuple[Tensor, int, int, bool], at: int) -> Value:
    """Piece `at` of an axis whose size is not known."""
    x, axis, size, keeps = split
    if not keeps:
        return op.Gather(x, np.array(at), axis=axis)
    if size > 1 and at < 0:
        raise Skip(f"the size of its piece {at} depends on dimension {axis} of {x.name!r}, which is dynamic")
    end = np.iinfo(np.int64).max if at == -1 else (at + 1) * size
    return op.Slice(x, np.array([at * size]), np.array([end]), np.array([axis]))


_NET = """<ir_version: 8, opset_import: ["" : %s]>
    g (float[N, 6] x, float[2, 3] a, float[2, 3] b, int64 i) => (y)
    <int64 two = {2}, int64[3] sizes = {1, 2, 3}, int64 zero = {0}, int64 last = {-1}> { %s }"""


def _net(nodes: str, opset: int = 13) -> str:
    return _NET % (opset, nodes)


EXAMPLES = [
    Fires(
        _net("s = SplitToSequence <axis = -1> (x, two)  y = SequenceAt (s, last)"),
        becomes="y = Slice (x, {4}, {6}, {1})",
    ),
    Fires(
        _net("s = SplitToSequence <axis = 1> (x, sizes)  y = SequenceAt (s, two)"),
        becomes="y: float32[N, 3]; y = Slice (x, {3}, {6}, {1})",
    ),
    Fires(
        _net(
            "s = SplitToSequence <axis = 1, keepdims = 0> (x)  y = ConcatFromSequence <axis = -2, new_axis = 1> (s)"
        ),
        becomes="y: float32[6, N]; y = Transpose <perm = [1, 0]> (x)",
    ),
    Fires(
        _net("s = SplitToSequence (x)  y = SequenceAt (s, i)"),
        becomes="_1 = Reshape (i, {1}); y = Gather <axis = 0> (x, _1)",
    ),
    Fires(
        _net(
            "s = SplitToSequence (x)  t = SequenceAt (s, last)  n = SequenceLength (s)  f = Cast <to = 1> (n)"
            "  y = Add (t, f)"
        ),
        gone="SplitToSequence",
    ),
    Fires(
        _net("s = SplitToSequence <axis = 1> (x, two)  y = SequenceLength (s)"),
        becomes="y = Identity (3)",
    ),
    Fires(
        _net("s = SequenceConstruct (a, b)  y = ConcatFromSequence <axis = -1> (s)"),
        becomes="y: float32[2, 6]; y = Concat <axis = -1> (a, b)",
    ),
    Fires(
        _net("s = SequenceConstruct (a, b)  y = ConcatFromSequence <axis = -2, new_axis = 1> (s)", 11),
        becomes="""y: float32[2, 2, 3]; _1 = Unsqueeze <axes = [1]> (a); _2 = Unsqueeze <axes = [1]> (b)
        y = Concat <axis = 1> (_1, _2)""",
    ),
    Fires(
        _net(
            "e = SequenceEmpty ()  s = SequenceInsert (e, a)  t = SequenceInsert (s, b, zero)"
            "  u = SequenceErase (t)  y = SequenceAt (u, zero)"
        ),
        becomes="y: float32[2, 3]; y = Identity (b)",
    ),
    Fires(
        _net("s = SequenceConstruct (a, b)  y = SequenceAt (s, i)"),
        becomes="""_1 = Unsqueeze (a, {0}); _2 = Unsqueeze (b, {0}); _3 = Concat <axis = 0> (_1, _2)
        _4 = Reshape (i, {}); y = Gather <axis = 0> (_3, _4)""",
    ),
    Fires(
        _net(
            """s = SequenceConstruct (a, b)
        t = SequenceMap (s, a) <body = f (float[2, 3] p, float[2, 3] c) => (float[2, 3] q) { q = Sub (p, c) }>
        y = ConcatFromSequence <axis = 1> (t)""",
            17,
        ),
        becomes="y: float32[2, 6]; _1 = Sub (a, a); _2 = Sub (b, a); y = Concat <axis = 1> (_1, _2)",
    ),
    Fires(
        _net(
            """s = SequenceConstruct (a, b)
        t = SequenceMap (s) <body = f (float[2, 3] p) => (float[2, 3] q) { q = com.microsoft.QuickGelu (p) }>
        y = ConcatFromSequence <axis = -1, new_axis = 1> (t)""",
            17,
        )
        .replace(": 17]", ': 17, "com.microsoft" : 1]')
        .replace("(y)", "(float[2, 3, 2] y)"),
        gone="SequenceMap",
    ),
    Fires(
        _net("s = SplitToSequence <axis = 1> (x, two)  y = ConcatFromSequence <axis = 0> (s)"),
        becomes="""_1 = Slice (x, {0}, {2}, {1}); _2 = Slice (x, {2}, {4}, {1}); _3 = Slice (x, {4}, {6}, {1})
        y = Concat <axis = 0> (_1, _2, _3)""",
    ),
    Fires(
        _net(
            "s = SplitToSequence <axis = 1, keepdims = 0> (x)  y = ConcatFromSequence <axis = 0> (s)"
        ).replace("float[N, 6] x", "float[2, 3, 2] x"),
        becomes="y: float32[6, 2]; _1 = Transpose <perm = [1, 0, 2]> (x); y = Reshape (_1, {6, 2})",
    ),
    Fires(
        _net("s = SplitToSequence <keepdims = 0> (x)  y = ConcatFromSequence <axis = -2> (s)").replace(
            "float[N, 6] x", "float[2, 3, M] x"
        ),
        becomes="y: float32[6, M]; y = Reshape (x, {6, -1})",
    ),
    Fires(
        _net("s = SplitToSequence <keepdims = 0> (x)  y = ConcatFromSequence <axis = 0> (s)", 14).replace(
            "float[N, 6] x", "float[2, N, M] x"
        ),
        becomes="""_1 = Shape (x); _2 = Slice (_1, {0}, {1}); _3 = Slice (_1, {1}, {2}); _4 = Mul (_2, _3)
        _5 = Slice (_1, {2}, {3}); _6 = Concat <axis = 0> (_4, _5); y = Reshape <allowzero = 1> (x, _6)""",
    ),
    Skips(
        _net("s = SplitToSequence <keepdims = 0> (x)  y = ConcatFromSequence <axis = 0> (s)").replace(
            "float[N, 6] x", "float[N, 2, M] x"
        ),
        because="several sizes are dynamic",
    ),
    Skips(
        _net(f"s = SequenceConstruct ({', '.join('a' * 65)})  y = SequenceAt (s, i)"), because="of 65 tensors"
    ),
    Skips(_net("s = SplitToSequence (x, two)  y = SequenceAt (s, last)"), because="dimension 0 of 'x'"),
    Skips(_net("s = SequenceConstruct (a, x)  y = SequenceAt (s, i)"), because="its position is computed"),
    Skips(
        _net("s = SequenceConstruct (a, b)  t = SequenceInsert (s, a, i)  y = SequenceAt (t, zero)"),
        because="'i'",
    ),
]
