"""Checking a placement rule's examples: the plan that they state, and the grid proof of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnxq.graph.model import Model
from onnxq.graph.upgrade import upgrade
from onnxq.quant.grid import difference
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Edge, QuantPlan
from onnxq.rule.api import Example, Float, Rule, Skip, Skips
from onnxq.rule.examples import ExampleError, check_reasons, opened


def check_placement(rule: Rule, example: Example, rules: Sequence[Rule]) -> None:
    """Checks one example of a placement rule.

    Args:
        rule: the rule.
        example: of `Fires`, the plan is compared and its pairs proved; of `Skips`, what the rule says.
        rules: all rules; an example may name some that run with it.

    Raises:
        ExampleError: the plan is another, as it is without the rule, or its pairs change values on their
            grid; or the rule asks for something where it should not, or gives another reason.
    """
    model = opened(example)
    upgrade(model)
    if isinstance(example, Skips):
        _check_skips(rule, example, model)
        return
    others = [other for other in rules if other.id in example.after]
    plan = make_plan(model, [rule, *others])
    lines = plan_lines(plan)
    wanted = [" ".join(line.split()) for line in re.split("[;\n]", example.plan) if line.strip()]
    if lines == plan_lines(make_plan(model, others)):
        raise ExampleError(
            "it changes nothing in the plan (of a veto where nobody asks, say Skips(model, because=...), "
            "or name a rule that asks in `after`)"
        )
    if set(lines) != set(wanted):
        raise ExampleError(f"its plan is {_text(lines)}, and the example says {_text(wanted)}")
    changed = difference(model, plan)
    if changed:
        raise ExampleError(
            f"the grid proof fails: {changed!r} is another where all values are on their grids"
        )


def _check_skips(rule: Rule, example: Skips, model: Model) -> None:
    reasons: list[tuple[str, str]] = []
    for node in model.nodes:
        if node.op not in rule.roots or node.domain:
            continue
        try:
            facts = list(rule(node) or ())
        except Skip as skip:
            facts, reasons = [], [*reasons, (node.name, str(skip))]
        for fact in facts:
            if not isinstance(fact, Float):
                raise ExampleError(f"it asks for {fact}")
            reasons.append((node.name, fact.because))
    check_reasons(example, reasons)


def _text(lines: Sequence[str]) -> str:
    return repr("; ".join(lines))


def plan_lines(plan: QuantPlan) -> list[str]:
    """A plan as an example states it, a line a fact: pairs, scales that tensors share, joint decisions.

    `x -> add:1, conv:0` is a pair on `x` that these inputs of these nodes read, by name; `w axis 0 -> conv:1`
    one with a scale for each channel of axis 0; `own x -> conv:0` a pair of the model itself.
    """

    def readers(edges: Sequence[Edge]) -> str:
        return ", ".join(sorted(f"{edge.node}:{edge.input}" for edge in edges))

    lines = []
    for site in plan.sites:
        axis = "" if site.axis is None else f" axis {site.axis}"
        lines.append(f"{site.tensor}{axis} -> {readers(site.readers)}")
    lines += [f"own {pair.tensor} -> {readers(pair.readers)}" for pair in plan.own]
    shared = (sorted(group.tensors) for group in plan.groups if len(group.tensors) > 1)
    lines += [f"one scale: {', '.join(names)}" for names in shared]
    lines += [f"together: {', '.join(joint.nodes)}" for joint in plan.together]
    return lines
