"""The quantization plan: which tensors get Q/DQ pairs, which share scales, which layers stay float.

A plan is data. It is computed from what placement rules say, explained (each site, join and float
layer says why), and only then inserted.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from onnxq.base.grouped import grouped, reached
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import Reason, by_of, code_of
from onnxq.formats import FORMATS, INT8, LayerFormat, NumberFormat, in_words

FLAGGED = ("keep-float", "keep-fp32")
"""The codes of what the user keeps in float by a flag."""

VETOES = (*FLAGGED, "layer", "plan")
"""The codes of the user's own vetoes: by flag, by configuration, by a plan."""


@dataclass(frozen=True, slots=True)
class Edge(DocumentPart):
    """An input of a node.

    Attributes:
        node: the node's name.
        input: which input, from 0.
    """

    node: str
    input: int


@dataclass(frozen=True, slots=True)
class Need:
    """Why an edge reads a pair; it does while one of its needs holds.

    Attributes:
        edge: the edge.
        beside: the node that has to be quantized as well, "" for none.
        of: the tensor whose pair others have to need; "" where the edge itself asks for one. For what moves
            values it is what they are moved to.
    """

    edge: Edge
    beside: str = ""
    of: str = ""


@dataclass(frozen=True, slots=True)
class Site(DocumentPart):
    """A Q/DQ pair: one for each quantized tensor.

    Attributes:
        tensor: the tensor.
        kind: `activation` or `weight`.
        readers: the edges that read the dequantized tensor; others read the float one.
        axis: the channel axis for a scale a channel, None for one scale.
        group: the group whose scale it has.
        because: why.
        format: the number format of its codes, by name.
    """

    tensor: str
    kind: str
    readers: tuple[Edge, ...]
    axis: int | None
    group: int
    because: str
    format: str = INT8.name

    @property
    def numbers(self) -> NumberFormat:
        """The format itself."""
        return FORMATS[self.format]


@dataclass(frozen=True, slots=True)
class OwnPair(DocumentPart):
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
class ScaleGroup(DocumentPart):
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
class KeptFloat(DocumentPart):
    """A layer that stays in float.

    Attributes:
        node: its name.
        op: its operator.
        because: why.
        code: a word for that, for programs.
        by: who says so: a rule, a setting, "" for none.
    """

    node: str
    op: str
    because: str
    code: str = ""
    by: str = ""

    @classmethod
    def of(cls, node: str, op: str, because: str) -> KeptFloat:
        """One whose reason says the rest."""
        return cls(node, op, because, code_of(because), by_of(because))


