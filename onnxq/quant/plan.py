"""The quantization plan: which tensors get Q/DQ pairs, which share scales, which layers stay float.

A plan is data. It is computed from what placement rules say, explained (each site, join and float
layer says why), and only then inserted.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onnxq.errors import UserError, unknown_name
from onnxq.graph.fold import fixed_tensors
from onnxq.graph.layers import layer_of, multiplies, other_macs
from onnxq.graph.model import Model
from onnxq.graph.pairs import is_dequantized, own_pair
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.groups import Groups
from onnxq.reason import Reason, by_of, code_of
from onnxq.rule.api import Fact, Float, Follow, Quantize, Read, Rule, Skip, Together

Format = Literal["float", "int8"]
"""What a layer multiplies in; `float` is whatever float type the model has there."""

_USERS_VETO = "--keep-float"
VETOES = ("keep-float", "layer")
"""The codes of the user's own vetoes: by flag, by configuration."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An input of a node."""

    node: str
    input: int


@dataclass(frozen=True, slots=True)
class Site:
    """A Q/DQ pair: one for each quantized tensor.

    Attributes:
        tensor: the tensor.
        kind: `activation` or `weight`.
        readers: the edges that read the dequantized tensor; others read the float one.
        axis: the channel axis for a scale a channel, None for one scale.
        group: the group whose scale it has.
        because: why.
    """

    tensor: str
    kind: str
    readers: tuple[Edge, ...]
    axis: int | None
    group: int
    because: str


@dataclass(frozen=True, slots=True)
class OwnPair:
    """A Q/DQ pair of the model itself, which others read from now on too.

    Attributes:
        tensor: the tensor that it quantizes.
        dequantized: the tensor that it gives.
        readers: the edges that read it from now on.
        because: why.
    """

    tensor: str
    dequantized: str
    readers: tuple[Edge, ...]
    because: str


@dataclass(frozen=True, slots=True)
class ScaleGroup:
    """Tensors with one scale.

    Attributes:
        id: its number.
        tensors: its members.
        sources: the members whose values are computed; the others only repeat theirs.
        reasons: why each pair of them shares.
    """

    id: int
    tensors: tuple[str, ...]
    sources: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptFloat:
    """A layer that stays in float, and why."""

    node: str
    op: str
    because: str

    def to_json(self) -> dict[str, str]:
        """The entry for the report."""
        return {**dataclasses.asdict(self), "code": code_of(self.because), "by": by_of(self.because)}


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """A Conv, ConvTranspose, Gemm or MatMul, what it costs and what it runs in.

    Attributes:
        node: its name.
        macs: multiply-accumulates of one inference, None where its size is not known.
        weights: whether it has constant weights; else it multiplies two activations.
        eligible: whether it has, and int8 gains anything there (see `onnxq.graph.layers`).
        format: what both of its operands have, by the plan or by the model.
    """

    node: str
    op: str
    macs: int | None
    weights: bool
    eligible: bool
    format: Format

    @property
    def quantized(self) -> bool:
        """Whether it runs in another format than float."""
        return self.format != "float"


@dataclass(frozen=True, slots=True)
class Joint:
    """Nodes that are quantized because all of them are: with one in float, so are the others.

    Attributes:
        nodes: their names.
        because: why.
    """

    nodes: tuple[str, ...]
    because: str


