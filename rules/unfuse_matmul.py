"""Write `FusedMatMul` as Transpose, MatMul and a scale.

onnxruntime's optimizer joins them (`TransposeMatMul` is its former name); TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.FusedMatMul<transB=1, alpha=0.125>(a, b)
    after     y = Mul(MatMul(a, Transpose(b)), 0.125)

With `transBatchA` or `transBatchB` the rows of an operand come first, in front of its batch.

A constant is transposed at once, so that it stays a weight. A product is scaled before or after its
parts are added up.
"""

import numpy as np

from onnxq.rule import Close, Fires, Node, Skip, Skips, Tensor, Value, op, required, rule


@rule(
    "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul", stage="compat", lacks="onnxruntime-fusions"
)
def unfuse_matmul(node: Node) -> Close:
    a, b = required(node, 2)
    if a.dtype is None:
        raise Skip(f"the type of {a.name!r} is not known")
    y = op.MatMul(
        _oriented(a, node.attr("transA"), node.attr("transBatchA")),
        _oriented(b, node.attr("transB"), node.attr("transBatchB")),
    )
    alpha = np.array(node.attr("alpha", 1.0), a.dtype)
    if alpha != 1:
        y = op.Mul(y, alpha)
    return Close(y)


def _oriented(operand: Tensor, transposed: int | None, rows_first: int | None) -> Value | np.ndarray:
    """The operand, its last two dimensions swapped; one of a single dimension stays.

    Where its rows come first, in front of the batch, they are put behind it.
    """
    if not (transposed or rows_first) or operand.rank == 1:
        return operand
    if operand.rank is None:
        raise Skip(f"the rank of {operand.name!r} is not known")
    order = list(range(operand.rank))
    if rows_first:
        order = [*order[1:-1], 0, order[-1]]
    if transposed:
        order = [*order[:-2], order[-1], order[-2]]
    if operand.constant is not None:
        return np.ascontiguousarray(operand.constant.transpose(order))
    return op.Transpose(operand, perm=order)


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[N, 2, 3, 4] a, float[N, 2, 5, 4] b, float[N, 2, 4, 5] c, float[4] v, float[3, 3, 3] u, float[2, M] m,
       float[M, 2] n) => (y)
        <float[2, 4] w = {1, -2, 3, -0.4, 5, 6.1, 0.7, -0.3}> { y = com.microsoft.%s }"""

EXAMPLES = [
    Fires(
        _NET % "FusedMatMul <transB = 1, alpha = 0.3> (a, b)",
        gone="FusedMatMul",
        becomes="_1 = Transpose <perm = [0, 1, 3, 2]> (b); _2 = MatMul (a, _1); y = Mul (_2, 0.3)",
    ),
    Fires(
        _NET % "FusedMatMul <transB = 1> (a, w)",
        gone="FusedMatMul",
        becomes="y = MatMul (a, [4, 2] {1.0, 5.0, -2.0, 6.1, 3.0, 0.7, -0.4, -0.3})",
    ),
    Fires(
        _NET % "FusedMatMul <transA = 1, transB = 1> (c, b)",
        gone="FusedMatMul",
        becomes="""_1 = Transpose <perm = [0, 1, 3, 2]> (c); _2 = Transpose <perm = [0, 1, 3, 2]> (b)
        y = MatMul (_1, _2)""",
    ),
    Fires(_NET % "FusedMatMul <transA = 1> (v, c)", gone="FusedMatMul", becomes="y = MatMul (v, c)"),
    Fires(
        _NET % "FusedMatMul <alpha = 0.5> (m, n)",
        gone="FusedMatMul",
        becomes="_1 = MatMul (m, n); y = Mul (_1, 0.5)",
    ),
    Fires(
        _NET % "TransposeMatMul <transB = 1> (a, b)",
        gone="TransposeMatMul",
        becomes="_1 = Transpose <perm = [0, 1, 3, 2]> (b); y = MatMul (a, _1)",
    ),
    Fires(
        _NET % "FusedMatMul <transBatchA = 1> (u, u)",
        becomes="_1 = Transpose <perm = [1, 0, 2]> (u); y = MatMul (_1, u)",
    ),
    Fires(
        _NET % "FusedMatMul <transA = 1, transBatchA = 1, transBatchB = 1> (u, u)",
        becomes="_1 = Transpose <perm = [1, 2, 0]> (u); _2 = Transpose <perm = [1, 0, 2]> (u); y = MatMul (_1, _2)",
    ),
    Skips(
        _NET.replace("float[M, 2] n", "float[] n") % "FusedMatMul <transB = 1> (a, n)",
        because="the rank of 'n'",
    ),
    Fires(
        _NET % "FusedMatMul <transA = 1, transB = 1> (u, u)",
        becomes="_1 = Transpose <perm = [0, 2, 1]> (u); _2 = Transpose <perm = [0, 2, 1]> (u); y = MatMul (_1, _2)",
    ),
    Skips(
        (_NET % "FusedMatMul <transB = 1> (q, b)").replace("{ y =", "{ q = com.microsoft.QuickGelu (a)  y ="),
        because="the type of 'q'",
    ),
]
