"""Joint decisions: all of the nodes or none, whoever asks and whoever forbids; the compiler agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from grid_nets import Net
from said import is_said
from test_compilation import failed, quantized_nodes
from test_compiled import heads

import onnxq
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Joint, QuantPlan
from onnxq.quant.wants import left_float
from onnxq.rule.api import Float, Quantize, Read, Rule, Together
from onnxq.rule.load import load_rules
from onnxq.run import trt

RULES = load_rules()

ATTENTION = '''"""Quantize the two products of attention, both or none."""

from onnxq.rule import Fires, Node, Quantize, Skips, Together, place


@place("Softmax")
def quantize_attention(node: Node) -> list[Quantize | Together]:
    scores = node.inputs[0].producer
    while scores is not None and scores.op in ("Add", "Mul", "Div"):
        scores = scores.inputs[0].producer
    (mixed,) = node.outputs[0].users or (None,)
    if scores is None or mixed is None or scores.op != "MatMul" or mixed.op != "MatMul":
        return []
    products = (scores, mixed)
    wishes = [Quantize(one, index, because="attention in int8") for one in products for index in (0, 1)]
    return [*wishes, Together(products, "both products of attention or none")]


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4, 32, 16] q, float[1, 4, 16, 32] k, float[1, 4, 32, 16] v) => (y) {
        [qk] s = MatMul (q, k)  p = %s <axis = -1> (s)  [pv] y = MatMul (p, v) }"""

EXAMPLES = [Fires(_NET % "Softmax"), Skips(_NET % "LogSoftmax")]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "quantize_attention.py").write_text(ATTENTION)
    return tmp_path / "rules"


def attention() -> onnx.ModelProto:
    """A block whose products have names."""
    model = heads(gather=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    products = [n for n in model.graph.node if n.op_type == "MatMul" and n.input[1] not in weights]
    for node, name in zip(products, ("qk", "pv"), strict=True):
        node.name = name
    return model


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((1, 32, 64), np.float32)} for _ in range(6)]


def formats(report: dict) -> dict[str, str]:  # type: ignore[type-arg]
    return {layer["node"]: layer["format"] for layer in report["plan"]["layers"] if not layer["weights"]}


def kept(report: dict) -> dict[str, str]:  # type: ignore[type-arg]
    return {entry["node"]: entry["because"] for entry in report["plan"]["kept_float"]}


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_a_users_rule_quantizes_attention_and_the_compiler_agrees(folder: Path) -> None:
    result = onnxq.quantize(attention(), samples(), rules=[folder], method="minmax")
    plan, engine = result.report["plan"], result.report["engine"]
    assert formats(result.report) == {"qk": "int8", "pv": "int8"}
    because = "both products of attention or none"
    assert plan["together"][0] == {"nodes": ["qk", "pv"], "because": because, "tried": False}
    assert plan["kept_float"] == []
    assert plan["int8_share_of_eligible_macs"] == plan["int8_share_of_all_macs"] == 1
    assert (engine["planned"], engine["int8"], engine["not_int8"]) == (4, 4, [])
    layers = {node: layer for layer in engine["layers"] for node in layer["nodes"]}
    assert [layers[node]["precision"] for node in ("qk", "pv")] == ["int8", "int8"]
    assert result.report["accuracy"][0]["sqnr_db"] > 20


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_products_in_float_are_float_in_the_engine() -> None:
    report = onnxq.quantize(attention(), samples(), method="minmax", skip=["int8_attention"]).report
    assert formats(report) == {"qk": "float", "pv": "float"}
    assert kept(report) == dict.fromkeys(("qk", "pv"), "it has no constant weights")
    assert (report["engine"]["planned"], report["engine"]["int8"]) == (2, 2)
    assert report["plan"]["int8_share_of_all_macs"] < report["plan"]["int8_share_of_eligible_macs"] == 1


