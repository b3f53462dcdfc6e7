"""What a user could state so that what a target wants as a constant becomes one: flags that can be pasted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable

import numpy as np

from onnxq.base.grouped import reached
from onnxq.graph.types import Shape
from onnxq.graph.view import Node, Tensor

_MOST_WALKED = 200


_BY_NUMBERS = {
    "ConstantOfShape": (0,), "CumSum": (1,), "Expand": (1,), "OneHot": (1,), "Pad": (1, 3),
    "Range": (0, 1, 2), "Reshape": (1,), "Resize": (2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Tile": (1,),
    "TopK": (1,), "Upsample": (1,),
}  # fmt: skip
"""The inputs of operators that TensorRT has to know before a run: the host computes them, for a profile."""


def deciding_numbers(nodes: Iterable[Node], inputs: Iterable[Tensor]) -> dict[str, tuple[str, str]]:
    """The integer inputs of the model that decide sizes or places, which an engine has to know values of.

    Returns:
        By name the node that is decided, as `Reshape 'n0'`, and the flag that makes the input a constant.
    """
    own = {entry for entry in inputs if _is_shape_input(entry)}
    deciding: dict[str, tuple[str, str]] = {}
    seen: set[Tensor] = set()
    for node in nodes if own else ():
        if node.domain:
            continue
        for number in _numbered(node):
            operand = node.inputs[number] if number < len(node.inputs) else None
            if operand is None or operand.is_constant:
                continue
            if operand in own:
                deciding.setdefault(
                    operand.name, (f"{node.op} {node.name!r}", freezing(operand, _numbers(node, number)))
                )
            for entry in _values_behind(operand, seen):
                if entry in own:
                    deciding.setdefault(entry.name, (f"{node.op} {node.name!r}", freezing(entry)))
    return deciding


def _numbered(node: Node) -> tuple[int, ...]:
    """Those of `_BY_NUMBERS`; a Loop gives as many rows as it runs, where it gives any."""
    if node.op == "Loop":
        return (0,) if len(node.outputs) > len(node.inputs) - 2 else ()
    return _BY_NUMBERS.get(node.op, ())


def _is_shape_input(tensor: Tensor) -> bool:
    return tensor.dtype is not None and tensor.dtype.kind in "iu" and tensor.rank in (0, 1)


def size_makers(node: Node, ops: Collection[str]) -> list[Node]:
    """The nodes of some operators among what computes, of sizes, the numbers that decide a node's sizes."""
    found, seen = list[Node](), set[Tensor]()
    todo = [operand for operand in deciding_operands(node) if operand is not None and not operand.is_constant]
    while todo:
        source = todo.pop()
        maker = source.producer
        if source in seen or maker is None or maker.op in ("Shape", "Size"):
            continue
        seen.add(source)
        if maker.op in ops and not maker.domain:
            found.append(maker)
        todo += [one for one in maker.inputs if one is not None and not one.is_constant]
    return found


def deciding_operands(node: Node) -> list[Tensor | None]:
    """The inputs of a node that decide sizes or places: TensorRT has to know them before a run."""
    return [] if node.domain else [node.inputs[one] for one in _numbered(node) if one < len(node.inputs)]


def _values_behind(tensor: Tensor, seen: set[Tensor]) -> list[Tensor]:
    """The inputs of the model whose values, not sizes, a tensor is computed from; without those seen."""
    behind, todo = [], [tensor]
    while todo:
        source = todo.pop()
        if source in seen:
            continue
        seen.add(source)
        if source.producer is None:
            behind.append(source)
        elif source.producer.op not in ("Shape", "Size"):
            todo += [operand for operand in source.producer.inputs if operand is not None]
    return [source for source in behind if source.is_input]


