"""The kernels of an engine: what each is for, what it multiplies, what it moves.

The compiler names its library kernels by type (`correlation`, `gemm`) and its generated ones by the
operations in them (`__myl_MulMinMaxRounCast` is a quantization). What a kernel is for follows from
that, from the types it reads and writes, and from the operators of the ONNX nodes that it says it runs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from onnxq.base.grouped import grouped
from onnxq.base.plain import DocumentPart, extended
from onnxq.graph.pairs import BUILT
from onnxq.run.engine_log import (
    EngineLayer,
    EngineTensor,
    attention_factors,
    is_attention,
    matrix_operations,
    operations_of,
)
from onnxq.run.product_shapes import Product, operands

BITS: Mapping[str, int] = {
    "int8": 8, "uint8": 8, "bool": 8, "fp8": 8, "e8m0": 8, "int4": 4, "uint4": 4, "fp4": 4,
    "fp16": 16, "bf16": 16, "fp32": 32, "int32": 32, "int64": 64,
}  # fmt: skip
"""Bits of each datatype. One that is not known counts as none."""

CODES = frozenset(name for name, bits in BITS.items() if bits <= 8) - {"bool", "e8m0"}
"""What values are quantized to."""

FLOATS = frozenset({"fp16", "bf16", "fp32"})

KINDS = (
    "convolution", "deconvolution", "matmul", "attention", "normalization", "reduction", "pooling",
    "pointwise", "rescale", "copy", "quantize", "dequantize", "cast", "reformat", "weights", "other", "wait",
)  # fmt: skip
"""What a kernel is for. "rescale": it only scales what a product of quantized operands gave (and quantizes
it again), which an engine that is built on a GPU may do in the product; "copy": it runs nodes that move
values; "reformat": it moves values, and no node says so; "weights": it makes weights of constants, while the
engine runs; "other": none of those, such as loops; "wait": no kernel, streams wait for each other."""

PRODUCTS = ("convolution", "deconvolution", "matmul", "attention")
CONVERSIONS = ("quantize", "dequantize", "cast", "reformat", "weights")
"""Kernels that give the values that they read in another type or order, and do nothing else."""

# Operators of ONNX by what their kernels are for.
_PRODUCT_OPS = {
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "Einsum",
    "Attention",
    "QLinearConv",
    "QLinearMatMul",
}
_QUANTIZE_OPS = {
    "QuantizeLinear",
    "DynamicQuantizeLinear",
    "TRT_FP4DynamicQuantize",
    "TRT_MXFP8DynamicQuantize",
}
_DEQUANTIZE_OPS = set(BUILT.ends)
_MOVING_OPS = {
    "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "DepthToSpace", "SpaceToDepth",
    "Slice", "Split", "Gather", "Expand", "Tile", "Concat", "Pad", "GatherElements", "GatherND", "ScatterND",
}  # fmt: skip
_NORMALIZING_OPS = {
    "LayerNormalization", "Softmax", "LogSoftmax", "InstanceNormalization", "GroupNormalization",
    "RMSNormalization", "SimplifiedLayerNormalization", "LpNormalization", "BatchNormalization", "LRN",
    "MeanVarianceNormalization", "Hardmax",
}  # fmt: skip

# Operations in the names of generated kernels.
_MOVING = {"Move", "Resh", "Tran", "Repl", "Conc", "Slic", "Copy"}
_SCALING = {"Mul", "Div", "Min", "Max", "Roun", "Cast", "Quan", "Dequ", "Dyna"}
_REDUCING = {"Mean", "Sum", "Maxr", "Minr", "Redu", "Prod"}

# Layer types of the compiler that say what a kernel is for; a part of the name, in this order.
_TYPES = (
    ("signal", "wait"), ("wait", "wait"),
    ("deconv", "deconvolution"), ("conv", "convolution"), ("correlation", "convolution"),
    ("gemm", "matmul"), ("matrixmultiply", "matmul"), ("fullyconnected", "matmul"), ("matmul", "matmul"),
    ("mha", "attention"), ("attention", "attention"),
    ("softmax", "normalization"), ("normalization", "normalization"), ("pool", "pooling"),
    ("reduce", "reduction"), ("dequantize", "dequantize"), ("quantize", "quantize"),
    ("reformat", "reformat"), ("cast", "cast"),
    ("shuffle", "copy"), ("slice", "copy"), ("concat", "copy"), ("noop", "copy"), ("gather", "copy"),
    ("pointwise", "pointwise"), ("elementwise", "pointwise"), ("activation", "pointwise"),
    ("unary", "pointwise"), ("scale", "pointwise"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel(DocumentPart):
    """A kernel of an engine, in the order in which they run.

    Attributes:
        name: the compiler's name for it.
        kind: what it is for, one of `KINDS`.
        compiler_kind: the compiler's type of it, such as "correlation", "kgen" or "CaskConvolution".
        operations: of a generated kernel, in order, four letters each; none of others.
        precision: of products the type in which it multiplies; of others that of the first output; None
            where there is none.
        nodes: names of the ONNX nodes that it runs, or runs a part of, as the engine spells them.
        inputs: what it reads.
        constants: what it holds: weights, scales.
        outputs: what it writes.
        macs: multiply-accumulates as compiled (padded channels count), 0 where it is no product; each size
            that is known at run time only counts as 1.
        bytes_read: of the inputs.
        bytes_written: of the outputs.
        bytes_weights: of the constants.
        tactic: the kernel's own name, where the compiler tells it.
        seconds: what one run takes, measured on a GPU; None where nobody did.
    """

    name: str
    kind: str
    compiler_kind: str
    operations: tuple[str, ...]
    precision: str | None
    nodes: tuple[str, ...]
    inputs: tuple[EngineTensor, ...]
    constants: tuple[EngineTensor, ...]
    outputs: tuple[EngineTensor, ...]
    macs: int
    bytes_read: int
    bytes_written: int
    bytes_weights: int
    tactic: str = ""
    seconds: float | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether anything is computed or moved."""
        return self.kind != "wait"

    @property
    def is_region(self) -> bool:
        """Whether it is several kernels, and nothing tells of which nodes: of transformers, by TensorRT 8."""
        return self.name.startswith("{ForeignNode[") and not self.nodes

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices."""
        return self.kind in PRODUCTS

    @property
    def is_conversion(self) -> bool:
        """Whether it only gives what it reads in another type or order."""
        return self.kind in CONVERSIONS

    @property
    def moved(self) -> int:
        """Bytes that it reads and writes, without the constants."""
        return self.bytes_read + self.bytes_written


def readers_of(kernels: Sequence[Kernel]) -> dict[str, list[int]]:
    """The places of the kernels that read each tensor, by its name."""
    return grouped((tensor.name, place) for place, kernel in enumerate(kernels) for tensor in kernel.inputs)


def tensor_bytes(tensor: EngineTensor) -> int:
    """The size of a tensor in bytes; each dynamic size counts as 1, an unknown type as nothing."""
    return math.ceil(elements(tensor) * BITS.get(tensor.dtype, 0) / 8)


def elements(tensor: EngineTensor) -> int:
    """How many values a tensor has; each dynamic size counts as 1."""
    return math.prod(1 if size < 0 else size for size in tensor.shape)


def kernels_of(
    layers: Sequence[EngineLayer], operators: Mapping[str, str] | None = None
) -> tuple[Kernel, ...]:
    """The kernels of a compiled engine.

    Args:
        layers: `onnxq.run.trt.Engine.layers`.
        operators: the operator of each ONNX node, by the name that the engine has for it. Without, kernels
            are told by their own names and types alone.
    """
    ops = operators or {}
    made_by: dict[str, EngineLayer] = {}
    of_weights: set[str] = set()
    kernels = []
    for layer in layers:
        kind = _kind(layer, ops, made_by, of_weights)
        kernels.append(
            extended(
                Kernel,
                layer,
                kind=kind,
                compiler_kind=layer.kind,
                operations=operations_of(layer.name),
                macs=macs_of(layer, kind),
                bytes_read=sum(map(tensor_bytes, layer.inputs)),
                bytes_written=sum(map(tensor_bytes, layer.outputs)),
                bytes_weights=sum(map(tensor_bytes, layer.constants)),
            )
        )
        made_by.update((tensor.name, layer) for tensor in layer.outputs)
        if kind == "weights":
            of_weights.update(tensor.name for tensor in layer.outputs)
    return tuple(kernels)


# --- what a kernel is for -------------------------------------------------------------------------


def _kind(
    layer: EngineLayer,
    operators: Mapping[str, str],
    made_by: Mapping[str, EngineLayer],
    of_weights: Collection[str],
) -> str:
    if is_attention(layer.name):
        return "attention"
    matrix = matrix_operations(layer.name)
    if matrix:
        return {"Corr": "convolution", "Deco": "deconvolution"}.get(matrix[0], "matmul")
    operations = operations_of(layer.name)
    ops = {operators[node] for node in layer.nodes if node in operators}
    if not operations:
        return _of_library(layer, ops)
    if all(tensor.name in of_weights for tensor in layer.inputs) and _moves_or_scales(operations):
        return "weights" if layer.constants or layer.inputs else "other"
    work = ops - _PRODUCT_OPS - _QUANTIZE_OPS - _DEQUANTIZE_OPS - _MOVING_OPS - {"Cast"}
    if work or not _moves_or_scales(operations):
        return _computation(operations, ops, work)
    lone = ops & _QUANTIZE_OPS and not ops & _PRODUCT_OPS
    if not lone and _scales_product(layer, operations, made_by):
        return "rescale"
    if not ops and layer.nodes and not _converts(layer):  # of nodes that nobody knows
        return "copy" if _MOVING.issuperset(operations) else "pointwise"
    return _conversion(layer, operations, ops)


def kind_of_type(compiler_kind: str) -> str:
    """What a kernel of the library is for, by the compiler's type of it; "other" where that does not tell."""
    name = compiler_kind.lower()
    return next((kind for part, kind in _TYPES if part in name), "other")


