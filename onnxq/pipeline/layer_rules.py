"""The `[[layer]]` of the configuration, for one model: which nodes, which tensors, which weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.graph.model import Model
from onnxq.options.config import LayerRule, overrides
from onnxq.options.parameters import stated
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import of_layer
from onnxq.quant.weights import Weights, WeightsStated, amax_of, kept_db

LOST_DB = 1.0
"""What an entry may cost weights before it is said."""


class LayerRules:
    """The entries, first to last, and what they are about.

    Attributes:
        notes: what the user may not expect.
        stated: what entries about weights make of them, by weight; once `weights` was asked for.
    """

    def __init__(self, model: Model, layers: Sequence[LayerRule]) -> None:
        """The entries for a model.

        Raises:
            UserError: one matches nothing, is never the first, or names an output that a node has not.
        """
        self._model, self._layers = model, layers
        self.notes: list[str] = []
        self.stated: dict[str, WeightsStated] = {}
        nodes = {node.name: node for node in model.nodes}
        named = [(node.name, node.op) for node in nodes.values()]
        by_subject = {
            subject: overrides([rule for rule in layers if rule.subject == subject], named)
            for subject in dict.fromkeys(rule.subject for rule in layers)
        }
        self._inputs = by_subject.get(("inputs", None), {})
        self._weights = by_subject.get(("weights", None), {})
        self._steps = by_subject.pop(("repair", None), {})
        self._outputs: dict[str, LayerRule] = {}
        for rules in by_subject.values():
            for name, rule in rules.items():
                if rule.output is not None:
                    self._outputs[_output(name, nodes[name].outputs, rule.output, rule)] = rule

    @property
    def floats(self) -> Mapping[str, str]:
        """The nodes that stay in float, and why."""
        return {node: of_layer(rule) for node, rule in self._inputs.items() if rule.format == "float"}

    @property
    def steps(self) -> Mapping[str, tuple[str, ...]]:
        """The steps of repair that nodes may have, where that is said."""
        return {node: rule.repair for node, rule in self._steps.items() if rule.repair is not None}

    def ranges(self, plan: QuantPlan) -> dict[str, LayerRule]:
        """What gives the sources of each group their range: the first entry about a node that reads it.

        Or about the output of a node that it is.
        """
        own = {node: rule for node, rule in self._inputs.items() if rule.format is None}
        of_groups: dict[int, set[LayerRule]] = {}
        for site in plan.sites:
            if site.kind == "activation":
                rules = of_groups.setdefault(site.group, set())
                rules.update(own[edge.node] for edge in site.readers if edge.node in own)
                if site.tensor in self._outputs:
                    rules.add(self._outputs[site.tensor])
        ranges = {}
        for group in plan.groups:
            if not of_groups.get(group.id):
                continue
            first, *others = sorted(of_groups[group.id], key=self._layers.index)
            for name in group.sources:
                ranges[name] = first
                if others:
                    entries = ", ".join(str(rule.index) for rule in (first, *others[:-1]))
                    self.notes.append(
                        noted(
                            "layer-rules.two",
                            tensor=name,
                            entries=entries,
                            other=others[-1].index,
                            first=first.index,
                        )
                    )
        idle = {*own.values(), *self._outputs.values()}.difference(*of_groups.values())
        self._say_idle(idle, "quantized activation")
        return ranges

    def weights(self, plan: QuantPlan) -> Weights:
        """What quantized constants cover by the first entry about the weights of a node that reads them."""
        tensors = self._model.tensors() if self._weights else {}
        weights: Weights = {}
        used = set()
        for site in plan.sites:
            rules = {self._weights[edge.node] for edge in site.readers if edge.node in self._weights}
            if site.kind == "weight" and rules:
                rule = min(rules, key=self._layers.index)
                used.add(rule)
                values = tensors[site.tensor].constant
                assert values is not None
                values = np.asarray(values, np.float32)
                amax = weights[site.tensor, site.axis] = amax_of(values, site.axis, rule, site.numbers)
                made, whole = (kept_db(values, site.axis, one, site.numbers) for one in (amax, None))
                said = f"{of_layer(rule)} ({_said(rule)})"
                self.stated[site.tensor] = WeightsStated(site.readers[0].node, said, made, whole)
        self._say_idle(set(self._weights.values()) - used, "quantized weight")
        self._say_lost()
        return weights

    def _say_lost(self) -> None:
        lost = sorted((one for one in self.stated.values() if one.lost_db > LOST_DB), key=lambda one: one.db)
        for one in lost[:1]:
            self.notes.append(
                noted(
                    "layer-rules.clips-of-more" if lost[1:] else "layer-rules.clips",
                    entry=one.because,
                    node=one.node,
                    lost=one.lost_db,
                    without=one.whole_db,
                    with_it=one.db,
                    others=len(lost) - 1,
                )
            )

    def _say_idle(self, rules: set[LayerRule], what: str) -> None:
        self.notes += [
            noted(
                "layer-rules.idle-output" if rule.output is not None else "layer-rules.idle",
                entry=rule.index,
                what=what,
            )
            for rule in sorted(rules, key=self._layers.index)
        ]


def _said(rule: LayerRule) -> str:
    """What an entry about weights says of their range."""
    if rule.amax is not None:
        return f"amax {rule.amax:g}"
    return " ".join([rule.method or "minmax", *(f"{value:g}" for value in stated(rule).values())])


def _output(node: str, outputs: Sequence[object], index: int, rule: LayerRule) -> str:
    if index >= len(outputs):
        raise UserError(
            f"{str(rule.path)!r}: [[layer]] {rule.index} is of output {index}, and node {node!r} has "
            f"{len(outputs)}",
            hint="the first output is 0",
        )
    return str(getattr(outputs[index], "name", ""))
