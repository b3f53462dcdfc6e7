"""Write the coupled gates of an LSTM (`input_forget`) with weights of the forget gate.

TensorRT has no such form:

    inputForget == 0 && "Coupled input/forget is unsupported in the LSTM converter"

    before    LSTM<input_forget=1>(x, W, R, B)          the forget gate is 1 - Sigmoid(i)
    after     LSTM(x, W', R', B')                       the forget gate is Sigmoid(-i)

The weights of the forget gate become those of the input gate, negated: 1 - Sigmoid(z) is Sigmoid(-z), and
1 - HardSigmoid(z) is HardSigmoid(-z) where its beta is a half. A few roundings off. So it holds for any
number of steps.
"""

import numpy as np
from _recurrent import activations, beta_of

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, constant, operands, remake, rule

_INPUT, _FORGET = 0, 2  # the places of the gates i, o, f, c; of the peepholes i, o, f


@rule("LSTM", stage="compat", lacks="recurrent-coupled-gates")
def couple_gates(node: Node) -> Except | None:
    if not node.attr("input_forget", 0):
        return None
    for gate in (direction[0] for direction in activations(node)):
        if gate.kind != "Sigmoid" and (gate.kind != "HardSigmoid" or beta_of(gate) != 0.5):
            raise Skip(f"its gates are coupled, and the activation of its gates is {gate.kind}, not Sigmoid")
    x, w, r, b, lengths, h, c, p = operands(node, 8)
    inputs = [x, _coupled(w, 4), _coupled(r, 4), _coupled(b, 8), lengths, h, c, _coupled(p, 3)]
    while inputs[-1] is None:
        inputs.pop()
    results = remake(node, *inputs, outputs=len(node.outputs), input_forget=None)
    answer = dict(enumerate(results)) if isinstance(results, tuple) else {0: results}
    return Except(Close(answer), "extreme-input", "onnxruntime's gates hide a NaN behind a number")


def _coupled(value: Value | None, count: int) -> Value | np.ndarray | None:
    """Weights of `count` gates on axis 1, those of each forget gate the input gate's, negated."""
    if value is None:
        return None
    array = constant(value)
    if array is None:
        raise Skip(f"its gates are coupled, and its weights {value.name!r} are computed")
    gates = np.split(array, count, axis=1)
    for place in range(0, count, 4):
        gates[place + _FORGET] = -gates[place + _INPUT]
    return np.concatenate(gates, axis=1)


_NET = """<ir_version: 8, opset_import: ["" : 14]>
    g (float[T, N, 2] x%s) => (%s) <float[%d, 4, 2] w = {%s}, float[%d, 4, 1] r = {%s}, float[%d, 8] b = {%s},
        float[1, 3] p = {0.3, -0.2, 0.5}> { %s = LSTM <hidden_size = 1, %s> (x, %s) }"""


def _numbers(count: int) -> str:
    return ", ".join(f"{np.sin(3 * place + count):.2f}" for place in range(count))


def _net(
    attributes: str, inputs: str = "w, r, b", more: str = "", directions: int = 1, outputs: str = "y, h, c"
) -> str:
    given = []
    for each in (8, 4, 8):
        given += [directions, _numbers(each * directions)]
    return _NET % (more, outputs, *given, outputs, attributes, inputs)


EXAMPLES = [
    Fires(
        _net("input_forget = 1"),
        becomes="""y, h, c = LSTM <hidden_size = 1> (x, [1, 4, 2] {0.99, -1.0, 0.99, -0.96, -0.99, 1.0, 0.76, -0.66}, [1, 4, 1] {-0.76, 0.66, 0.76, 0.42}, [1, 8] {0.99, -1.0, -0.99, -0.96, 0.91, -0.85, -0.91, -0.66})""",
    ),
    Fires(_net("input_forget = 1, clip = 0.5", "w, r, , , , , p", outputs="y")),
    Fires(
        _net('input_forget = 1, direction = "bidirectional"', directions=2, outputs="y, h"),
    ),
    Fires(_net('input_forget = 1, activations = ["HardSigmoid", "Tanh", "Tanh"], activation_alpha = [0.3]')),
    Skips(
        _net('input_forget = 1, activations = ["HardSigmoid", "Tanh", "Tanh"], activation_beta = [0.4]'),
        because="HardSigmoid, not Sigmoid",
    ),
    Skips(_net("input_forget = 1", "v, r, b", ", float[1, 4, 2] v"), because="'v' are computed"),
    Skips(_net("clip = 0.5")),
]
