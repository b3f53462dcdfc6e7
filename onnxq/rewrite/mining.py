"""Numbers that stand in a snippet: what a rule gets wrong beside one of them, no other sample shows.

A Slice to 100 does nothing to what has at most 100 rows; `x > 37.5` is never true of ordinary values. So
sizes and values beside each number that stands in the graph are samples too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx

from onnxq.graph.infer import infer
from onnxq.graph.load import graphs
from onnxq.graph.rooted import values_of
from onnxq.graph.snippet import Snippet
from onnxq.graph.types import shape_of, value_info

# A constant of more elements holds weights, not thresholds.
_SMALL = 64
# From here on a number means "to the end".
_TO_THE_END = 2**31 - 1
# A float above this is a mask or a limit, and no size.
_LARGEST_SCALED = 1 << 12
# Where every element meets every other, a size costs its square.
_COUPLED = ("MatMul", "Einsum", "NonMaxSuppression")
_LARGEST_COUPLED = 64
# What so few numbers are may be a threshold of all elements.
_SCALAR = 4
# Of a longer list of integers only the ends are numbers that something is compared with.
_LIST = 8
# Samples are made for so many numbers; the smaller ones first.
_MAX_SIZES, _MAX_VALUES, _MAX_THRESHOLDS = 64, 256, 6
# What reads a table looks up to its end.
_LOOK_UP = ("Gather", "GatherElements", "GatherND", "Slice", "ScatterElements", "ScatterND")
# They compare a size with a number: from which input on. (Where a TopK's K is more than the size, it fails.)
_COMPARE = {
    "Slice": 1, "Range": 0, "Expand": 1, "Trilu": 1, "Min": 0, "Max": 0, "Clip": 1, "Mod": 1,
    "Less": 0, "LessOrEqual": 0, "Greater": 0, "GreaterOrEqual": 0, "Equal": 0,
}  # fmt: skip
_DIRECTLY = ("Slice", "Expand", "Trilu")
_WHOLE = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
# Where a size is a number among others, or decides how many elements there are.
_SIZE_IS_DATA = ("Shape", "Size", "Resize", "Upsample", "Range", "NonZero")
# Attributes that choose or name something; the others are numbers.
_NAMES = (
    "axis", "axes", "perm", "to", "keepdims", "group", "stash_type", "allowzero", "training_mode", "saturate",
    "batch_axis", "time_axis", "noop_with_empty_axes", "largest", "sorted", "align_corners", "fmod",
    "count_include_pad", "ceil_mode", "select_last_index", "exclusive", "reverse", "transA", "transB",
    "antialias", "exclude_outside", "epsilon", "momentum", "spatial", "num_heads", "unidirectional",
    "upper", "layout",
)  # fmt: skip
# From these sizes on a cast of them is not exact any more.
_INEXACT: dict[int, int] = {
    onnx.TensorProto.FLOAT16: 2048,
    onnx.TensorProto.BFLOAT16: 256,
    onnx.TensorProto.UINT8: 256,
    onnx.TensorProto.INT8: 128,
    onnx.TensorProto.INT16: 1 << 15,
    onnx.TensorProto.UINT16: 1 << 16,
}


@dataclass(frozen=True, slots=True)
class Mined:
    """Numbers beside which samples are made.

    Attributes:
        sizes: for dynamic dimensions, ascending.
        floats: for elements: the numbers themselves, what a product or a quotient of two makes of them,
            and what is next to each.
        integers: the same for integers.
        thresholds: a few of them that a whole input, or one element among zeros, is made of.
    """

    sizes: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    integers: tuple[int, ...] = ()
    thresholds: tuple[float, ...] = ()


def mined(snippet: Snippet) -> Mined:
    """The numbers that stand in either side of a snippet."""
    whole: set[int] = set()
    real: set[float] = set()
    sizes: set[int] = {0, 1}
    scalars: set[float] = set()
    for graph in itertools.chain(graphs(snippet.before.graph), graphs(snippet.after.graph)):
        sizes.update(_attributes(graph))
        for array in _constants(graph):
            if array.dtype.kind in "iu" and array.dtype.itemsize >= 4:
                ends = array.ravel() if array.size <= _LIST else np.array([array.min(), array.max()])
                stated = [float(number) for number in ends if abs(int(number)) < _TO_THE_END]
                whole.update(map(int, stated))
            elif array.dtype.kind == "f" or array.dtype == np.dtype(ml_dtypes.bfloat16):
                stated = array[np.isfinite(array)].astype(np.float64).ravel().tolist()
                real.update(stated)
            else:
                continue
            if array.size <= _SCALAR:
                scalars.update(stated)
        sizes.update(_lookups(graph))
    whole = set(map(abs, whole))
    if _speaks_of_sizes(snippet):
        for number in real:
            whole.update(_whole_beside(number))
        sizes.update(_INEXACT[kind] for kind in _casts(snippet) if kind in _INEXACT)
    if any(_is_coupled(model) for model in (snippet.before, snippet.after)):
        whole, sizes = ({n for n in numbers if n <= _LARGEST_COUPLED} for numbers in (whole, sizes))
    beside = {number + step for number in whole | sizes for step in (-1, 0, 1, 2)}
    chosen = sorted(number for number in beside if number >= 0)[:_MAX_SIZES]
    numbers = sorted({abs(number) for number in real | {float(n) for n in whole}}, key=_plainness)
    derived = list(dict.fromkeys(itertools.islice(_derived(numbers), _MAX_VALUES)))
    integers = sorted({int(v) for v in derived if v < 2**62 and v == int(v)})
    integers = [sign * (v + step) for v in integers for step in (0, 1, -1) for sign in (1, -1)]
    thresholds = sorted({abs(s) for s in scalars} - {0.0, 1.0}, reverse=True)[:_MAX_THRESHOLDS]
    thresholds += [1.0, 0.0]
    return Mined(tuple(chosen), tuple(derived), tuple(dict.fromkeys(integers)), tuple(thresholds))


def _plainness(number: float) -> tuple[bool, float]:
    """Sorts numbers that somebody wrote before what was learned."""
    return (float(f"{number:.3g}") != number, number)


def _derived(numbers: list[float]) -> Iterator[float]:
    """What an element must be for a product, quotient, sum or square of it to be one of the numbers."""
    yield from numbers
    few = numbers[:8]
    for number in few:
        yield number / 2
        yield float(np.sqrt(number))
    for one, other in itertools.permutations(few, 2):
        yield abs(one - other)
        yield one + other
        if other and np.isfinite(one / other):
            yield one / other
        yield one * other


def _whole_beside(number: float) -> Iterator[int]:
    """The sizes at which a size times this number, or this number itself, makes a step."""
    if abs(number) < _LARGEST_SCALED:
        yield abs(int(number))
        rest = abs(number - round(number))
        if rest and 1 / rest < _TO_THE_END:
            yield round(1 / rest)


def _constants(graph: onnx.GraphProto) -> Iterable[np.ndarray]:
    """Small constants, and the floats among the attributes, of a graph, its bodies left out."""
    for tensor in graph.initializer:
        yield from _small(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _NAMES:
                continue
            if attribute.HasField("t"):
                yield from _small(attribute.t)
            elif attribute.type == onnx.AttributeProto.FLOAT:
                yield np.array([attribute.f], np.float32)
            elif attribute.type == onnx.AttributeProto.FLOATS:
                yield np.array(attribute.floats, np.float32)


def _attributes(graph: onnx.GraphProto) -> Iterator[int]:
    """The integers among the attributes: kernels, strides, limits."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name not in _NAMES:
                yield from (
                    abs(number) for number in (attribute.i, *attribute.ints) if abs(number) < _TO_THE_END
                )


