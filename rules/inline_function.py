"""Write an operator that the target lacks as ONNX defines it, in operators that it has.

ONNX gives many newer operators a function body. An older TensorRT says of them

    No importer registered for op: Mish

    before    y = Mish(x)
    after     y = x * Tanh(Softplus(x))

A float may be a few roundings off. Operators whose body is not for TensorRT (with uint8, with sequences) have rules
of their own.
"""

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, function_body, rule


@rule(
    *(
        "CastLike",
        "Celu",
        "Gelu",
        "GreaterOrEqual",
        "LessOrEqual",
    ),
    *("Mish", "RMSNormalization", "RotaryEmbedding", "Shrink", "Swish"),
    *("BlackmanWindow", "HammingWindow", "HannWindow"),
    stage="compat",
)
def inline_function(node: Node) -> Except | None:
    if not node.lacks(node.op):
        return None
    (value,) = function_body(node) or (None,)  # they have one output
    if value is None:
        raise Skip(
            f"ONNX defines {node.op} in opset {node.opset} by no other operators, or its types are not known"
        )
    return Except(Close(value), "extreme-input", "of what overflows on the way nothing is known")


_NET = """<ir_version: 10, opset_import: ["" : %d]>
    g (%s[N, 4, 6] x, float[6] s, float[6] b) => (y) { y = %s }"""


def _net(call: str, opset: int = 18, kind: str = "float") -> str:
    return _NET % (opset, kind, call)


EXAMPLES = [
    Fires(_net("Mish (x)"), becomes="_1 = Softplus (x); _2 = Tanh (_1); y = Mul (x, _2)"),
    Fires(_net("RMSNormalization (x, s)", 23), gone="RMSNormalization"),
    Fires(_net("Celu <alpha = 0.5> (x)"), gone="Celu"),
    Fires(_net("Shrink <bias = 0.5> (x)"), gone="Shrink"),
    Skips(_net("Shrink (x)", 13), because="by no other operators"),
]
