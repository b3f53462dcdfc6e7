"""Features: what a node asks of a target beyond an importer for its operator.

Only those that no rule repairs; a rule's own pattern is the check of what it repairs. The names are
those of `lacks` in `targets/*.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

import numpy as np

from onnxq.base.reason import noted
from onnxq.graph.pairs import QDQ
from onnxq.graph.statements import (
    axes_of,
    floats_behind,
    freezing,
    scales_of,
    size_makers,
    sizes_of_deconvolution,
)
from onnxq.graph.types import shape_text
from onnxq.graph.view import Node, Tensor


def needs(node: Node) -> Mapping[str, str]:
    """The features that a node of ONNX's own operators needs.

    Returns:
        For each feature what the node has: `Pad with mode=reflect`.
    """
    checks = {**_OF_ANY, **_CHECKS.get(node.op, {})}
    needed = {name: check(node) for name, check in checks.items()}
    return {name: f"{node.op} with {has}" for name, has in needed.items() if has}


def _types(names: Collection[str], *, of_pairs: bool) -> Callable[[Node], str]:
    """That a node has tensors of some types, which are not folded; of Q/DQ nodes with `of_pairs` only."""

    def check(node: Node) -> str:
        if not of_pairs if node.op in QDQ else _is_folded(node):
            return ""
        tensors = (*filter(None, node.inputs), *node.outputs)
        found = sorted({str(one.dtype) for one in tensors}.intersection(names))
        return f"tensors of {', '.join(found)}" if found else ""

    return check


def _long_integers(node: Node) -> str:
    """Constants that do not fit 32 bits, and are clamped; the ends of int64 still mean "all" then."""
    if node.op in ("Slice", "Loop"):
        return ""
    for tensor in node.inputs:
        values = None if tensor is None or tensor.dtype != np.int64 else tensor.constant
        if values is not None and np.size(values):
            inside = values[(values > _INT64.min) & (values < _INT64.max)]
            if np.any((inside > _INT32.max) | (inside < _INT32.min)):
                return noted("long-integers")
    return ""


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


def _runtime_frames(node: Node) -> str:
    return noted("at-run-time", what="frames") if any(map(_is_runtime, node.inputs[1:])) else ""


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


def _branch_shapes(node: Node) -> str:
    """Branches of one rank and other sizes; those of other ranks are a rule's."""
    if not node.inputs or not _is_runtime(node.inputs[0]):
        return ""
    for tensors in zip(*node.bodies.values(), strict=False) if len(node.bodies) == 2 else ():
        one, other = (tensor.shape for tensor in tensors)
        if one is None or other is None or len(one) != len(other):
            continue
        if any(a != b for a, b in zip(one, other, strict=True) if isinstance(a, int) and isinstance(b, int)):
            return f"branches of {shape_text(one)} and {shape_text(other)}"
    return ""


def _squeezed_all(node: Node) -> str:
    """`torch.squeeze(x)`: without axes, and with dynamic dimensions, the rank is not known."""
    data, axes = node.operands(2)
    if axes is not None or node.attr("axes") is not None or data is None:
        return ""
    dynamic = [str(dim) for dim in data.shape or ("?",) if not isinstance(dim, int)]
    dynamic = dynamic if data.shape != () else []
    return noted("no-axes", dims=", ".join(dynamic)) if dynamic else ""


def _nine_dimensions(node: Node) -> str:
    """Inputs and outputs of the model of more than eight dimensions, which no rule can merge."""
    tensors = (*filter(None, node.inputs), *node.outputs)
    ranks = [one.rank or 0 for one in tensors if one.is_input or one.is_output]
    return f"{max(ranks)} dimensions" if max(ranks, default=0) > 8 else ""


def _dtype(node: Node) -> np.dtype | None:
    """The type of what a node reads first."""
    data = node.operands(1)[0]
    return None if data is None else data.dtype


def _range_type(node: Node) -> str:
    dtype = _dtype(node)
    halved = dtype is not None and dtype.itemsize == 2 and not _is_folded(node)
    return f"tensors of {dtype}" if halved else ""


def _unequal_pads(node: Node) -> str:
    pads = node.attr("pads") or []
    begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    return f"pads={pads}" if begins != ends else ""


def _no_zero_point(node: Node) -> str:
    return noted("no-zero-point") if node.operands(3)[2] is None else ""


def _einsum_form(node: Node) -> str:
    equation = node.attr("equation", "")
    return f"the equation {equation!r}" if "..." in equation or len(node.inputs) > 2 else ""


def _einsum_diagonal(node: Node) -> str:
    equation = node.attr("equation", "").replace(" ", "")
    terms = re.split(",|->", equation.replace("...", ""))
    return f"the equation {equation!r}" if any(len(set(term)) < len(term) for term in terms) else ""


def _axes_input(node: Node) -> str:
    """That axes are an input, as from opset 18 on: a parser of before reads attributes, and finds none."""
    given = node.opset >= 18 and node.operands(2)[1] is not None
    return noted("axes-input", opset=node.opset) if given else ""


def _resize_axes(node: Node) -> str:
    return f"axes={node.attr('axes')}" if node.attr("axes") else ""


def _integers(node: Node) -> str:
    dtype = _dtype(node)
    return f"tensors of {dtype}" if dtype is not None and dtype.kind == "i" else ""


def _trilu_rank(node: Node) -> str:
    data = node.operands(1)[0]
    rank = None if data is None else data.rank
    return f"{rank} dimensions" if rank not in (None, 2, 3) else ""


