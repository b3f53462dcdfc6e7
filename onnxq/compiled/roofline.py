"""How long kernels take, by a model of few constants: good for the ratio of two engines, not for a time.

A kernel takes the longer of two times, that of its bytes and that of its products, and a time to start. Bytes
that the cache still holds are faster: what is read again after no more than the cache's size was touched.
Engines run again and again, so that the weights of a small one stay there as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.compiled.gpus import Gpu
from onnxq.compiled.kernels import Kernel, tensor_bytes
from onnxq.run.engine_log import EngineTensor


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the model, the same for every GPU.

    Attributes:
        start_us: what a kernel takes besides its work: it is started, fills the GPU and drains, 1e-6 s.
        memory: the share of the memory's peak bandwidth that kernels reach.
        cache: how many times faster than the memory the cache is.
        fp16: the share of the peak rate that float16 products reach.
        int8: the same of int8.
        tile: how many output elements of a product a multiprocessor computes at a time; the GPU is not full
            with fewer than one such tile for each.
    """

    start_us: float
    memory: float
    cache: float
    fp16: float
    int8: float
    tile: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What a kernel takes on a GPU.

    Attributes:
        seconds: the time.
        bound: what it is spent on: "memory", "math" or "start".
    """

    seconds: float
    bound: str


def kernel_times(kernels: Sequence[Kernel], gpu: Gpu, constants: Constants) -> tuple[KernelTime, ...]:
    """The time of each kernel of an engine that runs again and again.

    Args:
        kernels: in the order in which they run.
        gpu: where.
        constants: of the model.
    """
    start = constants.start_us * 1e-6
    found = []
    for kernel, moved in zip(kernels, _bytes(kernels, gpu.cache_mb * 2**20, constants.cache), strict=True):
        memory = moved / (gpu.bandwidth_gbs * 1e9 * constants.memory)
        math = _products(kernel, gpu, constants)
        work = max(memory, math)
        bound = "start" if start > work else "memory" if memory >= math else "math"
        found.append(KernelTime(start + work if kernel.is_kernel else 0.0, bound))
    return tuple(found)


def _products(kernel: Kernel, gpu: Gpu, constants: Constants) -> float:
    """The time of a kernel's multiply-accumulates, seconds."""
    if kernel.precision in ("int8", "fp8", "uint8"):
        rate = gpu.int8_tops * constants.int8
    elif kernel.precision in ("fp4",):
        rate = 2 * gpu.int8_tops * constants.int8
    elif kernel.precision in ("fp16", "bf16"):
        rate = gpu.fp16_tops * constants.fp16
    else:  # TF32, at half the rate
        rate = gpu.fp16_tops * constants.fp16 / 2
    if constants.tile and kernel.macs:
        elements = sum(tensor_elements(tensor) for tensor in kernel.outputs)
        rate *= min(1.0, elements / (constants.tile * gpu.multiprocessors))
    return 2 * kernel.macs / (rate * 1e12)


def tensor_elements(tensor):
    import math
    return math.prod(max(s,1) for s in tensor.shape)

def _bytes(kernels: Sequence[Kernel], cache: float, faster: float) -> list[float]:
    """The bytes of each kernel, those that the cache holds counted as so much fewer.

    Args:
        kernels: in the order in which they run.
        cache: its size in bytes.
        faster: how many times it is faster than the memory.
    """
    touched = 0.0
    last: dict[object, float] = {}
    writers: dict[object, tuple[int, float]] = {}
    moved = [0.0] * len(kernels)
    for again in (False, True):  # the second time round the cache holds what the first left
        for index, kernel in enumerate(kernels):
            for key, size in _reads(kernel, index):
                held = _held(touched - last[key], size, cache) if key in last else 0.0
                last[key] = touched = touched + size
                if again:
                    moved[index] += size * (1 - held + held / faster)
                    if key in writers:  # what is read from the cache was written to it
                        writer, written = writers.pop(key)
                        moved[writer] -= written * held * (1 - 1 / faster)
            for tensor in kernel.outputs:
                size = tensor_bytes(tensor)
                last[tensor.name] = touched = touched + size
                if again:
                    moved[index] += size
                    writers[tensor.name] = index, size
    return moved


def _reads(kernel: Kernel, index: int) -> list[tuple[object, float]]:
    """What a kernel reads, each with its bytes; its constants belong to it alone."""
    found: list[tuple[object, float]] = [(tensor.name, tensor_bytes(tensor)) for tensor in kernel.inputs]
    found.append((index, sum(map(tensor_bytes, kernel.constants))))
    return found


def _held(distance: float, size: float, cache: float) -> float:
    """The share of a tensor that the cache still holds after so many other bytes."""
    return min(1.0, max(0.0, (cache - distance) / size)) if size else 0.0
