"""Which tensors hold probabilities, and which Concats put them beside something else."""

from __future__ import annotations

from onnxq.rule import MOVES, Node, Tensor, made_by

BOUNDED = ("Sigmoid", "Softmax", "HardSigmoid")
"""What gives values from 0 to 1."""


def mixes_probabilities(concat: Node) -> bool:
    """Whether some inputs of a Concat are probabilities, and others are not: scores beside boxes, say.

    A constant is neither.
    """
    kinds = {
        _is_probability(tensor) for tensor in concat.inputs if tensor is not None and not tensor.is_constant
    }
    return len(kinds) > 1


def cut_from_a_mixture(tensor: Tensor | None) -> bool:
    """Whether a tensor comes from a Concat that mixes, or contains one that does, moved at most."""
    todo, seen = [tensor], set[Tensor]()
    while todo:
        tensor = todo.pop()
        if tensor is None or tensor in seen:
            continue
        seen.add(tensor)
        maker = made_by(tensor, *MOVES, "Concat")
        if maker is None:
            continue
        if maker.op == "Concat" and mixes_probabilities(maker):
            return True
        todo += maker.inputs if maker.op == "Concat" else maker.inputs[:1]
    return False


def _is_probability(tensor: Tensor) -> bool:
    """Whether a tensor holds what gives values from 0 to 1, and nothing else."""
    todo, seen = [tensor], set[Tensor]()
    while todo:
        value = todo.pop()
        if value in seen or value.is_constant:
            continue
        seen.add(value)
        maker = made_by(value, *BOUNDED, *MOVES, "Concat")
        if maker is None:
            return False
        if maker.op not in BOUNDED:
            given = maker.inputs if maker.op == "Concat" else maker.inputs[:1]
            todo += [one for one in given if one is not None]
    return True
