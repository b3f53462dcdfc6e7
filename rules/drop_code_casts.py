"""Drop the casts between float codes and the float arithmetic that reads them.

A QuantizeLinear in float arithmetic (`quantize_in_float`) ends with a Cast to its integer type, a DequantizeLinear
begins with one from it; between them there may be operators that only move values. TensorRT has no uint8 or
16-bit tensors inside of a graph:

    TensorRT does not support UINT8 types for intermediate tensors

    before    f = Cast<to=float>(Transpose(Cast<to=uint8>(c)))      c: whole numbers from 0 to 255
    after     f = Transpose(c)

That the numbers are whole and within the type is read from the operators: a Round, clipped by constants.
"""

from __future__ import annotations

import numpy as np
from _quantized import MOVED

from onnxq.rule import (
    MOVES,
    Except,
    Fires,
    Node,
    Skips,
    Tensor,
    Value,
    constant,
    made_by,
    remake,
    required,
    rule,
)

_WHY = "the code of a NaN, or of the difference of two infinities, is not defined"
_NARROW = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767)}  # by onnx.TensorProto
_NARROW |= {21: (0, 15), 22: (-8, 7)}
_CODES = ("uint8", "int8", "uint16", "int16", "uint4", "int4")  # other integers are no codes
_WHOLE, _KEEPS_WHOLE = (
    ("Round", "Floor", "Ceil"),
    ("Clip", "Add", "Sub", "Mul", "Max", "Min", "Neg", "Identity"),
)


@rule("Cast", stage="compat", lacks="asymmetric-quantization")
def drop_code_casts(node: Node) -> Except | None:
    (source,) = required(node, 1)
    if node.outputs[0].dtype != np.float32 or str(source.dtype) not in _CODES:
        return None
    codes = _float_codes(source)
    if codes is None:
        return None
    return Except(
        Except(codes, "infinite-input", _WHY),
        "zero-sign",
        "a code of 0 has no sign, what is rounded to 0 has",
    )


def _float_codes(tensor: Tensor) -> Value | np.ndarray | None:
    """The float numbers of which codes are the integers; None where they may be others."""
    values = constant(tensor)
    if values is not None:
        return values.astype(np.float32)
    before = made_by(tensor, "Cast", *MOVED)
    if before is None or before.inputs[0] is None:
        return None
    first = before.inputs[0]
    if before.op == "Cast":
        bounds = _NARROW.get(before.attr("to"))
        return (
            first if bounds is not None and first.dtype == np.float32 and _is_within(first, *bounds) else None
        )
    if before.op in ("Concat", "Pad"):
        return _together(before)
    if before.op == "Resize" and before.attr("mode", "nearest") != "nearest":
        return None
    moved = _float_codes(first)
    if moved is None:
        return None
    count = len(before.outputs)
    new = remake(before, moved, *before.inputs[1:], outputs=count)
    return new if count == 1 else new[before.outputs.index(tensor)]  # type: ignore[no-any-return]


def _together(node: Node) -> Value | None:
    """A Concat or a Pad of float codes."""
    fill = (2,) if node.op == "Pad" else range(1, len(node.inputs))
    inputs: list[Value | np.ndarray | None] = [*node.inputs]
    if node.op == "Pad" and node.attr("mode") == "constant" and node.operands(3)[2] is None:
        return None
    for index in (0, *(index for index in fill if index < len(inputs))):
        given = node.inputs[index]
        inputs[index] = None if given is None else _float_codes(given)
        if given is not None and inputs[index] is None:
            return None
    return remake(node, *inputs)


def _is_within(tensor: Tensor, low: int, high: int) -> bool:
    """Whether a float tensor holds whole numbers from low to high, or NaN."""
    last = made_by(tensor, *_WHOLE)
    clip = made_by(tensor if last is None else last.inputs[0], "Clip")
    if clip is None or clip.inputs[0] is None:
        return False
    _, least, most = clip.operands(3)
    bounds = [None if bound is None else bound.scalar for bound in (least, most)]
    if clip.opset < 11:
        bounds = [clip.attr("min"), clip.attr("max")]
    if bounds[0] is None or bounds[1] is None or not low <= bounds[0] <= bounds[1] <= high:
        return False
    whole = all(float(bound or 0).is_integer() for bound in bounds)
    return whole and (last is not None or _is_whole(clip.inputs[0]))


