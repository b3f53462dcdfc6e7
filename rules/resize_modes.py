"""Write a `Resize` in a mode that the target lacks in one that it has, or as weighted sums of its rows.

    checkResize: UNSUPPORTED_NODE: transformationMode == "align_corners" || ... "half_pixel" || ...
    "This version of TensorRT only support round_prefer_floor nearest mode in tf_half_pixel_for_nn!"
    "Antialiasing is not supported currently."
    "Only `stretch` is supported currently as `keep_aspect_ratio_policy`."
    canUseNDResize(...): This version of TensorRT only supports cubic ...
    first input has type Int32

    before    y = Resize<coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor">(x, scales)
    after     y = Resize<coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil">(x, scales)

    before    y = Resize<antialias=1, mode="linear">(x, scales)
    after     y = Add(Mul(Gather(x, rows, axis=2), weights), Mul(Gather(x, other rows, axis=2), ...)), axis 3 likewise

Which mode gives the same, and what the weights are, onnxruntime says: it resizes the rows of a unit matrix. So
sizes that are resized must be known; where they are dynamic the mode is replaced if it is the same for all sizes.
Nearest is a Gather, bit-equal for all types. The weights are not in a matrix product, which TensorRT would
round to 11 bits (TF32). Cubic in front of channels is transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from _taps import along, picked_along

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    Within,
    constant,
    float32_only,
    is_float,
    known_elements,
    op,
    operands,
    probe,
    remake,
    rule,
)

_TAKEN = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_MOST = 4096
_NAN = "a weight of zero may make a NaN of an infinity, or leave it out"
_ADVICE = "give the size with --shape INPUT:SIZES"


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized: by `scale` to `size`, one of which is None, of the part `roi`."""

    axis: int
    scale: float | None
    size: int | None
    roi: tuple[float, float]


@rule("Resize", stage="compat", lacks="rare-resize-modes")
def resize_modes(node: Node) -> Any:
    x, roi, scales, sizes = operands(node, 4)
    if node.opset < 11 or x is None:
        return None
    why = _lacking(node, x)
    in_front = node.attr("mode") == "cubic" and _in_front(node, x, scales, sizes)
    if not why and not in_front:
        return None
    if x.shape is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    axes = _axes(node, x, roi, scales, sizes)
    if not why:
        return _close(_transposed(node, x, axes))
    if axes is not None and all(isinstance(x.shape[one.axis], int) for one in axes):
        return _static(node, x, axes, why, in_front)
    return _for_all_sizes(node, x, axes, why)


def _close(y: Value) -> Except:
    return Except(Close(y), "infinite-input", _NAN)


def _lacking(node: Node, x: Tensor) -> str:
    """What of its attributes the target lacks, "" where it has all."""
    mode = node.attr("coordinate_transformation_mode")
    if mode in ("half_pixel_symmetric", "tf_crop_and_resize"):
        return f"coordinate_transformation_mode={mode}"
    if mode == "tf_half_pixel_for_nn" and node.attr("nearest_mode") != "round_prefer_floor":
        return f"{mode} with nearest_mode={node.attr('nearest_mode')}"
    if node.attr("antialias", 0):
        return "antialias"
    if node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return f"keep_aspect_ratio_policy={node.attr('keep_aspect_ratio_policy')}"
    if x.dtype is not None and x.dtype in (np.int32, np.int64, np.bool_):
        return f"the type {x.dtype}"
    return ""


def _resized(node: Node, x: Tensor) -> list[int]:
    rank = len(x.shape or ())
    return [axis % rank for axis in node.attr("axes", range(rank))]


def _in_front(node: Node, x: Tensor, scales: Tensor | None, sizes: Tensor | None) -> bool:
    """Whether a cubic one resizes another axis than the last two."""
    if x.shape is None:
        return False
    numbers = constant(scales if scales is not None and _count(scales) else sizes)
    if numbers is None:
        return False
    by_scale = scales is not None and _count(scales)
    pairs = zip(_resized(node, x), numbers.tolist(), strict=False)
    moved = [axis for axis, n in pairs if n != (1 if by_scale else x.shape[axis])]
    return len(moved) <= 2 and any(axis < len(x.shape) - 2 for axis in moved)


