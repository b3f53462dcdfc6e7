"""One scale for all inputs and the output of a Concat.

A Concat of int8 tensors is a copy where all have one scale; with different scales each part is
requantized, and with a pair at the output alone the other readers of the parts miss the int8 copy.
A constant part stays float; its range counts for the scale that all share.

Probabilities (of a Sigmoid or a Softmax) share none with other values: beside boxes in pixels all of them
would have the code 0. Such a Concat has a pair at its output at most.
"""

from functools import partial
from typing import Any

from _probabilities import mixes_probabilities

from onnxq.rule import Fires, Follow, Node, Skip, Skips, place


@place("Concat")
def concat_shares_scale(node: Node) -> list[Follow]:
    if mixes_probabilities(node):
        raise Skip("a Concat of probabilities and other values: one scale would not hold both")
    return [Follow(node, index, "inputs of one Concat") for index in range(len(node.inputs))]


def _net(concat: str) -> Any:
    """A convolution of 16 channels behind a Concat."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 1, 16] x, float[1, 8, 1, 16] z) => (y) {{
            {concat}  [l] y = Conv (c, w) }}"""
    )
    for name, shape in (("w", (16, 16, 1, 1)), ("k", (1, 8, 1, 16))):
        values = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


EXAMPLES = [
    Fires(
        lambda: _net("[m] c = Concat <axis = 1> (x, z)"),
        after=("quantize_weighted",),
        plan="x -> m:0; z -> m:1; c -> l:0; w axis 0 -> l:1; one scale: c, x, z",
    ),
    Fires(  # a constant part
        lambda: _net("r = Relu (x)  [m] c = Concat <axis = 1> (r, k)"),
        after=("quantize_weighted",),
        plan="r -> m:0; c -> l:0; w axis 0 -> l:1; one scale: c, r",
    ),
    Fires(  # probabilities alone
        lambda: _net("p = Sigmoid (x)  q = Softmax (z)  t = Identity (q)  [m] c = Concat <axis = 1> (p, t)"),
        after=("quantize_weighted",),
        plan="p -> m:0; t -> m:1; c -> l:0; w axis 0 -> l:1; one scale: c, p, t",
    ),
    Fires(  # beside a constant
        lambda: _net("p = Sigmoid (x)  [m] c = Concat <axis = 1> (p, k)"),
        after=("quantize_weighted",),
        plan="p -> m:0; c -> l:0; w axis 0 -> l:1; one scale: c, p",
    ),
    *(
        Skips(partial(_net, f"{given}  c = Concat <axis = 1> (x, q)"), because="probabilities")
        for given in (
            "q = Sigmoid (z)",
            "p = HardSigmoid (z)  q = Identity (p)",
            "p = Softmax (z)  h = Sigmoid (z)  s = Concat <axis = 1> (p, h)  q, r = Split <axis = 1> (s)",
        )
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x, float[1, 8] z) => (float[1, 8] y) { y = Add (x, z) }"""
    ),
]
