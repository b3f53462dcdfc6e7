"""Reduce what a mask selects (`x[m].sum()`) without selecting it.

It is exported as NonZero and GatherND (Gather, Compress). TensorRT-RTX has neither NonZero nor Compress:

    importNonZero: UNSUPPORTED_NODE: Assertion failed: creator && getPluginCreatorVersion(creator) == CreatorVersion::kV3ONE: NonZero plugin creator version 1 was not found in plugin registry.
    checkCompress: UNSUPPORTED_NODE: false

    before    y = ReduceSum(GatherND(x, Transpose(NonZero(m))), 0)
    after     y = ReduceSum(Where(m, x, 0))

A maximum takes the lowest number for the rest, a minimum the highest, a mean divides the sum by the count (of nothing it is 0,
as onnxruntime has it). What
is computed element by element between selection and reduction is computed of all. Sums are added in another
order; integers, minima and maxima are equal.
"""

from typing import Any

import numpy as np
from _opsets import reduced, unsqueezed
from _selection import ELEMENTWISE, MOST_STEPS, Selection, selection, whole

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    constant,
    limits,
    op,
    operands,
    required,
    rule,
)


@rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", stage="compat")
def masked_reduce(node: Node) -> Any:
    (data,) = required(node, 1)
    which = _selected(data)
    if which is None or data.rank is None:
        return None
    axes = _axes(node, data.rank)
    if axes is None:
        raise Skip("its axes are not known")
    if which.axis not in axes:
        return None
    full = whole(data, which)
    if full is None or data.dtype is None:
        return None
    of_data = [*range(which.axis), *range(which.axes[-1], which.rank)]
    over = sorted({*which.axes, *(of_data[axis] for axis in axes)})
    value = _reduced(node, which, full, data.dtype, over)
    if node.attr("keepdims", 1):
        value = unsqueezed(node, value, sorted(axes))
    if data.dtype.kind != "f":
        return value
    if node.op in ("ReduceSum", "ReduceMean"):
        close = Except(Close(value), "zero-sign", "the sum of zeros is added to a zero")
        return Except(close, "extreme-input", "what is left of numbers that cancel depends on their order")
    exact = Except(value, "nan-input", "which of two numbers is the larger is not defined of a NaN")
    return Except(exact, "zero-sign", "which of two zeros is the larger is not defined")


def _reduced(node: Node, which: Selection, full: Value, dtype: np.dtype, over: list[int]) -> Value:
    rest: np.ndarray = np.zeros((), dtype)
    if node.op in ("ReduceMax", "ReduceMin"):
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else limits(dtype)
        rest = np.array(low if node.op == "ReduceMax" else high, dtype)
    kept = op.Where(which.mask(), full, rest)
    if node.op != "ReduceMean":
        return reduced(node, node.op, kept, over)
    if dtype != np.float32:
        raise Skip(f"it is a mean of {dtype}")
    if over != list(which.axes):
        raise Skip("it is a mean over other axes, too")
    counted = op.Where(which.mask(), np.ones((), dtype), np.zeros((), dtype))
    count = reduced(node, "ReduceSum", counted, range(len(over)))
    return op.Div(reduced(node, "ReduceSum", kept, over), op.Max(count, np.ones((), dtype)))


def _axes(node: Node, rank: int) -> list[int] | None:
    """The axes of a reduction, from 0; None where they are computed."""
    given: Any = node.attr("axes")
    second = operands(node, 2)[1]
    if second is not None:
        given = constant(second)
        if given is None:
            return None
    if given is None or not len(given):
        return [] if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    return [int(axis) % rank for axis in given]


