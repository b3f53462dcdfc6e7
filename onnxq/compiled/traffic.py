"""What an engine moves: bytes between its kernels and the GPU's memory, and how many kernels there are.

A memory-bound network takes the time of its bytes, whatever it multiplies in. TensorRT-RTX runs what follows
an int8 product as a kernel of its own; an engine that is built on a GPU (TensorRT) can do that at the end
of the product's kernel. The merged figures are those of such an engine: an estimate, from NVIDIA's documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.compiled.kernels import kernels_of
from onnxq.compiled.merged import products_before
from onnxq.run.engine_log import EngineLayer


@dataclass(frozen=True, slots=True)
class Traffic(DocumentPart):
    """What the kernels of an engine read and write, without the weights that they hold.

    Attributes:
        moved_mb: as built, in 1e6 bytes.
        merged_mb: with what follows a product done by the product's kernel, in 1e6 bytes.
        kernels: as built.
        merged_kernels: the same of `merged_mb`.
        dynamic: whether some sizes are known at run time only; each of them counts as 1.
    """

    moved_mb: float
    merged_mb: float
    kernels: int
    merged_kernels: int
    dynamic: bool


def traffic(layers: Sequence[EngineLayer]) -> Traffic:
    """What the kernels of an engine move.

    Args:
        layers: the layers of an engine, `onnxq.run.trt.Engine.layers`.
    """
    kernels = kernels_of(layers)
    moved = sum(kernel.moved for kernel in kernels)
    count = sum(kernel.is_kernel for kernel in kernels)
    merged = products_before(kernels).values()
    touched = (tensor for layer in layers for tensor in (*layer.inputs, *layer.outputs))
    return Traffic(
        moved_mb=moved / 1e6,
        merged_mb=(moved - sum(2 * kernels[product].bytes_written for product in merged)) / 1e6,
        kernels=count,
        merged_kernels=count - len(merged),
        dynamic=any(size < 0 for tensor in touched for size in tensor.shape),
    )
