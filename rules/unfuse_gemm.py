"""Write `FusedGemm` as Gemm and the activation after it.

onnxruntime's optimizer joins them; TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.FusedGemm<activation="LeakyRelu", activation_alpha=0.1>(a, b, c)
    after     y = LeakyRelu<alpha=0.1>(Gemm(a, b, c))
"""

from onnxq.rule import Close, Fires, Node, Skip, Skips, op, rule

ACTIVATIONS = (
    "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh",
    "ThresholdedRelu",
)  # fmt: skip
_PREFIX = "activation_"


@rule("com.microsoft.FusedGemm", stage="compat", lacks="onnxruntime-fusions")
def unfuse_gemm(node: Node) -> Close:
    attributes = dict(node.attrs)
    name = attributes.pop("activation", "")
    parameters = {k.removeprefix(_PREFIX): attributes.pop(k) for k in node.attrs if k.startswith(_PREFIX)}
    if name and name not in ACTIVATIONS:
        raise Skip(f"its activation is {name}")
    y = op.Gemm(*node.inputs, **attributes)
    return Close(getattr(op, name)(y, **parameters) if name else y)


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[N, 3] x) => (y) <float[2, 3] w = {1, -2, 3, -0.4, 5, 6.1}, float[2] b = {0.5, -1}> {
        y = com.microsoft.FusedGemm <transB = 1 %s> (x, w, b) }"""

EXAMPLES = [
    Fires(
        _NET % ', activation = "Relu"',
        gone="FusedGemm",
        becomes="""_1 = Gemm <transB = 1> (x, [2, 3] {1.0, -2.0, 3.0, -0.4, 5.0, 6.1}, {0.5, -1.0}); y = Relu (_1)""",
    ),
    Fires(
        _NET % ', alpha = 0.5, beta = 0.3, activation = "Tanh"',
        gone="FusedGemm",
        becomes="""_1 = Gemm <alpha = 0.5, beta = 0.3, transB = 1> (x, [2, 3] {1.0, -2.0, 3.0, -0.4, 5.0, 6.1}, {0.5, -1.0})
        y = Tanh (_1)""",
    ),
    Fires(
        _NET % ', activation = "LeakyRelu", activation_alpha = 0.1',
        gone="FusedGemm",
        becomes="""_1 = Gemm <transB = 1> (x, [2, 3] {1.0, -2.0, 3.0, -0.4, 5.0, 6.1}, {0.5, -1.0})
        y = LeakyRelu <alpha = 0.1> (_1)""",
    ),
    Fires(
        _NET % ', activation = "HardSigmoid", activation_alpha = 0.1, activation_beta = 0.4',
        gone="FusedGemm",
        becomes="""_1 = Gemm <transB = 1> (x, [2, 3] {1.0, -2.0, 3.0, -0.4, 5.0, 6.1}, {0.5, -1.0})
        y = HardSigmoid <alpha = 0.1, beta = 0.4> (_1)""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[N, 3] x, float[3, 2] w) => (y) {
            y = com.microsoft.FusedGemm <activation = "Sigmoid"> (x, w) }""",
        gone="FusedGemm",
        becomes="_1 = Gemm (x, w); y = Sigmoid (_1)",
    ),
    *(
        Fires(_NET % f', activation = "{name}"', gone="FusedGemm")
        for name in (
            "Softplus",
            "Softsign",
        )
    ),
    *(
        Fires(_NET % f', activation = "{name}", activation_alpha = 0.7', gone="FusedGemm")
        for name in ("Elu", "ThresholdedRelu")
    ),
    Fires(_NET % ', activation = "Selu", activation_alpha = 1.5, activation_gamma = 1.2', gone="FusedGemm"),
    Skips((_NET % "").replace("com.microsoft.FusedGemm", "Gemm")),
]
