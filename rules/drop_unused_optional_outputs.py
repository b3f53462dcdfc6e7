"""Remove optional outputs at the end of a node that nobody reads.

TensorRT's importers know one output of MaxPool and of LayerNormalization, and reject the others even
where nothing reads them (its spelling):

    This version of TensorRT doesn't support mode than 1 outputs for MaxPool nodes!
    This version of TensorRT doesn't support mode than 1 outputs for LayerNormalization nodes!

    before    y, indices = MaxPool(x)
    after     y = MaxPool(x)

Not for BatchNormalization, where more outputs mean training mode.
"""

from onnxq.rule import Fires, Node, Skips, Value, remake, rule


@rule("MaxPool", "LayerNormalization", stage="clean")
def drop_unused_optional_outputs(node: Node) -> dict[int, Value] | None:
    read = [index for index, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output]
    if not read or read[-1] == len(node.outputs) - 1:
        return None
    count = read[-1] + 1
    results = remake(node, *node.inputs, outputs=count)
    return {0: results} if count == 1 else dict(enumerate(results))


_POOL = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2, 4, 4] x) => (%s) { y, i = MaxPool <kernel_shape = [2, 2]> (x) }"""
_NORM = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 4] x) => (%s) <float[4] s = {1, 2, 3, 4}> { y, m, d = LayerNormalization (x, s)  %s }"""

EXAMPLES = [
    Fires(_POOL % "y", becomes="y = MaxPool <kernel_shape = [2, 2]> (x)"),
    Fires(_NORM % ("y", ""), becomes="y = LayerNormalization (x, {1.0, 2.0, 3.0, 4.0})"),
    Fires(
        _NORM % ("y, z", "z = Exp (m)"),
        becomes="y, m = LayerNormalization (x, {1.0, 2.0, 3.0, 4.0}); z = Exp (m)",
    ),
    Fires(
        _NORM % ("z", "z = Exp (m)"),
        becomes="_1, m = LayerNormalization (x, {1.0, 2.0, 3.0, 4.0}); z = Exp (m)",
    ),
    Skips(_POOL % "y, i"),
    Skips(_POOL % "i"),
    Skips(_NORM % ("y, z", "z = Exp (d)")),
]
