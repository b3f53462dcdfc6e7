"""What int8 does to an engine: one in int8 against one of the same model in plain float16.

Both are compiled. What they move, their kernels and the types in which they multiply are facts. What
`roofline.py` estimates of it, how many times as fast int8 is on each of several GPUs, does no better than a
constant (docs/verdict.md): it decides nothing, and is shown to who asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onnxq.base.grouped import grouped
from onnxq.base.joined import Joined
from onnxq.base.plain import DocumentPart
from onnxq.compiled.gpus import Gpu, gpus
from onnxq.compiled.kernels import Kernel, readers_of
from onnxq.compiled.merged import merged
from onnxq.compiled.roofline import Constants, work_of
from onnxq.formats import INT8

Form = Literal["built", "merged"]

CONSTANTS = Constants(start_us=3.36, memory=0.75, cache=4.37, fp16=0.519, int8=0.4)
"""Those fitted on all published pairs: `python -m benchmarks.verdict`."""

ASSUMPTIONS = (
    "times are estimates: the longer of what a kernel's bytes and what its products take, by data sheets",
    "bytes, products and kernels are those of engines compiled by TensorRT-RTX, for sm 89",
    "engines run again and again with nothing beside them, and copies to the GPU and back do not count",
)
"""What holds of every verdict."""

MERGED = (
    "what follows a product runs at the end of its kernel, as NVIDIA documents it of engines that TensorRT "
    "builds on a GPU"
)
"""What holds of the merged form besides."""

CHECKED: Mapping[Form, str] = {
    "merged": "the estimate does no better than a constant: over 53 published pairs of latencies the error "
    "of the ratio's logarithm is 0.221 (root mean square), that of one ratio for all networks 0.207",
    "built": "for TensorRT-RTX no published pair of latencies was found: nothing checks the estimate",
}
"""How far the estimate of a form may be trusted (docs/verdict.md)."""


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
class OnGpu(DocumentPart):
    """What is estimated of one GPU.

    Attributes:
        gpu: its name.
        ratio: how many times as fast int8 is as float16.
    """

    gpu: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Compared(DocumentPart):
    """An engine in int8 beside one in float16.

    Attributes:
        fp16: the engine in float16.
        int8: that in int8.
        ratio: how many times as fast int8 is by estimate, the geometric mean over the GPUs.
        low: the least of the GPUs'.
        high: the greatest.
        gpus: each of them.
    """

    fp16: EngineFigures
    int8: EngineFigures
    ratio: float
    low: float
    high: float
    gpus: tuple[OnGpu, ...]


@dataclass(frozen=True, slots=True)
class ComparedLayers(DocumentPart):
    """Layers that share kernels in one of the two engines, and the conversions that they cause.

    Attributes:
        layers: names of the layers of the plan among their nodes.
        nodes: names of the ONNX nodes.
        kernels_fp16: how many kernels run them in float16.
        kernels_int8: how many in int8, conversions included.
        share: their share of the time of the engine in int8 by estimate, the mean over the GPUs.
        ratio: how many times as fast they are in int8, likewise, the geometric mean over the GPUs.
        low: the least of the GPUs'.
        high: the greatest.
        fp16_mb: the bytes that their kernels move in float16, weights included, 1e6 bytes.
        int8_mb: the same in int8.
    """

    layers: tuple[str, ...]
    nodes: tuple[str, ...]
    kernels_fp16: int
    kernels_int8: int
    share: float
    ratio: float
    low: float
    high: float
    fp16_mb: float | None = None
    int8_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Fastest(DocumentPart):
    """What was left in float because by estimate int8 makes it slower.

    Attributes:
        layers: names of those layers.
        ratio_before: how many times as fast as float16 the model was without, of the target's form.
        ratio: how many times it is with them in float.
        int8_before: the int8 share of the eligible multiply-accumulates without; None where there are none.
        int8: the share with them in float.
        engines: how many engines were compiled to find them.
    """

    layers: tuple[str, ...]
    ratio_before: float
    ratio: float
    int8_before: float | None
    int8: float | None
    engines: int


@dataclass(frozen=True, slots=True)
class Verdict(DocumentPart):
    """What int8 does to the engine, and what is estimated of its speed.

    Attributes:
        kind: "verdict".
        schema: of this document.
        against: what int8 is compared with, "fp16".
        reason: why nothing was compared; "" where it was.
        form: which comparison is that of the target: "merged" of engines that are built on a GPU, "built"
            of TensorRT-RTX.
        merged: the comparison of engines as TensorRT builds them on a GPU; None where nothing was compared.
        built: that of the engines as they were compiled.
        layers: the layers in `form`, those that lose most by estimate first.
        assumptions: what the estimate assumes, and how far it may be trusted.
        fastest: what was left in float for it; None where that was not asked for.
        format: the number format of the one that is quantized: "int8", "fp8".
    """

    reason: str
    form: Form
    merged: Compared | None = None
    built: Compared | None = None
    layers: tuple[ComparedLayers, ...] = ()
    assumptions: tuple[str, ...] = ()
    fastest: Fastest | None = None
    against: str = "fp16"
    kind: str = "verdict"
    schema: int = 1
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
    constants: Constants = CONSTANTS,
    over: Sequence[Gpu] | None = None,
) -> Verdict:
    """Compares two engines of a model.

    Args:
        fp16: the kernels of the one in float16.
        int8: those of the one in int8.
        form: which comparison is that of the target.
        layers: names of the layers that are planned in int8.
        nodes: names of the nodes that both models have; none: nothing is said of layers.
        constants: of the model of time.
        over: the GPUs; None: those of the table.
    """
    where = gpus() if over is None else tuple(over)
    forms = {"built": (tuple(fp16), tuple(int8)), "merged": (merged(fp16), merged(int8))}
    compared = {
        name: _compared(_Timed(one, where, constants), _Timed(other, where, constants), where)
        for name, (one, other) in forms.items()
    }
    parts: tuple[ComparedLayers, ...] = ()
    if nodes:
        half, codes = (_Timed(kernels, where, constants) for kernels in forms[form])
        parts = _by_layers(half, codes, set(layers), set(nodes))
    own = (MERGED,) if form == "merged" else ()
    assumptions = (*ASSUMPTIONS, *own, CHECKED[form])
    return Verdict("", form, compared["merged"], compared["built"], parts, assumptions)


class _Timed:
    """The kernels of an engine, and what each takes on each GPU: `seconds[gpu][kernel]`."""

    def __init__(self, kernels: Sequence[Kernel], where: Sequence[Gpu], constants: Constants) -> None:
        works = {size: work_of(kernels, size) for size in {gpu.cache_mb for gpu in where}}
        self.kernels = kernels
        self.seconds = [[w.seconds(gpu, constants) for w in works[gpu.cache_mb]] for gpu in where]

    @property
    def total(self) -> list[float]:
        """What the engine takes on each GPU."""
        return [math.fsum(times) for times in self.seconds]

    def of(self, indices: Collection[int]) -> list[float]:
        """What some kernels take on each GPU."""
        return [math.fsum(times[index] for index in indices) for times in self.seconds]

    @property
    def figures(self) -> EngineFigures:
        """What the engine is made of."""
        macs = grouped((one.precision, one.macs) for one in self.kernels if one.macs and one.precision)
        return EngineFigures(
            kernels=sum(kernel.is_kernel for kernel in self.kernels),
            conversions=sum(kernel.is_conversion for kernel in self.kernels),
            moved_mb=sum(kernel.moved for kernel in self.kernels) / 1e6,
            weights_mb=sum(kernel.bytes_weights for kernel in self.kernels) / 1e6,
            macs={precision: sum(each) for precision, each in macs.items()},
        )


def _ratios(fp16: Sequence[float], int8: Sequence[float]) -> list[float]:
    """How many times as fast the second is; 1 where one of them does nothing."""
    return [one / other if one and other else 1.0 for one, other in zip(fp16, int8, strict=True)]


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean; 1 of none."""
    return math.exp(math.fsum(map(math.log, ratios)) / max(1, len(ratios)))


