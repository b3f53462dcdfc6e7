"""Remove what nobody reads.

An unused node or weight of a type that TensorRT does not know is enough to fail the import:

    Assertion failed: convertOnnxWeights(initializer, &weights, ctx)

A node is dead when nothing reads any of its outputs and none is an output of the model; what only
dead nodes read is dead too. Reads inside subgraph bodies count.
"""

from onnxq.rule import Fires, Node, Skips, Value, rule


@rule("*", stage="clean")
def dead_code(node: Node) -> dict[int, Value] | None:
    return {} if not any(tensor.users for tensor in node.outputs) else None


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) { y = Relu (x)  dead = Exp (x)  deader = Sqrt (dead) }""",
        gone="Exp",
        becomes="y = Relu (x)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y, float[2] z) { y = Relu (x)  z = Exp (y) }"""
    ),
]
