"""Features: what a node asks of a target beyond an importer for its operator.

Only those that no rule repairs; a rule's own pattern is the check of what it repairs. The names are
those of `lacks` in `targets/*.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from onnxq.base.reason import noted
from onnxq.graph.pairs import DEQUANTIZE, QDQ
from onnxq.graph.statements import (
    axes_of,
    floats_behind,
    freezing,
    scales_of,
    size_makers,
    sizes_of_deconvolution,
)
from onnxq.graph.view import Node, Tensor


def needs(node: Node) -> Mapping[str, str]:
    """The features that a node of ONNX's own operators needs.

    Returns:
        For each feature what the node has: `Pad with mode=reflect`.
    """
    checks = {**_OF_ANY, **_CHECKS.get(node.op, {})}
    needed = {name: check(node) for name, check in checks.items()}
    return {name: f"{node.op} with {has}" for name, has in needed.items() if has}


def _rare_types(node: Node) -> str:
    """The types that no tensor of TensorRT has; rules look at those of pairs, and fold what is constant."""
    if node.op in QDQ or _is_folded(node):
        return ""
    tensors = (*filter(None, node.inputs), *node.outputs)
    rare = sorted({str(one.dtype) for one in tensors} & _RARE)
    return f"tensors of {', '.join(rare)}" if rare else ""


def _window_type(node: Node) -> str:
    dtype = node.outputs[0].dtype
    other = dtype is not None and dtype != np.float32 and not _is_folded(node)
    return noted("float32-window", dtype=dtype) if other else ""


def _is_folded(node: Node) -> bool:
    """Whether a node computes a constant, which it is then replaced by."""
    return bool(node.inputs) and not any(map(_is_runtime, node.inputs))


def _is_runtime(tensor: Tensor | None) -> bool:
    return tensor is not None and not tensor.is_constant


def _runtime(place: int, what: str) -> Callable[[Node], str]:
    """That an operand is computed at run time."""
    return lambda node: (
        noted("at-run-time", what=what) if _is_runtime(node.operands(place + 1)[place]) else ""
    )


def _runtime_bounds(node: Node) -> str:
    return noted("at-run-time", what="bounds") if any(map(_is_runtime, node.operands(3)[1:])) else ""


def _dilations(node: Node) -> str:
    dilations = node.attr("dilations", [])
    return f"dilations={dilations}" if any(d != 1 for d in dilations) else ""


def _grid_rank(node: Node) -> str:
    data = node.operands(1)[0]
    rank = data.rank if data is not None else None
    return f"{rank} dimensions" if rank not in (None, 4) else ""


def _scale_a_channel(node: Node) -> str:
    return noted("scale-a-channel") if node.opset >= 21 else ""


def _one_group(node: Node) -> str:
    return noted("one-group") if node.attr("num_groups") == 1 else ""


def _grid_mode(node: Node) -> str:
    mode = node.attrs.get("mode")
    misread = mode in ("linear", "cubic") and not _grid_rank(node)
    return noted("misread-mode", mode=mode) if misread else ""


def _runtime_pads(node: Node) -> str:
    return noted("at-run-time", what="pads") if any(map(_is_runtime, node.inputs[1:])) else ""


def _pad_mode(node: Node) -> str:
    mode = node.attr("mode", "constant")
    if mode != "constant":
        return f"mode={mode}"
    fill = node.operands(3)[2]
    value = fill.scalar if fill is not None else node.attr("value", 0)
    return f"the constant {value}" if value else ""


def _padded_axes(node: Node) -> tuple[int, list[int]] | None:
    """The rank, and the axes that a Pad pads (or crops), in ascending order; None if not known."""
    _, pads, _, axes = node.operands(4)
    amounts = node.attr("pads") if node.opset < 11 else None if pads is None else pads.constant
    values = None if axes is None else axes.constant
    data = node.operands(1)[0]
    rank = data.rank if data is not None else None
    if amounts is None or rank is None or (axes is not None and values is None):
        return None
    where = np.arange(rank) if values is None else values
    if np.size(amounts) != 2 * np.size(where) or not rank:  # a damaged model's: what runs it says so
        return None
    pairs = np.asarray(amounts).reshape(2, -1)
    return rank, sorted(int(axis) % rank for axis, pair in zip(where, pairs.T, strict=True) if pair.any())


def _pad_leading(node: Node) -> str:
    rank, axes = _padded_axes(node) or (0, [])
    return noted("pads-in-front", axis=axes[0]) if axes and axes[0] < rank - 2 else ""


def _pad_three(node: Node) -> str:
    _, axes = _padded_axes(node) or (0, [])
    return f"padding of {len(axes)} dimensions" if len(axes) > 2 else ""


def _resize_coordinates(node: Node) -> str:
    transform, nearest = node.attr("coordinate_transformation_mode"), node.attr("nearest_mode")
    if transform not in (None, "asymmetric"):
        return f"coordinate_transformation_mode={transform}"
    if node.attr("mode") == "nearest" and nearest not in (None, "floor"):
        return f"nearest_mode={nearest}"
    return ""


def _resize_cubic(node: Node) -> str:
    return "mode=cubic" if node.attr("mode") == "cubic" else ""


def _runtime_scales(node: Node) -> str:
    scales = node.operands(2)[1] if node.opset < 11 else node.operands(3)[2]
    return noted("at-run-time", what="scales") if _is_runtime(scales) else ""


def _reduction(node: Node) -> str:
    reduction = node.attr("reduction", "none")
    return f"reduction={reduction}" if reduction != "none" else ""


def _cache(node: Node) -> str:
    cache = node.operands(1)[0]
    rank = cache.rank if cache is not None else None
    if node.attr("mode") == "circular":
        return "mode=circular"
    if cache is None or rank is None:
        return ""
    if rank != 4 or node.attr("axis", -2) not in (2, -2):
        return f"axis={node.attr('axis', -2)} of {rank} dimensions"
    if not cache.is_input or not node.outputs[0].is_output:
        return noted("inner-cache")
    return ""


def _scales_input(node: Node) -> str:
    scales = node.operands(3)[2] if node.opset >= 11 else None
    if scales is None or scales.is_constant:
        return ""
    if scales.is_input:
        return noted("scales-of-input")
    return noted("scales-of-input.computed") if floats_behind(scales) else ""


def _deconvolution_shape(node: Node) -> str:
    data, sizes = node.operands(1)[0], node.attr("output_shape")
    shape = None if data is None else data.shape
    if not sizes or shape is None or all(isinstance(dim, int) for dim in shape[-len(sizes) :]):
        return ""
    return noted("shape-of-any-size", sizes=sizes)


def _sizes_of(ops: Collection[str]) -> Callable[[Node], str]:
    """That operators compute sizes, whose layers compute no shape tensors."""

    def check(node: Node) -> str:
        makers = size_makers(node, ops)
        return noted("sizes-of", op=makers[0].op, node=makers[0].name) if makers else ""

    return check


def remedy(node: Node, feature: str) -> str:
    """What the user can state so that a node does not need a feature any more: flags; "" for none."""
    asked = _OPERANDS.get(feature)
    if feature == "dynamic-deconv-shape":
        return sizes_of_deconvolution(node)
    operand = None if asked is None else node.operands(asked + 1)[asked]
    if operand is None:
        return ""
    if feature == "runtime-axes":
        return freezing(operand, axes_of(node))
    if feature == "resize-scales-input":
        return freezing(operand, scales_of(node))
    return freezing(operand, _USUAL.get(feature))


_OPERANDS = {"runtime-axes": 1, "runtime-training-mode": 2, "resize-scales-input": 2, "runtime-zero-point": 2,
             "runtime-topk-k": 1}  # fmt: skip

_USUAL: dict[str, list[float] | list[bool]] = {"runtime-training-mode": [False], "runtime-zero-point": [0.0]}

_RARE = {"float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "uint2", "int2", "uint4",
         "complex64", "complex128"}  # fmt: skip

_UNARY = ("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sqrt")

# "... cannot be used to compute a shape tensor" (github.com/NVIDIA/TensorRT, issues 1890, 3536, 3706, 4474).
_OF_ANY: dict[str, Callable[[Node], str]] = {
    "rare-types": _rare_types,
    "shape-tensors": _sizes_of(
        (
            "ArgMax",
            "ArgMin",
            "CumSum",
            "Einsum",
            "MatMul",
            "NonZero",
            "OneHot",
            "ScatterElements",
            "ScatterND",
            "TopK",
        )
    ),
    "unary-shape-tensors": _sizes_of(_UNARY),
}

_REDUCTIONS = ("Sum", "Max", "Min", "Prod", "Mean", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")

_AXES, _ZERO = _runtime(1, "axes"), _runtime(2, "a zero point")

_CHECKS: dict[str, dict[str, Callable[[Node], str]]] = {
    "Clip": {"runtime-clip-bounds": _runtime_bounds},
    "ConvTranspose": {
        "dilated-deconv": _dilations,
        "runtime-deconv-weights": _runtime(1, "weights"),
        "dynamic-deconv-shape": _deconvolution_shape,
    },
    DEQUANTIZE: {"runtime-zero-point": _ZERO},
    "Dropout": {"runtime-training-mode": _runtime(2, "training_mode")},
    "GridSample": {"grid-sample-3d": _grid_rank, "grid-sample-modes": _grid_mode},
    "GroupNormalization": {"group-normalization-21": _scale_a_channel, "one-group": _one_group},
    "Pad": {
        "runtime-pads": _runtime_pads,
        "pad-modes": _pad_mode,
        "pad-leading-dims": _pad_leading,
        "pad-three-dims": _pad_three,
    },
    "Resize": {
        "resize-coordinates": _resize_coordinates,
        "resize-cubic": _resize_cubic,
        "runtime-resize-scales": _runtime_scales,
        "resize-scales-input": _scales_input,
    },
    "ScatterElements": {"scatter-elements-reduction": _reduction},
    "ScatterND": {"scatter-nd-reduction": _reduction},
    "QuantizeLinear": {"runtime-zero-point": _ZERO},
    "Squeeze": {"runtime-axes": _AXES},
    "TensorScatter": {"tensor-scatter-forms": _cache},
    "TopK": {"runtime-topk-k": _runtime(1, "K")},
    "Unsqueeze": {"runtime-axes": _AXES},
    **{f"{kind}Window": {"window-types": _window_type} for kind in ("Blackman", "Hamming", "Hann")},
    **{f"Reduce{kind}": {"runtime-axes": _AXES} for kind in _REDUCTIONS},
}

FEATURES = frozenset(name for checks in (_OF_ANY, *_CHECKS.values()) for name in checks)
"""The names of all features."""
