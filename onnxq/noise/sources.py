"""The sources of noise of a plan, and what of them a set of layers in float removes.

A source is the smallest thing that a file can remove: the edges that read the tensors of one scale group, or
one quantized weight, and that go together whatever is left in float. A pair in front of a shared MaxPool or
Concat is read by all that needs what comes behind it, and stays while one of them does; a tensor that three
layers read is a source for each of them. What is coarser would not know what a decision removes, what is
finer would cost runs and tell nothing that a file can make use of.

What is rounded in front of a MaxPool is not rounded once more behind it, by the same scale: there, sources
of one group do not add up. So each is measured as what it adds to those of its group that are there whenever
it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnxq.quant.plan import Edge, QuantPlan
from onnxq.quant.wants import Want, Wants


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """Edges that read what is quantized, and that no set of layers in float parts.

    Attributes:
        name: that of the first of its tensors; not unique.
        kind: `activation` or `weight`; `block` for all of consecutive layers.
        group: the scale group, -1 for a pair of the model's own, and for a block.
        tensors: what is quantized.
        edges: who reads it.
        wants: what keeps it: sets of nodes; it is there while one is wholly in int8.
    """

    name: str
    kind: str
    group: int
    tensors: tuple[str, ...]
    edges: frozenset[Edge]
    wants: tuple[Want, ...]


@dataclass(frozen=True)
class Sources:
    """The sources of a plan, in the order of the model.

    Attributes:
        entries: they.
        parts: the sources that a block is of, by its place; none for what is no block.
    """

    entries: tuple[NoiseSource, ...]
    parts: Mapping[int, tuple[NoiseSource, ...]]

    @staticmethod
    def of(plan: QuantPlan) -> Sources:
        """Those of a plan, each as small as a file can tell apart."""
        return Sources(_entries(plan), {})

    def blocks(self, most: int) -> Sources:
        """In at most so many blocks of consecutive layers, each of about as many sources."""
        return _of_blocks(_cut(list(itertools.chain(*self._held)), most))

    def opened(self, loud: np.ndarray, most: int, size: int) -> Sources:
        """With the loudest in smaller blocks, and what is quiet between them in greater ones.

        Args:
            loud: what each makes of the noise, float64 [sources].
            most: how many there are then, at most.
            size: how many sources are in a block of what was opened, about; 1: each stands for itself.
        """
        held = self._held
        wide = -(-4 * sum(map(len, held)) // most)
        chosen: set[int] = set()
        best = _opened(held, chosen, size, wide)
        for place in sorted(range(len(held)), key=lambda place: -loud[place] / len(held[place])):
            tried = _opened(held, chosen | {place}, size, wide)
            if len(tried) <= most:
                best = tried
                chosen.add(place)
        return _of_blocks(best)

    @property
    def _held(self) -> list[Sequence[NoiseSource]]:
        """What is in each: itself, where it is no block."""
        return [self.parts.get(place, (entry,)) for place, entry in enumerate(self.entries)]

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def _wants(self) -> tuple[list[Want], np.ndarray, list[np.ndarray]]:
        """All wants, the place of the first of each source's, and all of theirs in one list."""
        number: dict[Want, int] = {}
        found = [
            np.array([number.setdefault(want, len(number)) for want in source.wants], int)
            for source in self.entries
        ]
        starts = np.cumsum([0, *map(len, found)])[:-1]
        return list(number), starts, found

    def on(self, floats: Collection[str]) -> np.ndarray:
        """Which are there with some nodes in float, bool [sources]."""
        found: np.ndarray = self.on_each([floats])[0]
        return found

    def on_each(self, sets: Sequence[Collection[str]]) -> np.ndarray:
        """Likewise for many sets, bool [sets, sources]."""
        wants, starts, of = self._wants
        if not wants:
            return np.zeros((len(sets), 0), bool)
        whole = np.array([[want.isdisjoint(floats) for want in wants] for floats in sets], bool)
        found: np.ndarray = np.logical_or.reduceat(whole[:, np.concatenate(of)], starts, axis=1)
        return found

    @cached_property
    def under(self) -> tuple[frozenset[int], ...]:
        """For each source the places of those of its group that are there whenever it is."""
        of_group: dict[tuple[int, str], list[int]] = {}
        for place, source in enumerate(self.entries):
            if source.kind == "activation":
                of_group.setdefault((source.group, "" if source.group >= 0 else source.name), []).append(
                    place
                )
        found: list[frozenset[int]] = [frozenset()] * len(self.entries)
        for places in of_group.values():
            for place in places:
                found[place] = frozenset(
                    other for other in places if other != place and self._implies(place, other)
                )
        return tuple(found)

    def _implies(self, place: int, other: int) -> bool:
        """Whether a source is there whenever another one is; of two that are there together, the later."""
        ours, theirs = self.entries[place].wants, self.entries[other].wants
        if not all(any(want >= less for less in theirs) for want in ours):
            return False
        back = all(any(want >= less for less in ours) for want in theirs)
        return not back or other < place

    def closed(self, on: np.ndarray) -> np.ndarray:
        """Sets of sources, bool [sets, sources], with those that are there whenever one of them is."""
        found: np.ndarray = on.copy()
        for place, under in enumerate(self.under):
            for other in under:
                found[:, other] |= on[:, place]
        return found

    def settings(self) -> tuple[list[frozenset[Edge]], np.ndarray]:
        """The edges that are to be on, in sets, and what of the sets' errors makes up each source's.

        Returns:
            The sets, and float64 [sources, sets]: 1, and -1 for what is under it.
        """
        rows: dict[frozenset[Edge], int] = {}
        parts: list[tuple[int, int | None]] = []
        for source, under in zip(self.entries, self.under, strict=True):
            base = frozenset(edge for place in under for edge in self.entries[place].edges)
            whole = rows.setdefault(base | source.edges, len(rows))
            parts.append((whole, rows.setdefault(base, len(rows)) if base else None))
        found = np.zeros((len(parts), len(rows)))
        for place, (whole, less) in enumerate(parts):
            found[place, whole] += 1
            if less is not None:
                found[place, less] -= 1
        return list(rows), found

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes that keep any of them."""
        return tuple(dict.fromkeys(n for s in self.entries for want in s.wants for n in sorted(want)))


def _entries(plan: QuantPlan) -> tuple[NoiseSource, ...]:
    order = {layer.node: place for place, layer in enumerate(plan.layers)}
    found: dict[tuple[object, tuple[Want, ...]], list[tuple[str, str, int, Edge]]] = {}
    wants = Wants(plan).of_edge
    for site in plan.sites:
        for edge in site.readers:
            key = site.group, wants[edge]
            found.setdefault(key, []).append((site.tensor, site.kind, site.group, edge))
    for pair in plan.own:
        for edge in pair.readers:
            found.setdefault((pair.tensor, wants[edge]), []).append((pair.tensor, "activation", -1, edge))
    entries = []
    for (_, kept), rows in found.items():
        tensors = tuple(dict.fromkeys(tensor for tensor, _, _, _ in rows))
        edges = frozenset(edge for _, _, _, edge in rows)
        entries.append(NoiseSource(tensors[0], rows[0][1], rows[0][2], tensors, edges, kept))

    def place(source: NoiseSource) -> int:
        known = [order[node] for want in source.wants for node in want if node in order]
        return min(known, default=len(order))

    return tuple(sorted(entries, key=place))


def _opened(
    held: Sequence[Sequence[NoiseSource]], chosen: Collection[int], size: int, wide: int
) -> list[Sequence[NoiseSource]]:
    """Some of the blocks in blocks of one size, what is between them in blocks of another one."""
    found: list[Sequence[NoiseSource]] = []
    for is_open, places in itertools.groupby(range(len(held)), chosen.__contains__):
        run = [source for place in places for source in held[place]]
        if is_open and size == 1:
            found += [[source] for source in run]
        else:
            found += _cut(run, -(-len(run) // (size if is_open else wide)))
    return found


def _cut(entries: Sequence[NoiseSource], count: int) -> list[Sequence[NoiseSource]]:
    """In at most so many blocks of about one size; what goes together with one layer stays together."""
    ends = np.linspace(0, len(entries), count + 1).astype(int).tolist()
    for place in range(1, len(ends) - 1):
        while ends[place] > 0 and entries[ends[place]].wants == entries[ends[place] - 1].wants:
            ends[place] -= 1
    return [entries[a:b] for a, b in itertools.pairwise(ends) if a < b]


def _of_blocks(blocks: Sequence[Sequence[NoiseSource]]) -> Sources:
    entries: list[NoiseSource] = []
    parts: dict[int, tuple[NoiseSource, ...]] = {}
    for block in blocks:
        if len(block) == 1:
            entries.extend(block)
            continue
        parts[len(entries)] = tuple(block)
        tensors = tuple(dict.fromkeys(tensor for source in block for tensor in source.tensors))
        edges = frozenset(edge for source in block for edge in source.edges)
        wants = tuple(dict.fromkeys(want for source in block for want in source.wants))
        entries.append(NoiseSource(tensors[0], "block", -1, tensors, edges, wants))
    return Sources(tuple(entries), parts)
