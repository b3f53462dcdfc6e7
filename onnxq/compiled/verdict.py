"""What int8 does to an engine: one in int8 against one of the same model in plain float16.

Both are compiled. What they move, their kernels and the types in which they multiply are facts. How many
times as fast int8 is only a GPU tells: a roofline over published latencies did no better than a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onnxq.base.grouped import Joined, grouped
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.compiled.kernels import Kernel, readers_of
from onnxq.compiled.traffic import merged
from onnxq.formats import INT8

Form = Literal["built", "merged"]


@dataclass(frozen=True, slots=True)
class EngineFigures(DocumentPart):
    """What an engine is made of.

    Attributes:
        kernels: how many there are.
        conversions: how many of them only give what they read in another type or order.
        moved_mb: what they read and write but for the weights, 1e6 bytes.
        weights_mb: the weights and other constants, 1e6 bytes.
        macs: multiply-accumulates of one inference by the type in which they are multiplied.
    """

    kernels: int
    conversions: int
    moved_mb: float
    weights_mb: float
    macs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Compared(DocumentPart):
    """An engine in int8 beside one in float16.

    Attributes:
        fp16: the engine in float16.
        int8: that in int8.
    """

    fp16: EngineFigures
    int8: EngineFigures


@dataclass(frozen=True, slots=True)
class ComparedLayers(DocumentPart):
    """Layers that share kernels in one of the two engines, and the conversions that they cause.

    Attributes:
        layers: names of the layers of the plan among their nodes.
        nodes: names of the ONNX nodes.
        kernels_fp16: how many kernels run them in float16.
        kernels_int8: how many in int8, conversions included.
        fp16_mb: the bytes that their kernels move in float16, weights included, 1e6 bytes.
        int8_mb: the same in int8.
    """

    layers: tuple[str, ...]
    nodes: tuple[str, ...]
    kernels_fp16: int
    kernels_int8: int
    fp16_mb: float
    int8_mb: float


@dataclass(frozen=True, slots=True)
class Verdict(DocumentPart):
    """What int8 does to the engine.

    Attributes:
        kind: "verdict".
        schema: of this document.
        against: what int8 is compared with, "fp16".
        reason: why nothing was compared; "" where it was.
        form: which comparison is that of the target: "merged" of engines that are built on a GPU, "built"
            of TensorRT-RTX.
        merged: the comparison of engines as TensorRT builds them on a GPU; None where nothing was compared.
        built: that of the engines as they were compiled.
        layers: the layers in `form`, those first that move most more than in float16.
        assumptions: what the figures rely on.
        format: the number format of the one that is quantized: "int8", "fp8".
    """

    reason: str
    form: Form
    merged: Compared | None = None
    built: Compared | None = None
    layers: tuple[ComparedLayers, ...] = ()
    assumptions: tuple[str, ...] = ()
    against: str = "fp16"
    kind: str = "verdict"
    schema: int = 2
    format: str = INT8.name

    @property
    def compared(self) -> Compared | None:
        """The comparison of the target's form."""
        return self.merged if self.form == "merged" else self.built


def judge(
    fp16: Sequence[Kernel],
    int8: Sequence[Kernel],
    form: Form,
    *,
    layers: Collection[str] = (),
    nodes: Collection[str] = (),
) -> Verdict:
    """Compares two engines of a model.

    Args:
        fp16: the kernels of the one in float16.
        int8: those of the one in int8.
        form: which comparison is that of the target.
        layers: names of the layers that are planned in int8.
        nodes: names of the nodes that both models have; none: nothing is said of layers.
    """
    built, as_merged = (fp16, int8), (merged(fp16), merged(int8))
    parts: tuple[ComparedLayers, ...] = ()
    if nodes:
        parts = _by_layers(*(as_merged if form == "merged" else built), set(layers), set(nodes))
    assumptions = (noted("engines-assumed"), *[noted("engines-assumed.merged")] * (form == "merged"))
    one, other = (Compared(*map(_figures, engines)) for engines in (as_merged, built))
    return Verdict("", form, one, other, parts, assumptions)


