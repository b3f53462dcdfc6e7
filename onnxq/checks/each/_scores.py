"""Scores that are joined with larger values."""

from __future__ import annotations

from onnxq.checks import Evidence
from onnxq.checks.limits import APART, SCORE_CODES
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import is_qdq
from onnxq.graph.view import Node, Tensor

_SCORES = ("Sigmoid", "HardSigmoid", "Softmax")


def mixes_scores(evidence: Evidence, node: Node) -> tuple[str, str, float] | None:
    """The scores and the widest other input of a Concat under one scale, and its threshold."""
    if node.op != "Concat" or node.domain:
        return None
    scores = [source for source in node.inputs if source is not None and _is_score(source)]
    others = [source for source in node.inputs if source is not None and source not in scores]
    measured = [name for name in map(evidence.measured, others) if name is not None]
    if not scores or not measured:
        return None
    of_score = evidence.measured(scores[0]) or scores[0].name
    widest = max(measured, key=lambda name: evidence.tensors[name].amax)
    threshold = evidence.threshold(of_score)
    if threshold is None or threshold != evidence.threshold(widest):
        threshold = evidence.threshold(node.outputs[0].name)
    if (
        threshold is None
        or evidence.tensors[widest].amax < APART
        or evidence.greatest(of_score) / threshold >= SCORE_CODES
    ):
        return None
    return of_score, widest, threshold


def _is_score(tensor: Tensor) -> bool:
    """Whether values are from 0 to 1 by their operator, moved or rounded at most."""
    maker = tensor.producer
    while maker is not None and (is_qdq(maker) or (not maker.domain and maker.op in (*MOVES, "Cast"))):
        source = maker.inputs[0]
        maker = source.producer if source is not None else None
    return maker is not None and not maker.domain and maker.op in _SCORES