def _dynamic_lengths(node: Node) -> str:
    data, axis = node.operands(1)[0], node.attr("time_axis", 0)
    shape = None if data is None else data.shape
    return noted("any-length") if shape and axis < len(shape) and not isinstance(shape[axis], int) else ""


def _integer(place: int, what: str) -> Callable[[Node], str]:
    """That the base or the exponent of a Pow are integers."""

    def check(node: Node) -> str:
        kinds = ["" if one is None or one.dtype is None else one.dtype.kind for one in node.operands(2)]
        found = kinds[place] == "i" and not (place and kinds[0] == "i") and not _is_folded(node)
        return f"{what} of integers" if found else ""

    return check


def _grid_mode(node: Node) -> str:
    mode = node.attrs.get("mode")
    misread = mode in ("linear", "cubic") and not _grid_rank(node)
    return noted("misread-mode", mode=mode) if misread else ""


def _runtime_pads(node: Node) -> str:
    return noted("at-run-time", what="pads") if any(map(_is_runtime, node.inputs[1:])) else ""


def _pad_wrap(node: Node) -> str:
    return "mode=wrap" if node.attr("mode") == "wrap" else ""


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

_INT32, _INT64 = np.iinfo(np.int32), np.iinfo(np.int64)

_UNARY = ("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sqrt")

# "... cannot be used to compute a shape tensor" (github.com/NVIDIA/TensorRT, issues 1890, 3536, 3706, 4474);
# "[Recurrence]'s output can not be used as shape tensor" (github.com/onnx/onnx-tensorrt, issue 670).
_OF_ANY: dict[str, Callable[[Node], str]] = {
    "rare-types": _types(_RARE, of_pairs=False),
    "types-of-10": _types(("bfloat16", "float8_e4m3fn", "int4"), of_pairs=True),
    "float4": _types(("float4_e2m1fn",), of_pairs=True),
    "long-integers": _long_integers,
    "nine-dimensions": _nine_dimensions,
    "shape-tensors": _sizes_of(
        (
            "ArgMax",
            "ArgMin",
            "CumSum",
            "Einsum",
            "Gemm",
            "Loop",
            "MatMul",
            "NonZero",
            "OneHot",
            "Scan",
            "ScatterElements",
            "ScatterND",
            "TopK",
        )
    ),
    "unary-shape-tensors": _sizes_of(_UNARY),
}

_REDUCTIONS = ("Max", "Min", "Prod", "Mean", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")

_AXES, _ZERO = _runtime(1, "axes"), _runtime(2, "a zero point")

_CHECKS: dict[str, dict[str, Callable[[Node], str]]] = {
    "CumSum": {"runtime-cumsum-axis": _runtime(1, "an axis")},
    "Clip": {"runtime-clip-bounds": _runtime_bounds},
    "ConvTranspose": {
        "dilated-deconv": _dilations,
        "runtime-deconv-weights": _runtime(1, "weights"),
        "dynamic-deconv-shape": _deconvolution_shape,
    },
    **{name: {"runtime-zero-point": _ZERO, "missing-zero-points": _no_zero_point} for name in QDQ},
    "DeformConv": {"deform-conv-pads": _unequal_pads},
    "Dropout": {"runtime-training-mode": _runtime(2, "training_mode")},
    "ArgMax": {"integer-selection": _integers},
    "ArgMin": {"integer-selection": _integers},
    "Einsum": {"einsum-forms": _einsum_form, "einsum-diagonals": _einsum_diagonal},
    "GridSample": {"grid-sample-3d": _grid_rank, "grid-sample-modes": _grid_mode},
    "GroupNormalization": {"group-normalization-21": _scale_a_channel, "one-group": _one_group},
    "If": {"if-branches-of-different-shape": _branch_shapes},
    "Pad": {
        "runtime-pad-axes": _runtime(3, "axes"),
        "pad-wrap": _pad_wrap,
        "runtime-pads": _runtime_pads,
        "pad-modes": _pad_mode,
        "pad-leading-dims": _pad_leading,
        "pad-three-dims": _pad_three,
    },
    "Pow": {"integer-bases": _integer(0, "powers"), "integer-exponents": _integer(1, "exponents")},
    "Range": {"range-of-halves": _range_type},
    "Resize": {
        "resize-coordinates": _resize_coordinates,
        "resize-axes": _resize_axes,
        "resize-cubic": _resize_cubic,
        "runtime-resize-scales": _runtime_scales,
        "resize-scales-input": _scales_input,
    },
    "ReverseSequence": {"dynamic-lengths": _dynamic_lengths},
    "ScatterElements": {"scatter-elements-reduction": _reduction},
    "ScatterND": {"scatter-nd-reduction": _reduction},
    "STFT": {"runtime-window": _runtime_frames},
    "Slice": {"runtime-slice-axes": _runtime(3, "axes")},
    "Squeeze": {"runtime-axes": _AXES, "runtime-squeezed": _squeezed_all},
    "TensorScatter": {"tensor-scatter-forms": _cache},
    "TopK": {"integer-selection": _integers, "runtime-topk-k": _runtime(1, "K")},
    "Trilu": {"trilu-rank": _trilu_rank},
    "Unsqueeze": {"runtime-axes": _AXES},
    **{f"{kind}Window": {"window-types": _window_type} for kind in ("Blackman", "Hamming", "Hann")},
    **{f"Reduce{kind}": {"axes-inputs": _axes_input, "runtime-axes": _AXES} for kind in _REDUCTIONS},
    "ReduceSum": {"runtime-axes": _AXES},
}

FEATURES = frozenset(name for checks in (_OF_ANY, *_CHECKS.values()) for name in checks) | {"local-functions"}
"""The names of all features."""
