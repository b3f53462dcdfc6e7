"""Parts of a stage that run one after another and give tensors, beside each layer on values that it is fed.

A part of B holds each of its nodes twice: as they stand, and in a copy in which whoever reads a matched
tensor reads A's values of it. The weights are there once, nothing in the copy waits for anything else, and
all layers of a part run on identical inputs in one run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from onnxq.analysis.stages import Stage
from onnxq.base.grouped import reached
from onnxq.body.emulate import Emulated
from onnxq.graph.half import speaks_half
from onnxq.graph.order import own_names, put_in_order, reads
from onnxq.graph.types import dtype_of
from onnxq.run import ort
from onnxq.run.compare import Runner

FED, ALONE = "onnxq:fed:", "onnxq:alone:"
"""What the names of A's values, and of what is computed of them, begin with."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes of a stage.

    Attributes:
        model: they, as a model.
        given: tensors that it reads of what is fed and of parts before it.
        fed: the tensors whose values are A's in the copy: they are read as `FED` and the name.
        alone: the tensors that the copy gives, as `ALONE` and the name.
    """

    model: onnx.ModelProto
    given: tuple[str, ...]
    fed: tuple[str, ...]
    alone: tuple[str, ...]


def parts_of(stage: Stage, groups: Sequence[Sequence[str]], matched: Collection[str] | None) -> list[Part]:
    """The parts that give groups of tensors, one after another.

    Args:
        stage: the stage.
        groups: tensors; a group's part runs what they depend on and no part before it ran.
        matched: the tensors whose readers are fed in the copy; None: there is no copy.
    """
    made: set[str] = set()
    slices: list[list[onnx.NodeProto]] = []
    for group in groups:
        nodes = _needed(stage, group, made)
        made.update(name for node in nodes for name in node.output if name)
        slices.append(sorted(nodes, key=lambda node: stage.places[node.name]))
    later: set[str] = set()
    parts: list[Part] = []
    for group, nodes in zip(reversed(groups), reversed(slices), strict=True):
        own = {name for node in nodes for name in node.output if name}
        gives = tuple(dict.fromkeys([*(n for n in group if n not in stage.fixed), *sorted(later & own)]))
        part = _part(stage, nodes, gives, group if matched is not None else (), matched or ())
        later = (later - own) | set(part.given) | {name for name in group if name not in own}
        parts.append(part)
    return parts[::-1]


def _needed(stage: Stage, tensors: Iterable[str], made: Collection[str]) -> list[onnx.NodeProto]:
    """The nodes that tensors depend on; behind what is made, and what is always the same, nobody looks."""

    def makers(names: Iterable[str]) -> list[str]:
        return [stage.maker[name].name for name in names if name in stage.maker and name not in made]

    def before(node: str) -> list[str]:
        return makers(name for name in reads(stage.nodes[node]) if name not in stage.fixed)

    return [stage.nodes[name] for name in reached(makers(tensors), before)]


def _part(
    stage: Stage,
    nodes: Sequence[onnx.NodeProto],
    gives: Sequence[str],
    alone: Sequence[str],
    matched: Collection[str],
) -> Part:
    copy, fed, plain = _copy(stage, alone, matched)
    own = {name for node in nodes for name in node.output if name}
    needed = dict.fromkeys(name for node in nodes for name in reads(node) if name and name not in own)
    inputs = [name for name in needed if name not in stage.fixed]
    inputs += [name for name in plain if name not in inputs]
    model = bare_model(stage, [*nodes, *copy])
    graph = model.graph
    graph.input.extend(_info(stage, name, name) for name in inputs)
    graph.input.extend(_info(stage, name, FED + name) for name in fed)
    graph.output.extend(_info(stage, name, name) for name in gives if name in own)
    graph.output.extend(_info(stage, name, ALONE + name) for name in alone)
    return Part(model, tuple(inputs), tuple(fed), tuple(alone))


def bare_model(stage: Stage, nodes: Sequence[onnx.NodeProto], names: Sequence[str] = ()) -> onnx.ModelProto:
    """A model without inputs and outputs: nodes, and the constants that they read or that are named.

    Args:
        stage: whose constants they are; what computes them of others is part of the model.
        nodes: the nodes.
        names: tensors that depend on no input.
    """
    model = onnx.ModelProto(ir_version=stage.proto.ir_version, opset_import=stage.proto.opset_import)
    graph = model.graph
    graph.name = "part"
    read = dict.fromkeys(name for node in nodes for name in reads(node) if name in stage.fixed and name)
    graph.node.extend([*_constant(stage, [*names, *read]), *nodes])
    for name in dict.fromkeys([*names, *(name for node in graph.node for name in reads(node))]):
        if name in stage.constants:
            graph.initializer.append(stage.constants[name])
        elif name in stage.sparse:
            graph.sparse_initializer.append(stage.sparse[name])
    put_in_order(graph)
    return model


def _copy(
    stage: Stage, alone: Sequence[str], matched: Collection[str]
) -> tuple[list[onnx.NodeProto], list[str], list[str]]:
    """The nodes that give tensors of fed ones; which are fed, and which inputs are read as they are."""
    copies: dict[str, onnx.NodeProto] = {}
    fed: dict[str, None] = {}
    plain: dict[str, None] = {}
    todo = [stage.maker[name] for name in alone]
    while todo:
        node = todo.pop()
        if node.name in copies:
            continue
        names: dict[str, str] = {}
        for name in dict.fromkeys(filter(None, reads(node))):
            maker = stage.maker.get(name)
            if name in stage.fixed:
                continue
            if name in matched:
                fed[name] = None
                names[name] = FED + name
            elif maker is None:
                plain[name] = None
            else:
                names[name] = ALONE + name
                todo.append(maker)
        copies[node.name] = renamed(node, names)
    chosen = sorted(copies, key=stage.places.__getitem__)
    return [copies[name] for name in chosen], list(fed), list(plain)


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node that reads other tensors, in its bodies too, and gives `ALONE` ones."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = ALONE + node.name
    _read(copy, names)
    for place, name in enumerate(copy.output):
        copy.output[place] = ALONE + name if name else ""
    return copy


def _read(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for place, name in enumerate(node.input):
        node.input[place] = names.get(name, name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            body = attribute.g
            own = own_names(body)
            outer = {name: new for name, new in names.items() if name not in own}
            for inner in body.node:
                _read(inner, outer)
            for info in body.output:
                info.name = outer.get(info.name, info.name)


def _constant(stage: Stage, names: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that compute constants of constants: a dequantized weight, say."""

    def makers(tensors: Iterable[str]) -> list[str]:
        return [stage.maker[name].name for name in tensors if name in stage.maker]

    return [
        stage.nodes[name] for name in reached(makers(names), lambda node: makers(reads(stage.nodes[node])))
    ]


