"""From wishes to sites: one pair a tensor, scales shared by what only moves values, and what is in float."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from onnxq.base.grouped import grouped
from onnxq.base.joined import Joined
from onnxq.base.reason import Reason, code_of, reason
from onnxq.formats import LayerFormat, NumberFormat
from onnxq.graph.layers import layer_of, multiplies, other_macs
from onnxq.graph.pairs import is_dequantized, other_codes, own_pair
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import (
    VETOES,
    Edge,
    Joint,
    KeptFloat,
    Need,
    OwnPair,
    PlannedLayer,
    QuantPlan,
    ScaleGroup,
    Site,
)
from onnxq.rule.api import Follow, Quantize, Read, Together

Key = tuple[Tensor, str]
"""A tensor, and the number format that it is quantized to: it has a pair for each in which it is read."""


class Resolver:
    """Turns facts into sites: one pair a tensor, groups by what only moves values."""

    def __init__(
        self,
        nodes: set[Node],
        follows: dict[Node, list[Follow]],
        reads: Sequence[Read],
        vetoes: dict[Node, str],
        fixed: set[Tensor],
        skipped: Mapping[Node, Reason],
    ) -> None:
        self.nodes = nodes
        self.skipped = skipped
        self.fixed = fixed
        self.follows = follows
        self.reads = reads
        self.vetoes = vetoes
        self.groups = Joined[Key]()
        self.activations: dict[Key, str] = {}
        self.own: dict[Tensor, tuple[Tensor, list[Edge], str]] = {}
        self.weights: dict[tuple[Tensor, int | None, str], list[Edge]] = {}
        self.why: dict[tuple[Tensor, int | None, str], str] = {}
        self.readers: dict[Key, list[Edge]] = {}
        self.edges: set[Edge] = set()
        self.moved: set[Key] = set()
        self.needs: dict[Need, None] = {}

    def want(self, wish: Quantize) -> None:
        """Gives a wish its pair."""
        tensor = wish.node.inputs[wish.input]
        if tensor is None:
            return
        edge = Edge(wish.node.name, wish.input)
        self.needs[Need(edge, beside="" if wish.beside is None else wish.beside.name)] = None
        reader = wish.node if wish.beside is None or multiplies(wish.node) else wish.beside
        format = reader.format.name
        if tensor.is_constant:
            # a scale of shape [1] is another thing to TensorRT than a scalar
            one = wish.axis is not None and tensor.shape is not None and tensor.shape[wish.axis] == 1
            key = tensor, None if one else wish.axis, format
            self.weights.setdefault(key, []).append(edge)
            self.edges.add(edge)
            self.why.setdefault(key, wish.because)
        elif is_float(tensor.dtype):
            self._quantize((tensor, format), edge, wish.because)

    def _quantize(self, key: Key, edge: Edge, because: str) -> None:
        """Lets an edge read a tensor quantized to a format: by the model's own pair where it has one."""
        tensor = key[0]
        if is_dequantized(tensor) or tensor in self.fixed:  # what depends on no input is as good as constant
            return
        self.edges.add(edge)
        own = own_pair(tensor, self.nodes)
        if own is not None:
            self.own.setdefault(tensor, (own, [], because))[1].append(edge)
            return
        if key not in self.activations:
            self.activations[key] = because
            self.groups.add(key)
        edges = self.readers.setdefault(key, [])
        if edge not in edges:
            edges.append(edge)

    def follow(self) -> None:
        """Carries quantization back through what only moves values, then adds opportune readers."""
        todo, several = deque(self.activations), self._of_several_formats()
        while todo:
            tensor, format = todo.popleft()
            producer = tensor.producer
            if producer is None or producer in self.vetoes or producer in several:
                continue
            follows = self.follows.get(producer, ())
            sources = [producer.inputs[fact.input] for fact in follows]
            for fact, source in zip(follows, sources, strict=True):
                if source is None or source.is_constant or not is_float(source.dtype):
                    continue
                planned = (source, format) in self.activations
                edge = Edge(producer.name, fact.input)
                self.needs[Need(edge, of=tensor.name)] = None
                self._quantize((source, format), edge, fact.because)
                if (source, format) not in self.activations:
                    continue  # the model's own pair has its own scale
                self.groups.join((tensor, format), (source, format), f"{fact.because} ({producer.name})")
                if not planned:
                    todo.append((source, format))
            if sources and all((source, format) in self.activations for source in sources):
                self.moved.add((tensor, format))  # all its values are its sources'
        self._read()

    def _of_several_formats(self) -> set[Node]:
        """What moves values that are read in several formats: the pair of each is behind it."""
        asked: dict[Node, set[str]] = {}
        todo = list(self.activations)
        while todo:
            tensor, format = todo.pop()
            producer = tensor.producer
            if producer is None or producer not in self.follows or format in asked.get(producer, ()):
                continue
            asked.setdefault(producer, set()).add(format)
            sources = (producer.inputs[fact.input] for fact in self.follows[producer])
            todo += [(source, format) for source in sources if source is not None]
        return {node for node, formats in asked.items() if len(formats) > 1}

    def _read(self) -> None:
        """Adds those who read what is quantized anyway: a layer where that makes both operands quantized."""
        of_tensor = grouped((tensor, (tensor, format)) for tensor, format in self.activations)
        quantized = (
            (read.node, (read, key))
            for read in self.reads
            if (source := read.node.inputs[read.input]) is not None
            for key in of_tensor.get(source, ())
            if read.node not in self.vetoes and (not multiplies(read.node) or key[1] == read.node.format.name)
        )
        for node, reads in grouped(quantized).items():
            edges = {Edge(node.name, read.input) for read, _ in reads}
            if not multiplies(node) or is_whole(node, self.edges | edges):
                taken = set[Edge]()
                for read, key in reads:
                    edge = Edge(node.name, read.input)
                    if edge not in taken:  # of several formats it reads the first
                        taken.add(edge)
                        self.needs[Need(edge, of=key[0].name)] = None
                        self._quantize(key, edge, read.because)

    def plan(self, nodes: Sequence[Node], together: Sequence[Together], usual: NumberFormat) -> QuantPlan:
        """The plan: groups, sites, layers, and what stays in float."""
        groups: list[ScaleGroup] = []
        number: dict[Key, int] = {}
        whys = self.groups.reasons()
        for index, (root, members) in enumerate(self.groups.members().items()):
            reasons = tuple(dict.fromkeys(whys.get(root, ())))
            sources = [key for key in members if key not in self.moved] or members
            names = tuple(tensor.name for tensor, _ in members)
            groups.append(ScaleGroup(index, names, tuple(tensor.name for tensor, _ in sources), reasons))
            number.update((key, index) for key in members)
        order = {node.name: position for position, node in enumerate(nodes)}
        sites = [
            Site(
                key[0].name,
                "activation",
                tuple(sorted(self.readers[key], key=lambda e: (order[e.node], e.input))),
                None,
                number[key],
                because,
                key[1],
            )
            for key, because in self.activations.items()
        ]
        for (tensor, axis, format), edges in self.weights.items():
            groups.append(ScaleGroup(len(groups), (tensor.name,), (tensor.name,), ()))
            why = self.why[tensor, axis, format]
            sites.append(Site(tensor.name, "weight", tuple(edges), axis, len(groups) - 1, why, format))
        own = [OwnPair(t.name, out.name, tuple(e), why) for t, (out, e, why) in self.own.items()]
        layers = {node: _planned(node, self.edges) for node in nodes if multiplies(node)}
        kept = [
            KeptFloat.of(node.name, node.op, why)
            for node, why in self.vetoes.items()
            if (node in layers and not layers[node].quantized) or code_of(why) in VETOES
        ]
        for node, layer in layers.items():
            if not layer.quantized and node not in self.vetoes:
                kept.append(KeptFloat.of(node.name, node.op, self._why_float(node)))
        others = [other_macs(node) for node in nodes if node not in layers]
        return QuantPlan(
            tuple(sites),
            tuple(own),
            tuple(groups),
            tuple(sorted(kept, key=lambda entry: order[entry.node])),
            tuple(layers.values()),
            None if None in others else sum(filter(None, others)),
            tuple(Joint(tuple(n.name for n in one.nodes), one.because, one.tried) for one in together),
            tuple(self.needs),
            usual,
        )

    def _why_float(self, node: Node) -> str:
        """Why a layer that nothing forbids is in float."""
        half = [index for index in (0, 1) if Edge(node.name, index) in self.edges]
        if half:
            return reason("half", input=half[0])
        if node in self.skipped:
            return self.skipped[node]
        if why := of_other_codes(node):
            return why
        layer = layer_of(node)
        if layer is None:
            return reason("no-constant-weights")
        if is_float(layer.weight.dtype):
            return reason("no-rule")
        return reason("weights-type", dtype=layer.weight.dtype)


