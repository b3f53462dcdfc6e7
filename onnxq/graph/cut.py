"""Cutting a model into parts that run one after another, and taking one part out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.grouped import grouped, reached
from onnxq.graph.infer import Symbols, infer
from onnxq.graph.load import graphs
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.order import reads
from onnxq.graph.parts import runnable_part
from onnxq.graph.source import without_graph
from onnxq.graph.types import set_shape, shape_of

Ask = Callable[[onnx.ModelProto], Mapping[str, onnx.TypeProto]]
"""Tells the types of a model's outputs, as far as it can."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a model, as a model.

    Attributes:
        model: it; external data is still where the original's is.
        nodes: names of its nodes, in order.
        isolated: whether it holds the operators that were to be apart.
    """

    model: onnx.ModelProto
    nodes: tuple[str, ...]
    isolated: bool = False


def cut(
    model: Model,
    tensors: Sequence[Sequence[str]] = (),
    operators: Collection[str] = (),
    ask: Ask | None = None,
) -> list[Piece]:
    """Cuts a model into pieces; each reads the inputs and what pieces before it give.

    Every node that an output depends on is in one piece, under its own name. What the nodes of a
    later piece read is an output of the piece that computes it. Constants are in each piece that
    reads them, so that no weight passes from piece to piece.

    Args:
        model: the model.
        tensors: sets of tensors. A set cuts the nodes that it depends on from all others.
        operators: operators (`Op` or `domain.Op`) whose nodes go into pieces of their own.
        ask: is asked for the types that ONNX's inference does not know.

    Raises:
        UserError: there is no such tensor or operator, it cannot be cut there, nothing is cut off,
            or the type of a tensor between two pieces is not known.
    """
    proto = model.to_proto()
    flow = _Flow(proto.graph)
    for name in (name for names in tensors for name in names):
        flow.check_computed(name, "--at")
        if flow.maker[name] not in flow.living:
            raise UserError(f"no output depends on tensor {name!r}", hint="cut at a tensor that is read")
    apart = flow.nodes_of(operators)
    parts = flow.parts(_stages(flow, [flow.before(names) for names in tensors], apart), apart)
    if len(parts) < 2:
        raise UserError(
            "that does not cut the model: all of its nodes are on one side",
            hint="cut at a tensor in the middle; onnxq inspect --ops lists the operators",
        )
    return _build(model, proto, flow, parts, ask)


_SIZES = frozenset({*MOVES, "Shape", "Size", "Cast", "Concat", "ConstantOfShape"} - {"MaxPool"})
"""What tells or moves sizes: where that only feeds nodes that are apart, it is apart with them."""


class Cutter:
    """A model to be cut again and again around nodes that are named."""

    def __init__(self, model: Model, ask: Ask | None = None) -> None:
        """Nothing is cut yet; `ask` as in `cut`."""
        self._model, self._ask = model, ask
        self._proto = model.to_proto()
        self._flow = _Flow(self._proto.graph)
        nodes = self._proto.graph.node
        self._index = {nodes[index].name: index for index in sorted(self._flow.living)}
        self._outer = {inner.name: outer.name for outer, inner in self._flow.in_bodies()}
        known = known_types(model, [*self._flow.maker], ask)
        self._untyped = {name for name in self._flow.maker if name not in known}
        self._readers: dict[str, set[int]] = {}
        for index in self._index.values():
            for name in self._flow.reads[index]:
                self._readers.setdefault(name, set()).add(index)

    def holder(self, name: str) -> str:
        """The node of the main graph that a node is, or is in a body of; "" where no output needs it."""
        found = self._outer.get(name, name)
        return found if found in self._index else ""

    def around(self, apart: Collection[str], behind: Sequence[Collection[str]] = ()) -> list[Piece]:
        """All pieces, as few as the order of the graph allows; one where there is nothing to cut.

        Sizes are computed in the piece that reads them, where that is one for an engine.

        Args:
            apart: nodes that go into pieces of their own, with what tells sizes to them alone.
            behind: sets of nodes; each, with all that it depends on, is cut from the rest.

        Raises:
            UserError: the type of a tensor between two pieces is not known.
        """
        chosen = {self._index[name] for name in apart}
        sizes = {
            index: read for index in sorted(self._index.values(), reverse=True) if (read := self._fed(index))
        }
        for index in self._index.values():  # no file can say what passes there
            if any(
                name in self._untyped and self._flow.maker[name] in chosen for name in self._flow.reads[index]
            ):
                chosen.add(index)
        for index, read in sizes.items():
            if read <= chosen:
                chosen.add(index)
        before = [self._flow.before(self._given(names)) for names in behind]
        return self._built(self._flow.parts(_stages(self._flow, before, chosen, sizes), chosen))

    def _fed(self, index: int) -> set[int]:
        """The nodes that read what one gives, where that tells or moves sizes, and no output is of it."""
        node = self._proto.graph.node[index]
        if node.domain or node.op_type not in _SIZES or set(node.output) & set(self._flow.outputs):
            return set()
        return set().union(*(self._readers.get(name, set()) for name in node.output))

    def part(self, names: Collection[str]) -> Piece:
        """Some nodes; what they give to others is an output.

        Raises:
            UserError: the type of an input or output is not known.
        """
        nodes = sorted(self._index[name] for name in names)
        rest = sorted(set(self._index.values()).difference(nodes))
        return self._built(self._flow.parts([nodes, rest] if rest else [nodes], ())[:1])[0]

    def _given(self, names: Iterable[str]) -> list[str]:
        return [one for name in names for one in self._proto.graph.node[self._index[name]].output if one]

    def _built(self, parts: Sequence[_Part]) -> list[Piece]:
        return _build(self._model, self._proto, self._flow, parts, self._ask)


def extract_between(model: Model, start: Sequence[str], end: Sequence[str], ask: Ask | None = None) -> Piece:
    """The part of a model between tensors.

    Args:
        model: the model.
        start: tensors that become inputs. What `end` needs beside them is taken in, as far back as
            the model's own inputs.
        end: tensors that become outputs.
        ask: as in `cut`.

    Raises:
        UserError: there is no such tensor, nothing computes one of `end`, none of `end` depends on
            one of `start`, or the type of an input or output is not known.
    """
    proto = model.to_proto()
    flow = _Flow(proto.graph)
    for name in end:
        flow.check_computed(name, "--to")
    for name in start:
        if name not in flow.inputs:
            flow.check_computed(name, "--from")
    part = flow.part(sorted(flow.before(end, set(start))), start, end)
    for name in start:
        if name not in part.inputs:
            raise UserError(
                f"none of the tensors to end at depends on tensor {name!r}", hint="leave it out, or end later"
            )
    return _build(model, proto, flow, [part], ask)[0]


def extract_node(model: Model, name: str, ask: Ask | None = None) -> Piece:
    """One node of the main graph, with the constants that it reads.

    Raises:
        UserError: there is no such node, it is in a subgraph body, or a type is not known.
    """
    proto = model.to_proto()
    flow = _Flow(proto.graph)
    nodes = {node.name: index for index, node in enumerate(proto.graph.node)}
    if name not in nodes:
        for outer, inner in flow.in_bodies():
            if inner.name == name:
                raise UserError(
                    f"node {name!r} is in a body of {outer.op_type} node {outer.name!r}",
                    hint=f"extract that node: --node {outer.name}",
                )
        raise unknown_name("node", name, nodes)
    index = nodes[name]
    outputs = [output for output in proto.graph.node[index].output if output]
    return _build(model, proto, flow, [flow.part([index], (), outputs)], ask)[0]


@dataclass(frozen=True, slots=True)
class _Part:
    """Some nodes, by their positions in the graph, and what they exchange with the others."""

    nodes: Sequence[int]
    inputs: Sequence[str]
    outputs: Sequence[str]
    isolated: bool = False


class _Flow:
    """Who writes and who reads each tensor of a main graph; Constant nodes are constants here."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.inputs = [info.name for info in graph.input]
        self.outputs = [info.name for info in graph.output]
        self._rank = {name: index for index, name in enumerate((*self.outputs, *self.inputs))}
        self.constants = {tensor.name for tensor in graph.initializer}
        self.constants.update(tensor.values.name for tensor in graph.sparse_initializer)
        self.constant_nodes: list[onnx.NodeProto] = []
        self.maker: dict[str, int] = {}
        self.reads: list[list[str]] = []
        for index, node in enumerate(graph.node):
            self.reads.append(list(dict.fromkeys(filter(None, reads(node)))))
            if operator_name(node) == "Constant":
                self.constants.update(node.output)
                self.constant_nodes.append(node)
            else:
                self.maker.update((name, index) for name in node.output if name)
        self.living = self.before(self.outputs)

    def before(self, tensors: Iterable[str], stop: Collection[str] = ()) -> set[int]:
        """The nodes that tensors depend on; behind those of `stop` nobody looks."""

        def makers(names: Iterable[str]) -> list[int]:
            return [self.maker[name] for name in names if name in self.maker and name not in stop]

        return set(reached(makers(tensors), lambda index: makers(self.reads[index])))

    def part(
        self, nodes: Sequence[int], start: Collection[str], wanted: Collection[str], *, isolated: bool = False
    ) -> _Part:
        """A part of these nodes that reads `start` rather than compute it, and gives what is wanted."""
        made = {name for index in nodes for name in self.graph.node[index].output if name not in start}
        read = {name for index in nodes for name in self.reads[index]} - made - self.constants
        outputs = [name for name in wanted if name in made]
        return _Part(nodes, sorted(read, key=self._place), sorted(outputs, key=self._place), isolated)

    def _place(self, name: str) -> tuple[int, int]:
        """The order of inputs and outputs: the model's own first, then as they are computed."""
        return self._rank.get(name, len(self._rank)), self.maker.get(name, -1)

    def parts(self, groups: Sequence[Sequence[int]], apart: Collection[int]) -> list[_Part]:
        """The parts of groups of nodes that stand in order."""
        readers: dict[str, set[int]] = {name: {-1} for name in self.outputs}
        for number, nodes in enumerate(groups):
            for index in nodes:
                for name in self.reads[index]:
                    readers.setdefault(name, set()).add(number)
        parts = []
        for number, nodes in enumerate(groups):
            made = (name for index in nodes for name in self.graph.node[index].output if name)
            outputs = [name for name in made if readers.get(name, {number}) - {number}]
            parts.append(self.part(nodes, (), outputs, isolated=nodes[0] in apart))
        if parts:
            constants = [name for name in self.outputs if name in self.constants]
            parts[-1] = _Part(
                parts[-1].nodes, parts[-1].inputs, [*parts[-1].outputs, *constants], parts[-1].isolated
            )
        return parts

    def in_bodies(self) -> Iterator[tuple[onnx.NodeProto, onnx.NodeProto]]:
        """Each node in a subgraph body, with the node of the main graph around it."""
        for outer in self.graph.node:
            for attribute in outer.attribute:
                if attribute.HasField("g"):
                    for body in graphs(attribute.g):
                        yield from ((outer, inner) for inner in body.node)

    def check_computed(self, name: str, flag: str) -> None:
        """Refuses what `flag` names where it is no tensor that a node of the main graph computes.

        Raises:
            UserError: it is an input, a constant, in a subgraph body, a node, or there is none.
        """
        if name in self.maker:
            return
        for kind, names in (("an input", self.inputs), ("a constant", self.constants)):
            if name in names:
                raise UserError(
                    f"tensor {name!r} is {kind} of the model: nothing computes it",
                    hint="give a tensor that a node computes; onnxq inspect --tensor tells who reads it",
                )
        for index, node in enumerate(self.graph.node):
            if node.name == name:
                raise self._is_node(index, flag)
        for outer, inner in self.in_bodies():
            if name in inner.output:
                raise UserError(
                    f"tensor {name!r} is in a body of {outer.op_type} node {outer.name!r}",
                    hint="give a tensor of the main graph, such as an output of that node",
                )
            if name == inner.name:
                raise UserError(
                    f"{name!r} is a node in a body of {outer.op_type} node {outer.name!r}, not a tensor",
                    hint=f"give what that one gives: {_flag(flag, self._given(outer))}",
                )
        raise unknown_name("tensor", name, self.maker)

    def _is_node(self, index: int, flag: str) -> UserError:
        """The error for a node's name where a tensor's is expected: the tensors that may be meant."""
        node = self.graph.node[index]
        read = [name for name in self.reads[index] if name not in self.constants]
        tensors = self._given(node)
        hint = f"give what it gives: {_flag(flag, tensors)}"
        if flag != "--to":
            front = [name for name in read if flag == "--from" or name in self.maker]
            behind = [name for name in tensors if any(name in names for names in self.reads)]
            sides = (("in front of", front), ("behind", behind))
            cuts = [f"{_flag(flag, names)} cuts {side} it" for side, names in sides if names]
            hint = ", ".join(cuts) or hint
        reads = ", ".join(map(repr, read)) or "constants only"
        gives = ", ".join(map(repr, tensors))
        return UserError(
            f"{node.name!r} is a node, not a tensor: it reads {reads} and gives {gives}", hint=hint
        )

    def _given(self, node: onnx.NodeProto) -> list[str]:
        """What a node gives: those of its outputs that are read, where any is."""
        outputs = [name for name in node.output if name]
        read = {name for names in self.reads for name in names}.union(self.outputs)
        return [name for name in outputs if name in read] or outputs

    def nodes_of(self, operators: Collection[str]) -> set[int]:
        """The nodes of operators.

        Raises:
            UserError: there is no such operator, or a node of it is in the body of a node of another.
        """
        living = {self.graph.node[index].name: index for index in self.living}
        present = {operator_name(self.graph.node[index]) for index in self.living}
        for outer, inner in self.in_bodies():
            if outer.name not in living:
                continue
            operator, around = operator_name(inner), operator_name(outer)
            present.add(operator)
            if operator in operators and around not in operators:
                raise UserError(
                    f"a node {operator} is in a body of {outer.op_type} node {outer.name!r}, "
                    "which cannot be cut",
                    hint=f"--at-op {around} isolates the whole node",
                )
        chosen = {_meant(operator, present) for operator in operators}
        return {index for index in self.living if operator_name(self.graph.node[index]) in chosen}


