"""Write `Det` of matrices of up to 4 rows as an elimination.

TensorRT has no importer:

    checkDet: UNSUPPORTED_NODE: false

    before    y = Det(x)                                          x: [N, 2, 2]
    after     p = the row with the larger x[:, i, 0], o = the other
              y = p[0] * (o[1] - o[0] / p[0] * p[1])              negated where rows were swapped

Rows are swapped as in onnxruntime, so that it is as precise: products of cofactors cancel.
"""

from typing import Any

import numpy as np

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, required, rule

_MOST = 4


@rule("Det", stage="compat", lacks="Det")
def det_by_elimination(node: Node) -> Any:
    (x,) = required(node, 1)
    size = None if x.shape is None else x.shape[-1]
    if not isinstance(size, int) or not 0 < size <= _MOST:
        raise Skip(f"the matrices of {x.name!r} have {size or 'an unknown number of'} rows, not 1 to {_MOST}")
    lines = [op.Gather(x, np.int64(row), axis=-2) for row in range(size)]
    rows: list[list[Value]] = [
        [op.Gather(line, np.int64(column), axis=-1) for column in range(size)] for line in lines
    ]
    return Except(Close(_eliminated(rows, x.dtype)), "extreme-input", "products that overflow on the way")


def _eliminated(rows: list[list[Value]], kind: np.dtype | None) -> Value:
    """The product of the pivots; each is the largest of its column."""
    if kind is None:
        raise Skip("the type of its matrices is not known")
    zero, first = np.array(0, kind), rows[0]
    if len(rows) == 1:
        return first[0]
    others = []
    odd: Value | None = None
    for row in rows[1:]:
        larger = op.Greater(op.Abs(row[0]), op.Abs(first[0]))
        others.append([op.Where(larger, a, b) for a, b in zip(first, row, strict=True)])
        first = [op.Where(larger, b, a) for a, b in zip(first, row, strict=True)]
        odd = larger if odd is None else op.Xor(odd, larger)
    empty = op.Equal(first[0], zero)
    pivot = op.Where(empty, np.array(1, kind), first[0])
    rest = []
    for row in others:
        factor = op.Div(row[0], pivot)
        rest.append([op.Sub(b, op.Mul(factor, a)) for a, b in zip(first[1:], row[1:], strict=True)])
    value = op.Mul(first[0], _eliminated(rest, kind))
    return op.Where(odd, op.Neg(value), value)


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[%s] x) => (y) { y = Det (x) }"""

EXAMPLES = [
    Fires(_NET % "N, 1, 1", becomes="_1 = Gather <axis = -2> (x, 0); y = Gather <axis = -1> (_1, 0)"),
    Fires(
        _NET % "N, 2, 2",
        becomes="""_1 = Gather <axis = -2> (x, 1); _2 = Gather <axis = -1> (_1, 0)
                            _3 = Abs (_2); _4 = Gather <axis = -2> (x, 0)
                            _5 = Gather <axis = -1> (_4, 0); _6 = Abs (_5); _7 = Greater (_3, _6)
                            _8 = Where (_7, _2, _5); _9 = Gather <axis = -1> (_4, 1)
                            _10 = Gather <axis = -1> (_1, 1); _11 = Where (_7, _9, _10)
                            _12 = Where (_7, _5, _2); _13 = Equal (_8, 0.0)
                            _14 = Where (_13, 1.0, _8); _15 = Div (_12, _14)
                            _16 = Where (_7, _10, _9); _17 = Mul (_15, _16); _18 = Sub (_11, _17)
                            _19 = Mul (_8, _18); _20 = Neg (_19); y = Where (_7, _20, _19)""",
    ),
    Fires(_NET % "4, 4", gone="Det"),
    Skips(_NET % "N, 5, 5", because="5 rows"),
    Skips(_NET % "N, 2, M", because="M rows"),
]
