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
    if not isinstance(size, int) or not 0 < size <= _MOST or x.dtype != np.float32:
        raise Skip(f"the matrices of {x.name!r} have {size or 'an unknown number of'} rows, not 1 to {_MOST}")
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
    Fires(_NET % ("float", "N, 2, 2"), gone="Inverse"),
    Fires(_NET % ("float", "3, 3"), gone="Inverse"),
    Skips(_NET % ("float", "N, 5, 5"), because="5 rows"),
    Skips(_NET % ("float", "N, M, M"), because="M rows"),
]
