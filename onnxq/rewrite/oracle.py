"""What a snippet computes in double precision: how far a rounded result is off, and how far it may be.

ONNX's own evaluator runs a copy whose weights, inputs and casts are double; onnxruntime has no such kernels.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnxq.graph.load import graphs, tensors
from onnxq.graph.moves import MOVES
from onnxq.graph.rooted import values_of
from onnxq.graph.source import copy_model
from onnxq.graph.types import float_info
from onnxq.rewrite import batch
from onnxq.run import ort, reference

# A replacement may be so many times further from the oracle than the original is over its channel,
FACTOR = 4.0
# or the original than the replacement where nobody else says what the original is: a fused kernel may be
# worse than its parts;
FACTOR_OF_UNKNOWN = 32.0
# plus so many units in the last place of what is summed, times the square root of how many terms.
_ULPS = 4.0
_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
# Inputs of more elements are compared with the oracle on fewer samples.
LARGE = 1 << 16

_SUMS = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Sub", "Sum", "BatchNormalization", "ReduceSum",
    "ReduceMean", "GlobalAveragePool", "AveragePool",
)  # fmt: skip
_REDUCES = re.compile(rf"^({'|'.join(_SUMS)})$|^Reduce|Normalization$")
# They sum within, and give something else.
_WITHIN = ("Normalization", "LSTM", "GRU", "RNN", "Loss", "Attention")
# Each of what they give is a sum, in an order of their own: on the way it may overflow, and cancel. Of a Gelu
# that is what its definition says, and no kernel.
_IN_ANY_ORDER = frozenset(("DFT", "STFT", "Einsum", "CumSum", "Col2Im", "Gelu"))
# What they give moves much more than what they read, for some inputs: then nobody gives the last places.
_STEEP = ("Softmax", "LogSoftmax", "Exp", "Pow", "CumProd", "ReduceProd", "ReduceLogSumExp", "ReduceLogSum")
# How inputs are moved to see how far an output moves: signs, by turns, and units in the last place. The first
# is enough where that is about the same for all inputs; of steep ones others tell which of two large values
# wins.
_NUDGES = (
    ((1.0, -1.0, -1.0), 1.0),
    ((1.0, 1.0, -1.0, 1.0, -1.0), FACTOR),
    ((-1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0), FACTOR),
    ((-1.0, -1.0, 1.0), FACTOR),
)
_OPEN = 0.1  # of the largest value of an output: moving so much it is not determined
# They change no magnitude, or take what is there from place to place.
_KEEP = (*MOVES, "Concat", "Cast", "Neg", "Relu", "Clip", "LeakyRelu")
_BY_CHANNEL = (
    "Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization", "GroupNormalization", "FusedConv",
    "GlobalAveragePool", "AveragePool", "MaxPool", "PRelu",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Truth:
    """What an output is in double precision.

    Attributes:
        values: the output, float64.
        magnitude: for each element the sum of the magnitudes of what is summed.
        terms: how many are summed, roughly.
        axis: its channel axis.
        factor: what the smallest weight, which rounds to a multiple of the smallest number, may be times.
        cancels: whether sums on the way may cancel, of which the magnitude tells nothing.
        multiplies: whether `factor` is of products, which may overflow before they meet a zero.
        sway: how far the output moves where each input is a unit in the last place off, or a few: a result
            that is no further off is that of an input that nobody can tell from this one. None: not known.
    """

    values: np.ndarray
    magnitude: np.ndarray
    terms: float
    axis: int
    factor: float = 1.0
    cancels: bool = False
    multiplies: bool = False
    sway: np.ndarray | None = None

    def swayed(self, moved: Any) -> Truth:
        """The same, where the output moves to this with its inputs."""
        with np.errstate(all="ignore"):
            gaps = np.abs(self.values - moved)
        gaps = np.where(np.isfinite(gaps), gaps, 0.0)
        return replace(self, sway=gaps if self.sway is None else np.maximum(self.sway, gaps))

    @property
    def is_open(self) -> bool:
        """Whether rounding decides what the output is: of two large scores it says which one wins."""
        if self.sway is None:
            return False
        largest = np.max(np.abs(self.values[np.isfinite(self.values)]), initial=0.0)
        return bool(np.max(self.sway, initial=0.0) > _OPEN * largest)


class Oracle:
    """A model in double precision."""

    def __init__(self, model: onnx.ModelProto, *, sways: bool = False) -> None:
        """Takes a model.

        Args:
            model: the model.
            sways: whether to tell how far an output moves with its inputs, whatever computes it.

        Raises:
            RunError: ONNX's evaluator does not know an operator of it, or is too slow in one.
        """
        if any(node.op_type in _SLOW for node in model.graph.node):
            raise ort.RunError("onnx's reference evaluator takes too long")
        wide = _folded(_in_double(model))
        sums = magnitudes(wide.graph)
        if sums is not None:
            wide.graph.MergeFrom(sums)
        self._session = reference.Evaluator(wide, own=_OWN)
        self._describe(model, summed=sums is not None, sways=sways)

    def _describe(self, model: onnx.ModelProto, *, summed: bool, sways: bool = False) -> None:
        """What of a model says how far it may be off; `summed`: whether it gives magnitudes, too."""
        self._summed = summed
        operators = {node.op_type for node in model.graph.node}
        self._axis = 1 if operators & set(_BY_CHANNEL) else -1
        self._terms = float(max(map(_terms, model.graph.initializer), default=1) if summed else 1)
        within = any(node.domain or node.op_type.endswith(_WITHIN) for node in model.graph.node)
        steep = any(_is_steep(node) for node in model.graph.node)
        self._is_steep = not sways and steep
        self._nudges = _NUDGES if self._is_steep else _NUDGES[:1] if sways else ()
        self._multiplies = bool(operators & {"CumProd", "ReduceProd"})
        several = len(model.graph.node) > 2 and operators & set(_SUMS)
        self._inner = within or bool(several or operators & _IN_ANY_ORDER)
        self._reducing = [node for node in model.graph.node if _REDUCES.search(node.op_type)]

    def run(self, samples: Sequence[Mapping[str, np.ndarray]]) -> list[list[Truth | None]]:
        """The outputs for each of several inputs; None for those that are no floats.

        Several are run as one batch, which the caller knows to be possible.

        Raises:
            RunError: the evaluator fails in a node, or rounds what it gives.
            ValueError: the outputs are no batch.
        """
        wide = [{name: _double(array) for name, array in feeds.items()} for feeds in samples]
        truths = [self._truths(*one) for one in zip(samples, batch.run(self._session, wide), strict=True)]
        for signs, times in self._nudges:
            nudged = [{name: _nudged(a, signs, times) for name, a in feeds.items()} for feeds in samples]
            moved = batch.run(self._session, nudged)
            truths = [
                [t and t.swayed(other) for t, other in zip(one, others[: len(one)], strict=True)]
                for one, others in zip(truths, moved, strict=True)
            ]
        return truths

    def _truths(self, given: Mapping[str, np.ndarray], outputs: Sequence[Any]) -> list[Truth | None]:
        values, sums = _halves(outputs) if self._summed else (outputs, outputs)
        read = sum(array.size for array in given.values())
        floats = (wide for wide in map(_double, given.values()) if wide.dtype == np.float64)
        factor = 1.0
        if self._multiplies:  # what is lost below the smallest number is multiplied by all others
            factor = max(map(_product, floats), default=1.0)
        elif self._summed or self._is_steep:
            factor = max(map(_largest, floats), default=1.0)
        cancels = not self._summed and self._inner
        truths: list[Truth | None] = []
        for value, summed in zip(values, sums, strict=True):
            if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float16):
                raise ort.RunError("onnx's reference evaluator rounds what it gives")  # as of AffineGrid
            if not isinstance(value, np.ndarray) or value.dtype != np.float64:
                truths.append(None)
                continue
            reduced = max((_reduced(node, read, value) for node in self._reducing), default=1.0)
            terms = max(self._terms, reduced) + 1
            truths.append(Truth(value, np.abs(summed), terms, self._axis, factor, cancels, self._multiplies))
        return truths


def _reduced(node: onnx.NodeProto, read: int, given: np.ndarray) -> float:
    """How many numbers a node sums for each that it gives; a normalization, for each of its means.

    Args:
        node: it sums.
        read: how many numbers there are in all.
        given: what it gives.
    """
    given_by: dict[str, int] = {attribute.name: attribute.i for attribute in node.attribute}
    kind, axis, shape = node.op_type.removesuffix("Normalization"), given_by.get("axis", -1), given.shape
    numbers = {
        "Group": shape[1:], "Instance": shape[2:], "Layer": shape[axis:], "RMS": shape[axis:],
        "Lp": shape[axis:][:1], "MeanVariance": shape,
    }.get(kind)  # fmt: skip
    if numbers is None:
        return float(read) / max(1, given.size)
    return float(math.prod(numbers)) / max(1, given_by.get("num_groups", 1))


def _is_steep(node: onnx.NodeProto) -> bool:
    """Whether what a node gives may move much more than what it reads."""
    if node.op_type == "BatchNormalization" and not node.domain:  # linear but in training
        return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
    return bool(node.domain) or node.op_type.endswith(_WITHIN) or node.op_type in _STEEP


def room(before: np.ndarray, truth: Truth, factor: float = FACTOR) -> np.ndarray:
    """How far each element of a replacement's output may be from the oracle, float64.

    Args:
        before: the original's output.
        truth: the oracle.
        factor: how many times further than that.
    """
    info = float_info(before.dtype)
    with np.errstate(all="ignore"):
        off = np.abs(before.astype(np.float64) - truth.values)
    off = np.where(np.isfinite(off), off, 0.0)
    if truth.sway is not None:
        off = off + truth.sway
    if off.ndim > 1:
        others = tuple(axis for axis in range(off.ndim) if axis != truth.axis % off.ndim)
        off = np.max(off, axis=others, keepdims=True, initial=0.0)
    else:
        off = np.max(off, initial=0.0)
    magnitude = np.where(np.isfinite(truth.magnitude), truth.magnitude, 0.0)
    if truth.cancels and magnitude.ndim:
        magnitude = np.max(magnitude, initial=0.0)
    least = truth.terms * float(info.smallest_subnormal) * truth.factor
    allowed: np.ndarray = (
        factor * off + _ULPS * np.sqrt(truth.terms) * float(info.eps) * magnitude + _ULPS * least
    )
    return np.broadcast_to(allowed, truth.values.shape)


def believable(before: np.ndarray, truth: Truth) -> bool:
    """Whether an oracle speaks of the same function at all: ordinary values are near it."""
    exact = truth.values
    if exact.shape != before.shape:
        return False
    finite = np.isfinite(exact) & np.isfinite(before)
    summed = truth.magnitude[np.isfinite(truth.magnitude)]
    largest = float(np.max(summed, initial=0.0))
    off = float(np.max(np.abs(before.astype(np.float64)[finite] - exact[finite]), initial=0.0))
    return off <= float(np.sqrt(float(float_info(before.dtype).eps))) * largest


def _nudged(array: np.ndarray, signs: Sequence[float], times: float) -> np.ndarray:
    """Floats in double precision, each so many units in the last place larger or smaller, by turns."""
    wide = _double(array)
    if wide is array:
        return array
    turns = np.resize(signs, wide.size).reshape(wide.shape)
    return np.asarray(wide * (1 + turns * times * float(float_info(array.dtype).eps)))


def _largest(array: np.ndarray) -> float:
    """The largest finite magnitude of an array, at least one."""
    return float(np.max(np.abs(array), initial=1.0, where=np.isfinite(array)))


def _product(array: np.ndarray) -> float:
    """The largest product of the finite magnitudes beyond one that stand along an axis; finite."""
    magnitudes = np.maximum(np.abs(np.where(np.isfinite(array), array, 1.0)), 1.0)
    with np.errstate(over="ignore"):
        most = max(
            (float(np.max(magnitudes.prod(axis), initial=1.0)) for axis in range(array.ndim)), default=1
        )
    return min(most, float(np.finfo(np.float64).max) / 4)


def _double(array: np.ndarray) -> np.ndarray:
    narrow = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return array.astype(np.float64) if narrow else array


def _in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which all that is of float32 or less is double."""
    wide = copy_model(model)
    for tensor in tensors(wide.graph):
        if tensor.data_type in _NARROW:
            values = values_of(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for graph in graphs(wide.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.type.tensor_type.elem_type in _NARROW:
                info.type.tensor_type.elem_type = TensorProto.DOUBLE
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in _NARROW:
                    attribute.i = TensorProto.DOUBLE
    return wide


def _folded(wide: onnx.ModelProto) -> onnx.ModelProto:
    """The model with what depends on no input as constants.

    Raises:
        RunError: the evaluator fails in a node.
    """
    constants = {tensor.name for tensor in wide.graph.initializer} | {""}
    early = []
    for node in wide.graph.node:
        bodies = any(attribute.HasField("g") for attribute in node.attribute)
        if not bodies and not node.domain and constants.issuperset(node.input):
            early.append(node)
            constants.update(node.output)
    if not early:
        return wide
    part = onnx.ModelProto(ir_version=wide.ir_version)
    part.opset_import.extend(wide.opset_import)
    part.graph.name = "constants"
    part.graph.initializer.extend(wide.graph.initializer)
    part.graph.node.extend(early)
    names = [name for node in early for name in node.output if name]
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    values = reference.Evaluator(part, own=_OWN).run({})
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in values):
        return wide
    outputs = set(names)
    kept = [node for node in wide.graph.node if not outputs.intersection(node.output)]
    rest = onnx.GraphProto()
    rest.node.extend(kept)
    del wide.graph.node[:]
    wide.graph.node.extend(rest.node)
    wide.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in zip(names, values, strict=True))
    return wide