def _is_whole(tensor: Tensor | None) -> bool:
    """Whether all values are whole numbers (or not finite)."""
    if tensor is None:
        return True
    values = constant(tensor)
    if values is not None:
        return bool((values == np.rint(values)).all())
    maker = made_by(tensor, *_WHOLE, *_KEEPS_WHOLE, "Cast", *MOVES)
    if maker is None:
        return False
    if maker.op == "Cast":
        first = maker.inputs[0]
        return first is not None and first.dtype is not None and first.dtype.kind in "iub"
    if maker.op in _WHOLE:
        return True
    return all(map(_is_whole, maker.inputs if maker.op in _KEEPS_WHOLE else maker.inputs[:1]))


def _net(body: str, out: str = "y", opset: int = 17) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (float[N, 2, 4] x, uint8[N, 2, 4] u) => ({out}) <float o = {{0}}, float t = {{255}}, float k = {{256}}, float h = {{254.5}}, float z = {{3}},
        int64[6] p = {{0, 0, 1, 0, 0, 1}}, uint8 v = {{3}}, float[3] s = {{1, 1, 2}}> {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("r = Round (x)  c = Clip (r, o, t)  q = Cast <to = 2> (c)  y = Cast <to = 1> (q)"),
        gone="Cast",
        becomes="r = Round (x); y = Clip (r, 0.0, 255.0)",
    ),
    Fires(
        _net(
            "r = Round (x)  a = Add (r, z)  c = Clip (a, o, t)  q = Cast <to = 2> (c)  l, m = Split <axis = 1> (q)"
            "  n = Transpose (m)  y = Cast <to = 1> (n)"
        ),
        gone="Cast",
        becomes="""r = Round (x); a = Add (r, 3.0); c = Clip (a, 0.0, 255.0); _1, _2 = Split <axis = 1> (c)
        y = Transpose (_2)""",
    ),
    Fires(
        _net(
            "r = Floor (x)  c = Clip (r, o, t)  q = Cast <to = 2> (c)  e = Pad (q, p, v)"
            "  d = Concat <axis = 0> (e, e)  y = Cast <to = 1> (d)"
        ),
        gone="Cast",
    ),
    Fires(
        _net("c = Clip (x, o, t)  r = Round (c)  q = Cast <to = 2> (r)  y = Cast <to = 1> (q)"),
        becomes="c = Clip (x, 0.0, 255.0); y = Round (c)",
    ),
    Fires(
        _net(
            "i = Cast <to = 1> (u)  a = Add (i, z)  c = Clip (a, o, t)  q = Cast <to = 2> (c)  y = Cast <to = 1> (q)"
        ),
        becomes="i = Cast <to = 1> (u); a = Add (i, 3.0); y = Clip (a, 0.0, 255.0)",
    ),
    Fires(
        _net(
            'r = Round (x)  c = Clip (r, o, t)  q = Cast <to = 2> (c)  n = Resize <mode = "nearest"> (q, , s)'
            "  y = Cast <to = 1> (n)"
        ),
        gone="Cast",
    ),
    Skips(
        _net(
            'r = Round (x)  c = Clip (r, o, t)  q = Cast <to = 2> (c)  n = Resize <mode = "linear"> (q, , s)'
            "  y = Cast <to = 1> (n)"
        )
    ),
    Skips(_net("a = Add (x, z)  c = Clip (a, o, t)  q = Cast <to = 2> (c)  y = Cast <to = 1> (q)")),
    Skips(_net("c = Clip (x, o, t)  q = Cast <to = 2> (c)  y = Cast <to = 1> (q)")),
    Skips(_net("r = Round (x)  c = Clip (r, o, k)  q = Cast <to = 2> (c)  y = Cast <to = 1> (q)")),
    Skips(_net("r = Round (x)  q = Cast <to = 2> (r)  y = Cast <to = 1> (q)")),
    Skips(_net("r = Round (x)  c = Clip (r, o, h)  q = Cast <to = 2> (c)  y = Cast <to = 1> (q)")),
    Skips(_net("y = Cast <to = 1> (u)")),
    Skips(_net("m = Transpose (p)  y = Cast <to = 1> (m)", out="float[6] y")),
]
