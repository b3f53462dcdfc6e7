"""The engine's kernels: what each moves, and which memory their activations take along the schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.reports import OpenedReport, names, text
from onnxq.compiled.kernels import BITS


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel.

    Attributes:
        name: as the compiler calls it.
        kind: what makes it.
        precision: what it computes in.
        nodes: the ONNX nodes that it lists.
        moved: bytes of activations that it reads and writes; a size that is not known counts as 1.
        weights: bytes of constants that it reads.
    """

    name: str
    kind: str
    precision: str
    nodes: tuple[str, ...]
    moved: float
    weights: float


@dataclass(frozen=True, slots=True)
class KindOfKernel:
    """All kernels of one kind and precision.

    Attributes:
        kind: the kind.
        precision: what they compute in.
        count: how many there are.
        moved: bytes of activations that they read and write.
        weights: bytes of constants.
    """

    kind: str
    precision: str
    count: int
    moved: float
    weights: float


def kernels_of(report: OpenedReport) -> tuple[KernelRow, ...]:
    """The kernels of a report's engine, in the order in which they run."""
    return tuple(
        KernelRow(
            name=text(one.get("name")),
            kind=text(one.get("kind")),
            precision=text(one.get("precision")),
            nodes=names(one.get("nodes")),
            moved=sum(size for _, size in (*_touched(one, "inputs"), *_touched(one, "outputs"))),
            weights=sum(size for _, size in _touched(one, "constants")),
        )
        for one in report.entries("engine", "layers")
    )


def kinds_of(kernels: Sequence[KernelRow]) -> tuple[KindOfKernel, ...]:
    """Kernels by kind and precision, what moves most first."""
    by: dict[tuple[str, str], list[KernelRow]] = {}
    for kernel in kernels:
        by.setdefault((kernel.kind, kernel.precision), []).append(kernel)
    found = [
        KindOfKernel(*key, len(own), sum(k.moved for k in own), sum(k.weights for k in own))
        for key, own in by.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.moved))


def memory_along(report: OpenedReport) -> tuple[float, ...]:
    """Bytes of the activations that live while each kernel runs: made by then, and still to be read."""
    layers = report.entries("engine", "layers")
    sizes: dict[str, float] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, layer in enumerate(layers):
        for name, size in (*_touched(layer, "inputs"), *_touched(layer, "outputs")):
            sizes[name] = max(size, sizes.get(name, 0.0))
            first.setdefault(name, place)
            last[name] = place
    change = [0.0] * (len(layers) + 1)
    for name, size in sizes.items():
        change[first[name]] += size
        change[last[name] + 1] -= size
    alive, along = 0.0, []
    for step in change[:-1]:
        alive += step
        along.append(alive)
    return tuple(along)


def _touched(layer: Mapping[str, Any], key: str) -> Iterator[tuple[str, float]]:
    """The name and the bytes of each tensor."""
    listed = layer.get(key)
    for tensor in listed if isinstance(listed, list) else ():
        if isinstance(tensor, Mapping):
            shape = tensor.get("shape")
            sizes = [max(d, 1) for d in shape if isinstance(d, int)] if isinstance(shape, list) else []
            bits = BITS.get(text(tensor.get("dtype")), 0)
            yield text(tensor.get("name")), math.prod(sizes) * bits / 8
