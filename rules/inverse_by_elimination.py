"""Write onnxruntime's `Inverse` of matrices of up to 4 rows as an elimination.

Camera matrices are inverted with it. TensorRT has no importer:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.Inverse(x)                                 x: [N, 2, 2]
    after     a, b = the rows of [x, 1], that with the larger x[:, i, 0] first
              b = b - b[0] / a[0] * a;  second = b / b[1];  first = (a - a[1] * second) / a[0]

Rows are swapped as in onnxruntime, so that it is as precise: products of cofactors cancel. A matrix that has no
inverse gives the infinities and NaN that it gives there. Close: sums in another order.
"""

from typing import Any

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, required, rule

_MOST = 4


@rule("com.microsoft.Inverse", stage="compat", lacks="onnxruntime-fusions")
def inverse_by_elimination(node: Node) -> Any:
    (x,) = required(node, 1)
    size = None if x.shape is None else x.shape[-1]
    if not isinstance(size, int) or not 0 < size <= _MOST:
        raise Skip(f"the matrices of {x.name!r} have {size or 'an unknown number of'} rows, not 1 to {_MOST}")
    if x.dtype != np.float32:
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}, not float32")
    rows = [op.Gather(x, np.int64(row), axis=-2) for row in range(size)]
    first = op.Gather(rows[0], np.array([0]), axis=-1)
    given: list[list[Any]] = []
    for number, row in enumerate(rows):
        zeros = op.Mul(first, np.float32(0))
        one = np.zeros(size, np.float32)
        one[number] = 1
        columns = [op.Gather(row, np.array([column]), axis=-1) for column in range(size)]
        given.append([*columns, op.Add(zeros, one)])
    solved = _solved(given, size)
    y = op.Concat(*(unsqueezed(node, row, [-2]) for row in solved), axis=-2)
    return Except(Close(y), "extreme-input", "products that overflow on the way")


def _solved(rows: list[list[Any]], size: int) -> list[Value]:
    """The rows of the inverse; of each row given are its columns and the right side."""
    done: list[list[Any]] = []
    while rows:
        first, others = rows[0], []
        for row in rows[1:]:
            larger = op.Greater(op.Abs(row[0]), op.Abs(first[0]))
            others.append([op.Where(larger, a, b) for a, b in zip(first, row, strict=True)])
            first = [op.Where(larger, b, a) for a, b in zip(first, row, strict=True)]
        done.append(first)
        rows = []
        pivot = op.Where(op.Equal(first[0], np.float32(0)), np.float32(1), first[0])
        for row in others:
            factor = op.Div(row[0], pivot)
            rows.append([op.Sub(b, op.Mul(factor, a)) for a, b in zip(first[1:], row[1:], strict=True)])
    solved: list[Value] = []
    for first in reversed(done):
        value = first[-1]
        for entry, known in reversed(list(zip(first[1:-1], solved, strict=True))):
            value = op.Sub(value, op.Mul(entry, known))
        solved.insert(0, op.Mul(value, op.Reciprocal(first[0])))
    return solved


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (%s[%s] x) => (y) { y = com.microsoft.Inverse (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("float", "N, 1, 1"),
        becomes="""_1 = Gather <axis = -2> (x, 0)
                                       _2 = Gather <axis = -1> (_1, {0}); _3 = Mul (_2, 0.0)
                                       _4 = Add (_3, {1.0}); _5 = Gather <axis = -1> (_1, {0})
                                       _6 = Reciprocal (_5); _7 = Mul (_4, _6)
                                       _8 = Unsqueeze (_7, {-2}); y = Concat <axis = -2> (_8)""",
    ),
    Fires(
        _NET % ("float", "N, 2, 2"),
        becomes="""_1 = Gather <axis = -2> (x, 1)
                                       _2 = Gather <axis = -1> (_1, {0}); _3 = Abs (_2)
                                       _4 = Gather <axis = -2> (x, 0)
                                       _5 = Gather <axis = -1> (_4, {0}); _6 = Abs (_5)
                                       _7 = Greater (_3, _6); _8 = Gather <axis = -1> (_4, {0})
                                       _9 = Mul (_8, 0.0); _10 = Add (_9, {0.0, 1.0})
                                       _11 = Mul (_8, 0.0); _12 = Add (_11, {1.0, 0.0})
                                       _13 = Where (_7, _10, _12)
                                       _14 = Gather <axis = -1> (_1, {1})
                                       _15 = Gather <axis = -1> (_4, {1})
                                       _16 = Where (_7, _14, _15); _17 = Where (_7, _12, _10)
                                       _18 = Where (_7, _5, _2); _19 = Where (_7, _2, _5)
                                       _20 = Equal (_19, 0.0); _21 = Where (_20, 1.0, _19)
                                       _22 = Div (_18, _21); _23 = Mul (_22, _13)
                                       _24 = Sub (_17, _23); _25 = Where (_7, _15, _14)
                                       _26 = Mul (_22, _16); _27 = Sub (_25, _26)
                                       _28 = Reciprocal (_27); _29 = Mul (_24, _28)
                                       _30 = Mul (_16, _29); _31 = Sub (_13, _30)
                                       _32 = Reciprocal (_19); _33 = Mul (_31, _32)
                                       _34 = Unsqueeze (_33, {-2}); _35 = Unsqueeze (_29, {-2})
                                       y = Concat <axis = -2> (_34, _35)""",
    ),
    Fires(_NET % ("float", "4, 4"), gone="Inverse"),
    Skips(_NET % ("double", "N, 2, 2"), because="float64"),
    Skips(_NET % ("float", "N, 5, 5"), because="5 rows"),
    Skips(_NET % ("float", "N, 2, M"), because="M rows"),
]
