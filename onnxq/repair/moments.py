"""Second moments of what a layer multiplies, and of what its products are to be, or miss of that."""

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
        aimed: of what the products are to be, or miss of it, float64 [outputs].
        crossed: of these and codes, float64 [outputs, terms].
    """

    count: int
    sums: np.ndarray
    products: np.ndarray
    aimed: np.ndarray
    crossed: np.ndarray

    @staticmethod
    def of(rows: np.ndarray, threads: Threads, aims: np.ndarray | None = None) -> RowMoments:
        """Those of some rows.

        Args:
            rows: codes [rows, terms].
            threads: each adds up some of the rows.
            aims: what the products are to be there, float32 [rows, outputs], about their means: sums in
                float32 lose what is small beside these; None: nobody asks.
        """
        aims = np.empty((len(rows), 0), np.float32) if aims is None else aims
        terms, outputs = rows.shape[1], aims.shape[1]
        sums, products = np.zeros(terms), np.zeros((terms, terms))
        aimed, crossed = np.zeros(outputs), np.zeros((outputs, terms))

        def block(start: int) -> tuple[np.ndarray, ...]:
            part = np.asarray(rows[start : start + EXACT_ROWS], np.float32)
            aim = aims[start : start + EXACT_ROWS]
            return (
                part.sum(axis=0, dtype=np.float64),
                part.T @ part,
                aim.sum(axis=0, dtype=np.float64),
                aim.T @ part,
            )

        for found in threads.map(block, range(0, len(rows), EXACT_ROWS)):
            for total, some in zip((sums, products, aimed, crossed), found, strict=True):
                total += some
        return RowMoments(len(rows), sums, products, aimed, crossed)

    def __add__(self, other: RowMoments) -> RowMoments:
        """Those of the rows of both."""
        return RowMoments(
            self.count + other.count,
            self.sums + other.sums,
            self.products + other.products,
            self.aimed + other.aimed,
            self.crossed + other.crossed,
        )

    def less(self, weights: np.ndarray) -> RowMoments:
        """Those of what products with weights, float64 [outputs, terms], miss of what they are to be."""
        aimed, crossed = self.aimed - weights @ self.sums, self.crossed - weights @ self.products
        return RowMoments(self.count, self.sums, self.products, aimed, crossed)

    def second(self, *, centred: bool) -> np.ndarray:
        """The mean product of two codes, float64 [terms, terms]; `centred`: about their means."""
        mean = self.products / self.count
        if centred:
            mean -= np.outer(self.sums / self.count, self.sums / self.count)
        return mean

    def cross(self, *, centred: bool) -> np.ndarray:
        """The mean product of an aim and a code, float64 [outputs, terms]; `centred`: about their means."""
        mean = self.crossed / self.count
        if centred:
            mean -= np.outer(self.aimed / self.count, self.sums / self.count)
        return mean
