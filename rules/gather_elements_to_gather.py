"""Compute `GatherElements` with a Gather on the flat tensor.

`torch.gather` exports a GatherElements. TensorRT 7 before 7.2 has no importer:

    No importer registered for op: GatherElements

    before    y = GatherElements(x, i, axis=1)                    x: [N, C, W]   i: [N, K, W]
    after     y = Gather(Reshape(x, [-1]), i * W + n * C*W + w)

n and w are each element's own coordinates; of the axis the index takes their place. A negative index
gets the size of the axis added first. Every size but that of the leading dimension must be known, so
that the distances in memory are. (Where they are not, cut the model there.)
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule

_INT64 = 7  # TensorProto.INT64


@rule("GatherElements", stage="compat", lacks="GatherElements")
def gather_elements_to_gather(node: Node) -> Value | None:
    data, index = required(node, 2)
    if data.dtype == np.dtype(bool):
        raise Skip("it selects booleans, and so old a TensorRT gathers numbers only")
    if data.shape is None or index.shape is None:
        raise Skip(_with_advice("the ranks of its inputs are not known"))
    axis = node.attr("axis") % len(data.shape)
    if len(data.shape) == 1:
        return op.Gather(data, index)
    strides = _strides(data, len(data.shape))
    offsets = _offsets(index, axis, strides)
    flat = op.Reshape(data, np.array([-1]))
    return op.Gather(flat, _plus(_times(_positive(data, index, axis), strides[axis]), offsets))


def _strides(data: Tensor, rank: int) -> list[int]:
    """The distances in memory between neighbours along each axis of a tensor."""
    sizes = _static(data, list(range(1, rank)))
    if np.prod([*sizes, _known(data, 0) or 1], dtype=float) > np.iinfo(np.int32).max:
        raise Skip(f"{data.name!r} has more elements than TensorRT's 32-bit indices count")
    return [int(np.prod(sizes[axis:], dtype=np.int64)) for axis in range(len(sizes) + 1)]


def _offsets(index: Tensor, axis: int, strides: list[int]) -> Value | np.ndarray | None:
    """What all coordinates but that of the axis add to the position of each element; None for nothing."""
    rank = len(strides)
    others = [other for other in range(1, rank) if other != axis]
    total = np.zeros([1] * rank, np.int64)
    for other, size in zip(others, _static(index, others), strict=True):
        total = total + _along(np.arange(size) * strides[other], other, rank)
    leading = _known(index, 0)
    if axis == 0:
        return total if total.any() else None
    if leading is not None:
        total = total + _along(np.arange(leading) * strides[0], 0, rank)
        return total if total.any() else None
    end = _times(op.Gather(op.Shape(index), 0), strides[0])
    first = op.Reshape(op.Range(np.int64(0), end, np.int64(strides[0])), np.array([-1] + [1] * (rank - 1)))
    return op.Add(first, total) if total.any() else first


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return values.reshape([-1 if other == axis else 1 for other in range(rank)])


def _positive(data: Tensor, index: Tensor, axis: int) -> Value | np.ndarray:
    """The index in int64, counted from the start of the axis."""
    size, values = _known(data, axis), constant(index)
    length = np.int64(size) if size is not None else op.Gather(op.Shape(data), axis)
    if values is None:
        given = index if index.dtype == np.int64 else op.Cast(index, to=_INT64)
        return op.Where(op.Less(given, np.int64(0)), op.Add(given, length), given)
    wide = values.astype(np.int64)
    if size is not None:
        return np.where(wide < 0, wide + size, wide)
    if (wide >= 0).all():
        return wide
    return op.Where(wide < 0, op.Add(wide, length), wide)


def _times(value: Value | np.ndarray, factor: int) -> Value | np.ndarray:
    if isinstance(value, np.ndarray):
        return np.asarray(value * factor)
    return value if factor == 1 else op.Mul(value, np.int64(factor))


def _plus(value: Value | np.ndarray, offsets: Value | np.ndarray | None) -> Value | np.ndarray:
    if offsets is None:
        return value
    if isinstance(value, np.ndarray) and isinstance(offsets, np.ndarray):
        return np.asarray(value + offsets)
    return op.Add(value, offsets)


def _known(tensor: Tensor, axis: int) -> int | None:
    assert tensor.shape is not None
    size = tensor.shape[axis]
    return size if isinstance(size, int) else None


def _static(tensor: Tensor, axes: list[int]) -> list[int]:
    """The sizes of these axes, which must be known."""
    sizes = []
    for axis in axes:
        size = _known(tensor, axis)
        if size is None:
            raise Skip(_with_advice(f"dimension {axis} of {tensor.name!r} is dynamic"))
        sizes.append(size)
    return sizes


def _with_advice(why: str) -> str:
    cut = "onnxq pieces split MODEL --at-op GatherElements"
    return f"{why}: give the sizes with --shape, or cut the model there: {cut}"


_BATCH = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 20, 3] x, %s[N, 4, 3] i) => (y) { y = GatherElements <axis = 1> (x, i) }"""

