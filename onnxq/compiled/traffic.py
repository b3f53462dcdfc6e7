"""What an engine moves: bytes between its kernels and the GPU's memory, and how many kernels there are.

A memory-bound network takes the time of its bytes, whatever it multiplies in. TensorRT-RTX runs what follows
an int8 product as a kernel of its own; an engine that is built on a GPU (TensorRT) can do that at the end
of the product's kernel. The merged figures are those of such an engine: an estimate, from NVIDIA's documents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.compiled.kernels import elements, tensor_bytes
from onnxq.run.engine_log import EngineLayer, EngineTensor

_NO_KERNELS = ("signal", "wait")
"""Layers by which streams wait for each other."""

_PRODUCTS = ("correlation", "gemm", "matmul")
_BEYOND = re.compile("Conc|Resi|Pool|Redu|Soft")
"""Operations in the name of a generated kernel that does not follow a product; a LayerNormalization counts as
one that does."""


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
    touched = [tensor for layer in layers for tensor in (*layer.inputs, *layer.outputs)]
    moved = sum(map(tensor_bytes, touched))
    kernels = sum(layer.kind not in _NO_KERNELS for layer in layers)
    merged = _merged(layers)
    return Traffic(
        moved_mb=moved / 1e6,
        merged_mb=(moved - sum(2 * tensor_bytes(tensor) for tensor in merged)) / 1e6,
        kernels=kernels,
        merged_kernels=kernels - len(merged),
        dynamic=any(size < 0 for tensor in touched for size in tensor.shape),
    )


def _merged(layers: Sequence[EngineLayer]) -> list[EngineTensor]:
    """Products that need not be written, as their only reader takes them element by element."""
    readers: dict[str, list[int]] = {}
    for index, layer in enumerate(layers):
        for tensor in layer.inputs:
            readers.setdefault(tensor.name, []).append(index)
    found, taken = [], set()
    for layer in layers:
        if layer.kind not in _PRODUCTS or len(layer.outputs) != 1:
            continue
        product = layer.outputs[0]
        read_by = readers.get(product.name, [])
        if len(read_by) == 1 and read_by[0] not in taken and _follows(layers[read_by[0]], product):
            taken.add(read_by[0])
            found.append(product)
    return found


def _follows(reader: EngineLayer, product: EngineTensor) -> bool:
    """Whether a kernel could run at the end of that of a product: one element in, one out."""
    if reader.kind != "kgen" or _BEYOND.search(reader.name):
        return False
    return max(map(elements, reader.outputs), default=0) == elements(product)