def _planned(node: Node, edges: Collection[Edge]) -> PlannedLayer:
    """What a layer costs, and what it runs in where these edges are quantized."""
    layer = layer_of(node, quantized=True)
    return PlannedLayer(
        node.name,
        node.op,
        other_macs(node) if layer is None else layer.macs,
        layer is not None,
        layer is not None and layer.ineligible is None,
        cast(LayerFormat, node.format.name) if is_whole(node, edges) else "float",
    )


def of_other_codes(node: Node) -> str:
    """Why a layer cannot multiply in the plan's format: by the codes that the model has; "" where it can."""
    for tensor in node.operands(2):
        if tensor is not None and (codes := other_codes(tensor, node.format)):
            source = tensor.producer
            weights = source is not None and source.inputs[0] is not None and source.inputs[0].is_constant
            code = "other-codes.weights" if weights else "other-codes"
            return reason(code, "model", tensor=tensor.name, codes=codes, format=node.format.name)
    return ""


def is_whole(node: Node, edges: Collection[Edge] = ()) -> bool:
    """Whether both operands of a layer are quantized: by the model itself, or because these edges are."""
    return not of_other_codes(node) and all(
        tensor is not None and (is_dequantized(tensor) or Edge(node.name, index) in edges)
        for index, tensor in enumerate(node.operands(2))
    )
