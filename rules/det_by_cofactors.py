"""Write `Det` of matrices of up to 4 rows as products of its elements.

TensorRT has no importer:

    checkDet: UNSUPPORTED_NODE: false

    before    y = Det(x)                                          x: [N, 2, 2]
    after     y = x[:, 0, 0] * x[:, 1, 1] - x[:, 0, 1] * x[:, 1, 0]

By the elements of the first row and their cofactors. onnxruntime eliminates, so that it rounds otherwise.
"""

from typing import Any

import numpy as np

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, required, rule

_MOST = 4


@rule("Det", stage="compat", lacks="Det")
def det_by_cofactors(node: Node) -> Any:
    (x,) = required(node, 1)
    size = None if x.shape is None else x.shape[-1]
    if not isinstance(size, int) or not 0 < size <= _MOST:
        raise Skip(f"the matrices of {x.name!r} have {size or 'an unknown number of'} rows, not 1 to {_MOST}")
    rows = [op.Gather(x, np.int64(row), axis=-2) for row in range(size)]
    cells = [[op.Gather(line, np.int64(column), axis=-1) for column in range(size)] for line in rows]
    value = _determinant(cells, list(range(size)), 0)
    return Except(Close(value), "extreme-input", "products that overflow on the way")


def _determinant(cells: list[list[Value]], columns: list[int], row: int) -> Value:
    if len(columns) == 1:
        return cells[row][columns[0]]
    total: Value | None = None
    for number, column in enumerate(columns):
        term = op.Mul(cells[row][column], _determinant(cells, [c for c in columns if c != column], row + 1))
        total = term if total is None else (op.Sub if number % 2 else op.Add)(total, term)
    assert total is not None
    return total


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[%s] x) => (y) { y = Det (x) }"""

EXAMPLES = [
    Fires(_NET % "N, 2, 2", gone="Det"),
    Fires(_NET % "3, 3", gone="Det"),
    Skips(_NET % "N, 5, 5", because="5 rows"),
    Skips(_NET % "N, M, M", because="unknown"),
]
