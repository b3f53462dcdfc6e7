"""The plan: what is quantized, what shares a scale, what stays float, and why."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from grid_nets import Net
from onnx import numpy_helper

from onnxq.base.errors import UserError
from onnxq.checks.lint import confirmed_lint
from onnxq.formats import INT8
from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Edge, QuantPlan, Site
from onnxq.quant.scales import quantize_weights
from onnxq.rule.api import Rule, Skip
from onnxq.rule.load import load_rules
from onnxq.run import ort

RULES = load_rules()
H = '<ir_version: 8, opset_import: ["" : 17]>\n'


def plan_of(proto: onnx.ModelProto, keep: tuple[str, ...] = (), rules: list[Rule] | None = None) -> QuantPlan:
    return make_plan(Model.open(proto), RULES if rules is None else rules, keep)


def sites(plan: QuantPlan, kind: str = "activation") -> dict[str, Site]:
    return {site.tensor: site for site in plan.sites if site.kind == kind}


def reasons(plan: QuantPlan) -> dict[str, str]:
    return {entry.node: entry.because for entry in plan.kept_float}


# -- small nets ------------------------------------------------------------------------------------


def test_a_residual_block_quantizes_the_shortcut_not_the_branch() -> None:
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", net.conv("x", 16, 16, 1, 1), name="r0")
    a = net.add("Relu", net.conv(x, 16, 16, 3, 3), name="r1")
    b = net.conv(a, 16, 16, 3, 3)
    plan = plan_of(net.model(net.add("Add", b, x, name="sum")))
    assert set(sites(plan)) == {"x", "r0", "r1"}
    assert Edge("sum", 1) in sites(plan)["r0"].readers
    assert len(sites(plan)["r0"].readers) == 2, "one pair for both readers"


@pytest.mark.parametrize("first", ["long", "short"])
def test_a_downsampling_block_quantizes_the_shorter_branch(first: str) -> None:
    net = Net(1, 16, 8, 8)
    a = net.add("Relu", net.conv("x", 16, 16, 3, 3), name="r1")
    long = net.add("Conv", a, net.const(net.weights(16, 16, 3, 3)), pads=[1] * 4, name="long")
    short = net.add("Conv", "x", net.const(net.weights(16, 16, 1, 1)), name="short")
    plan = plan_of(net.model(net.add("Add", *sorted((long, short), key=lambda n: n != first), name="sum")))
    assert set(sites(plan)) == {"x", "r1", "short"}
    assert sites(plan)["short"].readers == (Edge("sum", 1 if first == "long" else 0),)


def test_a_residual_add_whose_convolution_stays_float_is_left_alone() -> None:
    net = Net(1, 16, 8, 8)
    a = net.add("Relu", net.conv("x", 16, 16, 3, 3), name="r1")
    b = net.add("Conv", a, net.const(net.weights(16, 16, 1, 1)), name="last")
    plan = plan_of(net.model(net.add("Add", b, "x", name="sum")), ("last",))
    assert sites(plan)["x"].readers == (Edge("conv1", 0),) or Edge("sum", 1) not in sites(plan)["x"].readers
    assert "r1" not in sites(plan)


def test_a_chain_of_concats_is_one_group() -> None:
    net = Net(1, 16, 8, 8)
    a, b = net.conv("x", 16, 16, 1, 1), net.conv("x", 16, 16, 1, 1)
    one = net.add("Concat", a, b, axis=1, name="one")
    two = net.add("Concat", one, net.add("MaxPool", a, kernel_shape=[1, 1], name="pool"), axis=1, name="two")
    plan = plan_of(net.model(net.conv(two, 48, 16, 1, 1)))
    (group,) = [g for g in plan.groups if "two" in g.tensors]
    assert set(group.tensors) == {"two", "one", "pool", a, b}
    assert set(group.sources) == {a, b}, "only they compute values"
    assert any("inputs of one Concat (two)" in r for r in group.reasons)
    assert any("MaxPool moves values (pool)" in r for r in group.reasons)


def test_many_readers_share_one_pair() -> None:
    net = Net(1, 16, 8, 8)
    outs = [net.conv("x", 16, 16, 1, 1, seed=i) for i in range(4)]
    plan = plan_of(net.model(*outs))
    assert len(sites(plan)["x"].readers) == 4


def test_an_output_that_a_layer_reads_stays_float_outside() -> None:
    net = Net(1, 16, 8, 8)
    a = net.add("Relu", net.conv("x", 16, 16, 1, 1), name="a")
    proto = net.model("a", net.conv(a, 16, 16, 1, 1))
    model = Model.open(proto)
    plan = make_plan(model, RULES)
    assert "a" in sites(plan)
    model = insert(model, plan, {group.id: np.float32(1) for group in plan.groups}).model
    (producer,) = [n for n in model.to_proto().graph.node if "a" in n.output]
    assert producer.op_type == "Relu"


def test_nothing_to_quantize() -> None:
    proto = onnx.parser.parse_model(H + "g (float[2] x) => (float[2] y) { y = Relu (x) }")
    plan = plan_of(proto)
    assert (plan.sites, plan.groups, plan.planned, plan.int8_share) == ((), (), (), None)
    model = Model.open(proto)
    model = insert(model, plan, {}).model
    assert [n.op_type for n in model.to_proto().graph.node] == ["Relu"]
    assert not model.to_proto().graph.initializer


def _float_net(which: str) -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    if which == "depthwise":
        return net.model(
            net.add("Conv", "x", net.const(np.ones((16, 1, 3, 3), np.float32)), group=16, name="l")
        )
    if which == "transposed":
        return net.model(net.add("ConvTranspose", "x", net.const(net.weights(16, 16, 2, 2)), name="l"))
    if which == "small":
        net = Net(1, 8, 8, 8)
        return net.model(net.add("Conv", "x", net.const(net.weights(8, 8, 1, 1)), name="l"))
    if which in ("row", "rows"):
        net = Net(1 if which == "row" else 8, 64)
        return net.model(net.add("Gemm", "x", net.const(net.weights(64, 64)), name="l"))
    net = Net(32, 64)
    net.input("w", 64, 64)
    return net.model(net.add("MatMul", "x", "w", name="l"))


@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("depthwise", "depthwise"),
        ("transposed", "ConvTranspose has no int8 kernel"),
        ("small", "8 channels in and 8 out"),
        ("row", "1 row: a matrix-vector product, bound by reading the weights"),
        ("rows", "8 rows: no full int8 tile, bound by reading the weights"),
        ("dynamic", "no constant weights"),
    ],
)
def test_what_stays_float_says_why(which: str, why: str) -> None:
    plan = plan_of(_float_net(which))
    assert plan.sites == ()
    assert why in reasons(plan)["l"]


@pytest.mark.parametrize(("globs", "left"), [(("c1",), {"c2", "c3"}), (("c[12]",), {"c3"}), (("*",), set())])
def test_keep_float_takes_globs(globs: tuple[str, ...], left: set[str]) -> None:
    net = Net(1, 16, 8, 8)
    x = "x"
    for i in (1, 2, 3):
        x = net.add("Conv", x, net.const(net.weights(16, 16, 1, 1, seed=i)), name=f"c{i}")
    plan = plan_of(net.model(x), globs)
    assert set(plan.planned) == left
    assert all(f"--keep-float {globs[0]}" == reasons(plan)[n] for n in {"c1", "c2", "c3"} - left)
    with pytest.raises(UserError, match="'c9'"):
        plan_of(net.model(x), ("c9",))


def test_a_weight_that_two_layers_read() -> None:
    net = Net(32, 16)
    weight = net.const(net.weights(16, 16), "w")
    a = net.add("Gemm", "x", weight, transB=1, name="a")
    b = net.add("Gemm", a, weight, transB=1, name="b")
    plan = plan_of(net.model(b))
    (site,) = [s for s in plan.sites if s.kind == "weight"]
    assert site.readers == (Edge("a", 1), Edge("b", 1))
    model = Model.open(net.model(net.add("MatMul", b, weight, name="c")))
    plan = make_plan(model, RULES)
    assert sorted(s.axis for s in plan.sites if s.kind == "weight" and s.axis is not None) == [0, 1]
    model = insert(model, plan, {group.id: np.float32(1) for group in plan.groups}).model
    onnx.checker.check_model(model.to_proto(), full_check=True)
    int8 = [t.name for t in model.to_proto().graph.initializer if t.data_type == 3 and len(t.dims) == 2]
    assert len(set(int8)) == 2


def test_a_layer_is_quantized_whole_or_not_at_all() -> None:
    """Where ONNX does not know an operator's type, the layer's weights say it."""
    net = Net(1, 16, 8, 8)
    a = net.add("Gelu", "x", name="a", domain="com.microsoft")
    proto = net.model(net.conv(a, 16, 16, 1, 1))
    plan = plan_of(proto)
    assert len(sites(plan)) == len(sites(plan, "weight")) == 1


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "double"])
def test_layers_of_every_float_type_are_quantized(kind: str) -> None:
    text = f"g ({kind}[32, 16] x) => ({kind}[32, 16] y) {{ y = MatMul (x, w) }}"
    proto = onnx.parser.parse_model(H + text)
    weights = onnx.helper.make_tensor(
        "w", proto.graph.input[0].type.tensor_type.elem_type, [16, 16], [1] * 256
    )
    proto.graph.initializer.append(weights)
    assert [site.kind for site in plan_of(proto).sites] == ["activation", "weight"]


@pytest.mark.parametrize("error", [Skip("not this one"), ValueError("oh"), None])
def test_a_placement_rule_that_fails(error: Exception | None) -> None:
    def odd(node: object) -> None:
        if error is not None:
            raise error

    rule = Rule("odd", odd, ("Conv",), "place")
    net = Net(1, 16, 8, 8)
    proto = net.model(net.conv("x", 16, 16, 1, 1))
    if isinstance(error, ValueError):
        with pytest.raises(UserError, match=r"placement rule 'odd' fails at node 'conv1': ValueError: oh"):
            plan_of(proto, rules=[rule])
    else:
        assert plan_of(proto, rules=[rule]).sites == ()


def test_macs_and_shares() -> None:
    net = Net(1, 16, 8, 8)
    a = net.conv("x", 16, 32, 3, 3)
    b = net.add("Conv", a, net.const(np.ones((32, 1, 3, 3), np.float32)), group=32, pads=[1] * 4)
    plan = plan_of(net.model(net.conv(b, 32, 16, 1, 1)), (a,))
    macs = {layer.node: (layer.macs, layer.eligible, layer.quantized) for layer in plan.layers}
    assert macs == {
        a: (64 * 32 * 16 * 9, True, False),
        b: (64 * 32 * 9, False, False),
        "conv3": (64 * 16 * 32, True, True),
    }
    assert plan.int8_share == pytest.approx(32 * 16 / (32 * 16 + 32 * 16 * 9))


# -- weights and scales ----------------------------------------------------------------------------


def test_weights_are_rounded_to_even_on_symmetric_scales() -> None:
    weights = np.array(
        [[127, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5], [0] * 7, [-254, 1, 3, 5, -1, -3, 253]], np.float32
    )
    codes, scales = quantize_weights(weights, 0)
    assert codes.dtype == np.int8
    assert scales.dtype == np.float32
    np.testing.assert_array_equal(scales, np.array([1, 1, 2], np.float32))
    np.testing.assert_array_equal(codes, [[127, 0, 2, 2, 0, -2, -126], [0] * 7, [-127, 0, 2, 2, 0, -2, 126]])
    again, _ = quantize_weights(weights.T, 1)
    np.testing.assert_array_equal(again, codes.T)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
def test_weights_are_within_half_a_step(scale: float) -> None:
    weights = (np.random.default_rng(0).standard_normal((8, 5, 3, 3)) * scale).astype(np.float32)
    codes, scales = quantize_weights(weights, 0)
    assert np.abs(codes).max() == 127
    error = np.abs(codes * scales.reshape(-1, 1, 1, 1).astype(np.float64) - weights)
    assert np.all(error <= scales.reshape(-1, 1, 1, 1) * (0.5 + 1e-5))


def test_tiny_and_zero_ranges_have_a_normal_scale() -> None:
    assert INT8.scale(0.0) == INT8.scale(1e-44) == np.float32(1)
    assert INT8.scale(127.0) == 1
    assert INT8.scale(1.0).dtype == np.float32
    _, scales = quantize_weights(np.array([[1e-44, 0], [0, 0]], np.float32), 0)
    np.testing.assert_array_equal(scales, [1, 1])


# -- insertion -------------------------------------------------------------------------------------


def block() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    bias = net.const(np.arange(16, dtype=np.float32), "bias")
    x = net.add("Relu", net.add("Conv", "x", net.const(net.weights(16, 16, 1, 1), "w"), bias, name="first"))
    a = net.add("MaxPool", x, kernel_shape=[2, 2], name="pool")
    b = net.conv(a, 16, 16, 3, 3)
    return net.model(net.add("Add", b, a, name="sum"))


def test_what_is_inserted() -> None:
    proto = block()
    model = Model.open(proto)
    plan = make_plan(model, RULES)
    result = insert(model, plan, {group.id: np.float32(0.5) for group in plan.groups}).model.to_proto()
    onnx.checker.check_model(result, full_check=True)
    constants = {t.name: numpy_helper.to_array(t) for t in result.graph.initializer}
    pairs = [n for n in result.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    for node in pairs:
        zero, scale = constants[node.input[2]], constants[node.input[1]]
        assert zero.dtype == np.int8
        assert not zero.any()
        assert scale.dtype == np.float32
        assert (scale > 0).all()
    assert constants["bias"].dtype == np.float32
    assert "w" not in constants
    old = {node.name: node for node in proto.graph.node}
    for node in result.graph.node:
        if node.name in old:
            assert node.output == old[node.name].output
            assert node.attribute == old[node.name].attribute
    assert set(old) <= {node.name for node in result.graph.node}
    assert result.graph.input == proto.graph.input
    assert confirmed_lint(Model.open(result)) == []
    ort.load(result)


def test_without_its_pairs_it_is_the_same_graph() -> None:
    proto = block()
    model = Model.open(proto)
    model = insert(model, make_plan(model, RULES), dict.fromkeys(range(99), np.float32(0.5))).model
    reads = {}
    for node in model.to_proto().graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            reads[node.output[0]] = node.input[0]
    stripped = []
    for node in model.to_proto().graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            names = list(node.input)
            while any(name in reads for name in names):
                names = [reads.get(name, name) for name in names]
            stripped.append((node.op_type, [n.removesuffix("_int8") for n in names], list(node.output)))
    wanted = [(n.op_type, list(n.input), list(n.output)) for n in Model.open(proto).to_proto().graph.node]
    assert stripped == wanted


# -- lint ------------------------------------------------------------------------------------------


def _qdq(text: str, kind: str = "int8", scale: str = "0.5", zero: str = "0") -> list[str]:
    proto = onnx.parser.parse_model(
        H
        + f"""g (float[32, 16] x) => (y) <float s = {{{scale}}}, {kind} z = {{{zero}}}, int32 z32 = {{0}},
        float[1] s1 = {{{scale}}}, {kind}[1] z1 = {{{zero}}},
        int32[16] b = {{{", ".join("1" * 16)}}}> {{ {text} }}"""
    )
    weights = np.ones((16, 16), np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    proto.graph.initializer.append(numpy_helper.from_array(weights.astype(np.int8), "w8"))
    return [finding.reason for finding in confirmed_lint(Model.open(proto))]


PAIR = "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  "
WEIGHT = "v = DequantizeLinear (w8, s, z)  "


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        (PAIR + "y = Relu (d)", {"kind": "uint8"}, "uint8"),
        (PAIR + "y = Relu (d)", {"zero": "3"}, "zero point is not 0"),
        (PAIR + "y = Relu (d)", {"scale": "0.0"}, "not positive"),
        (PAIR + "y = Relu (d)", {"scale": "-1.0"}, "not positive"),
        ("q = QuantizeLinear (x, s)  y = DequantizeLinear (q, s)", {}, "no zero point"),
        ("t = ReduceMax <keepdims = 0> (x)  y = QuantizeLinear (x, t, z)", {}, "scale is computed"),
        ("c = DequantizeLinear (b, s, z32)  y = Add (x, c)", {}, "int32"),
        (PAIR + "y = MatMul (d, w)", {}, "its weights are not"),
        (WEIGHT + "y = MatMul (x, v)", {}, "its input is not"),
    ],
)
def test_a_mistake_in_pairs_is_found(text: str, more: dict[str, str], reason: str) -> None:
    assert any(reason in found for found in _qdq(text, **more))


def test_right_pairs_give_no_finding() -> None:
    assert _qdq(PAIR + WEIGHT + "y = MatMul (d, v)") == []