def _count(tensor: Tensor) -> bool:
    """Whether an optional input is there: an empty one is not."""
    return tensor.shape is None or tensor.shape[:1] != (0,)


def _axes(
    node: Node, x: Tensor, roi: Tensor | None, scales: Tensor | None, sizes: Tensor | None
) -> list[_Axis] | None:
    """How each axis is resized, without those that stay as they are; None where that is computed."""
    by_scale = scales is not None and _count(scales)
    numbers = constant(scales if by_scale else sizes)
    if numbers is None or x.shape is None:
        return None
    axes = _resized(node, x)
    crops = node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    part = np.array([0.0] * len(axes) + [1.0] * len(axes))
    if crops:
        values = constant(roi)
        if values is None or values.size != part.size:
            return None
        part = values.astype(float)
    found = []
    for place, (axis, number) in enumerate(zip(axes, numbers.tolist(), strict=True)):
        interval = float(part[place]), float(part[place + len(axes)])
        if number == (1 if by_scale else x.shape[axis]) and interval == (0.0, 1.0):
            continue
        found.append(_Axis(axis, number if by_scale else None, None if by_scale else number, interval))
    return found


def _static(node: Node, x: Tensor, axes: list[_Axis], why: str, in_front: bool) -> Any:
    assert x.shape is not None
    rank = len(x.shape)
    lengths = [int(x.shape[one.axis] or 0) for one in axes]
    if any(
        not 0 < length <= _MOST or (one.size or 0) > _MOST for length, one in zip(lengths, axes, strict=True)
    ):
        raise Skip(f"{why}: a resized axis is longer than {_MOST}")
    given = _weights(node, x, axes)
    if given is None:
        raise Skip(f"{why}: onnxruntime does not run it")
    matrices, outside = given
    nearest = node.attr("mode") == "nearest"
    if is_float(x.dtype) and not outside and not in_front:
        other = _other_mode(node, x, axes, matrices, nearest)
        if other is not None:
            return other if nearest else _close(other)
    y: Any = x
    if nearest:
        for one, length, matrix in zip(axes, lengths, matrices, strict=True):
            y = picked_along(y, matrix.argmax(axis=0), one.axis, length)
        return _extrapolated(node, y, axes, outside, rank, x)
    if x.dtype is None or (not is_float(x.dtype) and x.dtype != np.int32):
        raise Skip(f"{why}: the type of {x.name!r} is {x.dtype}")
    kind = np.dtype(np.float32) if x.dtype == np.int32 else x.dtype
    y = op.Cast(x, to=1) if x.dtype == np.int32 else x
    for one, matrix in sorted(
        zip(axes, matrices, strict=True), key=lambda pair: pair[1].shape[1] / len(pair[1])
    ):
        y = along(node, y, matrix.astype(kind), one.axis, rank)
    if x.dtype == np.int32:
        return Within(op.Cast(y, to=6), 1, "the sum that is rounded to an integer is taken in another order")
    return _close(_extrapolated(node, y, axes, outside, rank, x))


def _weights(
    node: Node, x: Tensor, axes: list[_Axis], **attrs: Any
) -> tuple[list[np.ndarray], list[np.ndarray | None]] | None:
    """Of each axis what it makes of a unit matrix, [n, m], and which of the new places are outside, [m]."""
    assert x.shape is not None
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and "keep_aspect_ratio_policy" not in attrs:
        return _with_policy(node, x, axes)
    matrices: list[np.ndarray] = []
    outside: list[np.ndarray | None] = []
    for one in axes:
        unit = np.eye(int(x.shape[one.axis] or 0), dtype=np.float32)[None, None]
        found = _resize(node, unit, [one], attrs)
        if found is None:
            return None
        matrices.append(found[0, 0])
        far = _resize(node, unit, [one], {**attrs, "extrapolation_value": 1.0})
        beyond = None if far is None else (far[0, 0] != found[0, 0]).any(axis=0)
        outside.append(beyond if beyond is not None and beyond.any() else None)
    return matrices, outside if any(one is not None for one in outside) else []