def _compared(fp16: _Timed, int8: _Timed, where: Sequence[Gpu]) -> Compared:
    ratios = _ratios(fp16.total, int8.total)
    low, high = min(ratios, default=1.0), max(ratios, default=1.0)
    each = tuple(OnGpu(gpu.title, ratio) for gpu, ratio in zip(where, ratios, strict=True))
    return Compared(fp16.figures, int8.figures, _mean(ratios), low, high, each)


# --- layers ---------------------------------------------------------------------------------------


def _by_layers(
    fp16: _Timed, int8: _Timed, layers: Collection[str], nodes: Collection[str]
) -> tuple[ComparedLayers, ...]:
    """Layers with the kernels that are theirs in either engine, those that lose most time first."""
    parts = Joined[str]()
    for kernel in (*fp16.kernels, *int8.kernels):
        own_nodes = [node for node in kernel.nodes if node in nodes]
        for node in own_nodes:
            parts.join(own_nodes[0], node)
    kernels = [_owned(timed.kernels, parts, nodes) for timed in (fp16, int8)]
    total = int8.total
    compared = []
    for root, members in parts.members().items():
        own = tuple(sorted(name for name in members if name in layers))
        one, other = fp16.of(kernels[0].get(root, ())), int8.of(kernels[1].get(root, ()))
        if not own or not any(one) or not any(other):
            continue
        ratios = _ratios(one, other)
        low, high = min(ratios), max(ratios)
        entry = ComparedLayers(
            layers=own,
            nodes=tuple(sorted(members)),
            kernels_fp16=len(kernels[0].get(root, ())),
            kernels_int8=len(kernels[1].get(root, ())),
            share=math.fsum(a / b for a, b in zip(other, total, strict=True)) / len(total),
            ratio=_mean(ratios),
            low=low,
            high=high,
            fp16_mb=_moved_mb(fp16.kernels, kernels[0].get(root, ())),
            int8_mb=_moved_mb(int8.kernels, kernels[1].get(root, ())),
        )
        compared.append(entry)
    return tuple(sorted(compared, key=lambda one: one.share * (one.ratio - 1)))


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
