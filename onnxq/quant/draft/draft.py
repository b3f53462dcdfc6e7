"""A quantized model in the making: what each step starts from, and what it proposes instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.quant.draft.body import UNCHANGED, BodyPlan
from onnxq.quant.draft.edits import FloatEdit
from onnxq.quant.fits import within
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range, scales_of
from onnxq.quant.wants import left_float, readers_of_nothing


@dataclass(frozen=True, slots=True)
class Draft:
    """All that the written file is made of, beside the sanitized float model.

    Attributes:
        plan: which tensors have pairs; edits do not change it.
        ranges: that of each tensor that the plan measures, by name, after the edits; before calibration those
            that a plan file states.
        edits: those of the float model, in order.
        patches: other constants, biases, codes and ranges of weights, of the edited model.
        fitted: the steps whose result depends on all others, which fit again what they patch: of `bias`,
            `gptq`.
        body: what is not quantized.
    """

    plan: QuantPlan
    ranges: Mapping[str, Range] = field(default_factory=dict)
    edits: tuple[FloatEdit, ...] = ()
    patches: Patches = NONE
    fitted: frozenset[str] = field(default_factory=frozenset)
    barred: Mapping[str, frozenset[str]] = field(default_factory=dict)
    body: BodyPlan = UNCHANGED

    def steps_of(self, node: str) -> frozenset[str]:
        """The steps that fit a layer."""
        return self.fitted - self.barred.get(node, frozenset())

    @property
    def amax(self) -> dict[str, float]:
        """The ranges as numbers."""
        return {name: entry.amax for name, entry in self.ranges.items()}

    @property
    def scales(self) -> dict[int, np.float32]:
        """The scale of each group of activations."""
        return scales_of(self.plan, self.ranges)

    def extended(self, edits: Iterable[FloatEdit]) -> Draft:
        """The draft with further edits, which ranges follow."""
        new, amax = tuple(edits), self.amax
        for edit in new:
            amax.update(edit.ranges(amax))
        return replace(self.with_amax(amax), edits=(*self.edits, *new))

    def with_amax(self, amax: Mapping[str, float]) -> Draft:
        """The draft with other ranges of some tensors; where they are from is said as before."""
        moved = {name: Range(value, self.ranges[name].because) for name, value in amax.items()}
        return replace(self, ranges={**self.ranges, **moved})

    def in_float(self, why: Mapping[str, str], model: Model) -> Draft:
        """The draft with nodes in float, and without all that is there for them alone.

        Their partners of joint decisions go along; so do pairs that nobody needs any more, the ranges of what
        is not quantized any more, and what was fitted for a layer in int8.

        Args:
            why: the nodes, each with its reason.
            model: the float model, with the draft's edits.
        """
        if not why:
            return self
        plan = left_float(self.plan, why, {node.name: node.op for node in model.nodes})
        patches = within(self.patches, model, plan)
        return replace(self, plan=plan, ranges=_of_plan(self.ranges, plan), patches=patches)

    def without(self, empty: Collection[str], model: Model) -> Draft:
        """The draft with what reads tensors without values in float: nobody knows their ranges.

        Args:
            empty: tensors that had no value in any sample; those whose ranges are stated stay.
            model: the float model, with the draft's edits.
        """
        unknown = set(empty) - self.ranges.keys()
        why = {
            node: reason("no-values", tensor=tensor)
            for tensor, nodes in readers_of_nothing(self.plan, unknown).items()
            for node in nodes
        }
        draft = self.in_float(why, model)
        groups = (
            replace(group, sources=tuple(name for name in group.sources if name not in unknown))
            for group in draft.plan.groups
        )
        return replace(draft, plan=replace(draft.plan, groups=tuple(groups)))


def _of_plan(ranges: Mapping[str, Range], plan: QuantPlan) -> dict[str, Range]:
    """The ranges of what a plan measures, those that are known."""
    return {name: ranges[name] for name in plan.measured if name in ranges}
