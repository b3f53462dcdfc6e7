"""Run both products of an attention in int8, or neither.

    before    a = MatMul(q, k); p = Softmax(Mul(a, s)); y = MatMul(p, v)
    after     pairs on q, k, p and v

TensorRT has fused kernels for both in int8 and for both in float, and none for one of each.
"""

from onnxq.rule import Fires, Node, Quantize, Skips, Together, place

_BETWEEN = ("Mul", "Div", "Add", "Softmax")


@place("MatMul")
def attention_products(node: Node) -> list[Quantize | Together] | None:
    second, before = node, node.inputs[0].producer
    seen = []
    while before is not None and before.op in _BETWEEN:
        seen.append(before.op)
        before = before.inputs[0].producer if before.inputs[0] is not None else None
    if before is None or before.op != "MatMul" or "Softmax" not in seen:
        return None
    asked = [
        Quantize(one, index, because="attention in int8") for one in (before, second) for index in (0, 1)
    ]
    return [*asked, Together([before, second], "their kernel is one")]


def _net(scores: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 6, 4] q, float[2, 4, 6] k, float[2, 6, 4] v, float[2, 6, 6] m) => (float[2, 6, 4] y)
        <float s = {{0.5}}> {{ {scores}  [two] y = MatMul (p, v) }}"""


_MASKED = "[one] a = MatMul (q, k)  b = Div (a, s)  c = Add (b, m)  p = Softmax (c)"
_PLAN = "q -> one:0; k -> one:1; p -> two:0; v -> two:1; together: one, two"

EXAMPLES = [
    Fires(_net(_MASKED), plan=_PLAN),
    Fires(_net("[one] a = MatMul (q, k)  b = Mul (a, s)  p = Softmax (b)"), plan=_PLAN),
    Skips(_net("a = MatMul (q, k)  b = Mul (a, s)  p = Tanh (b)")),
    Skips(_net("a = MatMul (q, k)  p = Mul (a, s)")),
    Skips(_net("a = Relu (m)  p = Softmax (a)")),
]
