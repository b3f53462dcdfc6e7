"""Write `HardSwish` as what it is defined by.

TensorRT before 8.4 has no importer for it, but one for HardSigmoid:

    No importer registered for op: HardSwish

    before    y = HardSwish(x)
    after     y = x * HardSigmoid(x, alpha=1/6, beta=0.5)
"""

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("HardSwish", stage="compat", lacks="HardSwish")
def expand_hardswish(node: Node) -> Value:
    (x,) = required(node, 1)
    return op.Mul(x, op.HardSigmoid(x, alpha=1 / 6, beta=0.5))


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) { y = HardSwish (x) }""",
        gone="HardSwish",
        becomes="_1 = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x); y = Mul (x, _1)",
    ),
    Skips("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) { y = HardSigmoid (x) }"""),
]