@dataclass(frozen=True, slots=True)
class QuantPlan:
    """What is going to be quantized, and why.

    Attributes:
        sites: the pairs that are new.
        own: the model's own pairs that get new readers.
        groups: the tensors that share scales.
        kept_float: the layers that stay in float.
        layers: the layers with constant weights and the products of two activations.
        other_macs: multiply-accumulates of recurrent layers, None where a size is not known.
        together: the joint decisions that hold.
    """

    sites: tuple[Site, ...] = ()
    own: tuple[OwnPair, ...] = ()
    groups: tuple[ScaleGroup, ...] = ()
    kept_float: tuple[KeptFloat, ...] = ()
    layers: tuple[PlannedLayer, ...] = ()
    other_macs: int | None = 0
    together: tuple[Joint, ...] = ()

    @property
    def planned(self) -> tuple[str, ...]:
        """The names of the layers that are not to run in float."""
        return tuple(layer.node for layer in self.layers if layer.quantized)

    @property
    def pairs(self) -> tuple[Site | OwnPair, ...]:
        """The pairs that have readers by this plan."""
        return (*self.sites, *self.own)

    @property
    def readers(self) -> frozenset[str]:
        """The names of the nodes that read pairs by this plan."""
        return frozenset(edge.node for pair in self.pairs for edge in pair.readers)

    def with_partners(self, nodes: Iterable[str]) -> frozenset[str]:
        """Nodes, and those that cannot stay quantized without them."""
        found = set(nodes)
        while (
            more := {
                name for joint in self.together if not found.isdisjoint(joint.nodes) for name in joint.nodes
            }
            - found
        ):
            found |= more
        return frozenset(found)

    def without(self, node: str, because: str, ops: Mapping[str, str]) -> QuantPlan:
        """The plan with a node in float, and those that cannot stay quantized without it.

        Args:
            node: its name.
            because: why.
            ops: the operator of each node.
        """
        freed = self.with_partners([node])
        more = {name: joint.because for joint in self.together for name in joint.nodes if name in freed}
        reasons = {name: _freed(because, node, more[name]) for name in sorted(freed - {node})}

        def left(edges: Sequence[Edge]) -> tuple[Edge, ...]:
            return tuple(edge for edge in edges if edge.node not in freed)

        sites = (dataclasses.replace(site, readers=left(site.readers)) for site in self.sites)
        own = (dataclasses.replace(pair, readers=left(pair.readers)) for pair in self.own)
        kept = (KeptFloat(name, ops[name], why) for name, why in {node: because, **reasons}.items())
        return dataclasses.replace(
            self,
            sites=tuple(site for site in sites if site.readers),
            own=tuple(pair for pair in own if pair.readers),
            kept_float=(*self.kept_float, *kept),
            layers=tuple(
                dataclasses.replace(layer, format="float") if layer.node in freed else layer
                for layer in self.layers
            ),
            together=tuple(joint for joint in self.together if freed.isdisjoint(joint.nodes)),
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """The tensors whose ranges calibration takes: the sources of each group of activations."""
        used = {site.group for site in self.sites if site.kind == "activation"}
        return tuple(name for group in self.groups if group.id in used for name in group.sources)

    @property
    def int8_share(self) -> float | None:
        """The int8 share of the eligible multiply-accumulates; None where there are none."""
        total = sum(layer.macs or 0 for layer in self.layers if layer.eligible)
        done = sum(layer.macs or 0 for layer in self.layers if layer.eligible and layer.quantized)
        return done / total if total else None

    @property
    def int8_share_of_all(self) -> float | None:
        """The int8 share of the whole model's multiply-accumulates; None where a size is not known."""
        macs = [layer.macs for layer in self.layers]
        if self.other_macs is None or None in macs:
            return None
        total = sum(filter(None, macs)) + self.other_macs
        return sum(layer.macs or 0 for layer in self.layers if layer.quantized) / total if total else None

    def to_json(self) -> dict[str, Any]:
        """The plan for the report."""
        return {
            "sites": [dataclasses.asdict(site) for site in self.sites],
            "own_pairs_read": [dataclasses.asdict(pair) for pair in self.own],
            "groups": [dataclasses.asdict(group) for group in self.groups],
            "kept_float": [entry.to_json() for entry in self.kept_float],
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "together": [dataclasses.asdict(joint) for joint in self.together],
            "int8_share_of_eligible_macs": self.int8_share,
            "int8_share_of_all_macs": self.int8_share_of_all,
        }


def make_plan(
    model: Model,
    rules: Sequence[Rule],
    keep_float: Sequence[str] = (),
    vetoes: Mapping[str, str] | None = None,
) -> QuantPlan:
    """Asks the placement rules and resolves what they say.

    Args:
        model: a sanitized model; nodes in subgraph bodies stay in float.
        rules: the rules that are on; those of stage `place` are asked.
        keep_float: names of nodes to keep in float, as globs.
        vetoes: names of nodes that have to stay in float, and why.

    Q/DQ pairs that the model has stay as they are; what they quantize gets no other pair.

    Raises:
        UserError: a glob of `keep_float` matches no node, or one that the model itself quantizes.
    """
    nodes = [Node(model, node) for node in model.graph.nodes]
    wishes: list[Quantize] = []
    follows: dict[Node, list[Follow]] = {}
    reads: list[Read] = []
    together: list[Together] = []
    forced = vetoes or {}
    refused = {node: forced[node.name] for node in nodes if node.name in forced}
    refused.update(_user_vetoes(nodes, keep_float))
    by_root: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.stage == "place":
            for root in rule.roots:
                by_root.setdefault(root, []).append(rule)
    for node in nodes:
        for rule in by_root.get(node.op, ()) if not node.domain else ():
            for fact in _facts(rule, node):
                if isinstance(fact, Quantize):
                    wishes.append(fact)
                elif isinstance(fact, Follow):
                    follows.setdefault(fact.node, []).append(fact)
                elif isinstance(fact, Read):
                    reads.append(fact)
                elif isinstance(fact, Together):
                    together.append(fact)
                elif isinstance(fact, Float):
                    refused.setdefault(fact.node, Reason("rule", fact.because, rule.id))
    for wish in wishes:
        tensor = wish.node.inputs[wish.input]
        if tensor is not None and tensor.dtype is None:
            unknown = Reason("unknown-type", f"the type of {tensor.name!r} is not known")
            refused.setdefault(wish.node, unknown)
    fixed = fixed_tensors(nodes)
    wishes, together = _settle(wishes, together, refused, fixed)
    resolver = _Resolver(set(nodes), follows, reads, refused, fixed)
    for wish in wishes:
        resolver.want(wish)
    resolver.follow()
    return resolver.plan(nodes, together)


def _settle(
    wishes: Sequence[Quantize], together: Sequence[Together], refused: dict[Node, str], fixed: set[Tensor]
) -> tuple[list[Quantize], list[Together]]:
    """The wishes and the joint decisions that hold, once all vetoes are known.

    What depends on a node in float is float too. A layer of which one wish does not hold has none: half
    quantized it is slower than in float.

    Args:
        wishes: what rules ask for.
        together: what they ask for jointly.
        refused: the nodes that stay in float, and why; the others that have to are added.
        fixed: tensors that depend on no input of the model.
    """
    held = list(wishes)
    asked: dict[Node, list[Quantize]] = {}
    for wish in wishes:
        asked.setdefault(wish.node, []).append(wish)
    members = {node for joint in together for node in joint.nodes}
    finished = {node for node in {*asked, *members} if multiplies(node) and _is_whole(node)}
    while True:
        standing = {wish.node for wish in held if wish.node not in refused} | finished
        before = len(held), len(refused)
        held = [w for w in held if w.node in standing and (w.beside is None or w.beside in standing)]
        kept = set(map(id, held))
        for node in dict.fromkeys(wish.node for wish in held if multiplies(wish.node)):
            for wish in asked[node]:
                why = _impossible(wish, fixed)
                if id(wish) not in kept and wish.beside is not None:
                    why = Reason("beside", f"{wish.beside.name!r} beside it stays in float")
                if why:
                    refused.setdefault(node, why)
        standing = {wish.node for wish in held if wish.node not in refused} | finished
        for joint in together:
            out = next((node for node in joint.nodes if node not in standing), None)
            for node in joint.nodes if out is not None else ():
                if node in standing and node not in finished:
                    assert out is not None
                    why = refused.get(out, Reason("no-rule", "no rule asks to quantize it"))
                    refused.setdefault(node, _freed(why, out.name, joint.because))
        if before == (len(held), len(refused)):
            return held, [joint for joint in together if standing.issuperset(joint.nodes)]


def _impossible(wish: Quantize, fixed: set[Tensor]) -> str:
    """Why an operand cannot have a pair; "" where it can, or the model itself quantizes it."""
    tensor = wish.node.inputs[wish.input]
    if tensor is None:
        return Reason("no-input", f"it has no input {wish.input}")
    if is_dequantized(tensor):
        return ""
    if not is_float(tensor.dtype):
        return Reason("type", f"{tensor.name!r} is {tensor.dtype}")
    if tensor in fixed and not tensor.is_constant:
        return Reason("computed", f"{tensor.name!r} depends on no input of the model, and is not folded")
    return ""


def _freed(why: str, node: str, because: str) -> Reason:
    """Why a node of a joint decision stays in float: what is said of another one, and the decision."""
    return Reason(code_of(why), f"{why}, at {node!r}: {because}", by_of(why))


def _user_vetoes(nodes: Sequence[Node], globs: Sequence[str]) -> dict[Node, str]:
    vetoes: dict[Node, str] = {}
    for glob in globs:
        found = [node for node in nodes if fnmatch.fnmatchcase(node.name, glob)]
        if not found:
            raise unknown_name("node", glob, [node.name for node in nodes])
        for node in found:
            if any(is_dequantized(tensor) for tensor in node.inputs if tensor is not None):
                raise UserError(
                    f"{_USERS_VETO} {glob}: the model itself quantizes node {node.name!r}, its pairs stay",
                    hint="start from the float model, or leave the flag out",
                )
            vetoes[node] = Reason("keep-float", f"{_USERS_VETO} {glob}", "user")
    return vetoes


def _facts(rule: Rule, node: Node) -> list[Fact]:
    """What a placement rule says about a node.

    Raises:
        UserError: the rule fails.
    """
    try:
        return list(rule(node) or ())
    except Skip:
        return []
    except Exception as error:
        raise UserError(
            f"placement rule {rule.id!r} fails at node {node.name!r}: {type(error).__name__}: {error}",
            hint=f"it is in {rule.path or 'no file'}; leave it out with --skip {rule.id}",
        ) from error


class _Resolver:
    """Turns facts into sites: one pair a tensor, groups by what only moves values."""

    def __init__(
        self,
        nodes: set[Node],
        follows: dict[Node, list[Follow]],
        reads: Sequence[Read],
        vetoes: dict[Node, str],
        fixed: set[Tensor],
    ) -> None:
        self.nodes = nodes
        self.fixed = fixed
        self.follows = follows
        self.reads = reads
        self.vetoes = vetoes
        self.groups = Groups()
        self.activations: dict[Tensor, str] = {}
        self.own: dict[Tensor, tuple[Tensor, list[Edge], str]] = {}
        self.weights: dict[tuple[Tensor, int | None], list[Edge]] = {}
        self.why: dict[tuple[Tensor, int | None], str] = {}
        self.readers: dict[Tensor, list[Edge]] = {}
        self.edges: set[Edge] = set()
        self.moved: set[Tensor] = set()

    def want(self, wish: Quantize) -> None:
        tensor = wish.node.inputs[wish.input]
        if tensor is None:
            return
        edge = Edge(wish.node.name, wish.input)
        if tensor.is_constant:
            # a scale of shape [1] is another thing to TensorRT than a scalar
            one = wish.axis is not None and tensor.shape is not None and tensor.shape[wish.axis] == 1
            key = tensor, None if one else wish.axis
            self.weights.setdefault(key, []).append(edge)
            self.edges.add(edge)
            self.why.setdefault(key, wish.because)
        elif is_float(tensor.dtype):
            self._quantize(tensor, edge, wish.because)

    def _quantize(self, tensor: Tensor, edge: Edge, because: str) -> None:
        """Lets an edge read a tensor quantized: by the model's own pair where it has one."""
        if is_dequantized(tensor) or tensor in self.fixed:  # what depends on no input is as good as constant
            return
        self.edges.add(edge)
        own = own_pair(tensor, self.nodes)
        if own is not None:
            self.own.setdefault(tensor, (own, [], because))[1].append(edge)
            return
        if tensor not in self.activations:
            self.activations[tensor] = because
            self.groups.add(tensor.name)
        edges = self.readers.setdefault(tensor, [])
        if edge not in edges:
            edges.append(edge)

    def follow(self) -> None:
        """Carries quantization back through what only moves values, then adds opportune readers."""
        todo = deque(self.activations)
        while todo:
            tensor = todo.popleft()
            producer = tensor.producer
            if producer is None or producer in self.vetoes:
                continue
            follows = self.follows.get(producer, ())
            sources = [producer.inputs[fact.input] for fact in follows]
            for fact, source in zip(follows, sources, strict=True):
                if source is None or source.is_constant or not is_float(source.dtype):
                    continue
                known = source in self.activations
                self._quantize(source, Edge(producer.name, fact.input), fact.because)
                if source not in self.activations:
                    continue  # the model's own pair has its own scale
                self.groups.join(tensor.name, source.name, f"{fact.because} ({producer.name})")
                if not known:
                    todo.append(source)
            if sources and all(source in self.activations for source in sources):
                self.moved.add(tensor)  # all its values are its sources'
        self._read()

    def _read(self) -> None:
        """Adds those who read what is quantized anyway: a layer where that makes both operands quantized."""
        found: dict[Node, list[tuple[Read, Tensor]]] = {}
        for read in self.reads:
            source = read.node.inputs[read.input]
            if source in self.activations and read.node not in self.vetoes:
                assert source is not None
                found.setdefault(read.node, []).append((read, source))
        for node, reads in found.items():
            edges = {Edge(node.name, read.input) for read, _ in reads}
            if not multiplies(node) or _is_whole(node, self.edges | edges):
                for read, source in reads:
                    self._quantize(source, Edge(node.name, read.input), read.because)

    def plan(self, nodes: Sequence[Node], together: Sequence[Together]) -> QuantPlan:
        moved = {tensor.name for tensor in self.moved}
        groups: list[ScaleGroup] = []
        number: dict[str, int] = {}
        joins = self.groups.reasons()
        for index, (root, members) in enumerate(self.groups.members().items()):
            reasons = tuple(dict.fromkeys(join.because for join in joins.get(root, ())))
            sources = tuple(name for name in members if name not in moved) or tuple(members)
            groups.append(ScaleGroup(index, tuple(members), sources, reasons))
            number.update((name, index) for name in members)
        order = {node.name: position for position, node in enumerate(nodes)}
        sites = [
            Site(
                tensor.name,
                "activation",
                tuple(sorted(self.readers[tensor], key=lambda e: (order[e.node], e.input))),
                None,
                number[tensor.name],
                because,
            )
            for tensor, because in self.activations.items()
        ]
        for (tensor, axis), edges in self.weights.items():
            groups.append(ScaleGroup(len(groups), (tensor.name,), (tensor.name,), ()))
            why = self.why[tensor, axis]
            sites.append(Site(tensor.name, "weight", tuple(edges), axis, len(groups) - 1, why))
        own = [OwnPair(t.name, out.name, tuple(e), why) for t, (out, e, why) in self.own.items()]
        layers = {node: _planned(node, self.edges) for node in nodes if multiplies(node)}
        kept = [
            KeptFloat(node.name, node.op, why)
            for node, why in self.vetoes.items()
            if (node in layers and not layers[node].quantized) or code_of(why) in VETOES
        ]
        for node, layer in layers.items():
            if not layer.quantized and node not in self.vetoes:
                kept.append(KeptFloat(node.name, node.op, _why_float(node, self.edges)))
        others = [other_macs(node) for node in nodes if node not in layers]
        return QuantPlan(
            tuple(sites),
            tuple(own),
            tuple(groups),
            tuple(sorted(kept, key=lambda entry: order[entry.node])),
            tuple(layers.values()),
            None if None in others else sum(filter(None, others)),
            tuple(Joint(tuple(node.name for node in joint.nodes), joint.because) for joint in together),
        )


def _planned(node: Node, edges: Collection[Edge]) -> PlannedLayer:
    """What a layer costs, and what it runs in where these edges are quantized."""
    layer = layer_of(node, quantized=True)
    return PlannedLayer(
        node.name,
        node.op,
        other_macs(node) if layer is None else layer.macs,
        layer is not None,
        layer is not None and layer.ineligible is None,
        "int8" if _is_whole(node, edges) else "float",
    )


def _is_whole(node: Node, edges: Collection[Edge] = ()) -> bool:
    """Whether both operands of a layer are quantized: by the model itself, or because these edges are."""
    return all(
        tensor is not None and (is_dequantized(tensor) or Edge(node.name, index) in edges)
        for index, tensor in enumerate(node.operands(2))
    )


def _why_float(node: Node, edges: Collection[Edge]) -> str:
    half = [index for index in (0, 1) if Edge(node.name, index) in edges]
    if half:
        return Reason(
            "half", f"only its input {half[0]} is quantized: that is what its placement rule asks for"
        )
    layer = layer_of(node)
    if layer is None:
        return Reason("no-constant-weights", "it has no constant weights")
    if is_float(layer.weight.dtype):
        return Reason("no-rule", "no placement rule asks for it")
    return Reason("weights-type", f"its weights are {layer.weight.dtype}")
