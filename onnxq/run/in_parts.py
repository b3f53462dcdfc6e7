"""A large model in parts, of which one is in memory: all samples go through a part, then through the next.

onnxruntime copies the weights of a session into the order in which its kernels read them, so that a model
takes as much memory as its file. Here each part does so by itself, and gives it back. What a part hands on is
in a file. The parts compute what the whole does, but for the last bits where onnxruntime fuses what two of
them have: they begin where weights are read, where most of what it fuses ends.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar

import numpy as np
import onnx

from onnxq.graph.order import insert_early, reads
from onnxq.graph.source import without_graph
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.run import ort

_PART = 1 << 28
"""Bytes of weights that a part has; more where one of its nodes does."""

_HELD = 1 << 26  # bytes of what is handed on that are in memory, not in a file

_BLOCK, _BLOCK_BYTES = 64, 1 << 28  # samples that are in memory at a time, at most

Item = TypeVar("Item")

Found = list[Any] | ort.RunError
"""The outputs of a sample, or why the model does not run on it."""


@dataclass(slots=True)
class _Part:
    """Nodes that run together; what they give to others, and what nobody behind them reads any more."""

    nodes: list[onnx.NodeProto]
    gives: tuple[str, ...] = ()
    last: frozenset[str] = frozenset()


class InParts:
    """A model in parts.

    Attributes:
        inputs: names of the inputs that must be fed.
        outputs: names of the outputs.
        input_shapes: the shape of each input, with names or None where dynamic.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        data_dir: Path | None,
        probes: onnx.GraphProto,
        threads: int = 0,
        *,
        fed: Collection[str] = (),
        dequantizes: bool = False,
    ) -> None:
        """Cuts the model; its sessions are open while samples run.

        Args:
            model: the model, in order; it is not modified.
            data_dir: the folder of its external data.
            probes: nodes and outputs to add.
            threads: as in `ort.load`.
            fed: names of constants that are inputs here.
            dequantizes: whether a quantized model is computed in float, as the parts of `ort.load`.

        Raises:
            RunError: onnxruntime does not take the model.
        """
        made = (name for node in model.graph.node for name in node.output if name)
        whole = ort.opened(model, made, data_dir)
        self._types = {name: _sizeless(kind) for name, kind in ort.types_of(whole).items()}
        self._data_dir, self._threads, self._dequantizes = data_dir, threads, dequantizes
        self._frame = without_graph(model)
        self._frame.ir_version = max(model.ir_version, 4)
        graph = onnx.GraphProto(node=model.graph.node, input=model.graph.input, output=model.graph.output)
        insert_early(graph, probes)
        constants = (*model.graph.initializer, *graph.initializer)
        graph.input.extend(_info(tensor) for tensor in constants if tensor.name in fed)
        self._constants = {tensor.name: tensor for tensor in constants if tensor.name not in fed}
        self._sparse = {tensor.values.name: tensor for tensor in model.graph.sparse_initializer}
        self._given = {info.name: info for info in graph.input if info.name not in self._constants}
        self._results = {info.name: info for info in graph.output}
        self.inputs, self.outputs = tuple(self._given), tuple(self._results)
        self.input_shapes = whole.input_shapes
        self._parts = self._cut(graph.node)

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
        *,
        seconds: float | None = None,
    ) -> list[Any]:
        """Runs the model once; for many samples `run_all` takes less time. `seconds`: of each part.

        Raises:
            RunError: as in `ort.Session.run`.
        """
        (found,) = self.run_all([feeds], outputs, seconds=seconds)
        return given(found)

    def run_all(
        self,
        samples: Iterable[Mapping[str, np.ndarray]],
        outputs: Sequence[str] | None = None,
        *,
        seconds: float | None = None,
    ) -> Iterator[Found]:
        """Runs the model on each sample.

        Args:
            samples: feeds, of which all are read first.
            outputs: the outputs wanted, all by default.
            seconds: after how long to give a part up.

        Raises:
            RunError: a part does not load.
        """
        values: Iterable[dict[str, Any] | ort.RunError] = (
            {n: one[n] for n in self.inputs if n in one} for one in samples
        )
        file = _written(values)
        for part in self._parts:
            session = self._session(part)
            before, file = file, _written(_through(part, session, _read(file), seconds))
            before.close()
        with file:
            for one in _read(file):
                yield (
                    one
                    if isinstance(one, ort.RunError)
                    else [
                        one[name] if name in one else self._constant(name) for name in outputs or self.outputs
                    ]
                )

    def _constant(self, name: str) -> np.ndarray:
        """An output that no node gives."""
        return onnx.numpy_helper.to_array(self._constants[name], str(self._data_dir or ""))

    def _cut(self, nodes: Iterable[onnx.NodeProto]) -> list[_Part]:
        """The parts; a new one begins where the weights would be more, and only known types are handed on."""
        groups: list[list[onnx.NodeProto]] = [[]]
        held: set[str] = set()
        for node in nodes:
            more = {name for name in reads(node) if name in self._constants}
            if groups[-1] and more - held and self._bytes(held | more) > _PART:
                groups.append([])
                held = set()
            groups[-1].append(node)
            held |= more
        maker = {
            name: at for at, group in enumerate(groups) for node in group for name in node.output if name
        }
        joined = set[int]()  # groups that are one with that before them
        for at, group in enumerate(groups):
            for name in {name for node in group for name in reads(node)}:
                if name in maker and name not in self._types:
                    joined.update(range(maker[name] + 1, at + 1))
        parts: list[_Part] = []
        for at, group in enumerate(groups):
            if at in joined:
                parts[-1].nodes.extend(group)
            else:
                parts.append(_Part(group))
        readers = dict.fromkeys(self.outputs, len(parts))
        for at, part in reversed(list(enumerate(parts))):
            read = {name for node in part.nodes for name in reads(node)}
            made = (name for node in part.nodes for name in node.output if name)
            part.gives = tuple(name for name in made if readers.get(name, at) > at)
            part.last = frozenset(read.difference(readers, self._constants))
            readers.update((name, at) for name in read if name not in readers)
        return [part for part in parts if part.gives]

    def _bytes(self, names: Iterable[str]) -> int:
        """What constants take in float32."""
        return sum(4 * math.prod(self._constants[name].dims) for name in names)

    def _session(self, part: _Part) -> ort.Session:
        model = onnx.ModelProto()
        model.CopyFrom(self._frame)
        model.graph.name = "part"
        model.graph.node.extend(part.nodes)
        made = {name for node in part.nodes for name in node.output}
        for name in dict.fromkeys(name for node in part.nodes for name in reads(node)):
            if name in self._constants:
                model.graph.initializer.append(self._constants[name])
            elif name in self._sparse:
                model.graph.sparse_initializer.append(self._sparse[name])
            elif name and name not in made:
                handed = onnx.ValueInfoProto(name=name, type=self._types.get(name))
                model.graph.input.append(self._given.get(name, handed))
        bare = (self._results.get(name, onnx.ValueInfoProto(name=name)) for name in part.gives)
        model.graph.output.extend(bare)
        return ort.load(
            model, threads=self._threads, data_dir=self._data_dir, part=self._dequantizes, large=True
        )


