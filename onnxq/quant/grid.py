"""Checking a placement rule's examples: the plan that they state, and the grid proof of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.source import copy_model
from onnxq.graph.types import is_float
from onnxq.graph.upgrade import upgrade
from onnxq.graph.view import Node
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Edge, QuantPlan, Site
from onnxq.rule.api import Example, Float, Rule, Skip, Skips
from onnxq.rule.examples import ExampleError, check_reasons, opened
from onnxq.run import ort


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


# The grid proof: where all values are on the grids of their scales, pairs change nothing, bit for bit.
#
# Each tensor whose values a scale is of becomes an input, and is fed codes of that scale; each weight has the
# largest code of its channel's scale everywhere, and neighbouring channels have different scales. So a wrong
# channel axis, a scale that is not that of the values that it is for, or an operator that is taken for one
# that only moves values cannot pass.

_SIZE = 4  # of a dynamic dimension


def difference(model: Model, plan: QuantPlan) -> str:
    """The first tensor of a model that the pairs of a plan change on the grid; "" where there is none.

    Args:
        model: the model that the plan is of, of opset 13 or newer, with onnxruntime's own operators.
        plan: the plan.

    Raises:
        RunError: the model does not run on random values, with the size 4 for dynamic dimensions.
    """
    rng = np.random.default_rng(0)
    before = model.to_proto()
    _set_weights(before, model, plan, rng)
    quantized = Model.open(copy_model(before))
    used = {site.group for site in plan.sites if site.kind == "activation"}
    groups = [group for group in plan.groups if group.id in used]
    scales = {group.id: np.float32(0.01 * (1 + number)) for number, group in enumerate(groups)}
    after = insert(quantized, plan, scales).model.to_proto()
    computed = {name: values for name, values in _run(before, _random(model, rng)).items() if values.size}
    fed = _random(model, rng)
    for group in groups:
        for name in group.sources:
            like = computed[name] if name in computed else fed[name]
            magnitudes = plan.numbers_of[group.id].magnitudes
            numbers = np.concatenate([-magnitudes[::-1], [0.0], magnitudes])
            codes = numbers[rng.integers(0, len(numbers), like.shape)]
            fed[name] = (codes * scales[group.id]).astype(np.float32).astype(like.dtype)
    expected, given = _run(before, fed), _run(after, fed)
    for name, values in expected.items():
        if is_float(values.dtype) and not _same(values, given[name]):
            return name
    return ""


def _set_weights(proto: onnx.ModelProto, model: Model, plan: QuantPlan, rng: np.random.Generator) -> None:
    """Gives quantized weights values on their grids: 1, 1/2 and 1/4 by channel where each has a scale."""
    nodes = {node.name: node for node in model.nodes}
    sites = {site.tensor: site for site in plan.sites if site.kind == "weight"}
    shared = Counter(site.tensor for site in plan.sites)
    for tensor in proto.graph.initializer:
        if tensor.name not in sites:
            continue
        values = numpy_helper.to_array(tensor)
        signs = rng.choice([-1.0, 1.0], values.shape)
        axis = None if shared[tensor.name] > 1 else _axis(sites[tensor.name], nodes)
        if axis is not None:
            shape = [1] * values.ndim
            shape[axis] = -1
            signs *= 0.5 ** (np.arange(values.shape[axis]) % 3).reshape(shape)
        tensor.CopyFrom(numpy_helper.from_array(signs.astype(values.dtype), tensor.name))


def _axis(site: Site, nodes: dict[str, Node]) -> int | None:
    """The axis along which weights have scales: the channels' of their layer, whatever the plan says."""
    if site.axis is None:
        return None
    layer = layer_of(nodes[site.readers[0].node])
    return site.axis if layer is None else layer.axis


def _random(model: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """An array for each input."""
    feeds = {}
    for one in model.inputs:
        size = [dim if isinstance(dim, int) else _SIZE for dim in one.shape or ()]
        if one.dtype is not None and is_float(one.dtype):
            feeds[one.name] = rng.uniform(-1, 1, size).astype(one.dtype)
        else:
            feeds[one.name] = rng.integers(0, 2, size).astype(one.dtype)
    return feeds


def _run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the nodes of a model compute, those of its tensors that are fed left out."""
    cut = copy_model(proto)
    graph = cut.graph
    inputs = {info.name for info in graph.input}
    for name, values in feeds.items():
        if name not in inputs:
            kind = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, kind, values.shape))
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name in feeds:
                node.output[index] = f"{name} computed"
    del graph.output[:], graph.value_info[:]
    names = [name for node in graph.node for name in node.output if name]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = ort.load(cut, optimize=False)
    wanted = {name: feeds[name] for name in session.inputs}
    return dict(zip(session.outputs, session.run(wanted), strict=True))


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one.astype(np.float64), other.astype(np.float64), equal_nan=True)
