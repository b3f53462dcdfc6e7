"""Min-max calibration: one pass, reduced inside the graph, so that only scalars leave it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from onnxq.calib.samples import Sample
from onnxq.errors import UserError, unknown_name
from onnxq.run import ort


@dataclass(frozen=True, slots=True)
class TensorStats:
    """The range of a tensor over the samples.

    Attributes:
        min: its least value.
        max: its greatest value.
        count: in how many samples it had values (a detector's boxes may be none).
    """

    min: float
    max: float
    count: int

    @property
    def amax(self) -> float:
        """The greatest absolute value."""
        return max(abs(self.min), abs(self.max))


@dataclass(frozen=True, slots=True)
class Stats:
    """What calibration saw.

    Attributes:
        tensors: the range of each tensor.
        samples: how many samples were run.
        seconds: how long the pass took, start-up included.
    """

    tensors: dict[str, TensorStats]
    samples: int
    seconds: float


def collect(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    samples: Iterable[Sample],
    *,
    data_dir: Path | None = None,
    threads: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Stats:
    """Runs the samples and takes the range of each tensor.

    Args:
        model: the float model; it is not modified.
        tensors: names of inputs, constants or outputs of nodes of the main graph, of any numeric
            type (compared as float32).
        samples: what to run.
        data_dir: the folder of the model's external data.
        threads: onnxruntime's threads inside an operator, 0 for all cores.
        progress: is told how many samples are done.

    Raises:
        UserError: there are no samples, no such tensor, a tensor is NaN or infinite in a sample
            or never had a value, or the model does not run on a sample.
        ort.RunError: onnxruntime does not load the model.
    """
    start = time.perf_counter()
    names = list(dict.fromkeys(tensors))
    makers = _makers(model.graph)
    for name in names:
        if name not in makers:
            raise unknown_name("tensor", name, makers)
    session = ort.load(model, threads=threads, data_dir=data_dir, probes=_probes(model, names))
    outputs = session.outputs[len(model.graph.output) :]
    low = np.full(len(names), np.inf)
    high = np.full(len(names), -np.inf)
    seen = np.zeros(len(names), np.int64)
    done = 0
    for sample in samples:
        try:
            values = session.run(sample.feeds, outputs or None)
        except ort.RunError as error:
            raise UserError(
                f"the model does not run on {sample.where}: {error}",
                hint="check the sample's sizes and values against what the model expects",
            ) from error
        if names:
            least, greatest, zero = np.array(values, np.float64).reshape(-1, len(_PROBES)).T
            wrong = np.flatnonzero(zero != 0)
            if wrong.size:
                first = min((names[i] for i in wrong), key=list(makers).index)
                infinite = np.isinf([least[names.index(first)], greatest[names.index(first)]]).any()
                raise _not_finite(first, makers[first], sample, "infinite" if infinite else "NaN")
            low = np.minimum(low, least)
            high = np.maximum(high, greatest)
            seen += least <= greatest
        done += 1
        if progress is not None:
            progress(done)
    if not done:
        raise UserError("there are zero samples to calibrate with", hint="check the data")
    for name, count in zip(names, seen, strict=True):
        if not count:
            raise UserError(
                f"tensor {name!r} has no values in any of the {done} calibration samples",
                hint="give samples that exercise this part of the model, or keep it in float",
            )
    found = {
        name: TensorStats(float(a), float(b), int(n))
        for name, a, b, n in zip(names, low, high, seen, strict=True)
    }
    return Stats(found, done, time.perf_counter() - start)


_PROBES = ("min", "max", "nonfinite")


def _probes(model: onnx.ModelProto, names: Sequence[str]) -> onnx.GraphProto:
    """Three more scalar outputs for each tensor.

    The third is 0 where the tensor is finite and NaN where not: the sum of x - x. (ReduceMax
    skips a NaN that is not first, and a sum of x overflows for finite values, such as those of
    attention masks.) Reductions over nothing give +inf, -inf and 0. Every tensor is cast to
    float32, which onnxruntime removes where it already is.

    The probes follow the last node, those of the last tensor first. onnxruntime orders nodes
    depth-first from its leaves, beginning with the last, so that a tensor is reduced as soon as
    it is there and its memory is free for reuse; in the natural order, onnxruntime runs all
    probes at the end, with every tensor kept until then.
    """
    prefix = _unused_prefix(model.graph)
    made = list(_makers(model.graph))
    place = {name: index for index, name in enumerate(made)}
    added = onnx.GraphProto()
    for i in sorted(range(len(names)), key=lambda i: place[names[i]], reverse=True):
        x, difference = f"{prefix}x{i}", f"{prefix}d{i}"
        least, greatest, zero = (f"{prefix}{probe}{i}" for probe in _PROBES)
        node = onnx.helper.make_node
        added.node.extend(
            (
                node("Cast", [names[i]], [x], to=onnx.TensorProto.FLOAT),
                node("Sub", [x, x], [difference]),
                node("ReduceMin", [x], [least], keepdims=0),
                node("ReduceMax", [x], [greatest], keepdims=0),
                node("ReduceSum", [difference], [zero], keepdims=0),
            )
        )
    for i in range(len(names)):
        for probe in _PROBES:
            name = f"{prefix}{probe}{i}"
            added.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []))
    return added


def _makers(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto | None]:
    """Every tensor of the main graph, in order, with the node that computes it."""
    found: dict[str, onnx.NodeProto | None] = {value.name: None for value in graph.input}
    found.update((tensor.name, None) for tensor in graph.initializer)
    found.update((tensor.values.name, None) for tensor in graph.sparse_initializer)
    found.update((name, node) for node in graph.node for name in node.output if name)
    return found


def _unused_prefix(graph: onnx.GraphProto) -> str:
    prefix = "onnxq_probe_"
    names = list(_names(graph))
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of every tensor that a graph or a body in it defines."""
    yield from _makers(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _names(attribute.g)
            for body in attribute.graphs:
                yield from _names(body)


def _not_finite(tensor: str, maker: onnx.NodeProto | None, sample: Sample, what: str) -> UserError:
    if maker is None:
        origin = "a constant or an input of the model"
    else:
        origin = f"output of {maker.op_type} node {maker.name!r}"
    return UserError(
        f"tensor {tensor!r} ({origin}) is {what} for {sample.where}, whose data is finite",
        hint="the float model itself overflows or divides by zero here; run it on this sample "
        "and repair it, or leave the sample out",
    )
