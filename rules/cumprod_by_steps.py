"""Write CumProd as products with what stands 1, 2, 4, ... places before.

TensorRT has no importer for it:

    No importer registered for op: CumProd
    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = CumProd(x)
    after     x1 = x * (x one place before, else 1)    x2 = x1 * (x1 two places before, else 1)    ...

log2 of the size steps, none of which takes more memory than the result; the factors are multiplied in
another order, of half precision in float32. The size has to be known.
"""

import numpy as np

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, required, rule


@rule("CumProd", stage="compat", lacks="CumProd")
def cumprod_by_steps(node: Node) -> Except | Value:
    source, axis_value = required(node, 2)
    axis = axis_value.scalar
    if axis is None or source.shape is None:
        raise Skip("its axis, or the rank of what it reads, is not known (onnxq sanitize --freeze, --shape)")
    rank = len(source.shape)
    axis = int(axis) % rank
    size = source.shape[axis]
    if not isinstance(size, int):
        raise Skip(f"dimension {axis} is dynamic ({size}): give --assume {size}=16, or another size")
    back = bool(node.attr("reverse"))
    short = source.dtype == np.float16
    value: Value = op.Cast(source, to=1) if short else source
    steps = [1 << bit for bit in range(max(size - 1, 0).bit_length())]
    if node.attr("exclusive"):
        value = _shifted(value, 1, size, axis, rank, back)
    for step in steps:
        value = op.Mul(value, _shifted(value, step, size, axis, rank, back))
    if value is source:
        return op.Identity(source)
    close = Close(op.Cast(value, to=10) if short else value)
    return Except(
        close, "extreme-input", "whether a product overflows before it meets a zero depends on the order"
    )


def _shifted(value: Value, by: int, size: int, axis: int, rank: int, back: bool) -> Value:
    """The values `by` places before (behind, for `back`), and ones where there are none."""
    pads = np.zeros((2, rank), np.int64)
    pads[int(back), axis] = by
    kept = (by, size) if back else (0, size - by)
    part = op.Slice(value, *(np.array([number]) for number in (*kept, axis)))
    return op.Pad(part, pads.ravel(), 1)


def _net(attributes: str = "", axis: str = "a", shape: str = "N, 5", kind: str = "float") -> str:
    return f"""<ir_version: 13, opset_import: ["" : 26]>
    g ({kind}[{shape}] x, int64 r) => ({kind}[{shape}] y) <int64 a = {{1}}> {{ y = CumProd {attributes} (x, {axis}) }}"""


EXAMPLES = [
    Fires(
        _net(),
        becomes="""_1 = Slice (x, {0}, {4}, {1}); _2 = Pad (_1, {0, 1, 0, 0}, 1.0); _3 = Mul (x, _2)
                  _4 = Slice (_3, {0}, {3}, {1}); _5 = Pad (_4, {0, 2, 0, 0}, 1.0)
                  _6 = Mul (_3, _5); _7 = Slice (_6, {0}, {1}, {1})
                  _8 = Pad (_7, {0, 4, 0, 0}, 1.0); y = Mul (_6, _8)""",
    ),
    Fires(_net("<exclusive = 1, reverse = 1>"), gone="CumProd"),
    Fires(_net(kind="float16"), gone="CumProd"),
    Fires(_net(shape="N, 1"), becomes="y = Identity (x)"),
    Fires(_net("<exclusive = 1>", shape="N, 1"), gone="CumProd"),
    Fires(_net(kind="double"), gone="CumProd"),
    Skips(_net(shape="5, N"), because="--assume N="),
    Skips(_net(axis="r"), because="--freeze"),
]
