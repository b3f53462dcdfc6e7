"""What the target's table, the repair rules, onnxruntime and NVIDIA's compiler answer, for their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from onnxq.base.reason import noted
from onnxq.documents.changes import NotTaken, TakenByRuntime
from onnxq.documents.report import Report
from onnxq.graph.model import Model
from onnxq.graph.view import Node, every_node
from onnxq.rewrite.changes import Change, NearMiss
from onnxq.rule.api import Rule
from onnxq.run.trt import Engine

_NARROW = ("uint8", "int16", "uint16", "uint32", "uint64")
_OF_TYPES = ("asymmetric-quantization", "small-integers")
"""What a target lacks that has no tensors of those types inside of a graph."""


@dataclass(frozen=True)
class RepairedConstruct:
    """What the target does not take and a rule repairs, or would if its guard held.

    Attributes:
        entry: what the rule changes, or would.
        rule: the rule.
        node: the node in the model as the user gave it; None where another rule made it.
        target: the target's name.
    """

    entry: Change | NearMiss
    rule: Rule
    node: Node | None
    target: str

    @property
    def feature(self) -> tuple[str, str]:
        """The node's name, and the feature of the target's table that the rule makes up for; "" for none."""
        return self.entry.node, self.rule.lacks or ""

    @property
    def advice(self) -> str:
        """What to do."""
        if isinstance(self.entry, NearMiss):
            return noted("node-not-taken.near-miss", rule=self.rule.id, why=self.entry.reason)
        return noted("node-not-taken.repaired", rule=self.rule.id)

    @property
    def reason(self) -> str:
        """What the target lacks, or the limits of it that the rule looked at."""
        if self.rule.lacks in _OF_TYPES and self.node is not None:
            tensors = (*self.node.inputs, *self.node.outputs)
            dtypes = [one.dtype for one in tensors if one is not None and one.dtype is not None]
            if narrow := ", ".join(sorted({*map(str, dtypes)}.intersection(_NARROW))):
                return noted("node-not-taken.types", dtypes=narrow, target=self.target)
            if bytewise := ", ".join(sorted({str(one) for one in dtypes if one.itemsize == 1})):
                return f"{self.target} has no {self.node.op} of {bytewise}"
        if self.rule.lacks is not None:
            return f"{self.target} lacks {self.rule.lacks}"
        limits = ", ".join(f"{name} = {number:,}" for name, number in self.entry.limits.items())
        if limits:
            return noted("node-not-taken.limit", target=self.target, limits=limits)
        return noted("node-not-taken.form", target=self.target)


@dataclass(frozen=True)
class TargetAnswer:
    """What the target's table and the repair rules say of a model.

    Attributes:
        refused: the nodes that the target does not take.
        plugins: the nodes that plugins of the target's own library compute.
        repairs: what rules repair of it, or would, and no check of the file says.
        report: what `sanitize` makes of it.
        compiled: whether NVIDIA's compiler was asked, and takes it as it is.
    """

    refused: Sequence[NotTaken]
    plugins: Sequence[NotTaken]
    repairs: Sequence[RepairedConstruct]
    report: Report
    compiled: bool = False


@dataclass(frozen=True)
class RuntimeAnswer:
    """What onnxruntime and NVIDIA's parser and compiler say of a model.

    Attributes:
        model: the model as the user gave it.
        taken: whether onnxruntime takes it, and its repair.
        engines: what came of compiling it and its repair, the same twice where nothing is repaired; None
            where the compiler was not asked.
        beyond: the operator of each node that the target takes and the compiler that is here does not.
        deciding: of each input whose numbers decide sizes or places, what an engine wants for it.
        sizes_made_up: whether nobody said how large dynamic inputs are.
    """

    model: Model
    taken: TakenByRuntime
    engines: tuple[Engine, Engine] | None
    beyond: Mapping[str, str]
    deciding: Sequence[str]
    sizes_made_up: bool

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """The model's nodes by name."""
        return nodes_by_name(self.model)


def repairs_of(model: Model, report: Report, rules: Sequence[Rule]) -> list[RepairedConstruct]:
    """What rules that make up for what a target lacks repair of a model, or would.

    Args:
        model: the model as the user gave it.
        report: what `sanitize` makes of it.
        rules: all rules; those of the stage "compat" count, and those for what a target lacks.
    """
    nodes = nodes_by_name(model)
    compat = {rule.id: rule for rule in rules if rule.stage == "compat" or rule.lacks is not None}
    entries: tuple[Change | NearMiss, ...] = (*report.changes, *report.near_misses)
    return [
        RepairedConstruct(entry, compat[entry.rule], nodes.get(entry.node), report.target)
        for entry in entries
        if entry.rule in compat
    ]


def nodes_by_name(model: Model) -> dict[str, Node]:
    """The nodes of a model, those of subgraph bodies included."""
    return {node.name: node for node in every_node(model)}