@pytest.mark.parametrize("one", ["qk", "pv"])
def test_keep_float_on_one_frees_both(folder: Path, one: str) -> None:
    (other,) = {"qk", "pv"} - {one}
    arguments = {"rules": [folder], "method": "minmax", "compile": False}
    report = onnxq.quantize(attention(), samples(), keep_float=[one], **arguments).report  # type: ignore[arg-type]
    assert formats(report) == {"qk": "float", "pv": "float"}
    assert kept(report) == {
        one: f"--keep-float {one}",
        other: f"--keep-float {one}, at {one!r}: both products of attention or none",
    }
    assert report["plan"]["together"] == []
    readers = {edge["node"] for site in report["plan"]["sites"] for edge in site["readers"]}
    assert not readers & {"qk", "pv"}


def test_products_that_the_model_quantizes_are_in_int8(folder: Path) -> None:
    arguments = {"method": "minmax", "compile": False}
    once = onnxq.quantize(attention(), samples(), rules=[folder], **arguments)  # type: ignore[arg-type]
    twice = onnxq.quantize(once.model, samples(), **arguments)  # type: ignore[arg-type]
    assert twice.model.graph == once.model.graph
    assert formats(twice.report) == {"qk": "int8", "pv": "int8"}
    assert kept(twice.report) == {}