def _resize(node: Node, images: np.ndarray, axes: list[_Axis], attrs: dict[str, Any]) -> np.ndarray | None:
    """Images [1, k, h, w] (one axis: its w; two: its h and w) as the node resizes these axes."""
    places = [3] if len(axes) == 1 else [2, 3]
    scales, sizes, roi = np.ones(4, np.float32), list(images.shape), [0.0] * 4 + [1.0] * 4
    for place, one in zip(places, axes, strict=True):
        roi[place], roi[4 + place] = one.roi
        scales[place] = one.scale or 1
        sizes[place] = one.size or 0
    by_size = axes[0].size is not None
    clean: dict[str, Any] = {
        "extrapolation_value": 0.0,
        "axes": None,
        "keep_aspect_ratio_policy": None,
        **attrs,
    }
    clean = {name: value for name, value in clean.items() if name in node.attrs or value is not None}
    given = [_no_scales(node), np.array(sizes, np.int64)] if by_size else [scales]
    found = probe(node, images, np.array(roi, np.float32), *given, **clean)
    return None if found is None else found[0]


def _with_policy(
    node: Node, x: Tensor, axes: list[_Axis]
) -> tuple[list[np.ndarray], list[np.ndarray | None]] | None:
    """The same where the scale of an axis depends on the sizes of the others: all are resized at once."""
    assert x.shape is not None
    moved = [one.axis for one in axes]
    kept = [axis for axis in _resized(node, x) if axis not in moved]
    lengths = [int(x.shape[axis] or 0) for axis in moved]
    if len(axes) > 2 or np.prod(lengths) * max(lengths) > 1 << 26:
        return None
    if len(axes) == 1:
        lengths, axes = lengths * 2, axes * 2
    matrices = []
    for place in (0, 1):
        count = lengths[place]
        unit = np.eye(count, dtype=np.float32).reshape(
            [1, count] + ([count, 1] if place == 0 else [1, count])
        )
        unit = np.ascontiguousarray(np.broadcast_to(unit, (1, count, *lengths)))
        sizes = [count] * bool(kept) + [int(one.size or 0) for one in axes]
        places = [1, 2, 3] if kept else [2, 3]
        found = probe(node, unit, None, None, np.array(sizes, np.int64), axes=places)
        if found is None or found[0].shape[1] != count:
            return None
        matrices.append(found[0][0, :, :, 0] if place == 0 else found[0][0, :, 0, :])
    return matrices[: len(moved)], []


def _other_mode(node: Node, x: Tensor, axes: list[_Axis], matrices: list[np.ndarray], nearest: bool) -> Any:
    """The same node in a mode that the target has and that has the same weights; None: there is none."""
    tried: dict[str, Any] = {"antialias": None, "keep_aspect_ratio_policy": None, "extrapolation_value": None}
    targets = [matrix.shape[1] for matrix in matrices]
    for by_size in (False, True):
        if by_size == (axes[0].size is None) and axes[0].size is None:
            continue
        sized = [_Axis(one.axis, None, m, (0.0, 1.0)) for one, m in zip(axes, targets, strict=True)]
        plain = sized if by_size else [_Axis(one.axis, one.scale, one.size, (0.0, 1.0)) for one in axes]
        for mode in _TAKEN:
            for rounding in _NEAREST if nearest else (None,):
                attrs = {**tried, "coordinate_transformation_mode": mode, "nearest_mode": rounding}
                found = _weights(node, x, plain, **attrs)
                if found is None or [one.shape for one in found[0]] != [one.shape for one in matrices]:
                    continue
                if all(np.array_equal(a, b) for a, b in zip(found[0], matrices, strict=True)):
                    return _in_mode(node, x, plain, by_size, attrs)
    return None


def _in_mode(node: Node, x: Tensor, axes: list[_Axis], by_size: bool, attrs: dict[str, Any]) -> Value:
    if not by_size:
        return _remade(node, x, *_given(node), **attrs)
    assert x.shape is not None
    sizes = {one.axis: one.size for one in axes}
    order = _resized(node, x)
    full = [sizes.get(axis, x.shape[axis]) for axis in order]
    if all(isinstance(size, int) for size in full):
        return _remade(node, x, _no_scales(node), np.array(full, np.int64), **attrs)
    if node.opset < 18:
        raise Skip(f"dimensions of {x.name!r} are dynamic: {_ADVICE}")
    kept = [one.axis for one in axes]
    return _remade(
        node,
        x,
        _no_scales(node),
        np.array([sizes[a] for a in kept], np.int64),
        **{**attrs, "axes": kept},
    )


