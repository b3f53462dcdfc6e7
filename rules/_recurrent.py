"""LSTM, GRU and RNN: their gates, their activations and what each of these takes."""

from dataclasses import dataclass

import numpy as np

from onnxq.rule import Node, Skip, Value, constant, op

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""So many gates stand one after another in the weights: of an LSTM i, o, f, c, of a GRU z, r, h."""

_KINDS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
# The activations that take an alpha and a beta, with what they are where none is given.
_ALPHA = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "HardSigmoid": 0.2, "Elu": 1.0, "Affine": None,
          "ScaledTanh": None}  # fmt: skip
_BETA = {"HardSigmoid": 0.5, "Affine": None, "ScaledTanh": None}


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation with its numbers; None for one that it does not take, or that is not given."""

    kind: str
    alpha: float | None = None
    beta: float | None = None


def directions(node: Node) -> int:
    """2 of a bidirectional operator, else 1."""
    return 2 if node.attr("direction", "forward") == "bidirectional" else 1


def activations(node: Node) -> list[list[Activation]]:
    """The activations of each direction. Those that take an alpha or a beta take the next one of the list.

    Raises:
        Skip: there are more or fewer of them than the operator takes.
    """
    count = directions(node)
    kinds = list(node.attr("activations") or _KINDS[node.op] * count)
    each = len(_KINDS[node.op])
    if len(kinds) != each * count:
        raise Skip(f"{node.op} has {len(kinds)} activations, not {each * count}")
    alphas, betas = iter(node.attr("activation_alpha", [])), iter(node.attr("activation_beta", []))
    known = {kind.lower(): kind for kind in (*_ALPHA, "Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")}
    found = []
    for kind in (known.get(kind.lower(), kind) for kind in kinds):
        alpha = next(alphas, None) if kind in _ALPHA else None
        found.append(Activation(kind, alpha, next(betas, None) if kind in _BETA else None))
    return [found[start : start + each] for start in range(0, len(found), each)]


def alpha_of(one: Activation) -> float:
    """The alpha of an activation, its default where none is given.

    Raises:
        Skip: none is given, and the operators' definitions have no default.
    """
    return _stated(one, one.alpha, _ALPHA[one.kind], "alpha")


def beta_of(one: Activation) -> float:
    """The beta of an activation, its default where none is given.

    Raises:
        Skip: none is given, and the operators' definitions have no default.
    """
    return _stated(one, one.beta, _BETA[one.kind], "beta")


def _stated(one: Activation, given: float | None, default: float | None, what: str) -> float:
    if given is None and default is None:
        raise Skip(f"its activation is {one.kind}, and no {what} is given")
    return float(given if given is not None else default or 0)


def attributes(given: list[list[Activation]]) -> dict[str, list[str] | list[float] | None]:
    """Activations as attributes: each that takes an alpha or a beta states it, so that none is taken for another's."""
    flat = [one for direction in given for one in direction]
    alphas = [alpha_of(one) for one in flat if one.kind in _ALPHA]
    betas = [beta_of(one) for one in flat if one.kind in _BETA]
    return {
        "activations": [one.kind for one in flat],
        "activation_alpha": alphas or None,
        "activation_beta": betas or None,
    }


def part(value: Value | None, start: int, end: int, axis: int = 0) -> Value | np.ndarray | None:
    """Places `start` to `end` of an axis of a value; None of one that is left out."""
    array = constant(value)
    if array is not None:
        return np.ascontiguousarray(np.take(array, range(start, end), axis))
    return None if value is None else op.Slice(value, np.array([start]), np.array([end]), np.array([axis]))
