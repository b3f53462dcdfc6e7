"""Write `FusedConv` as a convolution and what follows it.

onnxruntime's optimizer joins a convolution, a sum and an activation; TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.FusedConv<activation="Relu">(x, W, b, z)
    after     y = Relu(Add(Conv(x, W, b), z))

onnxruntime starts the sums with z, and may sum in another order.
"""

from _opsets import activated

from onnxq.rule import Close, Fires, Node, Skip, Skips, is_static, op, operands, required, rule


@rule("com.microsoft.FusedConv", stage="compat", lacks="onnxruntime-fusions")
def unfuse_conv(node: Node) -> Close:
    x, weights = required(node, 2)
    bias, added = operands(node, 4)[2:]
    attributes = {name: value for name, value in node.attrs.items() if not name.startswith("activation")}
    if not is_static(weights.shape and weights.shape[1:]):  # whose kernel has any size there is no proving
        raise Skip(f"the shape of {weights.name!r} is not known")
    y = op.Conv(x, weights, *([] if bias is None else [bias]), **attributes)
    if added is not None:
        y = op.Add(y, added)
    return Close(activated(node, y, weights.dtype))


_NET = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (float[N, 2, 4, 4] x, float[N, 3, 2, 2] z) => (y) <float[3] b = {1, 0.3, -1},
        float[3, 2, 3, 3] w = {1, 2, 3, -4, 0.5, 0, 0.1, 0.7, -1.3, 1, 2, 3, -4, 0.5, 0, 0.1, 0.7, -1.3,
            1, 2, 3, -4, 0.5, 0, 0.1, 0.7, -1.3, 3, 1, 2, 3, -4, 0.5, 0, 0.1, 0.7,
            1, 2.3, 3, -4, 0.5, 0, 0.1, 0.7, -1.3, 3, 1, 2, 3.4, -4, 0.5, 0, 0.1, 0.7}> {
        y = com.microsoft.FusedConv <%s> (%s) }"""

EXAMPLES = [
    Fires(
        _NET % (17, 'activation = "Relu"', "x, w, b"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Relu (_1)",
    ),
    Fires(
        _NET % (17, 'activation = "Relu", pads = [1, 1, 0, 0], strides = [2, 2]', "x, w"),
        gone="FusedConv",
        becomes="_1 = Conv <pads = [1, 1, 0, 0], strides = [2, 2]> (x, float32 [3, 2, 3, 3]); y = Relu (_1)",
    ),
    Fires(
        _NET % (17, 'activation = "Tanh"', "x, w, b"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Tanh (_1)",
    ),
    Fires(
        _NET % (17, 'activation = "Sigmoid"', "x, w, b"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Sigmoid (_1)",
    ),
    Fires(
        _NET % (17, 'activation = "LeakyRelu", activation_params = [0.3]', "x, w, b"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = LeakyRelu <alpha = 0.3> (_1)",
    ),
    Fires(
        _NET % (17, 'activation = "Clip", activation_params = [0.5, 6.0]', "x, w, b"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Clip (_1, 0.5, 6.0)",
    ),
    Fires(
        _NET % (10, 'activation = "Clip", activation_params = [0.5, 6.0]', "x, w, b"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Clip <max = 6.0, min = 0.5> (_1)",
    ),
    Fires(
        _NET % (11, 'activation = "Clip", activation_params = [0.5, 6.0]', "x, w, b"),
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Clip (_1, 0.5, 6.0)",
    ),
    Skips(_NET % (17, 'activation = "Relu", activation_params = [0.3]', "x, w"), because="with 1 parameters"),
    Fires(
        _NET % (17, 'activation = "HardSigmoid", activation_params = [0.3, 0.4]', "x, w, b"),
        gone="FusedConv",
        becomes="""_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = HardSigmoid <alpha = 0.3, beta = 0.4> (_1)""",
    ),
    Fires(
        _NET % (17, 'activation = "Relu"', "x, w, b, z"),
        gone="FusedConv",
        becomes="_1 = Conv (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); _2 = Add (_1, z); y = Relu (_2)",
    ),
    Fires(
        _NET % (17, "group = 1", "x, w, b, z"),
        gone="FusedConv",
        becomes="_1 = Conv <group = 1> (x, float32 [3, 2, 3, 3], {1.0, 0.3, -1.0}); y = Add (_1, z)",
    ),
    Skips((_NET % (17, "group = 1", "x, w, b")).replace("com.microsoft.FusedConv", "Conv")),
    *(
        Skips(
            f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
            g (float[N, 2, 4, 4] x, float[{shape}] w) => (y) {{ y = com.microsoft.FusedConv (x, w) }}""",
            because="the shape of 'w' is not known",
        )
        for shape in ("", "3, C, 3, 3", "3, 2, A, B")
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[N, 2, 4, 4] x, float[M, 2, 3, 3] w) => (y) { y = com.microsoft.FusedConv (x, w) }""",
        becomes="y = Conv (x, w)",
    ),
]