@dataclass(frozen=True, slots=True)
class PlannedLayer(DocumentPart):
    """A Conv, ConvTranspose, Gemm or MatMul, what it costs and what it runs in.

    Attributes:
        node: its name.
        op: its operator.
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
    format: LayerFormat

    @property
    def quantized(self) -> bool:
        """Whether it runs in another format than float."""
        return self.format != "float"


@dataclass(frozen=True, slots=True)
class Joint(DocumentPart):
    """Nodes that are quantized because all of them are: with one in float, so are the others.

    Attributes:
        nodes: their names.
        because: why.
        tried: whether it holds only where the outputs agree.
    """

    nodes: tuple[str, ...]
    because: str
    tried: bool = False


@dataclass(frozen=True)
class QuantPlan:
    """What is going to be quantized, and why.

    Attributes:
        sites: the pairs that are new.
        own: the model's own pairs that get new readers.
        groups: the tensors that share scales.
        kept_float: the layers that stay in float.
        layers: the layers with constant weights and the products of two activations.
        other_macs: multiply-accumulates of recurrent layers and of Einsum; None where a size is not known, or
            bodies of control flow multiply.
        together: the joint decisions that hold.
        needs: why edges read pairs, as far as it is known: else because their nodes are quantized.
        usual: what layers are quantized to where nothing else is said of them.
    """

    sites: tuple[Site, ...] = ()
    own: tuple[OwnPair, ...] = ()
    groups: tuple[ScaleGroup, ...] = ()
    kept_float: tuple[KeptFloat, ...] = ()
    layers: tuple[PlannedLayer, ...] = ()
    other_macs: int | None = 0
    together: tuple[Joint, ...] = ()
    needs: tuple[Need, ...] = ()
    usual: NumberFormat = INT8

    @cached_property
    def formats(self) -> tuple[NumberFormat, ...]:
        """What its layers multiply in, and its pairs are made of; of an empty plan the usual one."""
        names = {site.format for site in self.sites} | {layer.format for layer in self.layers}
        return tuple(one for one in FORMATS.values() if one.name in names) or (self.usual,)

    @property
    def format_names(self) -> str:
        """The same in words: "int8", "fp8", "int8 and fp8"."""
        return in_words(one.name for one in self.formats)

    @cached_property
    def numbers_of(self) -> Mapping[int, NumberFormat]:
        """The format of each scale group that has pairs."""
        return {site.group: site.numbers for site in self.sites}

    @cached_property
    def numbers_of_tensors(self) -> Mapping[str, NumberFormat]:
        """The format of each activation that has a scale, or counts for one.

        Of one that has pairs of several formats it is that of evenly spaced numbers, which need a threshold.
        """
        numbers: dict[str, NumberFormat] = {}
        of_group = self.numbers_of
        for group in self.shared:
            for name in (*group.sources, *group.tensors):
                if name not in numbers or of_group[group.id].even:
                    numbers[name] = of_group[group.id]
        return numbers

    @property
    def planned(self) -> tuple[str, ...]:
        """The names of the layers that are not to run in float, in the order of the model."""
        return tuple(layer.node for layer in self.layers if layer.quantized)

    @property
    def pairs(self) -> tuple[Site | OwnPair, ...]:
        """The pairs that have readers by this plan."""
        return (*self.sites, *self.own)

    @property
    def readers(self) -> frozenset[str]:
        """The names of the nodes that read pairs by this plan."""
        return frozenset(edge.node for pair in self.pairs for edge in pair.readers)

    @property
    def asked(self) -> dict[str, tuple[int, ...]]:
        """The inputs that nodes other than layers ask to read quantized by themselves, as a plan states."""
        read = {edge for pair in self.pairs for edge in pair.readers}
        layers = {layer.node for layer in self.layers}
        by_themselves = [need.edge for need in self.needs if not need.of and not need.beside]
        edges = dict.fromkeys(edge for edge in by_themselves if edge in read and edge.node not in layers)
        return {node: tuple(sorted(some)) for node, some in grouped((e.node, e.input) for e in edges).items()}

    def with_partners(self, nodes: Iterable[str]) -> frozenset[str]:
        """Nodes, and those that cannot stay quantized without them."""
        partners = grouped((node, joint.nodes) for joint in self.together for node in joint.nodes)
        return frozenset(reached(nodes, lambda node: itertools.chain(*partners.get(node, ()))))

    def reading(self, edges: Iterable[Edge]) -> QuantPlan:
        """The plan in which these edges alone read pairs."""
        kept = set(edges)

        def left(readers: Sequence[Edge]) -> tuple[Edge, ...]:
            return tuple(edge for edge in readers if edge in kept)

        sites = (dataclasses.replace(site, readers=left(site.readers)) for site in self.sites)
        own = (dataclasses.replace(pair, readers=left(pair.readers)) for pair in self.own)
        return dataclasses.replace(
            self,
            sites=tuple(site for site in sites if site.readers),
            own=tuple(pair for pair in own if pair.readers),
        )

    def per_tensor(self) -> QuantPlan:
        """The plan with one scale for each constant."""
        sites = (dataclasses.replace(s, axis=None) if s.kind == "weight" else s for s in self.sites)
        return dataclasses.replace(self, sites=tuple(sites))

    @property
    def measured(self) -> tuple[str, ...]:
        """The tensors whose ranges calibration takes: the sources of each group of activations."""
        return tuple(name for group in self.shared for name in group.sources)

    @property
    def shared(self) -> tuple[ScaleGroup, ...]:
        """The groups of activations that have pairs."""
        used = {site.group for site in self.sites if site.kind == "activation"}
        return tuple(group for group in self.groups if group.id in used)

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


def joint_reason(why: str, node: str, because: str) -> Reason:
    """Why a node of a joint decision stays in float: what is said of another one, and the decision."""
    return Reason(code_of(why), f"{why}, at {node!r}: {because}", by_of(why))