def test_what_the_compiler_rejects_takes_its_partner_along(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_engine(path: Path, **_: object) -> trt.Engine:
        bad = "pv" in quantized_nodes(onnx.load(path))
        return failed("no kernel for pv (MatMul)") if bad else trt.Engine("compiled", "", "a compiler", 89)

    monkeypatch.setattr(trt, "compile_engine", compile_engine)
    several = lambda paths, **given: [trt.compile_engine(path, **given) for path in paths]  # noqa: E731
    monkeypatch.setattr(trt, "compile_engines", several)
    monkeypatch.setattr(trt, "installed", lambda: "a compiler")
    arguments = {"rules": [folder], "method": "minmax", "skip": ["int8_attention"], "body": "fp32"}
    result = onnxq.quantize(attention(), samples(), **arguments)  # type: ignore[arg-type]
    assert not quantized_nodes(result.model) & {"qk", "pv"}
    assert len(quantized_nodes(result.model)) > 1, "the layers with weights stay quantized"
    assert formats(result.report) == {"qk": "float", "pv": "float"}
    assert set(kept(result.report)) == {"qk", "pv"}
    assert "at 'pv': both products" in kept(result.report)["qk"]
    assert result.report["plan"]["together"] == []


# -- the resolver ----------------------------------------------------------------------------------


def layers(count: int) -> onnx.ModelProto:
    net, x = Net(32, 16), "x"
    for number in range(count):
        x = net.add("MatMul", x, net.const(net.weights(16, 16, seed=number)), name=f"m{number}")
    return net.model(x)


def plan_of(proto: onnx.ModelProto, *facts: Callable[[dict[str, Node]], object], keep: str = "") -> QuantPlan:
    """The plan of the built-in rules, and one that says these facts of the nodes by name."""
    model = Model.open(proto)
    nodes = {raw.name: Node(model, raw) for raw in model.graph.nodes}
    first = next(iter(nodes))

    def say(node: Node) -> list[object]:
        return [fact(nodes) for fact in facts] if node.name == first else []

    extra = Rule("say", say, tuple({node.op for node in nodes.values()}), "place")
    return make_plan(model, [*RULES, extra], (keep,) if keep else ())


def together(*names: str) -> Callable[[dict[str, Node]], Together]:
    return lambda nodes: Together((nodes[name] for name in names), "they are one")  # type: ignore[arg-type]


def test_without_a_veto_all_are_quantized() -> None:
    plan = plan_of(layers(3), together("m0", "m2"))
    assert plan.planned == ("m0", "m1", "m2")
    assert plan.together == (Joint(("m0", "m2"), "they are one"),)


def test_decisions_that_share_a_node_are_one() -> None:
    plan = plan_of(layers(5), together("m0", "m1"), together("m2", "m3"), together("m1", "m2"), keep="m3")
    assert plan.planned == ("m4",)
    assert plan.together == ()
    whole = plan_of(layers(5), together("m0", "m1"), together("m2", "m3"), together("m1", "m2"))
    assert whole.with_partners(["m3"]) == {"m0", "m1", "m2", "m3"}
    assert left_float(whole, {"m3": "why"}, dict.fromkeys(whole.planned, "MatMul")).planned == ("m4",)


def test_a_rules_veto_counts_and_so_does_what_nobody_asks_for() -> None:
    plan = plan_of(layers(2), together("m0", "m1"), lambda nodes: Float(nodes["m1"], "it is odd"))
    assert plan.planned == ()
    assert {entry.node: entry.because for entry in plan.kept_float} == {
        "m0": "it is odd, at 'm1': they are one",
        "m1": "it is odd",
    }
    net = Net(32, 16)
    a = net.add("MatMul", "x", net.const(net.weights(16, 16)), name="m0")
    proto = net.model(net.add("Relu", a, name="r"))
    plan = plan_of(proto, together("m0", "r"))
    assert plan.planned == ()
    assert plan.kept_float[0].because == "no rule asks to quantize it, at 'r': they are one"
    asked = plan_of(proto, together("m0", "r"), lambda nodes: Quantize(nodes["r"], 0))
    assert asked.planned == ("m0",)


def test_what_hangs_on_a_freed_node_is_freed_too() -> None:
    """A residual Add is quantized beside its convolution, and that is freed with another layer."""
    net = Net(1, 16, 8, 8)
    a = net.add("Relu", net.conv("x", 16, 16, 3, 3, name="far"), name="r1")
    b = net.add("Conv", a, net.const(net.weights(16, 16, 1, 1)), name="last")
    model = net.model(net.add("Add", b, "x", name="sum"))
    assert "sum" in plan_of(model, together("far", "last")).readers
    assert plan_of(model, together("far", "last"), keep="far").readers == set()


def test_a_layer_is_not_quantized_by_half() -> None:
    """An operand that depends on no input has no pair: then the weights have none either."""
    net = Net(32, 16)
    fixed = net.add("Add", net.const(np.ones((32, 16), np.float32)), net.const(np.float32(1)), name="fixed")
    y = net.add("MatMul", fixed, net.const(net.weights(16, 16)), name="half")
    plan = plan_of(net.model(y, net.add("MatMul", "x", net.const(net.weights(16, 16)), name="whole")))
    assert plan.planned == ("whole",)
    assert plan.readers == {"whole"}
    assert [entry.because for entry in plan.kept_float] == [
        "'fixed' depends on no input of the model, and is not folded"
    ]


def test_a_rule_that_asks_for_one_operand_has_a_float_layer() -> None:
    model = layers(1)

    def data_only(node: Node) -> list[Quantize]:
        return [Quantize(node, 0)]

    plan = make_plan(Model.open(model), [Rule("data_only", data_only, ("MatMul",), "place")])
    assert [site.kind for site in plan.sites] == ["activation"]
    assert plan.planned == ()
    assert is_said(plan.kept_float[0].because, "half", input=0)


def test_a_product_reads_what_is_quantized_anyway_on_both_sides_or_on_none() -> None:
    net = Net(1, 16, 16)
    net.input("z", 1, 16, 16)
    a = net.add("MatMul", "x", net.const(net.weights(16, 16)), name="a")
    b = net.add("MatMul", "z", net.const(net.weights(16, 16)), name="b")
    product = net.add("MatMul", "x", "z", name="product")
    model = net.model(a, b, product)
    reads = [lambda nodes, i=i: Read(nodes["product"], i, "it is there") for i in (0, 1)]
    assert plan_of(model, *reads).planned == ("a", "b", "product")
    assert "product" not in plan_of(model, *reads, keep="a").readers
    assert "product" not in plan_of(model, reads[0]).readers


def test_pairs_of_partners_are_taken_out_together() -> None:
    model = Model.open(layers(4))
    before = model.to_proto()
    plan = make_plan(
        model, [*RULES, Rule("all", lambda n: [Together([n, *n.outputs[0].users], "")], ("MatMul",), "place")]
    )
    rest = left_float(plan, {"m2": "why"}, dict.fromkeys(plan.planned, "MatMul"))
    after = insert(model, rest, dict.fromkeys(range(9), np.float32(0.05))).model
    assert after.to_proto().graph.node == before.graph.node
