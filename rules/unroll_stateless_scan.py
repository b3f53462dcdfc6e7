"""Unroll a Scan of few steps that carries nothing from one to the next.

TensorRT's Scan wants a state:

    Invalid Node - Scan

    before    z = Scan(x) { a -> Exp(a) }            x is [2, 3]
    after     z = Concat(Exp(x[0]), Exp(x[1]))

The number of steps must be known; at most 64 steps and 1024 nodes. Equal bit for bit.
"""

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import Fires, Node, Skip, Skips, Value, inline, op, rule

_MOST, _NODES = 64, 1024


@rule("Scan", stage="compat", lacks="scan-without-state")
def unroll_stateless_scan(node: Node) -> dict[int, Value] | None:
    read = [tensor for tensor in node.inputs if tensor is not None]
    if node.opset < 9 or node.attr("num_scan_inputs") != len(node.inputs) or len(read) < len(node.inputs):
        return None
    body, count = node.body("body"), len(read)
    axes = node.attr("scan_input_axes") or [0] * count
    sizes = [None if one.shape is None else one.shape[axis] for one, axis in zip(read, axes, strict=True)]
    steps = next((size for size in sizes if isinstance(size, int)), None)
    if steps is None:
        raise Skip(f"it has no state, and how many steps it takes is not known ({sizes[0]}): give --shape")
    if not 1 <= steps <= _MOST or steps * len(body.nodes) > _NODES:
        raise Skip(f"it has no state, and {steps} steps are not unrolled")
    reverse = node.attr("scan_input_directions") or [0] * count
    collected: list[list[Value]] = [[] for _ in node.outputs]
    for step in range(steps):
        places = [steps - 1 - step if back else step for back in reverse]
        rows = [op.Gather(x, np.array(at), axis=axis) for x, at, axis in zip(read, places, axes, strict=True)]
        for values, one in zip(collected, inline(body, *rows), strict=True):
            values.append(one)
    out = node.attr("scan_output_axes") or [0] * len(node.outputs)
    back = node.attr("scan_output_directions") or [0] * len(node.outputs)
    results = {}
    for index, values in enumerate(collected):
        axis, rank = out[index], values[0].rank
        if axis < 0:
            if rank is None:
                raise Skip("the rank of what it computes is not known")
            axis += rank + 1
        ordered = values[::-1] if back[index] else values
        results[index] = op.Concat(*(unsqueezed(node, one, [axis]) for one in ordered), axis=axis)
    return results


_NET = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[%s, N] x) => (z) { z = Scan <num_scan_inputs = 1 %s,
        body = b (float[N] a) => (float[N] o) { o = Exp (a) }> (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("2", ", scan_output_axes = [-1], scan_input_directions = [1]"),
        becomes="""_1 = Gather <axis = 0> (x, 1); _2 = Exp (_1); _3 = Unsqueeze (_2, {1})
        _4 = Gather <axis = 0> (x, 0); _5 = Exp (_4); _6 = Unsqueeze (_5, {1})
        z = Concat <axis = 1> (_3, _6)""",
    ),
    Fires(_NET % ("3", ", scan_output_directions = [1]"), gone="Scan"),
    Fires(
        (_NET % ("N", ", scan_input_axes = [1]")).replace("N, N] x", "N, 1] x"),
        becomes="""_1 = Gather <axis = 1> (x, 0); _2 = Exp (_1); _3 = Unsqueeze (_2, {0}); z = Concat <axis = 0> (_3)""",
    ),
    Fires((_NET % ("2", "")).replace("float[N] o) { o = Exp", "float[] o) { o = Squeeze"), gone="Scan"),
    Skips(
        (_NET % ("2", ", scan_output_axes = [-1]")).replace(
            "float[N] o) { o = Exp", "float[] o) { o = Squeeze"
        ),
        because="the rank of what",
    ),
    Skips(_NET % ("65", ""), because="65 steps"),
    Skips(_NET % ("T", ""), because="how many steps"),
]
