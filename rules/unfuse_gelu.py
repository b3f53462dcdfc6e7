"""Write onnxruntime's forms of GELU as what they are defined by.

TensorRT has no importer for most of them:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    BiasGelu(x, b), Gelu(x)     FastGelu(x, b)                              QuickGelu(x)
    after     u = x + b                   u = x + b                                   x * Sigmoid(alpha * x)
              u * (1 + Erf(u / √2)) / 2   u * (1 + Tanh(√(2/π) (u + 0.044715 u³))) / 2

The forms are those of Hendrycks and Gimpel, Gaussian Error Linear Units (2016); each is a few roundings off.
ONNX's own Gelu is not used: it came with opset 20 and TensorRT 10. TensorRT 11 takes the Gelu without a
bias as it is, but ONNX does not know its type, so that no change after it could be proved.
"""

import numpy as np

from onnxq.rule import Close, Fires, Node, Skip, Skips, op, operands, required, rule

DOMAIN = "com.microsoft."


@rule(
    *(DOMAIN + name for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")),
    stage="compat",
    lacks="onnxruntime-fusions",
)
def unfuse_gelu(node: Node) -> Close:
    (x,), bias = required(node, 1), operands(node, 2)[1]
    if x.dtype is None:
        raise Skip(f"the type of {x.name!r} is not known")
    kind = x.dtype.type
    u = x if bias is None else op.Add(x, bias)
    if node.op == "QuickGelu":
        return Close(op.Mul(x, op.Sigmoid(op.Mul(x, kind(node.attr("alpha", 1.702))))))
    if node.op == "FastGelu":
        root = np.sqrt(2 / np.pi)
        cubic = op.Add(op.Mul(op.Mul(u, u), kind(0.044715 * root)), kind(root))
        bent = op.Tanh(op.Mul(u, cubic))
    else:
        bent = op.Erf(op.Mul(u, kind(np.sqrt(0.5))))
    return Close(op.Mul(op.Mul(u, kind(0.5)), op.Add(bent, kind(1))))


_NET = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (float[N, 3] x, float[3] b) => (y) { y = com.microsoft.%s }"""

EXAMPLES = [
    Fires(
        _NET % (13, "BiasGelu (x, b)"),
        gone="BiasGelu",
        becomes="""_1 = Add (x, b); _2 = Mul (_1, 0.5); _3 = Mul (_1, 0.70710677); _4 = Erf (_3); _5 = Add (_4, 1.0)
        y = Mul (_2, _5)""",
    ),
    Fires(
        _NET % (13, "FastGelu (x, b)"),
        gone="FastGelu",
        becomes="""_1 = Add (x, b); _2 = Mul (_1, 0.5); _3 = Mul (_1, _1); _4 = Mul (_3, 0.035677407)
        _5 = Add (_4, 0.7978846); _6 = Mul (_1, _5); _7 = Tanh (_6); _8 = Add (_7, 1.0); y = Mul (_2, _8)""",
    ),
    Fires(
        _NET % (20, "FastGelu (x)"),
        gone="FastGelu",
        becomes="""_1 = Mul (x, 0.5); _2 = Mul (x, x); _3 = Mul (_2, 0.035677407); _4 = Add (_3, 0.7978846)
        _5 = Mul (x, _4); _6 = Tanh (_5); _7 = Add (_6, 1.0); y = Mul (_1, _7)""",
    ),
    Fires(
        _NET % (20, "QuickGelu (x)"),
        gone="QuickGelu",
        becomes="_1 = Mul (x, 1.702); _2 = Sigmoid (_1); y = Mul (x, _2)",
    ),
    Fires(
        _NET % (20, "QuickGelu <alpha = 0.7> (x)"),
        gone="QuickGelu",
        becomes="_1 = Mul (x, 0.7); _2 = Sigmoid (_1); y = Mul (x, _2)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[N, 3] x) => (y) { a = com.microsoft.Gelu (x)  y = com.microsoft.Gelu (a) }""",
        becomes="""_1 = Mul (x, 0.5); _2 = Mul (x, 0.70710677); _3 = Erf (_2); _4 = Add (_3, 1.0); a = Mul (_1, _4)
        _5 = Mul (a, 0.5); _6 = Mul (a, 0.70710677); _7 = Erf (_6); _8 = Add (_7, 1.0); y = Mul (_5, _8)""",
    ),
    Skips(_NET.replace("com.microsoft.%s", "%s") % (20, "Gelu (x)")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[N, 3] x, float[3, 3] w) => (y) {
            a = com.microsoft.FusedMatMul (x, w)  y = com.microsoft.Gelu (a) }""",
        because="the type of 'a'",
    ),
]
