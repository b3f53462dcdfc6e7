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

from onnxq.base.grouped import grouped
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


class Union:
    """Which of several groups of places a set has one of."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._places = np.array([place for group in groups for place in (group or [-1])], int)
        self._starts = np.cumsum([0, *(max(1, len(group)) for group in groups)])[:-1]

    def __call__(self, sets: np.ndarray) -> np.ndarray:
        """Of bool [sets, places]: bool [sets, groups]; none of a group without places."""
        if not len(self._starts):
            return np.zeros((len(sets), 0), bool)
        wide = np.concatenate([sets, np.zeros((len(sets), 1), bool)], axis=1)  # the last is in no set
        has: np.ndarray = np.logical_or.reduceat(wide[:, self._places], self._starts, axis=1)
        return has


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

    def opened(self, loud: np.ndarray, most: int, size: int, least: float = 0.0) -> Sources:
        """With the loudest in smaller blocks, and what is quiet between them in greater ones.

        Args:
            loud: what each makes of the noise, float64 [sources].
            most: how many there are then, at most.
            size: how many sources are in a block of what was opened, about; 1: each stands for itself.
            least: what makes less stays closed, and the quiet ones whole; 0: there is room for what there is.
        """
        held = self._held
        wide = sum(map(len, held)) if least else -(-4 * sum(map(len, held)) // most)
        chosen: set[int] = set()
        best = _opened(held, chosen, size, wide)
        for place in sorted(range(len(held)), key=lambda place: -loud[place] / len(held[place])):
            tried = _opened(held, chosen | {place}, size, wide)
            if len(tried) <= most and (not least or loud[place] >= least):
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
    def wants(self) -> tuple[list[Want], Union]:
        """All wants, and for sets of those that hold, which sources are there."""
        number: dict[Want, int] = {}
        kept = [[number.setdefault(want, len(number)) for want in source.wants] for source in self.entries]
        return list(number), Union(kept)

    def on(self, floats: Collection[str]) -> np.ndarray:
        """Which are there with some nodes in float, bool [sources]."""
        on: np.ndarray = self.on_each([floats])[0]
        return on

    def on_each(self, sets: Sequence[Collection[str]]) -> np.ndarray:
        """Likewise for many sets, bool [sets, sources]."""
        wants, kept = self.wants
        whole = np.array([[want.isdisjoint(floats) for want in wants] for floats in sets], bool)
        return kept(whole.reshape(len(sets), len(wants)))

    @cached_property
    def under(self) -> tuple[frozenset[int], ...]:
        """For each source the places of those of its group that are there whenever it is."""
        of_group = grouped(
            ((source.group, "" if source.group >= 0 else source.name), place)
            for place, source in enumerate(self.entries)
            if source.kind == "activation"
        )
        under: list[frozenset[int]] = [frozenset()] * len(self.entries)
        for places in of_group.values():
            for place in places:
                under[place] = frozenset(
                    other for other in places if other != place and self._implies(place, other)
                )
        return tuple(under)

    def _implies(self, place: int, other: int) -> bool:
        """Whether a source is there whenever another one is; of two that are there together, the later."""
        ours, theirs = self.entries[place].wants, self.entries[other].wants
        if not all(any(want >= less for less in theirs) for want in ours):
            return False
        back = all(any(want >= less for less in ours) for want in theirs)
        return not back or other < place

    def closed(self, on: np.ndarray) -> np.ndarray:
        """Sets of sources, bool [sets, sources], with those that are there whenever one of them is."""
        closed: np.ndarray = on.copy()
        for place, under in enumerate(self.under):
            for other in under:
                closed[:, other] |= on[:, place]
        return closed

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
        signs = np.zeros((len(parts), len(rows)))
        for place, (whole, less) in enumerate(parts):
            signs[place, whole] += 1
            if less is not None:
                signs[place, less] -= 1
        return list(rows), signs

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes that keep any of them."""
        return tuple(dict.fromkeys(n for s in self.entries for want in s.wants for n in sorted(want)))


def _entries(plan: QuantPlan) -> tuple[NoiseSource, ...]:
    order = {layer.node: place for place, layer in enumerate(plan.layers)}
    wants = Wants(plan).of_edge
    read: list[tuple[int | str, tuple[str, str, int, Edge]]] = [
        (site.group, (site.tensor, site.kind, site.group, edge))
        for site in plan.sites
        for edge in site.readers
    ]
    read += [
        (pair.tensor, (pair.tensor, "activation", -1, edge)) for pair in plan.own for edge in pair.readers
    ]
    entries = []
    for (_, kept), rows in grouped(((group, wants[row[-1]]), row) for group, row in read).items():
        tensors = tuple(dict.fromkeys(tensor for tensor, _, _, _ in rows))
        edges = frozenset(edge for _, _, _, edge in rows)
        entries.append(NoiseSource(tensors[0], rows[0][1], rows[0][2], tensors, edges, kept))

    def place(source: NoiseSource) -> int:
        places = (order[node] for want in source.wants for node in want if node in order)
        return min(places, default=len(order))

    return tuple(sorted(entries, key=place))


def _opened(
    held: Sequence[Sequence[NoiseSource]], chosen: Collection[int], size: int, wide: int
) -> list[Sequence[NoiseSource]]:
    """Some of the blocks in blocks of one size, what is between them in blocks of another one."""
    blocks: list[Sequence[NoiseSource]] = []
    for is_open, places in itertools.groupby(range(len(held)), chosen.__contains__):
        run = [source for place in places for source in held[place]]
        if is_open and size == 1:
            blocks += [[source] for source in run]
        else:
            blocks += _cut(run, -(-len(run) // (size if is_open else wide)))
    return blocks


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
