"""Samples on their way through a quantized model that changes while they are: stage by stage.

The nodes are cut in front of the layers that are fitted, and run through all samples before the next ones do:
each node runs once a sample. What later stages read is kept: the codes, where it is quantized.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import Fault
from onnxq.formats import NumberFormat
from onnxq.graph.constants import SourceValues
from onnxq.graph.order import put_in_order, reads
from onnxq.graph.pairs import DEQUANTIZE
from onnxq.graph.source import copy_model
from onnxq.graph.types import value_info
from onnxq.repair.threads import Threads
from onnxq.run import ort
from onnxq.run.ort import Feeds
from onnxq.run.spill import Spill

_RANDOM = ("Random", "Bernoulli", "Multinomial")


@dataclass(frozen=True, slots=True)
class Codes:
    """What an input of a node is dequantized from.

    Attributes:
        tensor: the codes.
        scale: the scales.
        zero: the zero point; None: 0.
        dtype: the type that is computed with.
    """

    tensor: str
    scale: np.ndarray
    zero: np.ndarray | None
    dtype: np.dtype

    def plain(self, format: NumberFormat) -> bool:
        """Whether they are codes of a format around 0, with one scale."""
        zero = self.zero
        return self.scale.size == 1 and zero is not None and zero.dtype == format.dtype and not zero.any()

    def values(self, codes: np.ndarray) -> np.ndarray:
        """What codes stand for, float32; with one scale."""
        wide = codes.astype(np.float32)
        if self.zero is not None:
            wide -= self.zero.astype(np.float32).reshape(-1)[0]
        return np.asarray(wide * np.float32(self.scale.reshape(-1)[0]))


class Stream:
    """The samples, and the model as far as it has run.

    Attributes:
        stages: the layers of each stage, which can be changed before it runs.
        samples: how many samples there are.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        layers: Mapping[str, int],
        spill: Spill,
        threads: Threads,
        *,
        data_dir: Path | None = None,
        outputs: bool = False,
    ) -> None:
        """Cuts the model.

        Args:
            model: with pairs, in order, each node with a name of its own; it is not modified.
            layers: nodes that can be changed, and which of their inputs is looked at before.
            spill: keeps what is read later.
            threads: run the samples.
            data_dir: the folder of external data.
            outputs: whether the outputs are computed, too.
        """
        self._frame = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
        self._data_dir, self._spill, self._threads = data_dir, spill, threads
        self._constants = {t.name: t for t in model.graph.initializer}
        self._sparse = {t.values.name: t for t in model.graph.sparse_initializer}
        self._inputs = {info.name: info for info in model.graph.input if info.name not in self._constants}
        self._outputs = [info.name for info in model.graph.output] if outputs else []
        self._nodes: dict[str, onnx.NodeProto] = {}
        self._lazy: dict[str, onnx.NodeProto] = {}
        self._fixed = {*self._constants, *self._sparse}
        for node in model.graph.node:
            if self._is_lazy(node):
                self._lazy.update((name, node) for name in node.output if name)
                if self._fixed.issuperset(reads(node)):
                    self._fixed.update(node.output)
            else:
                self._nodes[node.name] = node
        self._layers = {name: index for name, index in layers.items() if name in self._nodes}
        self._watched = {
            name: self._source(self._nodes[name].input[index]) for name, index in self._layers.items()
        }
        self._kept: dict[str, tuple[int | None, ...] | None] = {}  # the shape of what is handed on
        self._types: dict[str, onnx.TypeProto] = {}
        self.samples = 0
        self._cut()

    def _is_lazy(self, node: onnx.NodeProto) -> bool:
        """Whether a node is computed wherever it is read: what dequantizes, and what is always the same."""
        if any(attribute.HasField("g") for attribute in node.attribute) or node.op_type.startswith(_RANDOM):
            return False
        if node.input and self._fixed.issuperset(filter(None, node.input)):
            return True
        if node.op_type == DEQUANTIZE:
            return self._fixed.issuperset(filter(None, node.input[1:]))
        return node.op_type == "Cast" and node.input[0] in self._lazy

    def _cut(self) -> None:
        depth: dict[str, int] = {}
        at: dict[str, int] = {}
        needed = {*self._watched.values(), *self._outputs}
        for node in self._nodes.values():
            within = max((depth.get(name, 0) for name in self._read([node])), default=0)
            layer = node.name in self._layers
            at[node.name] = within + layer  # the stage in which it runs
            depth.update((name, within + layer) for name in node.output if name)
        wanted = set(self._read_of(needed))
        kept: list[str] = []
        for name, node in reversed(self._nodes.items()):
            if wanted.intersection(node.output):
                kept.append(name)
                wanted.update(self._read([node]))
        last = max((at[name] for name in self._layers), default=0)
        self.stages: list[list[str]] = [[] for _ in range(last)]
        for name in self._layers:
            self.stages[at[name] - 1].append(name)
        count = 1 + max([last - 1, *(at[name] for name in kept)])
        self._parts: list[list[onnx.NodeProto]] = [[] for _ in range(count)]
        for name in reversed(kept):
            self._parts[at[name]].append(self._nodes[name])
        self._last: dict[str, int] = {}
        for stage, part in enumerate(self._parts):
            self._last.update(dict.fromkeys(self._read(part), stage))
        for name, tensor in self._watched.items():
            self._last[tensor] = max(self._last.get(tensor, 0), at[name])
        for tensor in self._read_of(self._outputs):
            self._last[tensor] = count + 1

    def _read_of(self, names: Iterable[str]) -> set[str]:
        """What tensors are made of that stages hand on: themselves, or what they are dequantized from."""
        read: set[str] = set()
        todo = [name for name in names if name]
        while todo:
            name = todo.pop()
            if name in self._lazy:
                todo += reads(self._lazy[name])
            elif name not in self._fixed:
                read.add(name)
        return read

    def _read(self, nodes: Iterable[onnx.NodeProto]) -> set[str]:
        return self._read_of(name for node in nodes for name in reads(node))

    def _source(self, name: str) -> str:
        """The codes that a tensor is dequantized from, or itself."""
        while name in self._lazy and name not in self._fixed:
            name = self._lazy[name].input[0]
        return name

    # -- what is looked at ---------------------------------------------------------------------

    def codes(self, node: str, index: int) -> Codes | None:
        """What an input of a node is dequantized from; None where it is not."""
        name, dtype = self._nodes[node].input[index], np.dtype(np.float32)
        maker, first = self._lazy.get(name), True
        while maker is not None and maker.op_type == "Cast":
            to = next(a.i for a in maker.attribute if a.name == "to")
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(to)) if first else dtype
            maker, first = self._lazy.get(maker.input[0]), False
        if maker is None or maker.op_type != DEQUANTIZE:
            return None
        scale = self.constant(maker.input[1])
        zero = self.constant(maker.input[2]) if len(maker.input) > 2 and maker.input[2] else None
        return None if scale is None else Codes(maker.input[0], scale, zero, dtype)

    def weights(self, node: str, index: int) -> tuple[str, np.dtype]:
        """The constant that holds the weights of a layer, or the codes of them, and what it computes with."""
        codes = self.codes(node, index)
        if codes is not None:
            return codes.tensor, codes.dtype
        name = self._nodes[node].input[index]
        tensor = self._constants[self._source(name)] if name not in self._constants else self._constants[name]
        return name, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))

    def constant(self, name: str) -> np.ndarray | None:
        """The values of a constant of the model, None for another tensor."""
        tensor = self._constants.get(name)
        return None if tensor is None else SourceValues(tensor, self._data_dir).load()

    def has(self, node: str) -> bool:
        """Whether the model has a layer."""
        return node in self._layers

    def operands(self, node: str) -> list[str]:
        """What a node reads."""
        return list(self._nodes[node].input)

    def shape(self, node: str, sample: int) -> tuple[int, ...]:
        """The shape of what is looked at of a layer, in a sample."""
        return self._spill.shape((Stream, self._watched[node], sample))

    def value(self, node: str, sample: int) -> np.ndarray:
        """What is looked at of a layer, in a sample: its input, or the codes of it."""
        value: np.ndarray = self._spill.get((Stream, self._watched[node], sample))
        return value

    # -- what is changed -----------------------------------------------------------------------

    def set_constant(self, name: str, values: np.ndarray) -> None:
        """Makes a constant another one."""
        self._constants[name] = onnx.numpy_helper.from_array(values, name)

    def set_bias(self, node: str, values: np.ndarray) -> None:
        """Gives a node a third input that is this one."""
        name = f"{node}_onnxq_bias"
        while name in self._constants or name in self._nodes:
            name += "_"
        self._fixed.add(name)
        self.set_constant(name, values)
        proto = onnx.NodeProto()
        proto.CopyFrom(self._nodes[node])
        del proto.input[2:]
        proto.input.append(name)
        self._nodes[node] = proto

    # -- running -------------------------------------------------------------------------------

    def begin(self, samples: Iterable[Feeds]) -> None:
        """Runs what is before all layers."""
        first = {name for name, last in self._last.items() if name in self._inputs and last > 0}
        session, names, gives = self._session(0)

        def one(feeds: Feeds) -> dict[str, Any]:
            values = {name: feeds[name] for name in first}
            if session is not None:
                fed = {name: feeds[name] for name in names}
                values.update(zip(gives, session.run(fed, gives), strict=True))
            return values

        self._fold(self._threads.map(one, samples))

    def run(self, stage: int) -> None:
        """Runs a stage, the first of which is 0, as its layers are now."""
        session, names, gives = self._session(stage + 1)

        def one(sample: int) -> dict[str, Any]:
            if session is None:
                return {}
            fed = {name: self._spill.get((Stream, name, sample)) for name in names}
            return dict(zip(gives, session.run(fed, gives), strict=True))

        spent = [name for name in self._kept if self._last[name] <= stage + 1]
        self._fold(self._threads.map(one, range(self.samples)), spent)
        for name in spent:
            del self._kept[name]

    def outputs(self, sample: int) -> list[Any]:
        """The outputs, at the end, of a sample."""
        held = self._read_of(self._outputs)
        session, names, gives = self._session(len(self._parts), self._outputs)
        if session is None:
            return [self._spill.get((Stream, name, sample)) for name in self._outputs]
        assert held.issuperset(names)
        return session.run({name: self._spill.get((Stream, name, sample)) for name in names}, gives)

    def close(self) -> None:
        """Forgets the samples."""
        for name in self._kept:
            for sample in range(self.samples):
                self._spill.drop((Stream, name, sample))
        self._kept.clear()

    def _fold(self, results: Iterable[Mapping[str, Any]], spent: Iterable[str] = ()) -> None:
        """Keeps what samples give, and forgets what they do not need any more."""
        for sample, values in enumerate(results):
            self.samples = max(self.samples, sample + 1)
            for name in spent:
                self._spill.drop((Stream, name, sample))
            for name, result in values.items():
                value = np.asarray(result) if isinstance(result, np.generic) else result
                self._spill.put((Stream, name, sample), value)
                self._note(name, value)

    def _note(self, name: str, value: Any) -> None:
        """Remembers the type of what is handed on, with the sizes that all samples have."""
        if not isinstance(value, np.ndarray):
            kind = np.asarray(value[0]).dtype if isinstance(value, list) and value else np.dtype(np.float32)
            tensor = value_info(name, kind, None).type
            tensor.tensor_type.ClearField("shape")
            self._types[name] = onnx.helper.make_sequence_type_proto(tensor)
            self._kept[name] = None
            return
        old = self._kept.get(name, value.shape)
        shape = None
        if old is not None and len(old) == value.ndim:
            shape = tuple(a if a == b else None for a, b in zip(old, value.shape, strict=True))
        self._kept[name] = shape
        self._types[name] = value_info(name, value.dtype, shape).type

    def _session(
        self, place: int, wanted: Collection[str] = ()
    ) -> tuple[ort.Session | None, list[str], list[str]]:
        """A part of the model as it is now, what it reads of others, and what it gives; None: nothing."""
        nodes = [self._nodes[n.name] for n in self._parts[place]] if place < len(self._parts) else []
        made = [name for node in nodes for name in node.output if name]
        gives = list(wanted) or [name for name in made if self._last.get(name, -1) > place]
        lazy: dict[str, onnx.NodeProto] = {}
        todo = [*(name for node in nodes for name in reads(node)), *wanted]
        while todo:
            node = self._lazy.get(todo.pop())
            if node is not None and node.output[0] not in lazy:
                lazy[node.output[0]] = node
                todo += reads(node)
        nodes = [*lazy.values(), *nodes]
        if not nodes or not gives:
            return None, [], []
        model = copy_model(self._frame)
        model.graph.name = "stage"
        model.graph.node.extend(nodes)
        inside = {name for node in nodes for name in node.output}
        read = dict.fromkeys(n for node in nodes for n in reads(node) if n and n not in inside)
        read.update(dict.fromkeys(name for name in gives if name not in inside))
        names: list[str] = []
        for name in read:
            if name in self._constants:
                model.graph.initializer.append(self._constants[name])
            elif name in self._sparse:
                model.graph.sparse_initializer.append(self._sparse[name])
            else:
                names.append(name)
                kind = self._inputs[name].type if place == 0 else self._types[name]
                model.graph.input.append(onnx.ValueInfoProto(name=name, type=kind))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in gives)
        put_in_order(model.graph)
        try:
            return ort.load(model, threads=1, data_dir=self._data_dir, part=True), names, gives
        except ort.RunError as error:
            raise Fault(f"onnxruntime does not load a part of the quantized model: {error}") from error
