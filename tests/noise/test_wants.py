"""What a set of layers in float removes of a plan is what the rules leave when they are asked again."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "quant"))

from grid_nets import Net
from test_compiled import NETS
from test_measuring import RULES, WHY, random_net

from onnxq.checks.lint import confirmed_lint
from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Edge, QuantPlan
from onnxq.quant.wants import Wants, left_float


def edges(plan: QuantPlan) -> set[tuple[str, Edge]]:
    return {(pair.tensor, edge) for pair in plan.pairs for edge in pair.readers}


def groups(plan: QuantPlan) -> set[tuple[frozenset[str], frozenset[str]]]:
    used = {site.group for site in plan.sites}
    return {(frozenset(g.tensors), frozenset(g.sources)) for g in plan.groups if g.id in used}


def idle(model: Model, plan: QuantPlan) -> set[str | None]:
    """What our own lint says only rounds."""
    made = insert(model, plan, dict.fromkeys(range(99), np.float32(0.05))).model
    return {one.tensor for one in confirmed_lint(made) if one.check == "idle-pair"}


def agree(model: Model, seed: int, count: int = 6) -> int:
    """Compares with the rules' own answer for sets of nodes; how many edges went beyond the nodes' own.

    Layers, and what only moves values or reads what is there: a sum, a MaxPool. With one of these in float
    the rules ask for a range behind it that nothing measured; a plan that is there keeps the one scale.
    """
    plan = make_plan(model, RULES)
    rng = np.random.default_rng(seed)
    layers = [layer.node for layer in plan.layers if layer.quantized and layer.node in plan.readers]
    ops = {node.name: node.op for node in model.graph.nodes}
    sets = [[name] for name in layers[:4]]
    sets += [list(rng.choice(layers, rng.integers(1, len(layers) + 1), replace=False)) for _ in range(count)]
    beyond = 0
    others = sorted(plan.readers.difference(layers))
    sets = [*(sets if layers else []), *([name] for name in others), [*layers[:1], *others[::2]]]
    for floats in filter(None, sets):
        again = make_plan(model, RULES, vetoes=dict.fromkeys(floats, WHY))
        ours = left_float(plan, dict.fromkeys(floats, WHY), ops)
        assert edges(ours) == edges(again), floats
        assert [(one.tensor, one.axis) for one in ours.sites] == [
            (one.tensor, one.axis) for one in again.sites
        ]
        assert set(ours.measured) <= set(plan.measured)
        assert groups(ours) == groups(again) or not set(again.measured) <= set(plan.measured), floats
        assert idle(model, ours) == idle(model, again), floats
        assert {x.node for x in ours.layers if x.quantized} == {x.node for x in again.layers if x.quantized}
        beyond += sum(e.node not in Wants(plan).along(floats) for _, e in edges(plan) - edges(ours))
    return beyond


def test_it_is_what_the_rules_say_of_random_nets() -> None:
    assert sum(agree(Model.open(random_net(seed)), seed) for seed in range(30)) > 20


@pytest.mark.parametrize("name", list(NETS))
def test_it_is_what_the_rules_say_of_planned_nets(name: str) -> None:
    agree(Model.open(NETS[name]()), 0)


def test_a_shared_max_pool_keeps_its_pair_while_one_reader_needs_it() -> None:
    net = Net(1, 16, 8, 8)
    first = net.conv("x", 16, 16, 3, 3, seed=1)
    pool = net.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    one, other = (net.conv(pool, 16, 16, 1, 1, seed=seed) for seed in (2, 3))
    model = Model.open(net.model(one, other))
    plan = make_plan(model, RULES)
    nodes = {node.op + str(i): node.name for i, node in enumerate(model.graph.nodes)}
    convs = [name for key, name in nodes.items() if key.startswith("Conv")]
    (pooled,) = (name for key, name in nodes.items() if key.startswith("MaxPool"))
    wants = Wants(plan).of_edge
    assert wants[Edge(pooled, 0)] == (frozenset(convs[1:2]), frozenset(convs[2:]))
    assert wants[Edge(convs[1], 0)] == (frozenset(convs[1:2]),)
