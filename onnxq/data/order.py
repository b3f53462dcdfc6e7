"""The order of samples by their contents: in whichever order the data have them, it is the same."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnxq.data.rows import Table, hashed
from onnxq.data.samples import Sample, digest


@dataclass(frozen=True, slots=True)
class Order:
    """Samples by the hash of what they hold.

    Attributes:
        keys: the hash of each, by index; of samples of which nothing can be read a number, before all others.
    """

    keys: Sequence[bytes]

    @staticmethod
    def of(table: Table) -> Order:
        """That of the rows of a table: where the first values of rows are alike, all are read."""
        starts = list(table.starts())
        alike: dict[bytes, list[int]] = defaultdict(list)
        for row, start in enumerate(starts):
            alike[start].append(row)
        several = [row for start, rows in alike.items() if start and len(rows) > 1 for row in rows]
        keys = [b"\1" + start if start else row.to_bytes(9, "big") for row, start in enumerate(starts)]
        for row, read in zip(several, table.rows(several), strict=True):
            keys[row] = b"\1" + hashed([starts[row], digest(Sample(row, read.where, read.feeds))])
        return Order(keys)

    def of_batches(self, rows: Sequence[int], size: int) -> Order:
        """That of batches of so many of these rows in turn."""
        keys = [self.keys[row] for row in rows]
        return Order([b"\1" + hashed(keys[at : at + size]) for at in range(0, len(keys), size)])

    def sorted(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Some of the samples in this order."""
        return tuple(sorted(indices, key=self.keys.__getitem__))

    def shuffled(self, seed: int) -> list[int]:
        """All samples in an order that a seed decides, and with it the contents of a sample its place.

        One that is added leaves the others in their order, and those of the same content follow each other.
        """
        salt = seed.to_bytes(16, "big")
        keys = [key[:1] + hashlib.blake2b(key, salt=salt).digest() for key in self.keys]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def between(self, indices: Sequence[int], at: int) -> int:
        """The place nearest to `at` that does not part samples of one content; `at` where there is none."""
        if at <= 0:
            return 0
        keys = [self.keys[index] for index in indices]
        places = [n for n in range(1, len(keys)) if keys[n - 1] != keys[n]]
        return min(places, key=lambda n: (abs(n - at), n), default=at)
