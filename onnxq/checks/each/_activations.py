"""The pairs of what is computed."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Subject
from onnxq.graph.pairs import Pair


def pairs_of_activations(subject: Subject) -> Iterator[Pair]:
    """The pairs that are not of constants, from their DequantizeLinear."""
    for pair in subject.pairs.dequantizing:
        if pair.codes is not None and not pair.codes.is_constant:
            maker = pair.codes.producer
            if maker is None or maker.inputs[0] is None or not maker.inputs[0].is_constant:
                yield pair
