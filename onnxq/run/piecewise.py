"""A model whose pairs can be off and whose scales can be others: pieces, in the forms that are asked for.

A candidate (which edges read the float tensor, what the scales are) is a run, not a model. The nodes are
cut, in their order, into pieces, each with one layer that has pairs. A piece is a session for each set of its
edges that is off, made when it is first asked for: there are two for a layer, one of its float and one of its
int8 weights, and in each onnxruntime optimizes as in a model without choices. What a piece gives is kept
until it gives something else: the next candidate runs only the pieces that it changes, and what depends on
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import Fault
from onnxq.base.grouped import reached
from onnxq.graph.order import put_in_order, reads
from onnxq.run import ort

Edge = tuple[str, int]
"""An input of a node, by its name."""


@dataclass(frozen=True, slots=True)
class Tie:
    """An edge that goes off with others.

    Attributes:
        reads: what it reads then; "" for nothing.
        along: the edges with which it goes off: it does where all of them are.
    """

    reads: str
    along: frozenset[Edge]


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run is made with.

    Attributes:
        off: the edges that read the float tensor.
        scales: values of scales, by the name of the constant; the others are the model's own.
    """

    off: frozenset[Edge] = frozenset()
    scales: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(slots=True)
class _Piece:
    """Nodes that run together.

    Attributes:
        nodes: those that the float model has, too.
        edges: their edges that can be off.
        gives: what others, or the outputs, read of it.
        forms: its sessions, by the edges that are off.
    """

    nodes: list[onnx.NodeProto]
    edges: frozenset[Edge]
    gives: tuple[str, ...] = ()
    forms: dict[frozenset[Edge], _Form] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Form:
    """A piece with some edges off, its session, and the scales that it reads."""

    session: ort.Session
    scales: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A piece in a setting: its form, and the values of its scales."""

    form: _Form
    scales: Mapping[str, Any]
    key: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a `PiecewiseModel` is made of: the arguments, which go to other processes.

    Attributes:
        model: the model with pairs, in order, each node with a name of its own.
        floats: the model without them.
        edges: what each edge that can be off reads then: a tensor of the model without pairs.
        scales: names of scalar constants that a run may set.
        types: the types of tensors; what has none is inside a piece. Sizes are used only where a piece does
            not load without.
        data_dir: the folder of external data, of both.
        optimize: as in `ort.load`.
        pieces: how many there are at most; None: each layer is one.
        ties: edges that no setting names: they go off with others.
        constants: what such edges read that neither model has.
    """

    model: onnx.ModelProto
    floats: onnx.ModelProto
    edges: Mapping[Edge, str]
    scales: Sequence[str]
    types: Mapping[str, onnx.TypeProto]
    data_dir: Path | None = None
    optimize: bool = True
    pieces: int | None = None
    ties: Mapping[Edge, Tie] = field(default_factory=dict)
    constants: Sequence[onnx.TensorProto] = ()

    def made(self) -> PiecewiseModel:
        """It."""
        return PiecewiseModel(
            self.model, self.floats, self.edges, self.scales, self.types,
            data_dir=self.data_dir, optimize=self.optimize, pieces=self.pieces, ties=self.ties,
            constants=self.constants,
        )  # fmt: skip


