"""Asks the placement rules, and makes the plan of what they say."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.grouped import Joined, grouped
from onnxq.base.patterns import fits
from onnxq.base.reason import Reason, code_of, noted, reason
from onnxq.formats import FORMATS, LayerFormat, NumberFormat
from onnxq.graph.fold import fixed_tensors
from onnxq.graph.layers import has_inner_products, layer_of, multiplies, other_macs
from onnxq.graph.model import Model
from onnxq.graph.pairs import is_dequantized, other_codes, own_format, own_pair
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
    joint_reason,
)
from onnxq.rule.api import Fact, Float, Follow, Quantize, Read, Rule, Skip, Together
from onnxq.rule.told import told

_USERS_VETO = "--keep-float"

SUMS = ("Add", "Sum")
"""What may be told which inputs it reads quantized."""


def make_plan(
    model: Model,
    rules: Sequence[Rule],
    keep_float: Sequence[str] = (),
    vetoes: Mapping[str, str] | None = None,
    wanted: Mapping[str, Sequence[int]] | None = None,
    keep_float_op: Sequence[str] = (),
    formats: Mapping[str, str] | None = None,
) -> QuantPlan:
    """Asks the placement rules and resolves what they say.

    Args:
        model: a sanitized model; nodes in subgraph bodies stay in float.
        rules: the rules that are on; those of stage `place` are asked.
        keep_float: names of nodes to keep in float, as globs; what is no node's name is an operator.
        vetoes: names of nodes that have to stay in float, and why.
        wanted: names of nodes that are quantized although rules leave them in float, if they can be; with
            the inputs that a sum reads quantized, and no other ones, or none: those that the rules name.
        keep_float_op: operators to keep in float.
        formats: the number formats of nodes, by name, that are others than the target's first. A product of
            codes that the model itself has keeps theirs.

    Q/DQ pairs that the model has stay as they are; what they quantize gets no other pair.

    Raises:
        UserError: a glob of `keep_float`, or an operator, matches no node, or one that the model itself
            quantizes.
    """
    nodes = model.nodes
    own = {node.name: held for node in nodes if multiplies(node) and (held := own_format(node))}
    model.layer_formats = {**(formats or {}), **{n: held for n, held in own.items() if held in model.formats}}
    wishes: list[Quantize] = []
    follows: dict[Node, list[Follow]] = {}
    reads: list[Read] = []
    together: list[Together] = []
    skipped: dict[Node, Reason] = {}
    forced, wanted = vetoes or {}, wanted or {}
    refused = {node: forced[node.name] for node in nodes if node.name in forced}
    named = [(f"{_USERS_VETO} {glob}", of_name(nodes, glob)) for glob in keep_float]
    named += [(f"{_USERS_VETO}-op {op}", _of_operator(nodes, op)) for op in keep_float_op]
    refused.update(_user_vetoes(named))
    by_root = grouped((root, rule) for rule in rules if rule.stage == "place" for root in rule.roots)
    for node in nodes:
        inputs = wanted.get(node.name, ())
        wishes += [Quantize(node, index, because=noted("wanted.inputs")) for index in inputs]
        for rule in by_root.get(node.op, ()) if not node.domain else ():
            for fact in _facts(rule, node, skipped):
                if isinstance(fact, Quantize | Read) and wanted.get(fact.node.name):
                    continue
                if isinstance(fact, Quantize):
                    wishes.append(fact)
                elif isinstance(fact, Follow):
                    follows.setdefault(fact.node, []).append(fact)
                elif isinstance(fact, Read):
                    reads.append(fact)
                elif isinstance(fact, Together):
                    together.append(fact)
                elif isinstance(fact, Float) and fact.node.name not in wanted:
                    why = Reason(code_of(fact.because) or "rule", fact.because, rule.id)
                    refused.setdefault(fact.node, why)
    asked = {wish.node for wish in wishes}
    wishes += [w for n in nodes if n.name in wanted and n not in asked for w in _as_layer(n)]
    for wish in wishes:
        tensor = wish.node.inputs[wish.input]
        if tensor is not None and tensor.dtype is None:
            unknown = reason("unknown-type", tensor=tensor.name)
            refused.setdefault(wish.node, unknown)
    fixed = fixed_tensors(nodes)
    wishes, together = settle(wishes, together, refused, fixed)
    resolver = Resolver(set(nodes), follows, reads, refused, fixed, skipped)
    for wish in wishes:
        resolver.want(wish)
    resolver.follow()
    plan = resolver.plan(nodes, together, FORMATS[next(iter(model.formats))])
    return replace(plan, other_macs=None) if has_inner_products(model) else plan


def _as_layer(node: Node) -> list[Quantize]:
    """What a layer needs to run quantized."""
    if not multiplies(node):
        return []
    layer = layer_of(node, quantized=True)
    axes = {} if layer is None else {layer.index: layer.axis}
    why = noted("wanted", format=node.format.name)
    return [Quantize(node, i, axis=axes.get(i), because=why) for i in (0, 1)]


def of_name(nodes: Sequence[Node], glob: str) -> list[Node]:
    """The nodes whose names a glob matches; where none is, those of the operator that it names.

    Raises:
        UserError: there are none.
    """
    operators = [node for node in nodes if node.op == glob]
    if named := [node for node in nodes if fits([node.name], [glob])] or operators:
        return named
    raise unknown_name("node", glob, [*(node.name for node in nodes), *sorted({node.op for node in nodes})])


def _of_operator(nodes: Sequence[Node], op: str) -> list[Node]:
    if named := [node for node in nodes if node.op == op]:
        return named
    raise unknown_name("operator", op, sorted({node.op for node in nodes}))


def _user_vetoes(named: Iterable[tuple[str, Sequence[Node]]]) -> dict[Node, str]:
    vetoes: dict[Node, str] = {}
    for flag, nodes in named:
        for node in nodes:
            refuse_quantized(node, flag)
            vetoes[node] = Reason("keep-float", flag, "user")
    return vetoes


def is_quantized(node: Node) -> bool:
    """Whether the model itself quantizes what a node reads: then its pairs stay, whatever is asked for."""
    return any(is_dequantized(tensor) for tensor in node.inputs if tensor is not None)


def refuse_quantized(node: Node, flag: str) -> None:
    """Refuses a node that is to be in float by a flag, and reads what the model itself quantizes.

    Raises:
        UserError: it is one.
    """
    if is_quantized(node):
        raise UserError(
            f"{flag}: the model itself quantizes node {node.name!r}, its pairs stay",
            hint="start from the float model, or leave the flag out",
        )


def _facts(rule: Rule, node: Node, skipped: dict[Node, Reason]) -> list[Fact]:
    """What a placement rule says about a node.

    Args:
        rule: the rule.
        node: the node.
        skipped: the nodes that a rule knows and leaves alone, and why; what this one says is added.

    Raises:
        UserError: the rule fails.
    """
    try:
        return list(rule(node) or ())
    except Skip as skip:
        skipped.setdefault(node, Reason("rule", str(skip), rule.id))
        return []
    except Exception as error:
        raise UserError(
            f"placement rule {rule.id!r} fails at node {node.name!r}: {told(error, rule.path)}",
            hint=f"it is in {rule.path or 'no file'}; leave it out: "
            f'skip = ["{rule.id}"] under [repair] of onnxq.toml',
        ) from error


def settle(
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
    asked = grouped((wish.node, wish) for wish in wishes)
    for node in filter(multiplies, asked):
        if why := of_other_codes(node):
            refused.setdefault(node, why)
    members = {node for joint in together for node in joint.nodes}
    finished = {node for node in {*asked, *members} if multiplies(node) and is_whole(node)}
    while True:
        standing = {wish.node for wish in held if wish.node not in refused} | finished
        before = len(held), len(refused)
        held = [w for w in held if w.node in standing and (w.beside is None or w.beside in standing)]
        kept = set(map(id, held))
        for node in dict.fromkeys(wish.node for wish in held if multiplies(wish.node)):
            for wish in asked[node]:
                why = _impossible(wish, fixed)
                if id(wish) not in kept and wish.beside is not None:
                    why = reason("beside", node=wish.beside.name)
                if why:
                    refused.setdefault(node, why)
        standing = {wish.node for wish in held if wish.node not in refused} | finished
        for joint in together:
            out = next((node for node in joint.nodes if node not in standing), None)
            for node in joint.nodes if out is not None else ():
                if node in standing and node not in finished:
                    assert out is not None
                    why = refused.get(out, reason("no-rule.joint"))
                    refused.setdefault(node, joint_reason(why, out.name, joint.because))
        if before == (len(held), len(refused)):
            return held, [joint for joint in together if standing.issuperset(joint.nodes)]


def _impossible(wish: Quantize, fixed: set[Tensor]) -> str:
    """Why an operand cannot have a pair; "" where it can, or the model itself quantizes it."""
    tensor = wish.node.inputs[wish.input]
    if tensor is None:
        return reason("no-input", input=wish.input)
    if is_dequantized(tensor):
        return ""
    if not is_float(tensor.dtype):
        return reason("type", tensor=tensor.name, dtype=tensor.dtype)
    if tensor in fixed and not tensor.is_constant:
        return reason("computed", tensor=tensor.name)
    return ""


# From wishes to sites: one pair a tensor, scales shared by what only moves values, and what is in float.

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