def _figures(kernels: Sequence[Kernel]) -> EngineFigures:
    """What an engine is made of."""
    macs = grouped((one.precision, one.macs) for one in kernels if one.macs and one.precision)
    return EngineFigures(
        kernels=sum(kernel.is_kernel for kernel in kernels),
        conversions=sum(kernel.is_conversion for kernel in kernels),
        moved_mb=sum(kernel.moved for kernel in kernels) / 1e6,
        weights_mb=sum(kernel.bytes_weights for kernel in kernels) / 1e6,
        macs={precision: sum(each) for precision, each in macs.items()},
    )


# --- layers ---------------------------------------------------------------------------------------


def _by_layers(
    fp16: Sequence[Kernel], int8: Sequence[Kernel], layers: Collection[str], nodes: Collection[str]
) -> tuple[ComparedLayers, ...]:
    """Layers with the kernels that are theirs in either engine, those first that move most more in int8."""
    parts = Joined[str]()
    for kernel in (*fp16, *int8):
        own_nodes = [node for node in kernel.nodes if node in nodes]
        for node in own_nodes:
            parts.join(own_nodes[0], node)
    kernels = [_owned(engine, parts, nodes) for engine in (fp16, int8)]
    compared = []
    for root, members in parts.members().items():
        own = tuple(sorted(name for name in members if name in layers))
        before, after = kernels[0].get(root, []), kernels[1].get(root, [])
        if own and _runs(fp16, before) and _runs(int8, after):
            entry = ComparedLayers(
                layers=own,
                nodes=tuple(sorted(members)),
                kernels_fp16=len(before),
                kernels_int8=len(after),
                fp16_mb=_moved_mb(fp16, before),
                int8_mb=_moved_mb(int8, after),
            )
            compared.append(entry)
    return tuple(sorted(compared, key=lambda one: one.fp16_mb - one.int8_mb))


def _runs(kernels: Sequence[Kernel], indices: Collection[int]) -> bool:
    """Whether some of the kernels do anything."""
    return any(kernels[index].is_kernel or kernels[index].moved for index in indices)


def _moved_mb(kernels: Sequence[Kernel], indices: Collection[int]) -> float:
    """What some of the kernels move, weights included, 1e6 bytes."""
    return sum(kernels[index].moved + kernels[index].bytes_weights for index in indices) / 1e6


def _owned(kernels: Sequence[Kernel], parts: Joined[str], nodes: Collection[str]) -> dict[str, list[int]]:
    """The kernels of each part; one that runs no node of the model is for who reads it, else who wrote it."""
    named = ([node for node in kernel.nodes if node in nodes] for kernel in kernels)
    owner = {index: parts.find(own[0]) for index, own in enumerate(named) if own}
    readers = readers_of(kernels)
    writers = {tensor.name: index for index, kernel in enumerate(kernels) for tensor in kernel.outputs}

    def beside(index: int, near: Callable[[int], list[int]]) -> str | None:
        """The owner of the nearest kernel on one side that has one."""
        waiting, seen = [index], {index}
        while waiting:
            for other in near(waiting.pop(0)):
                if other in owner:
                    return owner[other]
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return None

    def after(index: int) -> list[int]:
        return [other for tensor in kernels[index].outputs for other in readers.get(tensor.name, ())]

    def before(index: int) -> list[int]:
        return [writers[tensor.name] for tensor in kernels[index].inputs if tensor.name in writers]

    lone = [index for index, kernel in enumerate(kernels) if index not in owner and kernel.is_kernel]
    taken = {index: beside(index, after) or beside(index, before) for index in lone}
    roots = ((owner.get(index) or taken.get(index), index) for index in range(len(kernels)))
    return grouped((root, index) for root, index in roots if root is not None)