class PiecewiseModel:
    """A model with pairs, in which a run sets what is on and what the scales are.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        floats: onnx.ModelProto,
        edges: Mapping[Edge, str],
        scales: Sequence[str],
        types: Mapping[str, onnx.TypeProto],
        *,
        data_dir: Path | None = None,
        optimize: bool = True,
        pieces: int | None = None,
        ties: Mapping[Edge, Tie] | None = None,
        constants: Sequence[onnx.TensorProto] = (),
    ) -> None:
        """Cuts the model; sessions are made when they are asked for.

        Args:
            model: the model with pairs, in order, each node with a name of its own.
            floats: the model without them.
            edges: what each edge that can be off reads then: a tensor of the model without pairs.
            scales: names of scalar constants that a run may set.
            types: the types of tensors; what has none is inside a piece.
            data_dir: the folder of external data, of both.
            optimize: as in `ort.load`; without, outputs are those of the candidate's own file, bit for
                bit.
            pieces: how many there are at most, for settings that differ in their scales alone; None: each
                layer is one.
            ties: edges that go off with others.
            constants: what such edges read that neither model has.
        """
        self._edges, self._types, self._ties = dict(edges), types, dict(ties or {})
        self._off = {**self._edges, **{edge: tie.reads for edge, tie in self._ties.items()}}
        self._frame = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
        self._data_dir, self._optimize = data_dir, optimize
        self._constants = {t.name: t for graph in (floats.graph, model.graph) for t in graph.initializer}
        self._constants.update((tensor.name, tensor) for tensor in constants)
        self._sparse = {t.values.name: t for t in model.graph.sparse_initializer}
        self._settable = {name: self._constants[name] for name in scales}
        self._known = {info.name: info for info in model.graph.input if info.name not in self._constants}
        self.inputs = tuple(self._known)
        self.outputs = tuple(info.name for info in model.graph.output)
        self._held = {name: self._constants[name] for name in self.outputs if name in self._constants}
        self._own_scales = {name: onnx.numpy_helper.to_array(t) for name, t in self._settable.items()}
        known = {node.name for node in floats.graph.node}
        self._makers = {
            name: node
            for node in model.graph.node
            if node.name not in known and not set(self.outputs).intersection(node.output)
            for name in node.output
        }
        inserted = {node.name for node in self._makers.values()}
        self._pieces = self._cut([n for n in model.graph.node if n.name not in inserted], pieces)
        self._places = self._switched_places()
        self._ran = 0

    @property
    def edges(self) -> frozenset[Edge]:
        """All that can be off."""
        return frozenset(self._edges)

    @property
    def runs(self) -> float:
        """How many runs of the model that was so far, by pieces: two of four are half a run."""
        return self._ran / max(1, len(self._pieces))

    def run_each(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[Setting],
        outputs: Sequence[str] | None = None,
    ) -> list[list[Any]]:
        """Runs the model once with each setting.

        Args:
            feeds: an array for each input.
            settings: what differs.
            outputs: the outputs wanted, all by default.

        Returns:
            The outputs, in order, for each setting.

        Raises:
            RunError: a piece does not run.
            Fault: a piece does not load.
        """
        found: list[list[Any]] = [[] for _ in settings]
        for index, given in self.run_one_by_one(feeds, settings, outputs):
            found[index] = given
        return found

    def run_one_by_one(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[Setting],
        outputs: Sequence[str] | None = None,
    ) -> Iterator[tuple[int, list[Any]]]:
        """As `run_each`, with the outputs of one setting in memory: its index, and they; in any order."""
        wanted = self.outputs if outputs is None else tuple(outputs)
        if not settings:
            return
        first = self._steps(settings[0])
        steps = [self._others(settings[0], setting, first) for setting in settings]
        values = {name: ort.as_value(feeds[name]) for name in self.inputs}
        folder = str(self._data_dir or "")
        for name, tensor in self._held.items():  # an output that no node gives
            values[name] = ort.as_value(onnx.numpy_helper.to_array(tensor, folder))
        done: list[tuple[Any, ...] | None] = [None] * len(self._pieces)
        for index in _in_order(first, steps):
            changed: set[str] = set()
            others = steps[index]
            for place, piece in enumerate(self._pieces):
                step = others.get(place) or first[place]
                if done[place] == step.key and changed.isdisjoint(step.form.session.inputs):
                    continue
                given = {
                    n: step.scales[n] if n in step.scales else values[n] for n in step.form.session.inputs
                }
                values.update(zip(piece.gives, step.form.session.run_values(given, piece.gives), strict=True))
                self._ran += 1
                changed.update(piece.gives)
                done[place] = step.key
            yield index, [ort.as_array(values[name]) for name in wanted]

    # -- settings ------------------------------------------------------------------------------

    def _steps(self, setting: Setting) -> list[_Step]:
        """What each piece does in a setting."""
        return [self._step(piece, setting) for piece in self._pieces]

    def _others(self, first: Setting, setting: Setting, steps: Sequence[_Step]) -> dict[int, _Step]:
        """The pieces, by place, that do something else than in a first setting: few, of many settings."""
        named: set[Edge | str] = {*(first.off ^ setting.off), *first.scales, *setting.scales}
        places = {place for one in named for place in self._places.get(one, ())}
        found = {place: self._step(self._pieces[place], setting) for place in sorted(places)}
        return {place: step for place, step in found.items() if step.key != steps[place].key}

    def _step(self, piece: _Piece, setting: Setting) -> _Step:
        along = (e for e in piece.edges if e in self._ties and self._ties[e].along <= setting.off)
        off = (piece.edges & setting.off) | frozenset(along)
        form = piece.forms.get(off)
        if form is None:
            form = piece.forms[off] = self._form(piece, off)
        arrays = {name: setting.scales.get(name, self._own_scales[name]) for name in form.scales}
        key = (id(form), *(array.tobytes() for array in arrays.values()))
        return _Step(form, {name: ort.as_value(array) for name, array in arrays.items()}, key)

    # -- pieces --------------------------------------------------------------------------------

    def _cut(self, nodes: Sequence[onnx.NodeProto], pieces: int | None) -> list[_Piece]:
        """The pieces: a new one begins at each node that has edges to switch, or at some of them."""
        switched: dict[str, set[Edge]] = {}
        for edge in self._edges:
            switched.setdefault(edge[0], set()).add(edge)
        each = 1 if pieces is None else max(1, -(-len(switched) // pieces))
        groups: list[list[onnx.NodeProto]] = [[]]
        count = 0
        for node in nodes:
            if node.name in switched:
                if count and count % each == 0:
                    groups.append([])
                count += 1
            groups[-1].append(node)
        groups = self._merged(groups)
        for edge in self._ties:
            switched.setdefault(edge[0], set()).add(edge)
        found = [
            _Piece(group, frozenset(edge for node in group for edge in switched.get(node.name, ())))
            for group in groups
        ]
        readers: dict[str, set[int]] = {name: {-1} for name in self.outputs}
        for place, group in enumerate(groups):
            for name in self._read(group):
                readers.setdefault(name, set()).add(place)
        for place, piece in enumerate(found):
            made = (name for node in piece.nodes for name in node.output if name)
            piece.gives = tuple(name for name in made if readers.get(name, set()) - {place})
        return [piece for piece in found if piece.gives]

    def _switched_places(self) -> dict[Edge | str, set[int]]:
        """The places of the pieces that each edge, and each scale, may make another form of."""
        found: dict[Edge | str, set[int]] = {}
        for place, piece in enumerate(self._pieces):
            for edge in piece.edges:
                for one in self._ties[edge].along if edge in self._ties else (edge,):
                    found.setdefault(one, set()).add(place)
            for name in self._settable.keys() & self._read(piece.nodes):
                found.setdefault(name, set()).add(place)
        return found

    def _merged(self, groups: list[list[onnx.NodeProto]]) -> list[list[onnx.NodeProto]]:
        """Groups between which only tensors of known types are handed on."""
        maker = {name: place for place, group in enumerate(groups) for node in group for name in node.output}
        joined = list(range(len(groups)))  # the first group that each one is part of
        for place, group in enumerate(groups):
            for name in self._read(group):
                if name not in self._types and maker.get(name, place) < place:
                    for between in range(maker[name], place + 1):
                        joined[between] = min(joined[between], joined[maker[name]])
        found: dict[int, list[onnx.NodeProto]] = {}
        for place, group in enumerate(groups):
            first = joined[place]
            while joined[first] != first:
                first = joined[first]
            found.setdefault(first, []).extend(group)
        return [found[place] for place in sorted(found)]

    def _read(self, group: Sequence[onnx.NodeProto]) -> set[str]:
        """What a group reads of others, on or off."""
        read = {name for node in group for name in reads(node)}
        read.update(self._off[edge] for node in group for edge in _edges_of(node) if edge in self._off)
        return {name for node in self._pairs(read) for name in reads(node)} | read

    def _pairs(self, names: set[str]) -> list[onnx.NodeProto]:
        """The inserted nodes that make these tensors."""
        makers = self._makers
        behind = reached(names, lambda name: reads(makers[name]) if name in makers else ())
        return list({makers[name].name: makers[name] for name in behind if name in makers}.values())

    def _form(self, piece: _Piece, off: frozenset[Edge]) -> _Form:
        """A session of a piece with some edges off."""
        nodes = []
        for node in piece.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for edge in _edges_of(node):
                if edge in off:
                    copy.input[edge[1]] = self._off[edge]
            nodes.append(copy)
        pairs = self._pairs({name for node in nodes for name in reads(node)})
        model = onnx.ModelProto()
        model.CopyFrom(self._frame)
        model.graph.name = "piece"
        model.graph.node.extend([*pairs, *nodes])
        made = {name for node in model.graph.node for name in node.output}
        read = dict.fromkeys(n for node in model.graph.node for n in reads(node) if n and n not in made)
        for name in read:
            if name in self._settable:
                tensor = self._settable[name]
                info = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
                model.graph.input.append(info)
            elif name in self._constants:
                model.graph.initializer.append(self._constants[name])
            elif name in self._sparse:
                model.graph.sparse_initializer.append(self._sparse[name])
            elif name in self._known:
                model.graph.input.append(self._known[name])
            else:
                model.graph.input.append(onnx.ValueInfoProto(name=name, type=self._types[name]))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in piece.gives)
        put_in_order(model.graph)
        return _Form(self._loaded(model), tuple(name for name in read if name in self._settable))

    def _loaded(self, piece: onnx.ModelProto) -> ort.Session:
        """The session of a piece.

        It is told the ranks of what others give it, and no sizes: the file may say wrong ones of a tensor
        inside of it. A shape that another piece computes is of an unknown length then, which some of
        onnxruntime's inference takes for 0, against the rank of the tensor: such a piece is told lengths of
        what may be shapes, and no ranks.
        """
        handed = [info.type for info in piece.graph.input if info.name not in {*self._known, *self._settable}]
        sized = [onnx.TypeProto.FromString(kind.SerializeToString()) for kind in handed]
        for kind in handed:
            for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
                dim.Clear()
        try:
            return ort.load(piece, optimize=self._optimize, data_dir=self._data_dir, part=True)
        except ort.RunError as error:
            first = error
        for kind, known in zip(handed, sized, strict=True):
            if known.HasField("tensor_type"):
                if any(dim.HasField("dim_value") for dim in known.tensor_type.shape.dim):
                    kind.CopyFrom(known)
                else:
                    kind.tensor_type.ClearField("shape")
        try:
            return ort.load(piece, optimize=self._optimize, data_dir=self._data_dir, part=True)
        except ort.RunError:
            raise Fault(f"onnxruntime does not load a part of the quantized model: {first}") from first


def _edges_of(node: onnx.NodeProto) -> Iterator[Edge]:
    return ((node.name, index) for index in range(len(node.input)))


def _in_order(first: Sequence[_Step], steps: Sequence[Mapping[int, _Step]]) -> list[int]:
    """An order in which neighbours have as many first pieces in common as they can.

    Args:
        first: what each piece does in the first setting.
        steps: the others of each setting, by place.
    """
    numbers: list[dict[Any, int]] = [{step.key: 0} for step in first]
    keys = []
    for one in steps:  # of two the one that differs from the first earlier comes later
        key = []
        for place in sorted(one):
            seen = numbers[place]
            key.append((-place, seen.setdefault(one[place].key, len(seen))))
        keys.append(key)
    return sorted(range(len(steps)), key=keys.__getitem__)