# -- the magnitude of sums -------------------------------------------------------------------------


def magnitudes(graph: onnx.GraphProto) -> onnx.GraphProto | None:
    """What adds, in a graph, where that adds or subtracts, all factors without their signs.

    Args:
        graph: a graph of one type of floats.

    Returns:
        Nodes, and an output for each of the graph's, to be merged into it; None where it does more than sums
        of multiples of what it reads.
    """
    constants = {tensor.name for tensor in graph.initializer}
    if not any(node.op_type in _SUMS for node in graph.node):
        return None
    for node in graph.node:
        learned = [name in constants for name in node.input]
        scales = (node.op_type == "Mul" and any(learned)) or (node.op_type == "Div" and learned[1:] == [True])
        if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul") and not any(learned[:2]):
            return None
        if node.domain or not (node.op_type in _SUMS or node.op_type in _KEEP or scales):
            return None
    floats = [t.name for t in graph.initializer if t.data_type in _FLOATS]
    floats += [i.name for i in graph.input if i.type.tensor_type.elem_type in _FLOATS]
    made = {*floats, *(name for node in graph.node for name in node.output if name)}
    sums = onnx.GraphProto()
    for name in floats:
        sums.node.add(op_type="Abs", input=[name], output=[_SUM + name])
    for node in graph.node:
        summed = onnx.NodeProto()
        summed.CopyFrom(node)
        summed.name = ""
        for names in (summed.input, summed.output):
            names[:] = [_SUM + name if name in made else name for name in names]
        if node.op_type == "BatchNormalization":  # which subtracts its mean
            sums.node.add(op_type="Neg", input=[summed.input[3]], output=[f"minus:{summed.output[0]}"])
            summed.input[3] = sums.node[-1].output[0]
        if node.op_type == "Sub":
            summed.op_type = "Add"
        elif node.op_type in ("Neg", "Relu", "Clip", "LeakyRelu"):
            summed.op_type = "Identity"
            del summed.attribute[:], summed.input[1:]
        for attribute in summed.attribute:
            if attribute.name in ("alpha", "beta"):
                attribute.f = abs(attribute.f)
        sums.node.append(summed)
    sums.output.extend(onnx.ValueInfoProto(name=_SUM + info.name) for info in graph.output)
    return sums


