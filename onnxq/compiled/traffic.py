"""What an engine moves: bytes between its kernels and the GPU's memory, and how many kernels there are.

A memory-bound network takes the time of its bytes, whatever it multiplies in. TensorRT-RTX runs what follows
an int8 product as a kernel of its own; an engine that is built on a GPU (TensorRT) can do that at the end
of the product's kernel. The merged figures are those of such an engine: an estimate, from NVIDIA's documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnxq.base.plain import DocumentPart
from onnxq.compiled.kernels import Kernel, elements, kernels_of, readers_of, tensor_bytes
from onnxq.formats import FORMATS
from onnxq.run.engine_log import EngineLayer, EngineTensor

# The kernels of an engine that TensorRT builds on a GPU, as far as those of TensorRT-RTX tell them.
#
# TensorRT-RTX runs what follows a quantized product as a kernel of its own, to which the product goes as
# float32. An engine that is built on a GPU does it at the end of the product's kernel. That is NVIDIA's
# documentation, not a measurement: an engine is built so only where there is a GPU.

_PRODUCTS = ("correlation", "gemm", "matmul")
"""The compiler's types of products that are kernels of its library."""

_BEYOND = re.compile("Conc|Resi|Pool|Redu|Soft")
"""Operations in the name of a generated kernel that is not the end of a product; a LayerNormalization is."""


def merged(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels with what follows a product done at its end; quantized ones that are left write float16.

    Args:
        kernels: in the order in which they run.
    """
    into = products_before(kernels)
    readers = readers_of(kernels)
    gone = set(into.values())
    narrow = {
        tensor.name
        for index, kernel in enumerate(kernels)
        if index not in gone and kernel.is_product and kernel.precision in FORMATS
        for tensor in kernel.outputs
        if tensor.dtype == "fp32" and tensor.name in readers
    }
    joined = {index: _joined(kernels[product], kernels[index]) for index, product in into.items()}
    left = (joined.get(index, kernel) for index, kernel in enumerate(kernels) if index not in gone)
    return tuple(_narrowed(kernel, narrow) for kernel in left)


def products_before(kernels: Sequence[Kernel]) -> dict[int, int]:
    """The product at whose end each kernel could run: it is its only reader, and takes it element by element.

    Args:
        kernels: in the order in which they run.

    Returns:
        The place of the product, by that of the kernel.
    """
    readers = readers_of(kernels)
    before: dict[int, int] = {}
    for index, kernel in enumerate(kernels):
        if kernel.compiler_kind not in _PRODUCTS or len(kernel.outputs) != 1:
            continue
        product = kernel.outputs[0]
        read_by = readers.get(product.name, [])
        if len(read_by) == 1 and read_by[0] not in before and _follows(kernels[read_by[0]], product):
            before[read_by[0]] = index
    return before


def _follows(reader: Kernel, product: EngineTensor) -> bool:
    """Whether a kernel could run at the end of that of a product: one element in, one out."""
    if reader.compiler_kind != "kgen" or reader.is_product or _BEYOND.search("".join(reader.operations)):
        return False
    return max(map(elements, reader.outputs), default=0) == elements(product)


def _joined(product: Kernel, rest: Kernel) -> Kernel:
    """The kernel of a product and of what follows it."""
    name = product.outputs[0].name
    others = tuple(tensor for tensor in rest.inputs if tensor.name != name)
    return _sized(
        replace(
            product,
            nodes=tuple(dict.fromkeys((*product.nodes, *rest.nodes))),
            inputs=(*product.inputs, *others),
            constants=(*product.constants, *rest.constants),
            outputs=rest.outputs,
            operations=(*product.operations, *rest.operations),
        )
    )


def _narrowed(kernel: Kernel, names: set[str]) -> Kernel:
    """A kernel with some tensors in float16."""
    if names.isdisjoint(tensor.name for tensor in (*kernel.inputs, *kernel.outputs)):
        return kernel

    def half(tensors: Iterable[EngineTensor]) -> tuple[EngineTensor, ...]:
        return tuple(replace(t, dtype="fp16") if t.name in names else t for t in tensors)

    return _sized(replace(kernel, inputs=half(kernel.inputs), outputs=half(kernel.outputs)))


def _sized(kernel: Kernel) -> Kernel:
    """A kernel with the bytes of its tensors."""
    return replace(
        kernel,
        bytes_read=sum(map(tensor_bytes, kernel.inputs)),
        bytes_written=sum(map(tensor_bytes, kernel.outputs)),
        bytes_weights=sum(map(tensor_bytes, kernel.constants)),
    )


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