def _flag(flag: str, tensors: Sequence[str]) -> str:
    """A flag with tensors as a shell takes it."""
    return f"{flag} {shlex.quote(','.join(tensors))}"


def _meant(operator: str, present: Collection[str]) -> str:
    """The operator that the user means: its domain may be left out where only one has the name."""
    operators = [name for name in present if name.endswith(f".{operator}")]
    if operator in present or len(operators) != 1:
        operators = [operator]
    if operators[0] not in present:
        raise unknown_name("operator", operator, sorted(present))
    return operators[0]


def operator_name(node: onnx.NodeProto) -> str:
    """A node's operator as the user writes it: `Op`, or `domain.Op`."""
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else str(node.op_type)


def _stages(
    flow: _Flow,
    before: Sequence[Collection[int]],
    apart: Collection[int],
    late: Mapping[int, Collection[int]] | None = None,
) -> list[list[int]]:
    """The living nodes in groups that can run one after another.

    A node's first number is how many cuts it is behind: never less than its producers', and more
    for who reads a tensor that is cut at. The second, among the nodes of the same first number, is
    the smallest that is not below its producers', even for nodes that stay and odd for those
    apart: one more at each crossing, so that there are no more groups than a path has crossings. A node of
    `late` is as late as its readers, which are its value, where these are not apart.
    """
    stage: dict[int, tuple[int, int]] = {}
    for index in sorted(flow.living):
        behind = sum(index not in nodes for nodes in before)
        makers = (flow.maker[name] for name in flow.reads[index] if name in flow.maker)
        level = max((stage[maker][1] for maker in makers if stage[maker][0] == behind), default=0)
        stage[index] = (behind, level + (level % 2 != (index in apart)))
    for index, readers in (late or {}).items():
        first = min(stage[reader] for reader in readers)
        if index not in apart and first[0] == stage[index][0] and first[1] % 2 == 0:
            stage[index] = first
    groups = grouped((key, index) for index, key in sorted(stage.items()))
    return [groups[key] for key in sorted(groups)]


