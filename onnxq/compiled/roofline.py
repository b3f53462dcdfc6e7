"""How long kernels take, by a model of few constants: good for the ratio of two engines, not for a time.

A kernel takes the longer of two times, that of its bytes and that of its products, and some time to start.
Bytes that the cache still holds are faster: those of a tensor that was touched last when no more than the
cache's size ago. Engines run again and again, so that the weights of a small one stay there as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnxq.compiled.gpus import Gpu
from onnxq.compiled.kernels import BITS, CODES, Kernel, tensor_bytes


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the model, the same for every GPU.

    Attributes:
        start_us: what a kernel takes besides its work, 1e-6 s: it is started, fills the GPU, and drains.
        memory: the share of the memory's peak bandwidth that kernels reach.
        cache: how many times faster than the memory the cache is.
        fp16: the share of the peak rate that float16 products reach.
        int8: the same of int8.
    """

    start_us: float
    memory: float
    cache: float
    fp16: float
    int8: float


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What a kernel has to do.

    Attributes:
        memory: bytes from the memory and to it.
        cached: bytes that the cache holds.
        macs: multiply-accumulates.
        precision: what it multiplies in.
        starts: 1; 0 where it is no kernel.
    """

    memory: float
    cached: float
    macs: int
    precision: str | None
    starts: int

    def seconds(self, gpu: Gpu, constants: Constants) -> float:
        """How long that takes."""
        moved = self.memory + self.cached / constants.cache
        moving = moved / (gpu.bandwidth_gbs * 1e9 * constants.memory)
        multiplying = 2 * self.macs / (_rate(self.precision, gpu, constants) * 1e12)
        return self.starts * constants.start_us * 1e-6 + max(moving, multiplying)


def _rate(precision: str | None, gpu: Gpu, constants: Constants) -> float:
    """The rate of products, 1e12 operations a second."""
    if precision in CODES:
        return 8 / BITS[precision] * gpu.int8_tops * constants.int8
    return gpu.fp16_tops * constants.fp16 * (0.5 if precision == "fp32" else 1.0)  # TF32, half the rate


def work_of(kernels: Sequence[Kernel], cache_mb: float) -> tuple[KernelWork, ...]:
    """What the kernels of an engine have to do that runs again and again.

    Args:
        kernels: in the order in which they run.
        cache_mb: the size of the cache, 2**20 bytes.
    """
    return tuple(
        KernelWork(moved - cached, cached, kernel.macs, kernel.precision, int(kernel.is_kernel))
        for kernel, (moved, cached) in zip(kernels, _moved(kernels, cache_mb * 2**20), strict=True)
    )


def _moved(kernels: Sequence[Kernel], cache: float) -> list[tuple[float, float]]:
    """The bytes that each kernel touches, and those among them that the cache holds.

    The distance of a touch is all that was touched since the last one of the same tensor. What is read from
    the cache was written to it.
    """
    touched = 0.0
    last: dict[str | int, float] = {}
    moved, cached = [0.0] * len(kernels), [0.0] * len(kernels)
    for again in (False, True):  # the second time the cache holds what the first left
        writers: dict[str | int, int] = {}
        for index, kernel in enumerate(kernels):
            for key, size in _read(kernel, index):
                held = _held(touched - last[key], size, cache) if key in last else 0.0
                touched += size
                last[key] = touched
                if again:
                    moved[index] += size
                    cached[index] += held
                    if key in writers:
                        cached[writers.pop(key)] += held
            for tensor in kernel.outputs:
                size = tensor_bytes(tensor)
                touched += size
                last[tensor.name] = touched
                writers[tensor.name] = index
                if again:
                    moved[index] += size
    return list(zip(moved, cached, strict=True))


def _read(kernel: Kernel, index: int) -> Iterable[tuple[str | int, int]]:
    """What a kernel reads, each with its bytes; its constants are its own."""
    for tensor in kernel.inputs:
        yield tensor.name, tensor_bytes(tensor)
    yield index, kernel.bytes_weights


def _held(distance: float, size: int, cache: float) -> float:
    """How many bytes of a tensor the cache still holds, after so many others."""
    return min(float(size), max(0.0, cache - distance))
