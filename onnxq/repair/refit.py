"""Weights with which products of quantized inputs give what the float layer gives.

GPTQ makes up for the rounding of weights, on inputs as if they were exact. They are not: they are codes, of a
model that is quantized in front of the layer. With x these inputs, Y what the float layer gives and
R = Y - W x, the change D of the weights is where |R - D x|^2 + penalty |D|^2 is least, ridge regression:
D = E[R xT] (E[x xT] + penalty I)^-1, as in ERQ (arXiv 2407.06794); GPTAQ (arXiv 2504.02692) aims at the
same, term by term. What a fit to one half of the samples gains on the other half chooses the penalty, or that
nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxq.repair.moments import RowMoments

PENALTIES = (3.0, 0.3, 0.03, 0.003)
"""Of the mean of the diagonal of E[x xT]; each is tried where the one before it gained most so far."""

_OUTPUTS = 128  # that choose the penalty, about: evenly spread over all


def refit(halves: Sequence[RowMoments], price: np.ndarray) -> np.ndarray:
    """What is to be added to weights; the means belong to the bias.

    Args:
        halves: of the rows of two halves of the samples.
        price: what the square of an error of an output counts, float64 [outputs].

    Returns:
        float64 [outputs, terms]; 0 where no change is shown to gain.
    """
    whole = halves[0] + halves[1]
    if not all(half.count and np.isfinite(half.crossed).all() for half in halves):
        return np.zeros(whole.crossed.shape)
    some = slice(None, None, max(1, len(price) // _OUTPUTS))
    second = [half.second(centred=True) for half in halves]
    cross = [half.cross(centred=True)[some] for half in halves]

    def gain(penalty: float) -> float:
        total = 0.0
        for fits, judges in ((0, 1), (1, 0)):
            change = _ridge(second[fits], cross[fits], penalty)
            error = ((change @ second[judges] - 2 * cross[judges]) * change).sum(axis=1)
            total -= halves[judges].count * float(price[some] @ error)
        return total

    best, most = 0.0, 0.0
    for penalty in PENALTIES:
        gained = gain(penalty)
        if not gained > most:  # a lesser one fits chance the more
            break
        best, most = penalty, gained
    if not best:
        return np.zeros(whole.crossed.shape)
    return _ridge(whole.second(centred=True), whole.cross(centred=True), best)


def _ridge(second: np.ndarray, cross: np.ndarray, penalty: float) -> np.ndarray:
    diagonal = np.diagonal(second)
    added = penalty * float(diagonal.mean())
    if not added > 0:
        return np.zeros(cross.shape)
    damped = second.copy()
    damped[np.diag_indices_from(damped)] += added
    return np.asarray(np.linalg.solve(damped, cross.T).T)