def _info(stage: Stage, name: str, label: str) -> onnx.ValueInfoProto:
    """The type of a tensor, under a name; sizes are those of inputs alone, and of what is no tensor."""
    inferred = stage.infos.get(name)
    info = onnx.ValueInfoProto(name=label)
    if inferred is not None:
        info.type.CopyFrom(inferred.type)
        if name not in stage.inputs and info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return info


def can_pass(stage: Stage, parts: Sequence[Part]) -> bool:
    """Whether all that parts hand on is of a known type."""
    return all(name in stage.infos for part in parts for name in part.given)


class PartRunner:
    """A part, loaded."""

    def __init__(self, stage: Stage, part: Part, threads: int = 0) -> None:
        """Loads it.

        Raises:
            RunError: onnxruntime does not take it.
        """
        self.part = replace(part, model=onnx.ModelProto())  # loaded, it is there a second time
        self._runner: Runner | None = None
        if part.model.graph.output:
            half = speaks_half(part.model)
            self._runner = (
                Emulated(part.model, threads=threads, data_dir=stage.data_dir, part=True)
                if half
                else ort.load(part.model, optimize=False, threads=threads, data_dir=stage.data_dir, part=True)
            )
        self._types = {
            info.name: dtype_of(info.type.tensor_type.elem_type)
            if info.type.HasField("tensor_type")
            else None
            for info in part.model.graph.input
        }

    def run(
        self, values: Mapping[str, np.ndarray], fed: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Runs it once.

        Args:
            values: what it is given, by name.
            fed: A's values, by the names of B.

        Returns:
            What it gives, and what the copy gives, by name; of half precision as float32.

        Raises:
            RunError: it does not run.
        """
        if self._runner is None:
            return {}, {}
        feeds = {name: self._as(name, values[name]) for name in self.part.given}
        feeds |= {FED + name: self._as(FED + name, fed[name]) for name in self.part.fed}
        feeds = {name: value for name, value in feeds.items() if name in self._runner.inputs}
        outputs = dict(zip(self._runner.outputs, self._runner.run(feeds), strict=True))
        alone = {name: outputs.pop(ALONE + name) for name in self.part.alone}
        return outputs, alone

    def _as(self, label: str, value: np.ndarray) -> np.ndarray:
        """A value in the type that is read; of half precision `Emulated` makes it."""
        dtype = self._types.get(label)
        if dtype is None or not isinstance(value, np.ndarray) or value.dtype == dtype:
            return value
        if dtype.itemsize == 2 and dtype.kind not in "iu":
            return value.astype(np.float32)
        with np.errstate(over="ignore"):
            return value.astype(dtype)
