"""Rounding of weights so that the errors of a sum's terms make up for each other (GPTQ, arXiv 2210.17323).

The error of a layer's outputs is tr(E H Eᵀ), with E what rounding does to the weights and H the second moment
of the layer's inputs. Weights are rounded one after another, each shifted by what those before it leave: with
H = U Uᵀ, U upper triangular, the error is the square of E U, whose k-th column is known from the first k
columns of E. So w_k is rounded where that column is least: this is GPTQ, without an inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxq.formats import INT8, NumberFormat
from onnxq.repair.moments import RowMoments

DAMPING = 0.01
"""Of the mean of H's diagonal, added to it."""

_UNSURE = 0.5
"""With n rows and K terms, H's other entries are what they are times n / (n + so much of K)."""

BLOCK = 32
"""Weights between which errors are handed on one by one; to the others, by a product of matrices."""

_OUTPUTS = 512  # channels that are rounded together


def second_moment(moments: RowMoments, *, centred: bool) -> np.ndarray:
    """H of some rows, its diagonal the nearer the fewer they are.

    Of few rows, codes that make up for each other there do not elsewhere: as it is, H of fewer rows than
    terms costs up to 2 dB where all inputs vary, and with less of what is beside its diagonal it gains.

    Args:
        moments: of the codes.
        centred: whether it is about the mean, which a bias makes up for.

    Returns:
        float64 [terms, terms].
    """
    products = moments.second(centred=centred)
    sure = moments.count / (moments.count + _UNSURE * len(products))
    diagonal = np.diagonal(products).copy()
    products *= sure
    np.fill_diagonal(products, diagonal)
    return products


def rounded(
    weights: np.ndarray,
    second: np.ndarray,
    map_: Callable[[Callable[[int], np.ndarray], Sequence[int]], object] = map,
    *,
    block: int = BLOCK,
    format: NumberFormat = INT8,
) -> np.ndarray:
    """Codes that add least to the outputs, as far as rounding one after another finds them.

    Args:
        weights: in steps of their scales, float64 [outputs, terms].
        second: of the inputs, float64 [terms, terms].
        map_: like `map`, perhaps side by side.
        block: how many are rounded before the others hear of it.
        format: of the codes.

    Returns:
        Codes [outputs, terms].
    """
    diagonal = np.diagonal(second)
    damping = DAMPING * float(diagonal.mean())
    if not damping > 0:
        return format.nearest(weights).astype(format.dtype)
    order = np.argsort(-diagonal, kind="stable")
    turned = order[::-1]
    damped = second[np.ix_(turned, turned)]
    damped[np.diag_indices_from(damped)] += damping
    upper = np.linalg.cholesky(damped)[::-1, ::-1]
    ratio = upper / np.diagonal(upper)  # what each one hears of those before it
    sorted_ = weights[:, order]

    def some(start: int) -> np.ndarray:
        return _one_by_one(sorted_[start : start + _OUTPUTS], ratio, block, format)

    blocks = list(map_(some, range(0, len(weights), _OUTPUTS)))  # type: ignore[call-overload]
    codes = np.empty(weights.shape, format.dtype)
    codes[:, order] = np.concatenate(blocks)
    return codes


def _one_by_one(weights: np.ndarray, ratio: np.ndarray, block: int, format: NumberFormat) -> np.ndarray:
    count = weights.shape[1]
    # [terms, outputs]: what is done term by term is of consecutive values
    exact = np.ascontiguousarray(weights.T)
    error, codes = np.zeros_like(exact), np.empty(exact.shape, format.dtype)
    for start in range(0, count, block):
        end = min(count, start + block)
        heard = ratio[:start, start:end].T @ error[:start]
        for k in range(start, end):
            aim = exact[k] + heard[k - start]
            code = format.nearest(aim)
            codes[k] = code
            error[k] = exact[k] - code
            if k + 1 < end:
                heard[k + 1 - start :] += ratio[k, k + 1 : end, None] * error[k]
    return np.asarray(codes.T)