def _numbers(node: Node, number: int) -> list[float] | None:
    """The values of an operand with which a node gives the shape that its output has; None: nobody knows."""
    out, data, count = node.outputs[0].shape, node.inputs[0], node.inputs[number]
    shape = None if data is None else data.shape
    kept = count is not None and count.shape == (len(out or ()),)
    if node.op == "Split":
        axis, parts = int(node.attr("axis", 0)), [one.shape for one in node.outputs]
        return _whole([None if part is None else part[axis] for part in parts])
    if out is None:
        return None
    if node.op == "ConstantOfShape" or (node.op in ("Reshape", "Expand") and kept):
        return _whole(out)
    if node.op == "Resize":
        return _whole(out) if number == 3 and kept else scales_of(node)
    if node.op == "OneHot":
        return _whole([out[int(node.attr("axis", -1))]])
    if node.op == "TopK":
        return _whole([out[int(node.attr("axis", -1))]])
    if node.op == "Tile" and shape is not None and len(shape) == len(out):
        pairs = list(zip(_whole(shape) or (), _whole(out) or (), strict=False))
        return [many // one for one, many in pairs] if pairs and all(one for one, _ in pairs) else None
    return None


def _whole(sizes: Iterable[object]) -> list[float] | None:
    """Sizes that are all known, else None."""
    dims = list(sizes)
    numbers = [float(one) for one in dims if isinstance(one, int)]
    return numbers if len(numbers) == len(dims) else None


def inputs_behind(tensor: Tensor) -> bool:
    """Whether a tensor is computed from values of the model's inputs; of sizes alone it is not."""
    return bool(_values_behind(tensor, set()))


def floats_behind(tensor: Tensor) -> bool:
    """Whether a tensor is computed from the values of floating-point inputs of the model."""
    return any(one.dtype is not None and one.dtype.kind == "f" for one in _values_behind(tensor, set()))


def freezing(tensor: Tensor, values: list[float] | list[bool] | None = None) -> str:
    """The flags that make a tensor a constant; "" where there are none.

    Args:
        tensor: what has to be constant.
        values: what it probably is; None: nobody knows.
    """
    if tensor.is_input:
        return f"--freeze {tensor.name}={_text(values)}"
    read = _inputs_behind(tensor)
    small = [one for one in read if one.rank is not None and one.rank <= 1]
    sizes = dict.fromkeys(str(dim) for one in read for dim in one.shape or () if isinstance(dim, str))
    return " ".join(
        [f"--freeze {one.name}=VALUE" for one in small]
        + ([f"--assume {dim}=SIZE" for dim in sizes] if len(small) < len(read) else [])
    )


def _text(values: list[float] | list[bool] | None) -> str:
    if values is None:
        return "VALUE"
    return ",".join(str(value).lower() if isinstance(value, bool) else f"{value:g}" for value in values)


def _inputs_behind(tensor: Tensor) -> list[Tensor]:
    """The inputs of the model that a tensor is computed from."""

    def operands(read: Tensor) -> list[Tensor]:
        maker = None if read.is_input else read.producer
        return [] if maker is None else [operand for operand in maker.inputs if operand is not None]

    walked = itertools.islice(reached([tensor], operands), _MOST_WALKED)
    return sorted((read for read in walked if read.is_input), key=lambda read: read.name)


def axes_of(node: Node) -> list[float] | None:
    """The axes with which a Squeeze, an Unsqueeze or a reduction gives the shape that its output has."""
    data, axes = node.operands(2)
    out = node.outputs[0].shape
    count = axes.shape[0] if axes is not None and axes.shape else 1
    if data is None or data.shape is None or out is None or not isinstance(count, int):
        return None
    rank = len(out) if node.op == "Unsqueeze" else len(data.shape)
    result = _RESULTS.get(node.op, _reduced(bool(node.attr("keepdims", 1))))
    for chosen in itertools.combinations(range(rank), count):
        if _matches(result(data.shape, chosen), out):
            return [float(axis) for axis in chosen]
    return None


def _squeezed(shape: Shape, axes: tuple[int, ...]) -> Shape | None:
    if any(shape[axis] != 1 for axis in axes):
        return None
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _unsqueezed(shape: Shape, axes: tuple[int, ...]) -> Shape | None:
    rest = iter(shape)
    return tuple(1 if axis in axes else next(rest, 0) for axis in range(len(shape) + len(axes)))


def _reduced(keep: bool) -> Callable[[Shape, tuple[int, ...]], Shape | None]:
    def reduced(shape: Shape, axes: tuple[int, ...]) -> Shape | None:
        if keep:
            return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        return tuple(size for axis, size in enumerate(shape) if axis not in axes)

    return reduced


_RESULTS: dict[str, Callable[[Shape, tuple[int, ...]], Shape | None]] = {
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
}


def _matches(shape: Shape | None, out: Shape) -> bool:
    pairs = zip(shape or (), out, strict=False)
    return shape is not None and len(shape) == len(out) and all(_same(one, other) for one, other in pairs)


def _same(one: object, other: object) -> bool:
    return one == other or not (isinstance(one, int) and isinstance(other, int))


def scales_of(node: Node) -> list[float] | None:
    """The scales with which a Resize gives the shape that its output has, where both are known."""
    data, out = node.operands(1)[0], node.outputs[0].shape
    shape = None if data is None else data.shape
    if shape is None or out is None or len(shape) != len(out):
        return None
    pairs = list(zip(shape, out, strict=True))
    if any(
        one == 0 or not (one == other or (isinstance(one, int) and isinstance(other, int)))
        for one, other in pairs
    ):
        return None
    return [1.0 if one == other else int(other or 0) / int(one or 1) for one, other in pairs]


def sizes_of_deconvolution(node: Node) -> str:
    """The flags that give a ConvTranspose the input from which its strides make its `output_shape`."""
    data, sizes = node.operands(1)[0], node.attr("output_shape") or []
    shape = None if data is None else data.shape
    if shape is None or len(shape) < len(sizes):
        return "--shape"
    strides = node.attr("strides") or [1] * len(sizes)
    sizes_of = {}
    for dim, size, stride in zip(shape[-len(sizes) :], sizes, strides, strict=False):
        if isinstance(dim, str):
            sizes_of[dim] = max(1, int(np.round(size / stride)))
    return " ".join(f"--assume {dim}={size}" for dim, size in sizes_of.items()) or "--shape"


def shape_of(tensor: Tensor) -> str:
    """The flag that says the shape of an input whose rank is not known; "" where its readers want none."""
    for user in tensor.users:
        if user.domain or not user.inputs or user.inputs[0] != tensor:
            continue
        kernel, weights = user.attr("kernel_shape"), user.operands(2)[1]
        shape = None if weights is None else weights.shape
        if user.op in ("Conv", "ConvTranspose") and shape is not None and len(shape) > 2:
            channels = shape[0] if user.op == "ConvTranspose" else _times(shape[1], user.attr("group", 1))
            return f"--shape {tensor.name}=Nx{channels}x{_spatial(len(shape) - 2)}"
        if user.op in ("MaxPool", "AveragePool", "LpPool") and kernel:
            return f"--shape {tensor.name}=NxCx{_spatial(len(kernel))}"
        if user.op in ("MatMul", "Gemm") and shape is not None and len(shape) == 2:
            size = shape[1] if user.op == "Gemm" and user.attr("transB") else shape[0]
            return f"--shape {tensor.name}=Nx{size}"
        if user.op in (
            "GlobalAveragePool",
            "GlobalMaxPool",
            "BatchNormalization",
            "InstanceNormalization",
            "Resize",
        ):
            return f"--shape {tensor.name}=NxCxHxW"
    return ""


def _times(size: object, group: int) -> object:
    return size * group if isinstance(size, int) else size


def _spatial(count: int) -> str:
    return "x".join(("D", "H", "W")[-count:] if count <= 3 else [f"D{i}" for i in range(count)])