def _build(
    model: Model, proto: onnx.ModelProto, flow: _Flow, parts: Sequence[_Part], ask: Ask | None
) -> list[Piece]:
    names = dict.fromkeys(name for part in parts for name in (*part.inputs, *part.outputs))
    types = boundary_types(model, [name for name in names if name not in flow.constants], ask)
    own = {info.name: info for info in proto.graph.output if is_typed(info.type)}
    pieces = []
    for part in parts:
        piece = _model(proto, flow, part)
        piece.graph.input.extend(types[name] for name in part.inputs)
        piece.graph.output.extend(own[name] if name in own else types[name] for name in part.outputs)
        nodes = tuple(proto.graph.node[index].name for index in part.nodes)
        pieces.append(Piece(piece, nodes, part.isolated))
    return pieces


def _model(proto: onnx.ModelProto, flow: _Flow, part: _Part) -> onnx.ModelProto:
    """A model of a part's nodes and constants, without inputs and outputs."""
    source, target = proto.graph, without_graph(proto)
    graph = target.graph
    graph.name, graph.doc_string = source.name, source.doc_string
    graph.metadata_props.extend(source.metadata_props)
    made = {name for index in part.nodes for name in source.node[index].output}
    used = made.union(part.outputs, *(flow.reads[index] for index in part.nodes))
    graph.initializer.extend(tensor for tensor in source.initializer if tensor.name in used)
    graph.sparse_initializer.extend(t for t in source.sparse_initializer if t.values.name in used)
    graph.node.extend(node for node in flow.constant_nodes if node.output[0] in used)
    for index in part.nodes:
        node = graph.node.add()
        node.CopyFrom(source.node[index])
        for slot, name in enumerate(node.output):
            if name in part.inputs:  # another output of the node is needed, this one is fed
                node.output[slot] = f"unread:{name}"
    outside = {*part.inputs, *part.outputs}
    graph.value_info.extend(i for i in source.value_info if i.name in used and i.name not in outside)
    graph.quantization_annotation.extend(a for a in source.quantization_annotation if a.tensor_name in used)
    return target