EXAMPLES = [
    Fires(
        _BATCH % "int64",
        gone="GatherElements",
        becomes="""_1 = Reshape (x, {-1}); _2 = Less (i, 0); _3 = Add (i, 20); _4 = Where (_2, _3, i); _5 = Mul (_4, 3)
        _6 = Shape (i); _7 = Gather (_6, 0); _8 = Mul (_7, 60); _9 = Range (0, _8, 60)
        _10 = Reshape (_9, {-1, 1, 1}); _11 = Add (_10, [1, 1, 3] {0, 1, 2}); _12 = Add (_5, _11)
        y = Gather (_1, _12)""",
    ),
    Fires(
        _BATCH % "int32",
        gone="GatherElements",
        becomes="""_1 = Reshape (x, {-1}); _2 = Cast <to = 7> (i); _3 = Less (_2, 0); _4 = Add (_2, 20)
        _5 = Where (_3, _4, _2); _6 = Mul (_5, 3); _7 = Shape (i); _8 = Gather (_7, 0); _9 = Mul (_8, 60)
        _10 = Range (0, _9, 60); _11 = Reshape (_10, {-1, 1, 1}); _12 = Add (_11, [1, 1, 3] {0, 1, 2})
        _13 = Add (_6, _12); y = Gather (_1, _13)""",
    ),
    Fires(  # an index that is smaller than the data elsewhere, too
        """<ir_version: 8, opset_import: ["" : 13]>
        g (int64[3, 4, 20] x, int64[2, 3, 7] i) => (y) { y = GatherElements <axis = -1> (x, i) }""",
        gone="GatherElements",
        becomes="""_1 = Reshape (x, {-1}); _2 = Less (i, 0); _3 = Add (i, 20); _4 = Where (_2, _3, i)
        _5 = Add (_4, [2, 3, 1] {0, 20, 40, 80, 100, 120}); y = Gather (_1, _5)""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (y) <int64[2, 3] i = {0, -1, 0, -1, 0, 0}> { y = GatherElements (x, i) }""",
        gone="GatherElements",
        becomes="""_1 = Reshape (x, {-1}); _2 = Shape (x); _3 = Gather (_2, 0)
        _4 = Add ([2, 3] {0, -1, 0, -1, 0, 0}, _3)
        _5 = Where (bool [2, 3] {False, True, False, True, False, False}, _4, [2, 3] {0, -1, 0, -1, 0, 0})
        _6 = Mul (_5, 4); _7 = Add (_6, [1, 3] {0, 1, 2}); y = Gather (_1, _7)""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 4] x) => (y) <int64[2, 2] i = {3, -1, -4, 0}> { y = GatherElements <axis = 1> (x, i) }""",
        gone="GatherElements",
        becomes="_1 = Reshape (x, {-1}); y = Gather (_1, [2, 2] {3, 3, 4, 4})",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[20] x, int64[K] i) => (y) { y = GatherElements (x, i) }""",
        gone="GatherElements",
        becomes="y = Gather (x, i)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 20, W] x, int64[2, 4, W] i) => (y) { y = GatherElements <axis = 1> (x, i) }""",
        because="--at-op GatherElements",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 70000, 40000] x, int64[2, 1, 1] i) => (y) { y = GatherElements <axis = 1> (x, i) }""",
        because="32-bit",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool[2, 9] x, int64[2, 1] i) => (y) { y = GatherElements <axis = 1> (x, i) }""",
        because="booleans",
    ),
    *(
        Skips(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[{x}] x, int64[{i}] i) => (y) {{ y = GatherElements (x, i) }}""",
            because="the ranks of its inputs",
        )
        for x, i in (("", "2, 3"), ("2, 3", ""))
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[70000, 2, 40000] x, int64[2, 1, 1] i) => (y) { y = GatherElements <axis = 1> (x, i) }""",
        because="32-bit",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (y) <int64[1, 3] i = {0, 0, 0}> { y = GatherElements (x, i) }""",
        becomes="_1 = Reshape (x, {-1}); y = Gather (_1, [1, 3] {0, 1, 2})",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (y) <int64[0, 3] i = {}> { y = GatherElements (x, i) }""",
        gone="GatherElements",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 1] x, int64[N, 1] i) => (y) { y = GatherElements (x, i) }""",
        becomes="""_1 = Reshape (x, {-1}); _2 = Less (i, 0); _3 = Shape (x); _4 = Gather (_3, 0); _5 = Add (i, _4)
        _6 = Where (_2, _5, i); y = Gather (_1, _6)""",
    ),
]
