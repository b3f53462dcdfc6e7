"""What a rule can say: operators of other domains, bodies, types of new values, marks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.inspection.examples import check_rule
from onnxq.rewrite.engine import RewriteReport, rewrite
from onnxq.rule import (
    Body,
    Skip,
    Value,
    constant,
    exact_product,
    float32_only,
    inline,
    made_by,
    op,
    remake,
    required,
    rule,
)
from onnxq.rule.load import load_rules
from onnxq.run import ort

OWN = Path(__file__).resolve().parents[1] / "own_rules"
RULES = {rule.id: rule for rule in load_rules((OWN,))}
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
LOOP = (
    HEAD
    + """g (float[N, 4] x) => (float[N, 4] y) <int64 n = {3}, bool go = {1}, float two = {2}> {
    y = Loop (n, go, x) <body = b (int64 i, bool on, float[N, 4] a) => (bool still, float[N, 4] z) {
        still = Identity (on)  z = Mul (a, two) }> }"""
)


def text_model(text: str) -> Model:
    model = Model.open(onnx.parser.parse_model(text))
    model.runtime = ort.evaluate
    return model


def node_of(model: Model, operator: str) -> Node:
    return next(Node(model, n) for g in model.graphs() for n in g.nodes if n.op == operator)


def apply(model: Model, root: str, function: Callable[[Node], Any]) -> RewriteReport:
    """Runs one rule that fires once."""
    done: list[bool] = []

    def mine(node: Node) -> Any:
        if done:
            return None
        done.append(True)
        return function(node)

    return rewrite(model, [rule(root, stage="compat")(mine)], lambda feature: True)


def run(proto: onnx.ModelProto, **feeds: np.ndarray) -> list[Any]:
    return ort.load(proto, optimize=False).run(feeds)


@pytest.mark.parametrize("name", sorted(path.stem for path in OWN.glob("*.py")))
def test_rules_of_a_users_folder(name: str) -> None:
    assert check_rule(RULES[name], list(RULES.values())) >= 2


def test_a_topk_above_the_targets_limit_is_cut_in_the_pipeline() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[2, 9000] x) => (int32[2, 4000] v, int64[2, 4000] i) <int64[1] k = {4000}> {
            v, i = TopK (x, k) }"""
    proto = onnx.parser.parse_model(text)
    result = onnxq.sanitize(proto, rules=[OWN], skip=["topk_over_limit"])
    assert [c["proof"]["verdict"] for c in result.report["changes"] if c["rule"] == "topk_in_parts"] == [
        "exact"
    ]
    sizes = {t.name: onnx.numpy_helper.to_array(t) for t in result.model.graph.initializer}
    asked = [int(sizes[n.input[1]][0]) for n in result.model.graph.node if n.op_type == "TopK"]
    assert asked == [3840, 160]
    x = np.random.default_rng(1).integers(-50, 50, (2, 9000)).astype(np.int32)  # many ties
    for one, other in zip(run(proto, x=x), run(result.model, x=x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loop_is_unrolled_in_the_pipeline() -> None:
    result = onnxq.sanitize(onnx.parser.parse_model(LOOP), rules=[OWN])
    assert [n.op_type for n in result.model.graph.node] == ["Mul"] * 3
    x = np.array([[1, np.inf, -0.0, 3]], np.float32)
    np.testing.assert_array_equal(run(result.model, x=x)[0], 8 * x)


def test_a_long_chain_of_new_nodes() -> None:
    model = text_model(LOOP.replace("{3}", "{700}"))

    def unroll(node: Node) -> Value:
        carried: Value | None = node.inputs[2]
        for number in range(700):
            _, carried = inline(node.body("body"), number, True, carried)
        assert carried is not None
        assert carried.dtype == np.float32  # whose inference goes all the way
        return carried

    report = apply(model, "Loop", unroll)
    assert len(report.changes) == 1, report.rejected
    assert len({n.name for n in model.graph.nodes}) == len(model.graph.nodes) == 700


def test_what_a_body_reads_and_gives() -> None:
    body = node_of(text_model(LOOP), "Loop").body("body")
    assert isinstance(body, Body)
    assert [t.name for t in body.inputs] == ["i", "on", "a"]
    assert [t.name for t in body] == [t.name for t in body.outputs] == ["still", "z"]
    assert [n.op for n in body.nodes] == ["Identity", "Mul"]
    again, _ = inline(body, 0, True, np.ones((1, 4), np.float32))
    assert again.constant is not None
    assert again.constant.dtype == bool
    assert bool(again.constant)
    with pytest.raises(ValueError, match="3 inputs, 2 values"):
        inline(body, 0, True)
    with pytest.raises(ValueError, match="has no body 'then_branch'"):
        node_of(text_model(LOOP), "Loop").body("then_branch")


@pytest.mark.parametrize(
    ("condition", "given"),
    [
        ("still = Constant <value = bool {1}> ()", True),
        ("still = Constant <value = bool {0}> ()", False),
        ("still = Cast <to = 9> (on)", True),
        ("one = Constant <value = int64 {1}> ()  same = Identity (one)  still = Cast <to = 9> (same)", True),
        ("still = Not (on)", None),
    ],
)
def test_a_condition_that_is_not_computed_is_constant(condition: str, given: bool | None) -> None:
    body = node_of(text_model(LOOP.replace("still = Identity (on)", condition)), "Loop").body("body")
    again, _ = inline(body, 0, True, np.ones((1, 4), np.float32))
    assert (None if again.constant is None else (again.constant.dtype, bool(again.constant))) == (
        None if given is None else (bool, given)
    )
    stands = constant(body.outputs[0])
    assert (None if stands is None else bool(stands)) == (given if "still = Constant" in condition else None)


def test_an_operator_of_another_domain() -> None:
    text = '<ir_version: 8, opset_import: ["" : 20]> g (float[N, 4] x) => (float[N, 4] y) { y = Gelu (x) }'
    model = text_model(text)
    report = apply(model, "Gelu", lambda node: op["com.microsoft"].Gelu(node.inputs[0]))
    proto = model.to_proto()
    assert [(n.domain, n.op_type) for n in proto.graph.node] == [("com.microsoft", "Gelu")], report
    assert report.changes[0].proof.inputs > 0 or report.rejected[0].proof.inputs > 0
    assert {e.domain: e.version for e in proto.opset_import} == {"": 20, "com.microsoft": 1}
    with pytest.raises(AttributeError, match=r'op\["domain"\]\.FusedGelu'):
        op.FusedGelu(1.0)


def test_a_remade_node_keeps_its_domain_and_its_bodies() -> None:
    text = (
        HEAD
        + """g (float[N, 4] x, float[4, 4] w) => (float[N, 4] y) {
        n = Neg (x)  m = Neg (n)  y = com.microsoft.FusedMatMul <alpha = 0.5> (m, w) }"""
    )
    model = text_model(text)
    report = apply(
        model, "com.microsoft.FusedMatMul", lambda n: remake(n, node_of(model, "Neg").inputs[0], n.inputs[1])
    )
    assert [c.proof.verdict for c in report.changes] == ["exact"], report.rejected
    (node,) = model.to_proto().graph.node
    assert (node.domain, node.attribute[0].f) == ("com.microsoft", 0.5)

    text = LOOP.replace("y = Loop", "i0 = Neg (x)  i1 = Neg (i0)  y = Loop").replace("go, x)", "go, i1)")
    model = text_model(text)
    report = apply(model, "Loop", lambda n: remake(n, *n.inputs[:2], node_of(model, "Neg").inputs[0]))
    assert [c.proof.verdict for c in report.changes] == ["exact"], report.rejected
    proto = model.to_proto()
    onnx.checker.check_model(proto, full_check=True)
    assert [n.op_type for n in proto.graph.node] == ["Loop"]
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(run(proto, x=x)[0], 8 * x)


def test_dtype_and_shape_of_new_values() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float16[N, 3, 8, 8] x) => (float16[N, 3, 8, 8] y) { y = Relu (x) }"""
    x = node_of(text_model(text), "Relu").inputs[0]
    half = np.dtype(np.float16)
    moved = op.Transpose(op.Mul(x, 2.0), perm=[0, 2, 3, 1])
    assert (moved.dtype, moved.shape, moved.rank) == (half, ("N", 8, 8, 3), 4)
    assert op.Reshape(moved, np.array([0, -1])).shape == ("N", 192)
    assert op.Cast(moved, to=onnx.TensorProto.BFLOAT16).dtype == ml_dtypes.bfloat16
    values, indices = op.TopK(x, np.array([2]), outputs=2)
    assert (values.shape, indices.dtype) == (("N", 3, 8, 2), np.int64)
    assert op["mine"].Thing(x).dtype is None
    assert op.Relu(op["mine"].Thing(x)).shape is None
    value = x
    for _ in range(60):  # each twice what the one before is: as a tree 2^60 nodes
        value = op.Add(value, value)
    assert value.shape == ("N", 3, 8, 8)


def test_a_number_takes_the_type_of_a_new_value_in_the_proof_too() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float16[N] x) => (float16[N] y) { y = Relu (x) }'
    model = text_model(text)
    report = apply(model, "Relu", lambda n: op.Max(op.Identity(n.inputs[0]), np.float16(0)))
    assert report.rejected or report.changes
    model = text_model(text)
    report = apply(model, "Relu", lambda n: op.Mul(op.Relu(n.inputs[0]), 1.0))
    assert [c.proof.verdict for c in report.changes] == ["exact"], report.rejected


def test_marks_follow_a_value_into_the_graph() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (bool[N] y) <float t = {3}> { y = Greater (x, t) }"""
    model = text_model(text)

    def marked(node: Node) -> Value:
        return op.Less(float32_only(node.inputs[1]), float32_only(op.Identity(node.inputs[0])))

    assert apply(model, "Greater", marked).changes
    marks = {t.name: t.float32_only for t in node_of(model, "Less").inputs if t is not None}
    assert list(marks.values()) == [True, True]
    assert not node_of(model, "Less").outputs[0].float32_only
    assert model.float32_only == sorted(marks)
    rewrite(model, [RULES["drop_identity"]], lambda feature: True)
    assert all(t.float32_only for t in node_of(model, "Less").inputs if t is not None)


EXACT_RULE = """\"\"\"Integers in float.\"\"\"
from onnxq.rule import Node, Skip, Value, exact_product, op, rule

@rule("MatMul", stage="compat")
def integers_in_float(node: Node) -> Value | None:
    a, b = node.inputs
    if a.dtype.kind != "i":
        return None
    product = exact_product(op.MatMul(op.Cast(a, to=1), op.Cast(b, to=1)), "integers of more than 11 bits")
    return op.Cast(product, to=6)
"""


def test_an_exact_product_turns_tf32_off_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "integers_in_float.py").write_text(EXACT_RULE, "utf-8")
    text = (
        HEAD
        + "g (int32[2, 3] x) => (int32[2, 2] y) <int32[3, 2] w = {1, 2, 3, 4, 5, 6}> { y = MatMul (x, w) }"
    )
    source = onnx.parser.parse_model(text)
    kept = {"prove": "never", "target": "tensorrt-rtx"}
    plain = onnxq.sanitize(
        source, skip=["integers_in_float", "integer_products"], rules=[tmp_path / "rules"], **kept
    )
    result = onnxq.sanitize(source, rules=[tmp_path / "rules"], skip=["integer_products"], **kept)
    (entry,) = result.report["exact_products"]
    (product,) = (node for node in result.model.graph.node if node.op_type == "MatMul")
    assert entry == {"tensor": product.output[0], "because": "integers of more than 11 bits"}
    assert product.output[0] in result.report["float32_only"]
    for one, is_exact in ((plain, False), (result, True)):
        one.save(tmp_path / "out.onnx", force=True)
        build = one.report["commands"][0].split()
        assert ("--noTF32" in build) is is_exact
        assert bool(one.report["exact_products"]) is is_exact
    with pytest.raises(TypeError, match="what a new node gives"):
        exact_product(Model.open(source).graph.inputs[0], "no")