def _small(tensor: onnx.TensorProto) -> Iterator[np.ndarray]:
    if int(np.prod(tensor.dims, dtype=np.int64)) <= _SMALL:
        yield onnx.numpy_helper.to_array(tensor)


def _lookups(graph: onnx.GraphProto) -> Iterator[int]:
    """The sizes of constants that somebody may look something up in."""
    tables = {node.input[0] for node in graph.node if node.op_type in _LOOK_UP and node.input}
    if not tables:
        return
    for tensor in graph.initializer:
        if tensor.name in tables or int(np.prod(tensor.dims, dtype=np.int64)) <= _SMALL:
            yield from (int(size) for size in tensor.dims if size > 1)


def _casts(snippet: Snippet) -> Iterator[int]:
    for model in (snippet.before, snippet.after):
        for graph in graphs(model.graph):
            for node in graph.node:
                yield from (a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to")


def _is_coupled(model: onnx.ModelProto) -> bool:
    nodes = (node for graph in graphs(model.graph) for node in graph.node)
    return any(node.op_type in _COUPLED or node.domain == "com.microsoft" for node in nodes)


def _speaks_of_sizes(snippet: Snippet) -> bool:
    return any(
        node.op_type in _SIZE_IS_DATA
        for model in (snippet.before, snippet.after)
        for graph in graphs(model.graph)
        for node in graph.node
    )


def out_of_reach(snippet: Snippet, largest: int) -> int | None:
    """A number that an operator compares with the size of a dynamic dimension, and that no sample reached.

    Args:
        snippet: the two sides.
        largest: the largest size of a dimension that both sides ran with.
    """
    operators = tuple(_COMPARE) if _speaks_of_sizes(snippet) else _DIRECTLY
    for model in (snippet.before, snippet.after):
        for graph in graphs(model.graph):
            constants = {tensor.name: tensor for tensor in graph.initializer}
            for node in graph.node:
                if node.op_type not in operators or node.domain:
                    continue
                for name in node.input[_COMPARE[node.op_type] :]:
                    if name not in constants or constants[name].data_type not in _WHOLE:
                        continue
                    numbers = values_of(constants[name]).ravel().tolist()
                    far = [number for number in map(abs, numbers) if largest < number < _TO_THE_END]
                    if far and not (
                        node.op_type == "Slice" and _cuts_fixed_sizes(snippet, model, node, constants)
                    ):
                        return int(far[0])
    return None


def _cuts_fixed_sizes(
    snippet: Snippet,
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    constants: Mapping[str, onnx.TensorProto],
) -> bool:
    """Whether all dimensions that a Slice cuts are known to be of a fixed size."""
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    del shaped.graph.input[:]
    shaped.graph.input.extend(value_info(name, dtype, shape) for name, dtype, shape in snippet.inputs)
    try:
        graph = infer(shaped).graph
    except Exception:  # of a model that ONNX finds fault with: its C++ errors have no common base
        return False
    shapes = {info.name: shape_of(info.type.tensor_type.shape) for info in (*graph.input, *graph.value_info)}
    shape = shapes.get(node.input[0])
    if shape is None:
        return False
    axes: Sequence[int] = range(len(shape))
    if len(node.input) > 3 and node.input[3]:
        if node.input[3] not in constants:
            return False
        axes = onnx.numpy_helper.to_array(constants[node.input[3]]).ravel().tolist()
    elif node.input[1] in constants:
        axes = range(int(np.prod(constants[node.input[1]].dims)))
    return all(-len(shape) <= axis < len(shape) and isinstance(shape[axis], int) for axis in axes)