def _of_library(layer: EngineLayer, ops: set[str]) -> str:
    kind = kind_of_type(layer.kind)
    if kind == "reformat":
        return _conversion(layer, (), set())
    if kind != "other" or not ops or ops & _PRODUCT_OPS:
        return kind
    work = ops - _QUANTIZE_OPS - _DEQUANTIZE_OPS - _MOVING_OPS - {"Cast"}
    return _computation((), ops, work) if work else _conversion(layer, (), ops)


def _computation(operations: Sequence[str], ops: set[str], work: set[str]) -> str:
    if work & _NORMALIZING_OPS:
        return "normalization"
    if any("Pool" in op for op in work):
        return "pooling"
    if not _REDUCING.isdisjoint(operations):
        if "Sum" in operations and "Mul" in operations and ops & _PRODUCT_OPS:
            return "matmul"  # a product so small that it runs as multiply and sum
        return "reduction"
    return "pointwise"


def _moves_or_scales(operations: Sequence[str]) -> bool:
    return all(operation in _MOVING or operation in _SCALING for operation in operations)


def _converts(layer: EngineLayer) -> bool:
    return _main_type(layer.inputs) != _main_type(layer.outputs)


def _main_type(tensors: Sequence[EngineTensor]) -> str | None:
    """The type of the largest tensor, the first of several."""
    return max(tensors, key=elements).dtype if tensors else None