def given(found: Found) -> list[Any]:
    """The outputs of a sample.

    Raises:
        RunError: the model does not run on it.
    """
    if isinstance(found, ort.RunError):
        raise found
    return found


Runs = ort.Session | InParts
"""A model that is loaded, or is when it runs."""


def load(
    model: onnx.ModelProto,
    *,
    data_dir: Path | None = None,
    probes: onnx.GraphProto | None = None,
    threads: int = 0,
) -> Runs:
    """Loads a float model; one that is large in parts.

    Raises:
        RunError: onnxruntime does not take it.
    """
    if weight_bytes(model) < LARGE:
        return ort.load(model, data_dir=data_dir, probes=probes, threads=threads)
    return InParts(model, data_dir, probes or onnx.GraphProto(), threads)


def load_probed(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    probes: Callable[[Collection[str]], onnx.GraphProto],
    *,
    threads: int = 0,
    data_dir: Path | None = None,
) -> Runs:
    """As `ort.load_probed`; a large model in parts, each of which has few probes."""
    if weight_bytes(model) < LARGE:
        return ort.load_probed(model, tensors, probes, threads=threads, data_dir=data_dir)
    return InParts(model, data_dir, probes(()), threads)


def run_all(
    session: Runs, samples: Iterable[Mapping[str, np.ndarray]], outputs: Sequence[str] | None = None
) -> Iterator[Found]:
    """Runs a model on each sample: one after another, or all of them part by part."""
    if isinstance(session, InParts):
        yield from session.run_all(samples, outputs)
        return
    for feeds in samples:
        try:
            found: Found = session.run(feeds, outputs)
        except ort.RunError as error:
            found = error
        yield found


def _info(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def _sizeless(kind: onnx.TypeProto) -> onnx.TypeProto:
    """A type without sizes, of which the file may say wrong ones; of what may be a shape, with its length."""
    tensor = kind.tensor_type
    may_be_shape = tensor.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    for dim in () if may_be_shape and len(tensor.shape.dim) == 1 else tensor.shape.dim:
        dim.Clear()
    return kind


def blocks(items: Iterable[Item], size: Callable[[Item], int], *, many: bool = True) -> Iterator[list[Item]]:
    """What a model is run on, many at a time, as many as memory should hold; one where not `many`.

    Args:
        items: the samples.
        size: how many bytes one has.
        many: whether the model runs in parts.
    """
    block: list[Item] = []
    left = _BLOCK_BYTES
    for item in items:
        block.append(item)
        left -= size(item)
        if not many or left <= 0 or len(block) == _BLOCK:
            yield block
            block, left = [], _BLOCK_BYTES
    if block:
        yield block


def _through(
    part: _Part, session: ort.Session, values: Iterable[Any], seconds: float | None
) -> Iterator[dict[str, Any] | ort.RunError]:
    """What is there behind a part, of each sample."""
    for one in values:
        if isinstance(one, ort.RunError):
            yield one
            continue
        try:
            fed = {name: one[name] for name in session.inputs if name in one}
            given = session.run(fed, part.gives, seconds=seconds)
        except ort.RunError as error:
            yield error
            continue
        rest = {name: value for name, value in one.items() if name not in part.last}
        yield {**rest, **dict(zip(part.gives, given, strict=True))}


def _written(values: Iterable[Mapping[str, Any] | ort.RunError]) -> IO[bytes]:
    """Values in a file, a sample after another."""
    file: IO[bytes] = SpooledTemporaryFile(_HELD, prefix="onnxq-")  # noqa: SIM115 (closed when it is read)
    for one in values:
        pickle.dump(one, file, protocol=5)
    return file


def _read(file: IO[bytes]) -> Iterator[Any]:
    end = file.tell()
    file.seek(0)
    while file.tell() < end:
        yield pickle.load(file)
