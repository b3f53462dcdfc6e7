"""One scale for all inputs and the output of a Concat.

A Concat of int8 tensors is a copy where all have one scale; with different scales each part is
requantized, and with a pair at the output alone the other readers of the parts miss the int8 copy.
A constant part stays float; its range counts for the scale that all share.

Probabilities (of a Sigmoid or a Softmax) share none with boxes: what is decoded to pixels, by constants of 16
and more, and what reaches an output beside them as a layer gives it. Beside those all scores would have the
code 0. Such a Concat has a pair at its output at most.
"""

from functools import partial
from typing import Any

from _probabilities import mixes_scales

from onnxq.rule import Fires, Follow, Node, Skip, Skips, place


@place("Concat")
def concat_shares_scale(node: Node) -> list[Follow]:
    if mixes_scales(node):
        raise Skip("a Concat of probabilities and of boxes: one scale does not hold both")
    return [Follow(node, index, "inputs of one Concat") for index in range(len(node.inputs))]


def _net(concat: str, outputs: str = "y") -> Any:
    """A convolution of 16 channels behind a Concat."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 1, 16] x, float[1, 8, 1, 16] z) => ({outputs}) <float size = {{640}}, float stride = {{16}}, float one = {{15}},
            float part = {{0.0625}}> {{
            {concat}  [l] y = Conv (c, w) }}"""
    )
    for name, shape in (("w", (16, 16, 1, 1)), ("v", (8, 8, 1, 1)), ("k", (1, 8, 1, 16))):
        values = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


_BOXES = "a = Conv (x, v)  b = Mul (a, one)  q = Sigmoid (z)  c = Concat <axis = 1> (b, q)  "

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
    *(  # features; and what is no size in pixels
        Fires(
            partial(_net, f"p = Sigmoid (x)  {made}  [m] c = Concat <axis = 1> (p, b)"),
            after=("quantize_weighted",),
            plan="p -> m:0; b -> m:1; c -> l:0; w axis 0 -> l:1; one scale: b, c, p",
        )
        for made in (
            "b = Relu (z)",
            "b = Mul (z, one)",
            "b = Div (z, size)",
            "b = Div (z, one)",
            "h = Mul (z, size)  b = Tanh (h)",
            "b = Conv (z, v)",
        )
    ),
    *(
        Skips(partial(_net, f"{given}  c = Concat <axis = 1> (b, q)"), because="probabilities")
        for given in (
            "b = Mul (x, size)  q = Sigmoid (z)",
            "b = Add (x, stride)  p = HardSigmoid (z)  q = Identity (p)",
            "b = Div (x, part)  q = Softmax (z)",
            "b = Div (size, x)  q = Softmax (z)",
            "e = Exp (x)  a = Mul (e, stride)  n = Neg (a)  b = Identity (n)  q = Softmax (z)",
            "b = Mul (x, size)  p = Softmax (z)  q, r = Split <axis = 1> (p)",
        )
    ),
    *(
        Skips(partial(_net, f"{_BOXES}{more}", outputs), because="probabilities")
        for more, outputs in (("", "y, c"), ("i = Identity (c)  d = Concat <axis = 1> (z, i)", "y, d"))
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x, float[1, 8] z) => (float[1, 8] y) { y = Add (x, z) }"""
    ),
]
