"""What keeps an edge quantized: which nodes have to be in int8 for it to read a pair.

A layer asks for the pairs of its operands; what moves values has a pair in front while one behind it is
needed; some read what is quantized anyway. So a pair in front of a shared MaxPool stays while one reader
behind it is in int8.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from onnxq.base.grouped import Joined, grouped, reached
from onnxq.base.reason import noted
from onnxq.quant.plan import Edge, KeptFloat, Need, QuantPlan, ScaleGroup, Site, joint_reason

Want = frozenset[str]
"""Nodes that all have to be in int8."""


def left_float(plan: QuantPlan, why: Mapping[str, str], ops: Mapping[str, str]) -> QuantPlan:
    """The plan with some nodes in float, and without the pairs that are there for them alone.

    It is what the rules say when they are asked again, but that it takes no ranges that are not measured:
    scales stay, and tensors that nothing moves together any more have their own.

    Args:
        plan: the plan.
        why: the nodes, each with its reason.
        ops: the operator of each node.
    """
    wants = Wants(plan)
    freed = wants.along(list(why))
    read = plan.reading(wants.kept(freed))

    def reason(node: str) -> str:
        if node in why:
            return why[node]
        partner = next(name for name in why if node in wants.along([name]))
        joint = (joint.because for joint in plan.together if node in joint.nodes)
        return joint_reason(why[partner], partner, next(joint, noted("quantized-with-others")))

    sites, groups = _regrouped(plan, _ordered(plan, read.sites))
    kept = (KeptFloat.of(node, ops[node], reason(node)) for node in (*why, *sorted(freed - set(why))))
    return replace(
        read,
        sites=sites,
        groups=groups,
        kept_float=(*plan.kept_float, *kept),
        layers=tuple(replace(x, format="float") if x.node in freed else x for x in plan.layers),
        together=tuple(joint for joint in plan.together if freed.isdisjoint(joint.nodes)),
    )


def readers_of_nothing(plan: QuantPlan, empty: Collection[str]) -> dict[str, list[str]]:
    """The nodes that read pairs of tensors without values, by tensor.

    What only repeats such tensors has no values either: behind a Reshape, say, but not behind a Concat that
    reads values as well.

    Args:
        plan: the plan.
        empty: the tensors without values, of those that are measured.
    """
    readers = {site.tensor: site.readers for site in plan.sites if site.kind == "activation"}
    tensor_of = {edge: tensor for tensor, edges in readers.items() for edge in edges}
    sources = grouped(
        (need.of, tensor_of[need.edge]) for need in plan.needs if need.of and need.edge in tensor_of
    )
    without = set(empty)
    todo = deque(without)
    while todo:
        todo.popleft()
        new = {name for name, of in sources.items() if name not in without and without.issuperset(of)}
        without |= new
        todo.extend(new)
    return {name: [edge.node for edge in readers[name]] for name in sorted(without) if name in readers}


def _ordered(plan: QuantPlan, sites: Sequence[Site]) -> list[Site]:
    """Sites in the order in which the rules ask for them: those of layers, then what is moved to these."""
    site_of = {edge: site for site in sites for edge in site.readers}
    behind = grouped((need.of, need.edge) for need in plan.needs if need.of)
    asked = (site_of[need.edge] for need in plan.needs if not need.of and need.edge in site_of)
    order = {id(site): site for site in asked}
    todo = deque(order.values())
    while todo:
        moved = [site_of[edge] for edge in behind.get(todo.popleft().tensor, ()) if edge in site_of]
        new = {id(site): site for site in moved if id(site) not in order}
        order.update(new)
        todo.extend(new.values())
    order.update((id(site), site) for site in sites if id(site) not in order)
    return sorted(order.values(), key=lambda site: site.kind == "weight")


def _regrouped(plan: QuantPlan, left: Sequence[Site]) -> tuple[tuple[Site, ...], tuple[ScaleGroup, ...]]:
    """The sites that are left, and their groups: of each, the parts that movements still connect.

    Tensors that something else than movements put together, a plan file say, stay together; and those of a
    group of which a part has no source any more, whose range is not measured.
    """
    before, after = _connected(plan, plan.sites), _connected(plan, left)
    by_id = {group.id: group for group in plan.groups}
    whole = {
        site.group: len({before[other.tensor] for other in plan.sites if other.group == site.group}) > 1
        or not {after[s.tensor] for s in left if s.group == site.group}
        <= {after.get(name) for name in by_id[site.group].sources}
        for site in left
        if site.kind == "activation" and len(by_id[site.group].tensors) > 1
    }
    fresh = max(by_id, default=0) + 1
    number: dict[tuple[int, str], int] = {}
    groups: dict[int, ScaleGroup] = {}
    regrouped = []
    for site in left:
        group = by_id[site.group]
        if not whole.get(site.group, True):
            root = after[site.tensor]
            if (site.group, root) not in number:
                taken = site.group in groups
                number[site.group, root] = fresh if taken else site.group
                fresh += taken
                members = tuple(name for name in group.tensors if after.get(name) == root)
                reasons = group.reasons if len(members) > 1 else ()
                sources = tuple(name for name in group.sources if after.get(name) == root)
                group = ScaleGroup(number[site.group, root], members, sources, reasons)
                groups[group.id] = group
            site = replace(site, group=number[site.group, root])
        else:
            groups[group.id] = group
        regrouped.append(site)
    return tuple(regrouped), tuple(groups.values())


def _connected(plan: QuantPlan, sites: Sequence[Site]) -> dict[str, str]:
    """For each quantized activation the tensor that stands for all that movements connect it with."""
    tensor_of = {edge: site.tensor for site in sites if site.kind == "activation" for edge in site.readers}
    parts = Joined[str]()
    for tensor in tensor_of.values():
        parts.add(tensor)
    for need in plan.needs:
        source = tensor_of.get(need.edge)
        if source is not None and need.of not in ("", source):
            parts.join(source, need.of)
    return {tensor: parts.find(tensor) for tensor in dict.fromkeys(tensor_of.values())}


class Wants:
    """What keeps the edges of a plan's pairs.

    Attributes:
        of_edge: for each edge, what keeps it: it is there while one of these sets is wholly in int8. None of
            the sets holds another one; their order is that of their sizes and names.
    """

    def __init__(self, plan: QuantPlan) -> None:
        """Those of a plan."""
        self._plan = plan
        self._layers = {layer.node for layer in plan.layers}
        self._partners: dict[str, set[str]] = {}
        for joint in plan.together:
            for node in joint.nodes:
                self._partners.setdefault(node, set()).update(joint.nodes)
        read = {edge: pair.tensor for pair in plan.pairs for edge in pair.readers}
        self._needs = grouped((need.edge, need) for need in plan.needs if need.edge in read)
        for need in plan.needs:
            if need.beside and need.edge.node in self._layers:  # a layer is quantized as a whole
                self._partners.setdefault(need.edge.node, set()).add(need.beside)
        self._edges = grouped((tensor, edge) for edge, tensor in read.items())
        self._musts: dict[str, Want] = {}
        self._taken: dict[str, set[str]] = {}  # who goes to float with a node
        for name in self._partners:
            for other in self.must(name):
                self._taken.setdefault(other, set()).add(name)
        self._of: dict[str, frozenset[Want]] = {}
        self._resolve_tensors()
        self.of_edge = {edge: self._least(self._behind(self._of_reader(edge))) for edge in read}

    def must(self, node: str) -> Want:
        """The nodes that have to be in int8 for a node to be."""
        if node not in self._musts:
            self._musts[node] = frozenset(reached([node], lambda name: self._partners.get(name, ())))
        return self._musts[node]

    def along(self, nodes: Collection[str]) -> frozenset[str]:
        """Nodes in float, and those that cannot stay quantized without them."""
        return frozenset(nodes).union(*(self._taken.get(name, ()) for name in nodes))

    def kept(self, nodes: Collection[str]) -> frozenset[Edge]:
        """The edges that read pairs with nodes, and all that cannot stay quantized without them, in float."""
        freed = self.along(nodes)
        edges = {e for e, wants in self.of_edge.items() if any(want.isdisjoint(freed) for want in wants)}
        others = {edge for edge in edges if edge.node not in freed}
        if others == edges:
            return frozenset(edges)
        return Wants(self._plan.reading(others)).kept(freed)  # what moves values is in no set: its pair is

    def _resolve_tensors(self) -> None:
        """What keeps each tensor's pair, by those who ask for it themselves or for what is moved from it."""
        todo = list(self._edges)
        while todo:
            tensor = todo[-1]
            behind = [need.of for need in self._own_needs(tensor) if need.of]
            open_ = [name for name in behind if name not in self._of and name in self._edges]
            if open_:
                todo.extend(open_)
                continue
            todo.pop()
            if tensor not in self._of:
                self._of[tensor] = frozenset(self._least(self._behind(self._own_needs(tensor))))

    def _own_needs(self, tensor: str) -> list[Need]:
        """The needs of a tensor's readers but of those that read it because others do."""
        needs = (need for edge in self._edges[tensor] for need in self._of_reader(edge))
        return [need for need in needs if need.of != tensor]

    def _of_reader(self, edge: Edge) -> Sequence[Need]:
        return self._needs.get(edge) or [Need(edge)]

    def _want(self, need: Need) -> Want:
        return self.must(need.edge.node) | (self.must(need.beside) if need.beside else frozenset())

    def _behind(self, needs: Iterable[Need]) -> set[Want]:
        """What keeps an edge for these needs."""
        wants = (self._of.get(need.of, ()) if need.of else (self._want(need),) for need in needs)
        return set(itertools.chain.from_iterable(wants))

    def _least(self, wants: Collection[Want]) -> tuple[Want, ...]:
        """Those that hold no other one, in an order that is always the same."""
        few = sorted(wants, key=lambda want: (len(want), sorted(want)))
        kept: list[Want] = []
        for want in few:
            if not any(other <= want for other in kept):
                kept.append(want)
        return tuple(kept)