def _selected(value: Tensor) -> Selection | None:
    """The selection that a value is computed of, element by element."""
    for _ in range(MOST_STEPS):
        node = value.producer
        if node is None:
            return None
        found = selection(node)
        if found is not None:
            return found[1]
        computed = [one for one in node.inputs if one is not None and not one.is_constant]
        if not computed or node.op not in ELEMENTWISE:
            return None
        value = computed[0]
    return None


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (%s x, %s m) => (y) <int64[1] a = {0}, int64[0] none = {}, float two = {2}, int64 z = {0}> { %s }"""
_AT = "n = NonZero (m)  i = Transpose <perm = [1, 0]> (n)  s = GatherND (x, i)  "

EXAMPLES = [
    Fires(
        _NET % ("float[N, 3]", "bool[N, 3]", _AT + "y = ReduceSum <keepdims = 0> (s, a)"),
        becomes="_1 = Where (m, x, 0.0); y = ReduceSum <keepdims = 0> (_1, {0, 1})",
    ),
    Fires(
        _NET % ("float[4, 3, 2]", "float[4, 3]", _AT + "q = Mul (s, two)  r = Abs (q)  y = ReduceSum (r)"),
        gone="NonZero",
    ),
    Fires(_NET % ("int32[4, 3]", "bool[4]", _AT + "y = ReduceSum <keepdims = 1> (s, a)"), gone="NonZero"),
    Fires(
        _NET % ("float16[2, N]", "bool[N]", "s = Compress <axis = 1> (x, m)  y = ReduceSum (s)"),
        gone="Compress",
    ),
    Fires(
        _NET % ("float[2, 2]", "bool[4]", "s = Compress (x, m)  y = ReduceSum <keepdims = 0> (s)"),
        gone="Compress",
    ),
    Fires(
        _NET
        % (
            "float[4, 3]",
            "bool[4]",
            "n = NonZero (m)  r = Gather (n, z)  s = Gather (x, r)  y = ReduceSum (s, a)",
        ),
        gone="NonZero",
    ),
    Fires(_NET % ("float[4, 3]", "bool[4]", _AT + "y = ReduceMean (s, a)"), gone="NonZero"),
    Fires(
        (_NET % ("float[4]", "bool[4]", _AT + "y = ReduceMax <axes = [0]> (s)")).replace(": 18", ": 17"),
        gone="NonZero",
    ),
    Fires(
        _NET % ("int32[4]", "bool[4]", _AT + "y = ReduceMin (s)"),
        becomes="_1 = Where (m, x, int32 2147483647); _2 = ReduceMin <keepdims = 0> (_1, {0}); y = Unsqueeze (_2, {0})",
    ),
    Fires(
        _NET % ("float[4]", "bool[4]", _AT + "y = ReduceMin (s)"),
        becomes="_1 = Where (m, x, inf); _2 = ReduceMin <keepdims = 0> (_1, {0}); y = Unsqueeze (_2, {0})",
    ),
    Fires(
        _NET % ("int32[4]", "bool[4]", _AT + "y = ReduceMax (s, none)"),
        becomes="_1 = Where (m, x, int32 -2147483648); _2 = ReduceMax <keepdims = 0> (_1, {0}); y = Unsqueeze (_2, {0})",
    ),
    Skips(_NET % ("float[4]", "bool[4]", _AT + "y = ReduceSum <noop_with_empty_axes = 1> (s)")),
    Skips(_NET % ("float16[4]", "bool[4]", _AT + "y = ReduceMean (s)"), because="mean of float16"),
    Skips(_NET % ("float[4]", "bool[4]", "q = Abs (two)  y = ReduceSum (q)")),
    Skips(_NET % ("float[4, 3]", "bool[4]", _AT + "y = ReduceMean (s)"), because="other axes"),
    Skips(_NET % ("float[4, 3]", "bool[4]", _AT + "t = Neg (a)  y = ReduceSum (s, t)"), because="axes"),
    Skips(_NET % ("float[4, 3]", "bool[M]", _AT + "y = ReduceSum (s, a)"), because="of one size"),
    Skips(_NET % ("float[4, 3]", "bool[4]", _AT + "t = CumSum (s, z)  y = ReduceSum (t, a)")),
    Skips(
        _NET % ("float[4, 3]", "bool[4]", _AT + "o = Constant <value_ints = [1]> ()  y = ReduceSum (s, o)")
    ),
]
