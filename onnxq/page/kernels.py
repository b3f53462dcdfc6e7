"""The engine's kernels: what each moves, and which memory their activations take along the schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.base.grouped import grouped
from onnxq.compiled.kernels import BITS
from onnxq.documents.engine import EnginePart
from onnxq.run.engine_log import EngineTensor


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
        reads: the places of the kernels whose results it reads.
        writes: types and shapes of what it writes.
    """

    name: str
    kind: str
    precision: str
    nodes: tuple[str, ...]
    moved: float
    weights: float
    reads: tuple[int, ...]
    writes: str


@dataclass(frozen=True, slots=True)
class KindOfKernel:
    """All kernels of one kind and precision.

    Attributes:
        kind: the kind.
        precision: what they compute in.
        count: how many there are.
        moved: bytes of activations that they read and write.
        weights: bytes of constants.
        share: of what all kernels move, 0 to 1.
    """

    kind: str
    precision: str
    count: int
    moved: float
    weights: float
    share: float


def kernels_of(engine: EnginePart) -> tuple[KernelRow, ...]:
    """The kernels of an engine, in the order in which they run."""
    writers: dict[str, int] = {}
    rows = []
    for place, one in enumerate(engine.layers):
        read = {writers[tensor.name] for tensor in one.inputs if tensor.name in writers}
        writers |= {tensor.name: place for tensor in one.outputs}
        rows.append(
            KernelRow(
                name=one.name,
                kind=one.kind,
                precision=one.precision or "",
                nodes=one.nodes,
                moved=sum(map(_bytes, (*one.inputs, *one.outputs))),
                weights=sum(map(_bytes, one.constants)),
                reads=tuple(sorted(read)),
                writes=", ".join(map(_type, one.outputs)),
            )
        )
    return tuple(rows)


def kinds_of(kernels: Sequence[KernelRow]) -> tuple[KindOfKernel, ...]:
    """Kernels by kind and precision, what moves most first."""
    whole = sum(kernel.moved for kernel in kernels) or 1.0
    kinds = []
    for kind, own in grouped(((k.kind, k.precision), k) for k in kernels).items():
        moved = sum(k.moved for k in own)
        kinds.append(KindOfKernel(*kind, len(own), moved, sum(k.weights for k in own), moved / whole))
    return tuple(sorted(kinds, key=lambda kind: -kind.moved))


def memory_along(engine: EnginePart) -> tuple[float, ...]:
    """Bytes of the activations that live while each kernel runs: made by then, and still to be read."""
    sizes: dict[str, float] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, layer in enumerate(engine.layers):
        for tensor in (*layer.inputs, *layer.outputs):
            sizes[tensor.name] = max(_bytes(tensor), sizes.get(tensor.name, 0.0))
            first.setdefault(tensor.name, place)
            last[tensor.name] = place
    change = [0.0] * (len(engine.layers) + 1)
    for name, size in sizes.items():
        change[first[name]] += size
        change[last[name] + 1] -= size
    alive, along = 0.0, []
    for step in change[:-1]:
        alive += step
        along.append(alive)
    return tuple(along)


def _bytes(tensor: EngineTensor) -> float:
    """What a tensor takes; 0 of a type that is not known."""
    return math.prod(max(size, 1) for size in tensor.shape) * BITS.get(tensor.dtype, 0) / 8


def _type(tensor: EngineTensor) -> str:
    return f"{tensor.dtype} {'x'.join('?' if size < 0 else str(size) for size in tensor.shape)}"
