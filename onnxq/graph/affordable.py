"""What may be computed of an unknown model's constants: bounds for every operator, by what it gives."""

from __future__ import annotations

import math

import numpy as np

from onnxq.graph.infer import node_types
from onnxq.graph.types import is_static
from onnxq.graph.view import Node

_BYTES, _TIMES = 1 << 26, 8
"""What a node gives may take so many bytes, and so many times what it reads."""

_WORK, _WORK_IN_ALL = 1 << 35, 1 << 37
"""Products that are summed, of one node and of all of a model: seconds each."""

_FEW = 4096  # elements that may be sizes: they are told to inference

# The sizes of what these give depend on values that they read. Of others they are bounded by what is read.
_BY_VALUES = {
    "ConstantOfShape", "Expand", "Tile", "Range", "Pad", "Resize", "Upsample", "OneHot", "HannWindow",
    "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "CenterCropPad", "Reshape", "MaxUnpool", "Col2Im",
    "AffineGrid", "TopK", "DFT",
}  # fmt: skip
_PRODUCTS = {
    "MatMul",
    "Gemm",
    "Conv",
    "ConvTranspose",
    "Einsum",
    "MatMulInteger",
    "ConvInteger",
    "QLinearMatMul",
    "QLinearConv",
}


def is_affordable(node: Node, inputs: list[np.ndarray | None]) -> bool:
    """Whether a node that depends on no input is small enough to be computed; its cost is noted in its model.

    Args:
        node: the node.
        inputs: what it reads.
    """
    given = [
        None if array is None else (array.dtype, array.shape, array if array.size <= _FEW else None)
        for array in inputs
    ]
    types = node_types(node.node.proto, given, len(node.outputs), node.model.versions)
    read = sum(array.nbytes for array in inputs if array is not None)
    counts: list[int] = []
    size = 0
    for dtype, shape in types or []:
        if dtype is None or not is_static(shape):
            continue
        counts.append(math.prod(shape))
        size += counts[-1] * dtype.itemsize
    if len(counts) < len(node.outputs) and node.op in _BY_VALUES and not node.domain:
        return False
    if size > _BYTES + _TIMES * read:
        return False
    written = max(counts, default=0)
    window = math.prod(map(int, node.attr("kernel_shape") or ())) if "Pool" in node.op else 0
    work = max(
        _products(node.op, [array.size for array in inputs if array is not None], written), window * written
    )
    if work > _WORK or node.model.folding_work + work > _WORK_IN_ALL:
        return False
    node.model.folding_work += work
    return True


def _products(op: str, read: list[int], written: int) -> int:
    """How many products are summed; exact for matrices, less for the windows of convolutions."""
    if op not in _PRODUCTS or len(read) < 2 or not written:
        return 0
    return int(math.sqrt(read[0] * read[1] * written))
