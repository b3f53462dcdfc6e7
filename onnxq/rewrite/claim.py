"""What an answer claims of its results, as far as these results can break it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from onnxq.graph.edit import Replacement
from onnxq.graph.moves import MOVES
from onnxq.graph.types import is_float
from onnxq.graph.value import leaves
from onnxq.graph.view import Node, Tensor
from onnxq.rewrite.difference import Claim
from onnxq.rule.api import Close, Except, Within

_BY_INPUT = ("nan-input", "infinite-input", "extreme-input")


def claim_of(answer: Any) -> tuple[Claim, Any]:
    """What an answer claims of its results, and the results."""
    claim = Claim()
    while isinstance(answer, Close | Except | Within):
        if isinstance(answer, Close):
            claim = replace(claim, close=True)
        elif isinstance(answer, Except):
            claim = replace(claim, but=(*claim.but, answer.but), why=answer.why)
        else:
            claim = replace(claim, steps=answer.steps, why=answer.why)
        answer = answer.results
    return claim, answer


def narrowed(claim: Claim, root: Node, results: Replacement) -> Claim:
    """A claim without what it leaves out in vain: integers are never NaN, and floats have no steps.

    Args:
        claim: what a rule claims.
        root: the node whose outputs are replaced.
        results: what is to compute them.
    """
    dtypes = [root.outputs[index].dtype for index in results]
    if not claim.but and not claim.steps:
        return claim
    if all(dtype is not None and not is_float(dtype) for dtype in dtypes):
        claim = replace(claim, but=tuple(one for one in claim.but if one in _BY_INPUT))
    if all(is_float(dtype) for dtype in dtypes):
        claim = replace(claim, steps=0)
    if {*claim.but} & {*_BY_INPUT} and not any(map(_may_be_nan, _read(root, results))):
        but = tuple(one for one in claim.but if one not in _BY_INPUT)
        claim = replace(claim, but=but, fed_nan=False)
    return claim


def _read(root: Node, results: Replacement) -> Iterator[Tensor]:
    yield from (tensor for tensor in root.inputs if tensor is not None)
    yield from (Tensor(root.model, tensor) for tensor in leaves(tuple(results.values())))


def _may_be_nan(tensor: Tensor) -> bool:
    """Whether a tensor may hold a NaN: not where it is made of integers, and only moved since."""
    while tensor.dtype is None or is_float(tensor.dtype):
        if tensor.is_constant:
            values = tensor.constant
            return values is None or bool(np.isnan(values).any())
        maker = tensor.producer
        if maker is None or maker.domain or maker.op not in ("Cast", *MOVES) or maker.inputs[0] is None:
            return True
        tensor = maker.inputs[0]
    return False
