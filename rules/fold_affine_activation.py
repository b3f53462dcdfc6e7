"""Fold the activation Affine of an LSTM, GRU or RNN into the weights.

TensorRT does not know it:

    Unknown activation type: Affine

    before    RNN<Affine, alpha=a, beta=b>(x, W, R, B)            h = a (W x + R h + B) + b
    after     RNN<LeakyRelu, alpha=1>(x, a W, a R, a B + b)       LeakyRelu with a slope of 1 is the number itself

A few roundings off. Not with `clip`, which is between the sum and the activation, and not for what an LSTM does
to its cell, where no weights are.
"""

import numpy as np
from _recurrent import GATES, Activation, activations, alpha_of, attributes, beta_of

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, constant, operands, remake, rule

_ITSELF = Activation("LeakyRelu", 1.0)
# Of which activation each gate is: of an LSTM i, o, f are of the first, c of the second.
_OF_GATE = {"LSTM": (0, 0, 0, 1), "GRU": (0, 0, 1), "RNN": (0,)}


@rule("LSTM", "GRU", "RNN", stage="compat", lacks="recurrent-affine")
def fold_affine_activation(node: Node) -> Except | None:
    given = activations(node) if node.attr("activations") is not None else []
    if not any(one.kind == "Affine" for direction in given for one in direction):
        return None
    if node.attr("clip", 0):
        raise Skip("its activation is Affine, and what it is of is clipped")
    if node.op == "LSTM" and any(direction[2].kind == "Affine" for direction in given):
        raise Skip("the activation of its cell is Affine")
    x, w, r, b, lengths, h, c, p = operands(node, 8)
    weights, recurrent, biases, peepholes = (constant(value) for value in (w, r, b, p))
    stated = [value is None or constant(value) is not None for value in (b, p)]
    if weights is None or recurrent is None or not all(stated):
        raise Skip("its activation is Affine, and its weights are computed")
    hidden = recurrent.shape[2]
    of_gate = [[direction[gate] for gate in _OF_GATE[node.op]] for direction in given]
    factors = _rows([[_factor(one) for one in row] for row in of_gate], hidden)
    offsets = _rows([[_offset(one) for one in row] for row in of_gate], hidden)
    if biases is None:
        biases = np.zeros((len(given), 2 * factors.shape[1]), weights.dtype)
    biases = biases * np.concatenate([factors, factors], 1) + np.concatenate([offsets, 0 * offsets], 1)
    if peepholes is not None:
        peepholes = (peepholes * factors[:, : 3 * hidden]).astype(weights.dtype)
    scaled = [(array * factors[:, :, None]).astype(weights.dtype) for array in (weights, recurrent)]
    inputs = [x, *scaled, biases.astype(weights.dtype), lengths, h, c, peepholes]
    while inputs[-1] is None:
        inputs.pop()
    kept = [[_ITSELF if one.kind == "Affine" else one for one in direction] for direction in given]
    results = remake(node, *inputs, outputs=len(node.outputs), **attributes(kept))
    answer = dict(enumerate(results)) if isinstance(results, tuple) else {0: results}
    return Except(Close(answer), "extreme-input", "onnxruntime's gates hide a NaN behind a number")


def _factor(one: Activation) -> float:
    return alpha_of(one) if one.kind == "Affine" else 1.0


def _offset(one: Activation) -> float:
    return beta_of(one) if one.kind == "Affine" else 0.0


def _rows(numbers: list[list[float]], hidden: int) -> np.ndarray:
    """Numbers of the gates of each direction, for each row of the weights: [directions, gates * hidden]."""
    return np.repeat(np.array(numbers), hidden, axis=1)


_NET = """<ir_version: 8, opset_import: ["" : 14]>
    g (float[2, N, 2] x, float[1, 1, 2] v) => (y) <float[1, %d, 2] w = {%s}, float[1, %d, 1] r = {%s}, float[1, %d] b = {%s},
        float[1, 3] p = {0.3, -0.2, 0.5}> { y = %s <hidden_size = 1, activations = [%s] %s> (x, %s) }"""


def _net(op: str, kinds: str, inputs: str = "w, r, b", more: str = "") -> str:
    gates = GATES[op]
    names = ", ".join(f'"{kind}"' for kind in kinds.split())
    numbers: list[int | str] = []
    for count, size in ((gates, 2 * gates), (gates, gates), (2 * gates, 2 * gates)):
        numbers += [count, ", ".join(f"{np.sin(3 * place + count):.2f}" for place in range(size))]
    return _NET % (*numbers, op, names, more, inputs)


_NUMBERS = ", activation_alpha = [0.5], activation_beta = [0.25]"

EXAMPLES = [
    Fires(
        _net("RNN", "Affine", more=_NUMBERS),
        becomes="""y = RNN <activation_alpha = [1.0], activations = ["LeakyRelu"], hidden_size = 1> (x, [1, 1, 2] {0.42, -0.38}, [1, 1, 1] {0.42}, [1, 2] {0.70500004, -0.48})""",
    ),
    Fires(_net("RNN", "Affine", "w, r", _NUMBERS)),
    Skips(_net("RNN", "Affine", "w, r"), because="no alpha"),
    Fires(_net("LSTM", "Affine Tanh Tanh", "w, r, b, , , , p", _NUMBERS)),
    Fires(_net("LSTM", "Sigmoid Affine Tanh", more=_NUMBERS)),
    Fires(_net("GRU", "Sigmoid Affine", more=f"{_NUMBERS}, linear_before_reset = 1")),
    Skips(_net("RNN", "Affine", more=", clip = 1.0"), because="clipped"),
    Skips(_net("LSTM", "Sigmoid Tanh Affine"), because="of its cell"),
    Skips(_net("RNN", "Affine", "v, r"), because="weights are computed"),
    Skips(_net("RNN", "Relu")),
]
