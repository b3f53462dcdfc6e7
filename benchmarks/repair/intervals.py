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
    return _decibels(np.nanmean(_ratios(row, drawn), axis=1))


def worst(row: Row, drawn: np.ndarray) -> np.ndarray:
    """The SQNR about the mean of the worst part of the outputs, dB."""
    return _decibels(np.nanmax(_ratios(row, drawn), axis=1))


def logits(row: Row, drawn: np.ndarray) -> np.ndarray:
    """The SQNR of the logits, their mean counted as signal, dB."""
    noise, power, _ = (drawn @ _by_group(row, row["logits"])).T
    return _decibels(noise / power)


def logits_about_mean(row: Row, drawn: np.ndarray) -> np.ndarray:
    """The SQNR of the logits about their mean over samples, dB."""
    noise, _, varies = (drawn @ _by_group(row, row["logits"])).T
    return _decibels(noise / varies)


def agreement(row: Row, drawn: np.ndarray) -> np.ndarray:
    """How often the answer is the float model's, percent: its class, or each anchor over the threshold."""
    if "anchors" not in row:
        return _percent(row, drawn, row["agree"])
    there, kept, _ = (drawn @ _by_group(row, row["anchors"])).T
    return np.asarray(100 * np.divide(kept, there, out=np.full_like(kept, np.nan), where=there > 0))


def top1_change(row: Row, drawn: np.ndarray) -> np.ndarray:
    """How much more often than the float model's the answer is right, points."""
    return _percent(row, drawn, np.subtract(row["right"], row["float_right"]))


def top1_share(row: Row, drawn: np.ndarray) -> np.ndarray:
    """How often the answer is right, percent of how often the float model's is."""
    right, exact = (drawn @ _by_group(row, np.stack([row["right"], row["float_right"]], axis=1))).T
    return np.asarray(100 * right / exact)


def _ratios(row: Row, drawn: np.ndarray) -> np.ndarray:
    """Noise over signal of each draw and part; NaN where no signal is drawn."""
    noise, signal = (drawn @ _by_group(row, row[key]) for key in ("noise", "signal"))
    return np.divide(noise, signal, out=np.full_like(noise, np.nan), where=signal > 0)


def _decibels(ratios: np.ndarray) -> np.ndarray:
    return np.array([limited_db(float(ratio)) for ratio in ratios])


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
    low, high = np.nanquantile(values[1:], (0.025, 0.975))
    return Value(float(values[0]), float(low), float(high))
