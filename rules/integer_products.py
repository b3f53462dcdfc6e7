"""Write MatMul, Gemm and Einsum of integers as products and sums.

TensorRT multiplies matrices of floats:

    Found unsupported input type of INT32
    Found unsupported input type of INT64

A float product may round integers above 2^11 (TF32), so that it is not used:

    before    y = MatMul(a, b)
    after     p = Unsqueeze(a) * Unsqueeze(b)    y = p[..., 0] + p[..., 1] + ...

It is exact: it keeps the lowest bits, as the integers do. The sum is taken in halves; it takes the inner size times the memory of the result: of products up to 2^22 elements.
"""

import numpy as np
from _einsum import labels_of, summed_product

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("MatMul", "Gemm", "Einsum", stage="compat", lacks="integer-products")
def integer_products(node: Node) -> Value | None:
    factors = required(node, len(node.inputs) if node.op == "Einsum" else 2)
    if any(factor.dtype not in (np.int32, np.int64) for factor in factors):
        return None
    ranks = [factor.rank for factor in factors if factor.rank is not None]
    if len(ranks) < len(factors):
        raise Skip("the rank of its operands is not known (onnxq sanitize --shape)")
    inputs, output = labels_of(_equation(node, ranks), ranks)
    result = summed_product(factors, inputs, output, node.opset)
    return _affine(node, result) if node.op == "Gemm" else result


def _equation(node: Node, ranks: list[int]) -> str:
    if node.op == "Einsum":
        return str(node.attr("equation"))
    if node.op == "Gemm":
        return f"{'ki' if node.attr('transA') else 'ik'},{'jk' if node.attr('transB') else 'kj'}->ij"
    first, second = (
        "k" if rank == 1 else letters for rank, letters in zip(ranks, ("...ik", "...kj"), strict=True)
    )
    return f"{first},{second}->...{'i' * (ranks[0] > 1)}{'j' * (ranks[1] > 1)}"


def _affine(node: Node, product: Value) -> Value:
    alpha, beta = float(node.attr("alpha")), float(node.attr("beta"))
    third = node.operands(3)[2]
    if not (alpha.is_integer() and beta.is_integer()):
        raise Skip(f"alpha {alpha:g} and beta {beta:g} of integers are no integers")
    if alpha != 1:
        product = op.Mul(product, np.array(int(alpha), product.dtype))
    if third is None or beta == 0:
        return product
    return op.Add(product, third if beta == 1 else op.Mul(third, np.array(int(beta), product.dtype)))


def _net(call: str, kind: str = "int32", a: str = "N, 2, 3", b: str = "3, 4", opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g ({kind}[{a}] a, {kind}[{b}] b, {kind}[4] c) => (y) {{ y = {call} }}"""


def _gemm(call: str, a: str, b: str) -> str:  # of known types: onnxruntime has none of integers
    return _net(f"Gemm {call}", a=a, b=b).replace("=> (y)", "=> (int32[2, 4] y)")


EXAMPLES = [
    Fires(
        _net("MatMul (a, b)"),
        gone="MatMul",
    ),
    Fires(_net("MatMul (a, b)", "int64", "5", "N, 5, 2", 11), gone="MatMul"),
    Fires(_net('Einsum <equation = "bij, jK"> (a, b)'), gone="Einsum"),
    Fires(
        _gemm("(a, b)", "2, 1", "1, 4"),
        becomes="""_1 = Unsqueeze (a, {1})
                                           _2 = Transpose <perm = [1, 0]> (b)
                                           _3 = Unsqueeze (_2, {0}); _4 = Mul (_1, _3)
                                           y = Squeeze (_4, {2})""",
    ),
    Fires(_gemm("<alpha = 3.0, beta = 2.0, transA = 1> (a, b, c)", "3, 2", "3, 4"), gone="Gemm"),
    Fires(_gemm("<transB = 1> (a, b, c)", "2, 3", "4, 3"), gone="Gemm"),
    Skips(_gemm("<beta = 0.5> (a, b, c)", "2, 3", "3, 4"), because="beta 0.5"),
    Skips(_gemm("<alpha = 0.5> (a, b, c)", "2, 3", "3, 4"), because="alpha 0.5"),
    Skips(_net("MatMul (a, b)", "float")),
    Skips(_net("MatMul (a, b)", a=""), because="rank"),
    Skips(_net("MatMul (a, b)", a="N, 300, 300", b="300, 300"), because="--assume for N"),
    Skips(_net("MatMul (a, b)", a="N, 2, K", b="K, 4"), because="--assume K"),
    Skips(_net('Einsum <equation = "ii->i"> (a)', a="3, 3"), because="twice"),
]