SUMS = """g (float[N, 3] x, float[3] h) => (float[3] y, float[N, 3] z) <bool on = {1}, int64 zero = {0}> {
    s = Shape (x)  n = Gather (s, zero)
    y, z = Loop (n, on, h) <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] r, float[3] q) {
        d = Identity (c)  v = Gather (x, i)  r = Add (v, a)  unused = Exp (r)  q = Mul (v, v) }> }"""


def test_a_body_without_some_of_its_inputs_and_outputs() -> None:
    """The rows do not need the sum: a Loop that carries nothing collects them."""
    model = text_model(HEAD + SUMS)

    def apart(node: Node) -> dict[int, Value]:
        trip, going, start = node.inputs
        body = node.body("body")
        rows = body.reduced(body.inputs[:2], [body.outputs[0], body.outputs[2]])
        return {0: remake(node, trip, going, start, outputs=2)[0], 1: remake(node, trip, going, body=rows)}

    source = model.to_proto()
    assert apply(model, "Loop", apart).changes
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    before, after = (run(proto, x=x, h=x[0]) for proto in (source, model.to_proto()))
    assert all(map(np.array_equal, before, after))
    loops = [node for node in model.to_proto().graph.node if node.op_type == "Loop"]
    (rows,) = (node for node in loops if len(node.output) == 1)
    (attribute,) = rows.attribute
    assert [node.op_type for node in attribute.g.node] == ["Identity", "Gather", "Mul"]
    assert len(attribute.g.input) == 2
    onnx.checker.check_model(model.to_proto(), full_check=True)


def test_what_a_node_requires_and_who_made_a_value() -> None:
    model = text_model(
        HEAD
        + """g (float[N, 4] x) => (y, z) <float low = {1}> {
        a = com.microsoft.Gelu (x)  b = Neg (x)  y = Clip (a, , low)  z = Clip (b) }"""
    )
    nodes = {node.outputs[0].name: Node(model, node) for node in model.graph.nodes}
    (x,) = required(nodes["b"], 1)
    assert (x.name, [tensor.name for tensor in required(nodes["y"], 1)]) == ("x", ["a"])
    for name, count in (("y", 2), ("z", 2)):
        with pytest.raises(Skip, match="Clip needs 2 inputs"):
            required(nodes[name], count)
    assert made_by(nodes["z"].inputs[0], "Exp", "Neg") == nodes["b"]
    assert made_by(nodes["z"].inputs[0], "Exp") is None
    assert made_by(nodes["y"].inputs[0], "Gelu") is None, "it is of another domain"
    assert made_by(x, "Neg") is made_by(None, "Neg") is None
