"""A layer in float reads its own bias and weights again, whoever puts it there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from grid_nets import Net
from test_measuring import RULES, WHY, Case, random_net

from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.quant.fits import Fit, fits_of, within
from onnxq.quant.insert import insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.patches import BIASED, Patches
from onnxq.quant.placement import make_plan
from onnxq.quant.wants import left_float
from onnxq.run import ort


def rows() -> onnx.ModelProto:
    """A Gemm without a bias, and a MatMul with an Add of a constant behind it."""
    net = Net(32, 64)
    first = net.add("Relu", net.add("Gemm", "x", net.const(net.weights(64, 64, seed=1))))
    product = net.add("MatMul", first, net.const(net.weights(64, 64, seed=2)))
    second = net.add("Relu", net.add("Add", product, net.const(np.linspace(-1, 1, 64).astype(np.float32))))
    return net.model(net.add("Gemm", second, net.const(net.weights(64, 32, seed=4))))


def fitted(case: Case) -> Patches:
    """Another bias for all that can have one, and codes a step off for every other weight."""
    rng = np.random.default_rng(7)
    weights = {e.node: s for s in case.plan.sites if s.kind == "weight" for e in s.readers}
    nodes = {raw.name: Node(case.model, raw) for raw in case.model.graph.nodes}
    biases, constants, codes = {}, {}, {}
    for name, site in weights.items():
        node = nodes[name]
        weight = next(t.constant for t in node.inputs if t is not None and t.name == site.tensor)
        assert weight is not None
        if node.op in BIASED:
            biases[name] = rng.standard_normal(weight.shape[site.axis]).astype(np.float32)
        for user in node.outputs[0].users if node.op == "MatMul" else ():
            added = [t for t in user.inputs if t is not None and t.is_constant]
            if user.op == "Add" and added:
                constants[added[0].name] = rng.standard_normal(added[0].shape).astype(np.float32)
        if len(codes) < len(biases) / 2:
            codes[site.tensor] = rng.integers(-127, 128, weight.shape).astype(np.int8)
    return Patches(constants, biases, codes)


def candidates(case: Case) -> Iterator[Candidate]:
    yield Candidate()
    layers = [layer for layer in case.plan.planned if layer in case.plan.readers]
    yield Candidate(layers)
    for layer in layers:
        yield Candidate([layer])


MODELS = {"rows": rows, **{f"random {n}": lambda n=n: random_net(n) for n in range(6)}}


@pytest.mark.parametrize("name", MODELS)
def test_a_candidate_gives_what_its_file_gives(name: str) -> None:
    case = Case(MODELS[name]())
    patches = fitted(case)
    fits = fits_of(patches, case.model)
    assert len(fits) == len(patches.biases) + len(patches.constants) > 1
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, patches, optimize=False)
    ops = {node.name: node.op for node in case.model.graph.nodes}
    tried = list(candidates(case))
    feeds, seen = case.feeds(), set()
    for candidate, ours in zip(tried, copy.run_each(feeds, tried), strict=True):
        plan = left_float(case.plan, dict.fromkeys(candidate.float_layers, WHY), ops)
        left = within(patches, case.model, plan)
        assert {fit.layer for fit in fits_of(left, case.model)} == {fit.layer for fit in fits} & plan.readers
        file = ort.load(insert(case.model, plan, case.scales, left).model.to_proto(), optimize=False)
        theirs = file.run({one: feeds[one] for one in file.inputs}, copy.outputs)
        assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]
        seen.add(b"".join(a.tobytes() for a in ours))
    assert len(seen) > 2


def test_all_in_float_is_the_float_model() -> None:
    case = Case(rows())
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, fitted(case), optimize=False)
    feeds = case.feeds()
    (ours,) = copy.run_each(feeds, [Candidate(case.plan.planned)])
    theirs = ort.load(case.model.to_proto(), optimize=False).run(feeds, copy.outputs)
    assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]


def test_a_bias_goes_with_the_weights_and_not_with_the_activation() -> None:
    """What a layer's activation adds to the noise is measured with the float bias, and float weights."""
    model = Model.open(rows())
    plan = make_plan(model, RULES)
    scales = {s.group: np.float32(0.02) for s in plan.sites if s.kind == "activation"}
    layer = plan.planned[0]
    bias = np.full(64, 3, np.float32)
    copy = MeasuringCopy.of(model, plan, scales, Patches(biases={layer: bias}), optimize=False)
    sites = {s.kind: s for s in plan.sites if any(e.node == layer for e in s.readers)}
    edges = {kind: [(e.node, e.input) for e in site.readers] for kind, site in sites.items()}
    others = [(e.node, e.input) for p in plan.pairs for e in p.readers if e.node != layer]
    feeds = {"x": np.zeros((32, 64), np.float32)}
    without_weights, without_activation, neither = copy.run_each(
        feeds,
        [
            Candidate(float_edges=[*others, *edges["weight"]]),
            Candidate(float_edges=[*others, *edges["activation"]]),
            Candidate(plan.planned),
        ],
    )
    np.testing.assert_array_equal(without_weights[0], neither[0])  # x is zero
    assert np.abs(without_activation[0] - neither[0]).max() > 0.1


def test_fits_name_what_reads_them() -> None:
    case = Case(rows())
    patches = fitted(case)
    found = {fit.layer: fit for fit in fits_of(patches, case.model)}
    (constant,) = patches.constants
    gemm = next(name for name in patches.biases)
    assert found[gemm] == Fit(gemm, gemm, 2, "")
    product = next(node for node in case.model.graph.nodes if node.op == "MatMul")
    adder = next(node for node in case.model.graph.nodes if node.op == "Add")
    index = [tensor.name for tensor in adder.inputs].index(constant)
    assert found[product.name] == Fit(product.name, adder.name, index, constant)


def test_a_goal_takes_the_fits_of_its_layers_along() -> None:
    case = Case(rows())
    patches = fitted(case)
    fits = fits_of(patches, case.model)
    layer = next(iter(patches.biases))
    ops = {node.name: node.op for node in case.model.graph.nodes}
    left = within(patches, case.model, left_float(case.plan, {layer: WHY}, ops))
    assert set(left.biases) == set(patches.biases) - {layer}
    assert left.constants.keys() == patches.constants.keys()
    assert {fit.layer for fit in fits_of(left, case.model)} == {fit.layer for fit in fits} - {layer}