_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT)
_SUM = "sum:"  # what stands in front of the name of what is summed


def _halves(outputs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return outputs[: len(outputs) // 2], outputs[len(outputs) // 2 :]


def _terms(tensor: TensorProto) -> int:
    """How many terms a product with a constant sums."""
    dims = list(tensor.dims)
    if len(dims) < 2:
        return 1
    return max(dims[-2:]) if len(dims) == 2 else int(np.prod(dims[1:])) if len(dims) > 3 else int(dims[-2])


# -- operators for which ONNX's evaluator is slow or wrong -----------------------------------------


def _own_operators() -> list[Any]:
    from onnx.reference.op_run import OpRun

    def made(name: str, function: Callable[..., np.ndarray], domain: str = "") -> Any:
        def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[np.ndarray]:
            return (function(*inputs, **attributes),)

        return type(name, (OpRun,), {"op_domain": domain, "_run": run})

    return [
        made("Conv", _conv),
        made("ConvTranspose", _conv_transpose),
        made("Col2Im", _col2im),
        made("AveragePool", _average_pool),
        made("BatchNormalization", _batch_normalization),
        made("GroupNormalization", _group_normalization),
        made("DeformConv", _deform_conv),
        made("ReorderInput", _in_blocks, _NCHWC),
        made("ReorderOutput", _out_of_blocks, _NCHWC),
    ]


_OWN = _own_operators
_SLOW = ("GridSample",)


def _window(shape: Sequence[int], size: Sequence[int], attributes: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Strides, dilations and pads (begins, then ends) of a convolution of this input and kernel."""
    rank = len(size)
    strides = list(attributes.get("strides") or [1] * rank)
    dilations = list(attributes.get("dilations") or [1] * rank)
    pads = list(attributes.get("pads") or [0] * 2 * rank)
    kind = attributes.get("auto_pad") or "NOTSET"
    if kind == "VALID":
        pads = [0] * 2 * rank
    elif kind != "NOTSET":
        total = [
            max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
            for n, k, s, d in zip(shape, size, strides, dilations, strict=True)
        ]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = less + more if kind == "SAME_UPPER" else more + less
    return strides, dilations, pads


def _counts(
    shape: Sequence[int],
    size: Sequence[int],
    dilations: Sequence[int],
    strides: Sequence[int],
    *,
    up: bool = False,
) -> list[int]:
    """How often a window of this size fits into a padded input along each axis; `up`: the last in part."""
    rest = [(n - (k - 1) * d - 1, s) for n, k, d, s in zip(shape, size, dilations, strides, strict=True)]
    counts = [(-(-more // s) if up else more // s) + 1 for more, s in rest]
    if min(counts, default=1) < 1:
        raise ValueError("the kernel is larger than the input")
    return counts


def _places(
    size: Sequence[int], dilations: Sequence[int], counts: Sequence[int], strides: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Each place of a window, and the index of what all windows, of which there are so many, have there."""
    for place in np.ndindex(*size):
        cut = (
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilations, counts, strides, strict=True)
        )
        yield place, (..., *cut)


def _within(shape: Sequence[int], pads: Sequence[int]) -> Any:
    """The index of what is inside of pads, the last axes of which have this shape."""
    rank = len(shape)
    return (..., *(slice(b, n - e) for b, e, n in zip(pads[:rank], pads[rank:], shape, strict=True)))


def _conv(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, **attributes: Any) -> np.ndarray:
    group = attributes.get("group") or 1
    rank, size = x.ndim - 2, w.shape[2:]
    strides, dilations, pads = _window(x.shape[2:], size, attributes)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]) if any(pads) else x
    counts = _counts(padded.shape[2:], size, dilations, strides)
    samples, places = x.shape[0], int(np.prod(counts))
    y = np.zeros((group, w.shape[0] // group, samples * places))  # one product for all samples
    weights = w.reshape(group, w.shape[0] // group, w.shape[1], *size)
    for place, inside in _places(size, dilations, counts, strides):
        part = padded[inside].reshape(samples, group, w.shape[1], places).transpose(1, 2, 0, 3)
        at: Any = (..., *place)
        y += weights[at] @ part.reshape(group, w.shape[1], samples * places)
    y = y.reshape(group, w.shape[0] // group, samples, places).transpose(2, 0, 1, 3)
    return _with_bias(y.reshape(samples, w.shape[0], *counts), b)


def _conv_transpose(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, **attributes: Any
) -> np.ndarray:
    kind = attributes.get("auto_pad") or "NOTSET"
    if kind != "NOTSET" or attributes.get("output_shape"):
        raise ValueError("pads of a ConvTranspose that depend on its input")
    group = attributes.get("group") or 1
    rank, size = x.ndim - 2, w.shape[2:]
    strides, dilations, pads = _window(x.shape[2:], size, attributes)
    extra = attributes.get("output_padding") or [0] * rank
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, k, s, d, e in zip(x.shape[2:], size, strides, dilations, extra, strict=True)
    ]
    y = np.zeros((group, x.shape[0], w.shape[1], *full))
    data = x.reshape(x.shape[0], group, x.shape[1] // group, -1).swapaxes(0, 1)
    weights = w.reshape(group, w.shape[0] // group, w.shape[1], *size)
    for place, to in _places(size, dilations, x.shape[2:], strides):
        at: Any = (..., *place)
        part = weights[at].swapaxes(1, 2)[:, None] @ data
        y[to] += part.reshape(*part.shape[:3], *x.shape[2:])
    every = y.swapaxes(0, 1).reshape(x.shape[0], group * w.shape[1], *full)
    return _with_bias(every[_within(full, pads)], b)


def _col2im(x: np.ndarray, image: np.ndarray, block: np.ndarray, **attributes: Any) -> np.ndarray:
    """Sums blocks where they overlap in an image: all blocks at once, a place of theirs after another."""
    shape, size = tuple(map(int, image)), tuple(map(int, block))
    strides, dilations, pads = _window(shape, size, attributes)
    full = [n + b + e for n, b, e in zip(shape, pads[: len(size)], pads[len(size) :], strict=True)]
    counts = _counts(full, size, dilations, strides)
    columns = x.reshape(x.shape[0], -1, math.prod(size), *counts)
    y = np.zeros((*columns.shape[:2], *full))
    for number, (_, to) in enumerate(_places(size, dilations, counts, strides)):
        y[to] += columns[:, :, number]
    return np.asarray(y[_within(full, pads)])


def _average_pool(x: np.ndarray, **attributes: Any) -> np.ndarray:
    """Means over windows, of which those that ceil_mode adds reach beyond the pads, where nothing is counted.

    ONNX's evaluator takes a window at a time, and moves them where ceil_mode adds more than one number.
    """
    size, up = attributes["kernel_shape"], bool(attributes.get("ceil_mode"))
    strides, dilations, pads = _window(x.shape[2:], size, attributes)
    begins, ends = pads[: len(size)], pads[len(size) :]
    padded = [n + b + e for n, b, e in zip(x.shape[2:], begins, ends, strict=True)]
    counts = _counts(padded, size, dilations, strides, up=up)
    if up:  # none begins behind the last number
        rows = zip(counts, x.shape[2:], begins, strides, strict=True)
        counts = [min(count, (n + b - 1) // s + 1) for count, n, b, s in rows]
    reach = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(counts, strides, size, dilations, strict=True)
    ]
    full = [max(one, other) for one, other in zip(padded, reach, strict=True)]
    values, counted = np.zeros((*x.shape[:2], *full)), np.zeros(full)
    after = [n - b - m for n, b, m in zip(full, begins, x.shape[2:], strict=True)]
    values[_within(full, [*begins, *after])] = x
    if attributes.get("count_include_pad"):
        counted[tuple(map(slice, padded))] = 1
    else:
        counted[_within(full, [*begins, *after])] = 1
    total, number = np.zeros((*x.shape[:2], *counts)), np.zeros(counts)
    for _, inside in _places(size, dilations, counts, strides):
        total += values[inside]
        number += counted[inside]
    return np.asarray(total / number)


def _group_normalization(x: np.ndarray, scale: np.ndarray, b: np.ndarray, **attributes: Any) -> np.ndarray:
    """ONNX's body computes in float32, and takes the variance as a difference of two squares."""
    groups, (samples, channels) = int(attributes["num_groups"]), x.shape[:2]
    rows = x.reshape(samples, groups, -1)
    centered = rows - rows.mean(axis=2, keepdims=True)
    deviation = np.sqrt((centered * centered).mean(axis=2, keepdims=True) + attributes["epsilon"])
    each = [-1, *[1] * (x.ndim - 2)]
    factor, shift = (np.repeat(one, channels // len(one)).reshape(each) for one in (scale, b))
    y: np.ndarray = (centered / deviation).reshape(x.shape) * factor + shift
    return y


def _batch_normalization(
    x: np.ndarray, scale: np.ndarray, b: np.ndarray, mean: np.ndarray, var: np.ndarray, **attributes: Any
) -> np.ndarray:
    """In inference: ONNX's evaluator takes any model before opset 14 that states a momentum for training."""
    if attributes.get("training_mode"):
        raise ValueError("training")
    epsilon = attributes.get("epsilon")
    each = (-1, *[1] * (x.ndim - 2))
    root = np.sqrt(var + (1e-5 if epsilon is None else epsilon)).reshape(each)
    y: np.ndarray = (x - mean.reshape(each)) / root * scale.reshape(each) + b.reshape(each)
    return y


def _deform_conv(
    x: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    b: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    **attributes: Any,
) -> np.ndarray:
    """A deformable convolution in two dimensions: every place is read at once."""
    images, channels, height, width = x.shape
    kernel = w.shape[2:]
    strides, dilations, pads = _window(x.shape[2:], kernel, attributes)
    parts, groups = int(attributes.get("offset_group") or 1), int(attributes.get("group") or 1)
    rows, columns = offset.shape[2:]
    element = np.indices(kernel).reshape(2, -1, 1, 1)
    moved = offset.reshape(images, parts, element.shape[1], 2, rows, columns)
    grids = np.arange(rows)[:, None] * strides[0], np.arange(columns)[None] * strides[1]
    places = [
        grids[side] + element[side] * dilations[side] - pads[side] + moved[:, :, :, side] for side in (0, 1)
    ]
    image = np.arange(images).reshape(-1, 1, 1, 1, 1)
    split = x.reshape(images, parts, -1, height, width)
    part = np.arange(parts).reshape(1, -1, 1, 1, 1)
    total = np.zeros((*places[0].shape, channels // parts))
    near = (places[0] > -1) & (places[0] < height) & (places[1] > -1) & (places[1] < width)
    lows = [np.floor(np.where(near, place, 0)) for place in places]
    for corner in np.ndindex(2, 2):
        at = [low + step for low, step in zip(lows, corner, strict=True)]
        inside = near & (at[0] >= 0) & (at[0] < height) & (at[1] >= 0) & (at[1] < width)
        weight = np.prod([1 - np.abs(place - one) for place, one in zip(places, at, strict=True)], axis=0)
        y, z = (np.where(inside, one, 0).astype(np.int64) for one in at)
        total += np.where(inside, weight, 0)[..., None] * split[image, part, :, y, z]
    if mask is not None:
        total *= mask.reshape(images, parts, -1, rows, columns)[..., None]
    # [images, parts, places, rows, columns, channels] -> [images, groups, channels, places, rows, columns]
    read = np.moveaxis(total, 5, 2).reshape(images, groups, -1, element.shape[1], rows, columns)
    filters = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    y = np.einsum("ngckij,gock->ngoij", read, filters).reshape(images, -1, rows, columns)
    return _with_bias(y, b)


_NCHWC = "com.microsoft.nchwc"


@functools.cache
def _block() -> int:
    """How many channels onnxruntime keeps in a block on this CPU, 1 where it has no blocks."""
    node = onnx.helper.make_node("ReorderInput", ["x"], ["y"], domain=_NCHWC)
    graph = onnx.helper.make_graph([node], "block", [], [onnx.ValueInfoProto(name="y")])
    graph.initializer.append(numpy_helper.from_array(np.zeros((1, 4, 1, 1), np.float32), "x"))
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", 17), (_NCHWC, 1))]
    found = ort.evaluate(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))
    return found[0].shape[1] if found else 1


def _in_blocks(x: np.ndarray, channels_last: int = 0) -> np.ndarray:
    """Channels in blocks, the last one filled with zeros."""
    if channels_last:
        x = np.moveaxis(x, 3, 1)
    images, channels, *sizes = x.shape
    filled = np.pad(x, ((0, 0), (0, -channels % _block()), (0, 0), (0, 0)))
    apart = filled.reshape(images, -1, _block(), *sizes)
    return np.ascontiguousarray(np.moveaxis(apart, 2, 4)).reshape(filled.shape)


def _out_of_blocks(x: np.ndarray, channels_last: int = 0, channels: int = 0) -> np.ndarray:
    """The first channels of blocks."""
    images, _, *sizes = x.shape
    apart = np.moveaxis(x.reshape(images, -1, *sizes, _block()), 4, 2)
    y = apart.reshape(x.shape)[:, :channels]
    return np.moveaxis(y, 1, 3) if channels_last else y


def _with_bias(y: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    return y if b is None else np.asarray(y + b.reshape(-1, *[1] * (y.ndim - 2)))


def oracle(model: onnx.ModelProto, *, sways: bool = False) -> Oracle | None:
    """The oracle of a model as of `Oracle`, None where there is none."""
    try:
        return Oracle(model, sways=sways)
    except ort.RunError:
        return None
