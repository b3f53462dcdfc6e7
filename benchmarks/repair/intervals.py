"""Figures of rows, the mean over splits, with 95 % intervals: groups of samples that judge are drawn anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxq.judge.sqnr import limited_db

DRAWS = 1000

Row = dict[str, Any]
Figure = Callable[[Row, np.ndarray], np.ndarray]
"""Of a row and how often each group is drawn, float64 [draws, groups]: a value for each draw."""


class Value(NamedTuple):
    """A figure, and where 95 % of the draws lie."""

    value: float
    low: float
    high: float


def of(rows: Sequence[Row], figure: Figure) -> Value:
    """A figure of a tool."""
    return _value([_drawn(row, figure) for row in rows])


def difference(rows: Sequence[Row], others: Sequence[Row], figure: Figure) -> Value:
    """How much higher it is than another tool's, on the same draws; the rows are of the same splits."""
    return _value([_drawn(a, figure) - _drawn(b, figure) for a, b in zip(rows, others, strict=True)])


def sqnr(row: Row, drawn: np.ndarray) -> np.ndarray:
    """The SQNR about the mean, dB: by the mean of the outputs' noise-to-signal ratios."""
    noise, signal = (drawn @ _by_group(row, row[key]) for key in ("noise", "signal"))
    ratios = np.divide(noise, signal, out=np.full_like(noise, np.nan), where=signal > 0)
    return np.array([limited_db(float(ratio)) for ratio in np.nanmean(ratios, axis=1)])


def logits(row: Row, drawn: np.ndarray) -> np.ndarray:
    """The SQNR of the logits, their mean counted as signal, dB."""
    noise, power = (drawn @ _by_group(row, row["logits"])).T
    return np.array([limited_db(float(ratio)) for ratio in noise / power])


def agreement(row: Row, drawn: np.ndarray) -> np.ndarray:
    """How often the answer is the float model's, percent."""
    return _percent(row, drawn, row["agree"])


def top1_change(row: Row, drawn: np.ndarray) -> np.ndarray:
    """How much more often than the float model's the answer is right, points."""
    return _percent(row, drawn, np.subtract(row["right"], row["float_right"]))


def _percent(row: Row, drawn: np.ndarray, values: Any) -> np.ndarray:
    each = _by_group(row, np.stack([values, np.ones(len(values))], axis=1))
    totals = drawn @ each
    return np.asarray(100 * totals[:, 0] / totals[:, 1])


def _by_group(row: Row, values: Any) -> np.ndarray:
    """The sums over the samples of each group, float64 [groups, ...]."""
    _, place = np.unique(row["groups"], return_inverse=True)
    given = np.asarray(values, np.float64)
    found = np.zeros((place.max() + 1, given.shape[1]))
    np.add.at(found, place, given)
    return found


def _drawn(row: Row, figure: Figure) -> np.ndarray:
    """The figure of all samples, then of each draw."""
    groups = len(np.unique(row["groups"]))
    random = np.random.default_rng(0)
    draws = random.multinomial(groups, np.full(groups, 1 / groups), DRAWS).astype(np.float64)
    return figure(row, np.concatenate([np.ones((1, groups)), draws]))


def _value(splits: Sequence[np.ndarray]) -> Value:
    values = np.mean(splits, axis=0)
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Value(float(values[0]), float(low), float(high))