# The types of tensors at which a model is cut: a file must say them of its inputs and outputs.


def boundary_types(
    model: Model,
    names: Sequence[str],
    ask: Callable[[onnx.ModelProto], Mapping[str, onnx.TypeProto]] | None,
) -> dict[str, onnx.ValueInfoProto]:
    """The types of tensors of the main graph; arguments as of `known_types`.

    Raises:
        UserError: nobody knows the type of a tensor.
    """
    types = known_types(model, names, ask)
    for name in names:
        if name not in types:
            raise UserError(
                f"the type of tensor {name!r} is not known, which an input or output must have",
                hint="cut at another tensor, or state its type in the model's value_info",
            )
    return {name: types[name] for name in names}


def known_types(
    model: Model,
    names: Sequence[str],
    ask: Callable[[onnx.ModelProto], Mapping[str, onnx.TypeProto]] | None,
) -> dict[str, onnx.ValueInfoProto]:
    """The types of tensors of the main graph, as far as somebody knows them.

    What the file declares is believed only where inference from the inputs' types finds no shape: a
    wrong shape inside a model does not matter to onnxruntime, that of an input does.

    Args:
        model: the model.
        names: the tensors.
        ask: tells the types of a model's outputs where ONNX's inference knows nothing (operators
            of onnxruntime's own, say).
    """
    skeleton = model.to_proto(weights=False)
    shapes = {tensor.name: tensor.shape for tensor in model.inputs}
    for info in skeleton.graph.input:
        if shapes.get(info.name) is not None:
            set_shape(info.type.tensor_type, shapes[info.name])
    types = _inferred(skeleton, declared=False) | {info.name: info for info in skeleton.graph.input}
    if not all(name in types and _has_shape(types[name].type) for name in names):
        shaped = {name: info for name, info in types.items() if _has_shape(info.type)}
        types |= _inferred(skeleton, declared=True) | shaped
    unknown = [name for name in names if name not in types]
    if unknown and ask is not None:
        types |= _asked(skeleton, unknown, ask)
    return types