def _scales_product(
    layer: EngineLayer, operations: Sequence[str], made_by: Mapping[str, EngineLayer]
) -> bool:
    """Whether a kernel scales what a product of quantized operands gave."""
    if _SCALING.isdisjoint(set(operations) - {"Cast"}):
        return False
    makers = [made_by[tensor.name] for tensor in layer.inputs if tensor.name in made_by]
    return any(maker.is_matrix and maker.precision in CODES for maker in makers)


def _conversion(layer: EngineLayer, operations: Sequence[str], ops: set[str]) -> str:
    """Of a kernel that only moves, scales or casts."""
    source, target = _main_type(layer.inputs), _main_type(layer.outputs)
    if target is None:  # nothing but its nodes is known
        named = (("quantize", _QUANTIZE_OPS), ("dequantize", _DEQUANTIZE_OPS), ("cast", {"Cast"}))
        return next((kind for kind, some in named if ops & some), "copy" if ops else "reformat")
    quantized = any(tensor.dtype in CODES for tensor in layer.outputs)
    if source in FLOATS and quantized:
        return "quantize"
    if source in CODES and target in FLOATS:
        return "cast" if ops and not ops & (_DEQUANTIZE_OPS | _PRODUCT_OPS) else "dequantize"
    if source in CODES and quantized and not _SCALING.isdisjoint(set(operations) - {"Cast"}):
        return "quantize"  # to another scale
    if source != target:
        return "cast"
    if not _SCALING.isdisjoint(set(operations) - {"Cast"}):
        return "pointwise"
    return "copy" if ops & _MOVING_OPS else "reformat"


# --- multiply-accumulates -------------------------------------------------------------------------


def macs_of(layer: EngineLayer, kind: str) -> int:
    """Multiply-accumulates of a kernel, from the shapes of its tensors; 0 where they do not tell.

    Args:
        layer: the layer.
        kind: what it is for.
    """
    if kind not in PRODUCTS or not any(map(elements, layer.outputs)):
        return 0
    if kind == "attention":
        return _attention_macs(layer)
    operations = operations_of(layer.name)
    if layer.is_matrix or not operations:
        product = cast(Product, kind)
        shapes = ([t.shape for t in group] for group in (layer.inputs, layer.constants, layer.outputs))
        fit = operands(product, *shapes)
        return fit.macs if fit is not None else 0
    return sum(_summed_macs(tensor, layer.outputs) for tensor in layer.constants)


def _summed_macs(matrix: EngineTensor, outputs: Sequence[EngineTensor]) -> int:
    """Of a product that is multiplied and summed: each row of the result meets every value of the matrix."""
    if sum(size > 1 for size in matrix.shape) < 2 or not elements(matrix):
        return 0
    columns = matrix.shape[-1]
    rows = (elements(out) // columns for out in outputs if out.shape and out.shape[-1] == columns)
    return elements(matrix) * next(rows, 1)


def _attention_macs(layer: EngineLayer) -> int:
    """Of softmax(Q K) V: [.., queries, depth] by keys, then [.., queries, keys] by V's depth."""
    if len(layer.inputs) < 3 or len(layer.inputs[-1].shape) < 2:
        return 0
    queries, _, values = attention_factors(layer.inputs, layer.outputs)
    return (elements(queries) + elements(layer.outputs[0])) * max(values.shape[-2], 1)
