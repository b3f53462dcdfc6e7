"""What `measure.py` found out on the device: times of candidates and layers, and what may be faster still."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnxq.base.grouped import Joined
from onnxq.base.plain import DocumentPart
from onnxq.compiled.exported import read_exported
from onnxq.compiled.reading import LAYERS, PAIRS, operators_of
from onnxq.documents.measurements import Measurements
from onnxq.emit import measure
from onnxq.formats import INT8
from onnxq.graph.model import Model

BASELINE, WHOLE = "float16", INT8.name
"""The candidates that the others are told apart from."""
TRIED = 2
"""How many candidates are made at once of what was measured."""
_SURE = 0.005
"""So much slower than the fastest, as a share, a combination may seem to be, and is measured."""
_LONGER = 1.02
"""So many times what layers take in float16 is longer."""


@dataclass(frozen=True, slots=True)
class LayerTimes(DocumentPart):
    """Layers that run together in one engine or the other, and what they take on the device.

    Attributes:
        nodes: their nodes; none of what only converts values.
        op: the operator of the first, which multiplies where one does; "" likewise.
        ms: by candidate.
    """

    nodes: tuple[str, ...]
    op: str
    ms: Mapping[str, float]

    @property
    def lost(self) -> float:
        """How much longer the last candidate takes than the first, ms."""
        (first, *_, last) = self.ms.values()
        return last - first


def times_of(found: Measurements) -> dict[str, list[float]]:
    """The times of the rounds that all right candidates ran in, ms, by candidate."""
    return measure.common(
        {name: dict(one.ms) for name, one in found.candidates.items() if one.status == "right"}
    )


def layer_times(folder: Path, models: Mapping[str, Path]) -> list[LayerTimes]:
    """What layers take in two engines, those that lose most in the second first.

    Args:
        folder: the bundle, measured.
        models: the files of two candidates, by name.

    Returns:
        No entries where an engine told no times of its layers.

    Raises:
        UserError: a file of the engines cannot be read.
    """
    joined, took = Joined[str](), dict[str, list[tuple[str, float]]]()
    ops: dict[str, str] = {}
    for name, path in models.items():
        layers, times = (folder / f"{name}.{ending}" for ending in ("layers.json", "times.json"))
        if not (layers.is_file() and times.is_file()):
            return []
        known = operators_of(Model.open(path))
        ops |= known
        for kernel in read_exported(layers, times, known):
            nodes = [node for node in kernel.nodes if known.get(node, PAIRS[0]) not in PAIRS] or [""]
            for node in nodes:
                joined.join(nodes[0], node)
            took.setdefault(nodes[0], []).append((name, 1e3 * (kernel.seconds or 0)))
    found = []
    for nodes in joined.members().values():
        ms = dict.fromkeys(models, 0.0)
        for name, one in (entry for node in nodes for entry in took.get(node, ())):
            ms[name] += one
        heads = sorted(nodes, key=lambda node: ops.get(node) not in LAYERS)
        found.append(LayerTimes(tuple(heads) if nodes != [""] else (), ops.get(heads[0], ""), ms))
    return sorted(found, key=lambda one: -one.lost)


def longer_in_int8(times: Sequence[LayerTimes]) -> frozenset[str]:
    """The nodes of layers that take longer in int8 than in float16, of `BASELINE` and `WHOLE`."""
    return frozenset(
        node for one in times if one.ms[WHOLE] > _LONGER * one.ms[BASELINE] for node in one.nodes
    )


def proposed(
    times: Mapping[str, Sequence[float]], made: Mapping[str, frozenset[str]], most: int
) -> list[tuple[str, ...]]:
    """The parts to be left in float together that are likely faster than what was measured, the best first.

    The logarithm of a time is taken to be a sum over the parts that are in float: least squares over what was
    measured. What is not so is seen when the result is measured.

    Args:
        times: by candidate, ms, of the same rounds.
        made: the parts of each candidate that is made of int8's plan; it has none itself.
        most: how many at most, of `TRIED`.
    """
    names = [name for name in made if times.get(name)]
    parts = sorted({part for name in names for part in made[name]})
    if WHOLE not in names or len(parts) < 2:
        return []
    level = {name: float(np.log(times[name]).mean() - np.log(times[WHOLE]).mean()) for name in names}
    others = [name for name in names if made[name]]
    design = np.array([[part in made[name] for part in parts] for name in others], np.float64)
    effects = np.linalg.lstsq(design, np.array([level[name] for name in others]), rcond=None)[0]
    effect = dict(zip(parts, effects, strict=True))
    known, best = set(made.values()), min(level.values())
    found = [
        (float(sum(effect[part] for part in some)), some)
        for some in _combinations(parts)
        if frozenset(some) not in known
    ]
    likely = sorted(one for one in found if one[0] < best + _SURE)
    return [some for _, some in likely[: max(0, min(most, TRIED))]]


def _combinations(parts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(2, min(len(parts), 8) + 1):
        yield from itertools.combinations(parts, size)