def _extrapolated(
    node: Node, y: Any, axes: list[_Axis], outside: list[np.ndarray | None], rank: int, x: Tensor
) -> Any:
    """The result, with the extrapolation_value at places outside of x."""
    for one, far in zip(axes, outside, strict=False):
        if far is not None:
            shape = [1] * rank
            shape[one.axis] = -1
            y = op.Where(far.reshape(shape), np.array(node.attr("extrapolation_value"), x.dtype), y)
    return y


def _for_all_sizes(node: Node, x: Tensor, axes: list[_Axis] | None, why: str) -> Any:
    """The node in a mode that is the same whatever the sizes are."""
    mode, nearest = node.attr("coordinate_transformation_mode"), node.attr("mode") == "nearest"
    plain = not node.attr("antialias", 0) and node.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    scales = [one.scale for one in axes or ()]
    rest = _given(node)
    if not is_float(x.dtype) or node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        pass
    elif plain and mode == "half_pixel_symmetric" and axes is not None:
        if all(one.size is not None or float(one.scale or 0).is_integer() for one in axes):
            y = remake(node, *node.inputs, coordinate_transformation_mode="half_pixel")
            return y if nearest else _close(y)
    elif plain and mode == "tf_crop_and_resize" and axes is not None and not nearest:
        if all(one.roi == (0.0, 1.0) and one.size != 1 for one in axes) and scales == [None] * len(axes):
            return _close(
                remake(node, x, _no_roi(node), *rest, coordinate_transformation_mode="align_corners")
            )
    elif plain and mode == "tf_half_pixel_for_nn" and not nearest:
        return _close(remake(node, x, _no_roi(node), *rest, nearest_mode=None))
    elif plain and mode == "tf_half_pixel_for_nn" and node.attr("nearest_mode") == "floor":  # noqa: SIM102
        if axes is not None and all(one.scale is not None and _half_up_is_floor(one.scale) for one in axes):
            attrs = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
            return remake(node, x, _no_roi(node), *rest, **attrs)
    enlarges = bool(scales) and all(scale is not None and scale >= 1 for scale in scales)
    if why == "antialias" and node.attr("mode") == "linear" and enlarges and is_float(x.dtype):
        return _close(remake(node, *node.inputs, antialias=None))
    if nearest and plain:
        by_index = _by_index(node, x)
        if by_index is not None:
            return by_index
    known = (
        "a resized dimension" if axes is not None else "its scales, sizes or roi are computed, or a dimension"
    )
    raise Skip(f"{why}: {known} of {x.name!r} is dynamic: {_ADVICE}")


def _by_index(node: Node, x: Tensor) -> Value | None:
    """A nearest one as a Gather by what is computed of the sizes, as onnxruntime computes it; None: not known."""
    scales, sizes = operands(node, 4)[2:]
    by_scale = scales is not None and _count(scales)
    given = scales if by_scale else sizes
    mode = node.attr("coordinate_transformation_mode")
    if x.shape is None or given is None or mode not in ("half_pixel", "asymmetric", "tf_half_pixel_for_nn"):
        return None
    numbers = known_elements(given)
    y: Any = x
    for place, axis in enumerate(_resized(node, x)):
        known = None if numbers is None or len(numbers) <= place else numbers[place]
        if known is not None and known == (1 if by_scale else x.shape[axis]):
            continue
        length = op.Gather(op.Shape(x), np.int64(axis))
        number = op.Gather(given, np.int64(place))
        if by_scale:
            scale: Any = np.float32(known) if isinstance(known, float | int) else number
            count: Any = op.Cast(op.Mul(op.Cast(length, to=1), scale), to=7)
        else:
            count = number if known is None or isinstance(known, str) else np.int64(known)
            scale = op.Div(op.Cast(count, to=1), op.Cast(length, to=1))
        places = op.Cast(op.Range(np.int64(0), count, np.int64(1)), to=1)
        if mode != "asymmetric":
            places = op.Add(places, np.float32(0.5))
        places = op.Div(float32_only(places), scale)
        if mode == "half_pixel":
            places = op.Sub(places, np.float32(0.5))
        rows = op.Cast(float32_only(_rounded(places, node.attr("nearest_mode"))), to=7)
        rows = _between(node, rows, op.Sub(length, np.int64(1)))
        y = op.Gather(y, rows, axis=axis)
    return y if y is not x else None


