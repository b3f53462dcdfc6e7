"""Errors as few numbers whose inner products are, in the mean, those of the errors.

A long vector is added up in a prime number of sums, each element with a sign that is drawn for it. Products
of different elements cancel out in the mean, so that inner products are unbiased, with a standard deviation
of about sqrt(2 / numbers) of the product of both lengths; each sample draws anew, so that over samples it
falls further. A prime, because what is periodic in an output (channels, rows) falls into all sums then.
"""

from __future__ import annotations

import numpy as np


class Projection:
    """The projection of one output in one sample."""

    def __init__(self, size: int, most: int, *draw: int) -> None:
        """For errors of a size.

        Args:
            size: how many values they have.
            most: how many numbers are kept; errors that have no more are kept as they are.
            draw: what the signs are drawn from: the seed, the sample, the output.
        """
        self.exact = size <= most
        self.length = size if self.exact else _prime(most)
        self._size = size
        if not self.exact:
            bits = np.random.default_rng(draw).integers(0, 256, -(-size // 8), np.uint8)
            self._signs = 1.0 - 2.0 * np.unpackbits(bits)[:size]

    def __call__(self, error: np.ndarray) -> np.ndarray:
        """The numbers of an error, float64 [size] to float64 [length]."""
        if self.exact:
            return error
        rows = -(-self._size // self.length)
        padded = np.zeros(rows * self.length)
        np.multiply(error, self._signs, out=padded[: self._size])
        numbers: np.ndarray = padded.reshape(rows, self.length).sum(0)
        return numbers


def _prime(most: int) -> int:
    """The greatest prime that is no more than a number, 2 at least."""
    number = max(2, most)
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