def is_typed(kind: onnx.TypeProto) -> bool:
    """Whether a type says what the elements are."""
    if kind.WhichOneof("value") == "tensor_type":
        return bool(kind.tensor_type.elem_type)
    return kind.WhichOneof("value") is not None


def _has_shape(kind: onnx.TypeProto) -> bool:
    """Whether a tensor's rank is known; of what is no tensor nothing is asked."""
    return not kind.HasField("tensor_type") or bool(kind.tensor_type.HasField("shape"))


def _inferred(skeleton: onnx.ModelProto, *, declared: bool) -> dict[str, onnx.ValueInfoProto]:
    """What ONNX infers from the inputs' types, and from what the file declares of other tensors."""
    target = onnx.ModelProto()
    target.CopyFrom(skeleton)
    if not declared:
        computed = {name for node in skeleton.graph.node for name in node.output}
        del target.graph.value_info[:]
        for info in target.graph.output:
            if info.name in computed and info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
    try:
        graph = infer(target).graph
    except Exception:  # then nothing is inferred
        return {}
    said = (*target.graph.input, *target.graph.value_info, *target.graph.output)
    own = {dim for info in said for dim in shape_of(info.type.tensor_type.shape)}
    symbols = Symbols(dim for dim in own if isinstance(dim, str))
    types = {}
    for info in (*graph.value_info, *graph.output):
        if is_typed(info.type):
            kind = info.type.tensor_type
            if info.type.HasField("tensor_type") and kind.HasField("shape"):
                set_shape(kind, symbols.named(info.name, shape_of(kind.shape)))
            types[info.name] = info
    return types


def _asked(
    skeleton: onnx.ModelProto,
    names: Sequence[str],
    ask: Callable[[onnx.ModelProto], Mapping[str, onnx.TypeProto]],
) -> dict[str, onnx.ValueInfoProto]:
    for model in (skeleton, runnable_part(skeleton)[0]):
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        made = {name for node in probe.graph.node for name in node.output}
        del probe.graph.output[:]
        probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name in made)
        types = ask(probe)
        if types:
            return {name: onnx.ValueInfoProto(name=name, type=kind) for name, kind in types.items()}
    return {}