def _between(node: Node, rows: Value, last: Value) -> Value:
    """The rows, those before 0 or behind the last one at the end."""
    if node.opset >= 12:
        return op.Max(op.Min(rows, last), np.int64(0))
    rows = op.Where(op.Less(last, rows), last, rows)
    return op.Where(op.Less(rows, np.int64(0)), np.int64(0), rows)


def _rounded(places: Value, how: str) -> Value:
    if how in ("floor", "ceil"):
        return op.Floor(places) if how == "floor" else op.Ceil(places)
    whole = op.Floor(places)
    rest, half = op.Sub(places, whole), np.float32(0.5)
    up = op.Greater(rest, half) if how == "round_prefer_floor" else op.Not(op.Less(rest, half))
    return op.Where(up, op.Add(whole, np.float32(1)), whole)


def _half_up_is_floor(scale: float) -> bool:
    """Whether floor((i + 0.5) / scale) is (i + 0.5) / scale - 0.5 rounded half up, in float32, for all places."""
    places = (np.arange(1 << 14, dtype=np.float32) + np.float32(0.5)) / np.float32(scale)
    return bool((np.floor(places) == np.floor((places - np.float32(0.5)) + np.float32(0.5))).all())


def _remade(node: Node, x: Any, *scales: Any, **attrs: Any) -> Value:
    made: Value = remake(node, x, _no_roi(node), *scales, **attrs)
    return made


def _no_roi(node: Node) -> np.ndarray | None:
    return np.zeros(0, np.float32) if node.opset < 13 else None


_no_scales = _no_roi  # before opset 13 neither is optional


def _given(node: Node) -> list[Any]:
    """Its scales and sizes."""
    scales, sizes = operands(node, 4)[2:]
    return [scales] if sizes is None else [_no_scales(node) if scales is None else scales, sizes]


def _transposed(node: Node, x: Tensor, axes: list[_Axis] | None) -> Value:
    """A cubic one between transpositions that put what is resized last."""
    assert x.shape is not None
    if axes is None:
        raise Skip(f"what it resizes {x.name!r} to is computed")
    rank, moved = len(x.shape), [one.axis for one in axes]
    order = [axis for axis in range(rank) if axis not in moved]
    order += sorted(moved)
    by_size = axes[0].size is not None
    numbers = {one.axis: one.size if by_size else one.scale for one in axes}
    if by_size and not all(isinstance(x.shape[a], int) for a in order if a not in numbers):
        raise Skip(f"dimensions of {x.name!r} are dynamic, and it is resized to sizes: {_ADVICE}")
    given: list[Any] = [numbers.get(axis, x.shape[axis] if by_size else 1) for axis in order]
    last = [_no_scales(node), np.array(given, np.int64)] if by_size else [np.array(given, np.float32)]
    y = remake(node, op.Transpose(x, perm=order), _no_roi(node), *last, axes=None)
    return op.Transpose(y, perm=[order.index(axis) for axis in range(rank)])


