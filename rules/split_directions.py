"""Write a bidirectional LSTM, GRU or RNN whose directions have different activations as two.

TensorRT wants one set of activations, and of their numbers, for both directions:

    The parser does not currently support cases where activations for the reverse pass of the LSTM do not match
    the forward pass.
    The parser does not currently support cases where activations_alphas for the reverse pass (...)

    before    Y, Y_h = RNN<bidirectional, [Tanh, Relu]>(x, W, R)
    after     Y = Concat(RNN<[Tanh]>(x, W[0:1], R[0:1]), RNN<reverse, [Relu]>(x, W[1:2], R[1:2])), Y_h likewise

Each direction computes what it computed before: equal bit for bit.
"""

import numpy as np
from _recurrent import activations, attributes, directions, part

from onnxq.rule import Fires, Node, Skips, Value, op, operands, remake, rule


@rule("LSTM", "GRU", "RNN", stage="compat", lacks="recurrent-directions")
def split_directions(node: Node) -> dict[int, Value] | None:
    if directions(node) == 1 or node.attr("activations") is None:
        return None
    given = activations(node)
    if given[0] == given[1]:
        return None
    first = 1 if node.attr("layout", 0) else 0  # the axis of the directions in all but Y and the weights
    both = []
    for place, name in enumerate(("forward", "reverse")):
        x, *weights = operands(node, 4)
        lengths, *states, peepholes = operands(node, 8)[4:]
        inputs = [x, *(part(one, place, place + 1) for one in weights), lengths]
        inputs += [part(one, place, place + 1, first) for one in states]
        inputs += [part(peepholes, place, place + 1)]
        while inputs[-1] is None:
            inputs.pop()
        attrs = attributes(given[place : place + 1])
        results = remake(node, *inputs, outputs=len(node.outputs), direction=name, **attrs)
        both.append(results if isinstance(results, tuple) else (results,))
    axes = [2 if first else 1, first, first]
    return {
        index: op.Concat(one, other, axis=axes[index])
        for index, (one, other) in enumerate(zip(*both, strict=True))
        if node.outputs[index].name
    }


_NET = """<ir_version: 8, opset_import: ["" : 14]>
    g (float[T, N, 2] x, int32[N] l, float[2, N, 1] s%s) => (%s) <float[2, %d, 2] w = {%s}, float[2, %d, 1] r = {%s},
        float[2, %d] b = {%s}, float[2, 3] p = {0.3, -0.2, 0.5, 0.1, 0.4, -0.6}> {
        %s = %s <hidden_size = 1, direction = "bidirectional", activations = [%s] %s> (x, %s) }"""


def _net(
    op: str, kinds: str, inputs: str = "w, r, b", outputs: str = "y, h", more: str = "", given: str = ""
) -> str:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    names = ", ".join(f'"{kind}"' for kind in kinds.split())
    numbers: list[int | str] = []
    for count in (gates, gates, 2 * gates):
        size = 2 * count * (2 if len(numbers) == 0 else 1)
        numbers += [count, ", ".join(f"{np.sin(3 * place + count):.2f}" for place in range(size))]
    read = ", ".join(name for name in outputs.split(", ") if name)
    return _NET % (given, read, *numbers, outputs, op, names, more, inputs)


EXAMPLES = [
    Fires(
        _net("RNN", "Tanh Relu"),
        becomes="""_1, _2 = RNN <activations = ["Tanh"], direction = "forward", hidden_size = 1> (x, [1, 1, 2] {0.84, -0.76}, [1, 1, 1] {0.84}, [1, 2] {0.91, -0.96})
        _3, _4 = RNN <activations = ["Relu"], direction = "reverse", hidden_size = 1> (x, [1, 1, 2] {0.66, -0.54}, [1, 1, 1] {-0.76}, [1, 2] {0.99, -1.0})
        y = Concat <axis = 1> (_1, _3); h = Concat <axis = 0> (_2, _4)""",
    ),
    Fires(
        _net("RNN", "LeakyRelu LeakyRelu", "w, r, , l, s", ", h", ", activation_alpha = [0.1, 0.3]"),
    ),
    Fires(_net("LSTM", "Sigmoid Tanh Tanh Sigmoid Tanh Relu", "w, r, b, , , s, p", "y, h, c")),
    Fires(_net("GRU", "Sigmoid Tanh HardSigmoid Tanh", "v, r", given=", float[2, 3, 2] v")),
    Skips(_net("RNN", "Relu Relu")),
    Skips(_net("RNN", "Relu Tanh").replace("bidirectional", "forward").replace('"Relu", ', "")),
]
