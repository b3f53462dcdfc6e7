"""Give a Loop the condition that it leaves out, where its body asks for it.

TensorRT then finds no tensor for the body's input:

    Assertion failed: (ctx->tensors().count(inputName)): Node input was not registered.

    before    y = Loop(n, , x) { condition -> Identity(condition) }
    after     y = Loop(n, true, x) { condition -> Identity(condition) }

A condition that is left out is true. Equal bit for bit.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, remake, rule


@rule("Loop", stage="compat", lacks="loop-without-condition")
def loop_with_condition(node: Node) -> dict[int, Value] | None:
    trip, going, *carried = node.inputs
    if going is not None or not node.body("body").inputs[1].users:
        return None
    results = remake(node, trip, np.array(True), *carried, outputs=len(node.outputs))
    return dict(enumerate(results if isinstance(results, tuple) else (results,)))


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (y) <int64 n = {3}> {
        y = Loop (n, , x) <body = b (int64 i, bool c, float[N, 3] a) => (bool d, float[N, 3] r) {
            d = %s  r = Sin (a) }> }"""

EXAMPLES = [
    Fires(
        _NET % "Identity (c)",
        becomes="y = Loop <body = (_5, _1, _3) => (_2, _4) { _2 = Identity (_1); _4 = Sin (_3) }> (3, bool True, x)",
    ),
    Skips(_NET % "Constant <value = bool {1}> ()"),
]
