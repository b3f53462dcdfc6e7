"""Constant folding: what of a graph depends on no input is computed by the runtime.

So the folded value is the runtime's, bit for bit. Shape arithmetic is followed in `onnxq.graph.elements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx

from onnxq.graph.infer import node_types
from onnxq.graph.pairs import QDQ
from onnxq.graph.snippet import alone
from onnxq.graph.types import is_static
from onnxq.graph.value import RANDOM
from onnxq.graph.view import Node, Tensor

# What is computed and stays in the graph is kept in memory up to this size, in bytes.
_MAX_KEPT = 1 << 24
# A dequantized constant is meant to stay one: nothing is computed from it.


def evaluate(node: Node) -> list[np.ndarray] | None:
    """The outputs of a node that depends on no input of the model, as the runtime computes them.

    Returns:
        An array for each output, or None where an input is not `is_computed`, the node is not affordable, or
        the runtime fails.
    """
    run = node.model.runtime
    if run is None or node.has_body or not all(is_computed(t) for t in node.inputs if t is not None):
        return None
    read = [None if t is None else computed(t) for t in node.inputs]
    if (node.op in ("Div", "Mod") and _kills(*[*read, None, None][:2])) or not is_affordable(node, read):
        return None
    del read  # of weights that a model holds itself, copies
    kept = node.model.computed
    values = {t.name: kept[id(t.tensor)][1] for t in node.inputs if t and not t.is_constant}
    outputs = run(alone(node.model, node.node, values))
    if outputs is None or not all(isinstance(array, np.ndarray) for array in outputs):
        return None
    if node.op not in QDQ and sum(array.nbytes for array in outputs) <= _MAX_KEPT:
        written = [tensor for tensor in node.outputs if tensor.name]
        kept.update((id(t.tensor), (t.tensor, a)) for t, a in zip(written, outputs, strict=True))
    return outputs


def probe(node: Node, *arrays: np.ndarray | None, outputs: int = 1, **attrs: Any) -> list[np.ndarray] | None:
    """What a node computes of other inputs, as the runtime computes it.

    Args:
        node: the node; its attributes hold where no other is given.
        arrays: its inputs, None for one that is left out.
        outputs: how many outputs it has.
        attrs: attributes that are other ones; None for one that is left out.

    Returns:
        An array for each output, or None where the runtime fails.
    """
    run = node.model.runtime
    if run is None or node.has_body:
        return None
    feeds = {f"i{i}": array for i, array in enumerate(arrays) if array is not None}
    names = [f"i{i}" if f"i{i}" in feeds else "" for i in range(len(arrays))]
    written = [f"o{i}" for i in range(outputs)]
    kept = {name: value for name, value in {**node.attrs, **attrs}.items() if value is not None}
    made = onnx.helper.make_node(node.op, names, written, domain=node.domain, **kept)
    graph = onnx.helper.make_graph([made], "probe", [], [onnx.ValueInfoProto(name=name) for name in written])
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in feeds.items())
    opsets = [onnx.helper.make_opsetid(name, version) for name, version in node.model.versions.items()]
    return run(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))


def _kills(dividend: np.ndarray | None, divisor: np.ndarray | None) -> bool:
    """Whether a quotient of integers is none, or beyond its type: onnxruntime's kernels end the process."""
    if divisor is None or divisor.dtype.kind not in "iu":
        return False
    if (divisor == 0).any():
        return True
    if dividend is None or dividend.dtype.kind != "i":
        return False
    return bool((dividend == np.iinfo(dividend.dtype).min).any() and (divisor == -1).any())


def is_computed(tensor: Tensor) -> bool:
    """Whether a tensor is constant, or `evaluate` has found its values."""
    return tensor.is_constant or id(tensor.tensor) in tensor.model.computed


def computed(tensor: Tensor) -> np.ndarray | None:
    """The values of a tensor that `is_computed`, None for any other."""
    entry = tensor.model.computed.get(id(tensor.tensor))
    return tensor.constant if entry is None else entry[1]


def fixed_tensors(nodes: Iterable[Node]) -> set[Tensor]:
    """The outputs of nodes that depend on no input, what a Q/DQ node writes left out.

    Args:
        nodes: the nodes, in topological order.
    """
    fixed: set[Tensor] = set()
    for node in nodes:
        if node.op in RANDOM or node.op in QDQ or node.domain or node.has_body:
            continue
        if all(tensor is None or tensor.is_constant or tensor in fixed for tensor in node.inputs):
            fixed.update(node.outputs)
    return fixed


def replaced_bytes(node: Node) -> int:
    """The size of the constants that nobody reads any more once the outputs of a node are constants."""
    gone = {node}
    constants: dict[Tensor, int] = {}
    todo = [node]
    while todo:
        for tensor in todo.pop().inputs:
            maker = None if tensor is None else tensor.producer
            if tensor is None or tensor.is_output:
                continue
            if maker is None and gone.issuperset(tensor.users):
                constants[tensor] = tensor.nbytes
            elif maker is not None and maker not in gone and _only_for(maker, gone):
                gone.add(maker)
                todo.append(maker)
    return sum(constants.values())


def _only_for(node: Node, users: set[Node]) -> bool:
    """Whether nobody else reads what a node computes."""
    return all(not out.is_output and users.issuperset(out.users) for out in node.outputs)


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