def _net(attributes: str, scales: str, shape: str = "N, 2, 4, 6", opset: int = 19, more: str = "") -> str:
    roi = f"float[8] roi = {{{more}}}, " if more else ""
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[{shape}] x) => (y) <{roi}float[4] s = {{{scales}}}> {{
            y = Resize <{attributes}> (x, {"roi" if more else ""}, s) }}"""


_TF = 'coordinate_transformation_mode = "tf_half_pixel_for_nn", mode = "nearest", nearest_mode = '
_SYMMETRIC = 'coordinate_transformation_mode = "half_pixel_symmetric", mode = "linear"'
_CROP = 'coordinate_transformation_mode = "tf_crop_and_resize", mode = '
_FULL = "0, 0, 0, 0, 1, 1, 1, 1"
_PART = "0, 0, -0.5, 0.2, 1, 1, 1, 0.8"

EXAMPLES = [
    Fires(
        _net(_TF + '"floor"', "1, 1, 2, 1.5", "N, 2, H, W", 11, _FULL),
        becomes="""y = Resize <coordinate_transformation_mode = "half_pixel", mode = "nearest", nearest_mode = "round_prefer_ceil"> (x, {}, {1.0, 1.0, 2.0, 1.5})""",
    ),
    Fires(
        _net(_TF + '"ceil"', "1, 1, 2, 1.5", opset=11, more=_FULL),
        becomes="""_1 = Gather <axis = 2> (x, {1, 1, 2, 2, 3, 3, 3, 3})
        y = Gather <axis = 3> (_1, {1, 1, 2, 3, 3, 4, 5, 5, 5})""",
    ),
    Fires(
        _net(_TF + '"ceil"', "1, 1, 2, 1", "1, 1, H, 2", 11, _FULL),
        becomes="""_1 = Shape (x); _2 = Gather (_1, 2); _3 = Sub (_2, 1); _4 = Cast <to = 1> (_2)
        _5 = Mul (_4, 2.0); _6 = Cast <to = 7> (_5); _7 = Range (0, _6, 1)
        _8 = Cast <to = 1> (_7); _9 = Add (_8, 0.5); _10 = Div (_9, 2.0); _11 = Ceil (_10)
        _12 = Cast <to = 7> (_11); _13 = Less (_3, _12); _14 = Where (_13, _3, _12)
        _15 = Less (_14, 0); _16 = Where (_15, 0, _14); y = Gather <axis = 2> (x, _16)""",
    ),
    Fires(
        _net(_SYMMETRIC, "1, 1, 1, 1.3"),
        becomes="""_1 = Gather <axis = 3> (x, {0, 0, 1, 2, 3, 4, 4})
        _2 = Mul (_1, [1, 1, 1, 7] {0.8076923, 0.038461506, 0.26923072, 0.5, 0.73076916, 0.9615383, 0.19230747})
        _3 = Gather <axis = 3> (x, {1, 1, 2, 3, 4, 5, 5})
        _4 = Mul (_3, [1, 1, 1, 7] {0.19230768, 0.9615385, 0.7307693, 0.5, 0.26923084, 0.038461685, 0.8076925})
        y = Add (_2, _4)""",
    ),
    Fires(
        _net(_SYMMETRIC, "1, 1, 2, 3", "N, 2, H, W"),
        becomes="""y = Resize <coordinate_transformation_mode = "half_pixel", mode = "linear"> (x, , {1.0, 1.0, 2.0, 3.0})""",
    ),
    Fires(_net(_CROP + '"linear", extrapolation_value = 9.0', "1, 1, 2, 2", more=_PART)),
    Fires(_net(_CROP + '"linear"', "1, 1, 1, 1", "N, 1, 2, 3", more=_PART)),
    Fires(
        _net(_SYMMETRIC, "1, 1, 2, 2", "N, 1, 2, 2"),
        becomes="""y = Resize <coordinate_transformation_mode = "half_pixel", mode = "linear"> (x, , {1.0, 1.0, 2.0, 2.0})""",
    ),
    Fires(_net('antialias = 1, mode = "linear"', "1, 1, 0.5, 0.4")),
    Fires(
        _net('mode = "cubic"', "1, 2, 2, 1", "N, H, 3, 2"),
        becomes="""_1 = Transpose <perm = [0, 3, 1, 2]> (x)
        _2 = Resize <mode = "cubic"> (_1, , {1.0, 1.0, 2.0, 2.0})
        y = Transpose <perm = [0, 2, 3, 1]> (_2)""",
    ),
    Fires(
        _net('mode = "nearest"', "1, 1, 2, 2").replace("float[N", "int32[N"),
        becomes="""_1 = Gather <axis = 2> (x, {0, 0, 1, 1, 2, 2, 3, 3})
        y = Gather <axis = 3> (_1, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5})""",
    ),
    Skips(_net('mode = "nearest"', "1, 1, 2, 2")),
    Skips(_net('mode = "cubic"', "1, 1, 2, 2")),
    Skips(_net('antialias = 1, mode = "linear"', "1, 1, 0.5, 0.4", "N, 2, H, W"), because="--shape"),
    Skips(_net(_SYMMETRIC, "1, 1, 2, 1.3", "N, 2, H, W"), because="--shape"),
]
