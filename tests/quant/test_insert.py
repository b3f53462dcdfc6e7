"""Inserting pairs is a function: the float model stays, and candidates of it do not know each other."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from grid_nets import Net
from onnx import numpy_helper
from test_compiled import NETS

from onnxq.base.errors import UserError
from onnxq.graph.duplicate import duplicate
from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.patches import Patches
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.rule.load import load_rules
from onnxq.run import ort

RULES = load_rules(())
BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 16, 32] x, bool c) => (float[1, 16, 32] y) <float[32, 32] w> {
        a = MatMul (x, w)
        b = If (c) <
            then_branch = t () => (float[1, 16, 32] p) { n = Neg (a)  p = MatMul (n, w) },
            else_branch = e () => (float[1, 16, 32] q) { q = Relu (a) }>
        y = Add (a, b)
    }"""


def branches() -> onnx.ModelProto:
    """A model with bodies that read what is around them."""
    proto = onnx.parser.parse_model(BRANCHES.replace("<float[32, 32] w> ", ""))
    weights = np.random.default_rng(0).standard_normal((32, 32), np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return proto


MODELS = {**NETS, "branches": branches}


def scales_for(plan: QuantPlan, scale: float) -> dict[int, np.float32]:
    return {group.id: np.float32(scale) for group in plan.groups}


@pytest.mark.parametrize("name", MODELS)
def test_the_float_model_stays(name: str) -> None:
    model = Model.open(MODELS[name]())
    before = model.to_proto()
    names, nodes = set(model.names), len(model.graph.nodes)
    plan = make_plan(model, RULES)
    first, again = (insert(model, plan, scales_for(plan, 0.05)).model.to_proto() for _ in range(2))
    assert plan.sites
    assert first == again != before
    assert model.to_proto() == before
    assert (set(model.names), len(model.graph.nodes)) == (names, nodes)
    assert make_plan(model, RULES) == plan


@pytest.mark.parametrize("name", MODELS)
def test_a_duplicate_is_the_same_model(name: str) -> None:
    model = Model.open(MODELS[name]())
    twin = duplicate(model)
    assert twin.to_proto() == model.to_proto()
    assert make_plan(twin, RULES) == make_plan(model, RULES)
    assert {id(graph) for graph in twin.graphs()}.isdisjoint(map(id, model.graphs()))
    twin.infer_shapes()
    assert twin.to_proto(weights=False) == model.to_proto(weights=False)


def conv_net() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    first = net.conv("x", 16, 32, 3, 3, seed=1)
    low, high = net.const(np.float32(0), "low"), net.const(np.float32(6), "high")
    return net.model(net.conv(net.add("Clip", first, low, high), 32, 16, 1, 1, seed=2))


def patched(patches: Patches) -> dict[str, np.ndarray]:
    """The constants of the net with pairs."""
    model = Model.open(conv_net())
    plan = make_plan(model, RULES)
    before = model.to_proto()
    result = insert(model, plan, scales_for(plan, 0.05), patches).model.to_proto()
    assert model.to_proto() == before
    ort.load(result)
    onnx.checker.check_model(result, full_check=True)
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}


def test_weights_are_patched_before_they_are_quantized() -> None:
    weights = np.full((32, 16, 3, 3), 0.5, np.float32)
    weights[:, 0] = -0.25
    found = patched(Patches(constants={"k0": weights}))
    assert np.array_equal(found["k0_int8"], np.where(weights > 0, 127, -64))
    assert found["k0_scale"].tolist() == [np.float32(0.5) / np.float32(127)] * 32


def test_bounds_biases_and_codes_are_patched() -> None:
    codes = np.full((16, 32, 1, 1), -127, np.int8)
    bias = np.arange(32, dtype=np.float32)
    patches = Patches({"high": np.array(3, np.float32)}, {"conv1": bias}, {"k3": codes})
    found, plain = patched(patches), patched(Patches())
    assert found["high"] == 3
    assert np.array_equal(found["conv1_bias"], bias)
    assert np.array_equal(found["k3_int8"], codes)
    same = set(plain) - {"high", "k3_int8"}
    assert set(found) == {*plain, "conv1_bias"}
    assert all(np.array_equal(found[name], plain[name]) for name in same)


def test_a_bias_takes_the_place_of_the_one_that_is_there() -> None:
    first = Patches(biases={"conv1": np.zeros(32, np.float32)})
    model = Model.open(conv_net())
    first.apply(model)
    Patches(biases={"conv1": np.ones(32, np.float32)}).apply(model)
    (conv, _) = (node for node in model.to_proto().graph.node if node.op_type == "Conv")
    (bias,) = (tensor for tensor in model.to_proto().graph.initializer if tensor.name == conv.input[2])
    assert np.array_equal(numpy_helper.to_array(bias), np.ones(32))


@pytest.mark.parametrize(
    ("patches", "words"),
    [
        (Patches({"hihg": np.array(3, np.float32)}), "hihg"),
        (Patches({"high": np.array(3.0)}), "float64"),
        (Patches({"high": np.zeros(1, np.float32)}), r"float32 \[1\]"),
        (Patches(biases={"conv9": np.zeros(32, np.float32)}), "conv9"),
        (Patches(biases={"clip2": np.zeros(32, np.float32)}), "Clip"),
        (Patches(codes={"k9": np.zeros(3, np.int8)}), "k9"),
        (Patches(codes={"k3": np.zeros((16, 32, 1), np.int8)}), "k3"),
        (Patches(codes={"k3": np.full((16, 32, 1, 1), -128, np.int8)}), "-128"),
    ],
)
def test_what_fits_nothing_is_refused(patches: Patches, words: str) -> None:
    with pytest.raises(UserError, match=words):
        patched(patches)
