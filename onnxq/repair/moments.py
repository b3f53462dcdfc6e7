"""Second moments of what a layer multiplies, and of what its products miss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxq.repair.threads import Threads

EXACT_ROWS = 1040
"""So many products of int8 codes add up to less than 2^24: float32 is exact, in any order."""


@dataclass(frozen=True, slots=True)
class RowMoments:
    """Sums over rows.

    Attributes:
        count: how many rows.
        sums: of codes, float64 [terms].
        products: of two codes, float64 [terms, terms]; of integers exact in any order.
        missed: of what the outputs miss, float64 [outputs].
        crossed: of these and codes, float64 [outputs, terms].
    """

    count: int
    sums: np.ndarray
    products: np.ndarray
    missed: np.ndarray
    crossed: np.ndarray

    @staticmethod
    def of(rows: np.ndarray, threads: Threads, missing: np.ndarray | None = None) -> RowMoments:
        """Those of some rows.

        Args:
            rows: codes [rows, terms].
            threads: each adds up some of the rows.
            missing: what the outputs miss there, float32 [rows, outputs]; None: there are none.
        """
        missing = np.empty((len(rows), 0), np.float32) if missing is None else missing
        terms, outputs = rows.shape[1], missing.shape[1]
        sums, products = np.zeros(terms), np.zeros((terms, terms))
        missed, crossed = np.zeros(outputs), np.zeros((outputs, terms))

        def block(start: int) -> tuple[np.ndarray, ...]:
            part = np.asarray(rows[start : start + EXACT_ROWS], np.float32)
            off = missing[start : start + EXACT_ROWS]
            return (
                part.sum(axis=0, dtype=np.float64),
                part.T @ part,
                off.sum(axis=0, dtype=np.float64),
                off.T @ part,
            )

        for found in threads.map(block, range(0, len(rows), EXACT_ROWS)):
            for total, some in zip((sums, products, missed, crossed), found, strict=True):
                total += some
        return RowMoments(len(rows), sums, products, missed, crossed)

    def __add__(self, other: RowMoments) -> RowMoments:
        """Those of the rows of both."""
        return RowMoments(
            self.count + other.count,
            self.sums + other.sums,
            self.products + other.products,
            self.missed + other.missed,
            self.crossed + other.crossed,
        )

    def second(self, *, centred: bool) -> np.ndarray:
        """The mean product of two codes, float64 [terms, terms]; `centred`: about their means."""
        mean = self.products / self.count
        if centred:
            mean -= np.outer(self.sums / self.count, self.sums / self.count)
        return mean

    def cross(self) -> np.ndarray:
        """The mean product of what outputs miss and a code, about their means, float64 [outputs, terms]."""
        mean: np.ndarray = self.crossed / self.count
        mean -= np.outer(self.missed / self.count, self.sums / self.count)
        return mean
