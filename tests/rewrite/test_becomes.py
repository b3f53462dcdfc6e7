"""Examples of rules that rewrite say what becomes of their model: where another graph does, they fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.inspection.examples import check_example
from onnxq.rewrite.examples import same_text, text_of
from onnxq.rule.api import Fires, Rule
from onnxq.rule.examples import ExampleError
from onnxq.rule.load import load_rules

RULES = load_rules()
BY_NAME = {rule.id: rule for rule in RULES}


def text(model: str, before: str = "") -> str:
    parsed = onnx.parser.parse_model(model)
    return "; ".join(text_of(parsed, onnx.parser.parse_model(before) if before else parsed))


def checked(rule: Rule, becomes: str) -> None:
    example = next(e for e in rule.examples if isinstance(e, Fires) and e.becomes)
    check_example(rule, dataclasses.replace(example, becomes=becomes), RULES)


def test_every_rule_that_rewrites_says_what_becomes_of_a_model() -> None:
    silent = [
        rule.path
        for rule in RULES
        if rule.stage != "place"
        and not any(isinstance(example, Fires) and example.becomes for example in rule.examples)
    ]
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize(
    "wrong",
    [
        "_1 = Mul (x, 150.0); y = Add (_1, -2.6)",
        "_1 = Mul (x, 150); y = Add (_1, -2.5)",
        "_1 = Mul (x, 150.0); y = Add (-2.5, _1)",
        "_1 = Mul (x, 150.0)",
        "y = Affine <alpha = 150.0, beta = -2.5> (x)",
    ],
)
def test_another_graph_fails_and_the_right_text_is_printed(wrong: str) -> None:
    with pytest.raises(ExampleError, match="it becomes") as failure:
        checked(BY_NAME["expand_affine"], wrong)
    _, right, _, stated = str(failure.value).splitlines()
    assert stated == wrong
    checked(BY_NAME["expand_affine"], right)


def test_white_space_and_line_ends_make_no_difference() -> None:
    checked(BY_NAME["expand_affine"], "\n  _1=Mul(x , 150.0)\n\n  y = Add ( _1, -2.5 ) ;")
    assert not same_text("a = Add (x, 1); b = Add (a, 2)", "b = Add (a, 2); a = Add (x, 1)")


def test_a_change_of_an_attribute_is_another_graph() -> None:
    rule = BY_NAME["explicit_same_pads"]
    (first, *_) = (e for e in rule.examples if isinstance(e, Fires))
    checked(rule, first.becomes)
    with pytest.raises(ExampleError, match="it becomes"):
        checked(rule, first.becomes.replace("dilations = [2, 3]", "dilations = [3, 2]"))


def test_constants_attributes_and_bodies() -> None:
    assert text(
        """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        g (float[N, 2] x, bool c) => (y, w) <float half = {0.5}, int64[2] k = {3, 4}, int32[1, 1] i = {5},
            float[2] r = {1, 2}, float[1, 20] large = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
            w = Neg (b)
            a = com.microsoft.Gelu (x)
            b = If (c) <then_branch = t () => (p) { p = Mul (a, half) },
                        else_branch = e () => (q) <float one = {1}> { q = Add (a, one) }>
            d = LeakyRelu <alpha = 0.1> (b)
            f = Tile (i, k)
            h = Cast <to = 6> (large)
            y = Resize <mode = "nearest", axes = [1]> (d, , r)
        }"""
    ) == (
        "a = com.microsoft.Gelu (x); b = If <else_branch = () => (q) { q = Add (a, 1.0) }, "
        "then_branch = () => (p) { p = Mul (a, 0.5) }> (c); d = LeakyRelu <alpha = 0.1> (b); "
        'y = Resize <axes = [1], mode = "nearest"> (d, , {1.0, 2.0}); w = Neg (b); '
        "f = Tile (int32 [1, 1] {5}, {3, 4}); h = Cast <to = 6> (float32 [1, 20])"
    )


def test_names_are_those_of_before_or_numbers_and_the_order_is_the_outputs() -> None:
    net = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[%s] y) { %s }'
    before = net % ("N", "m = Exp (x)  y = Neg (m)")
    assert text(net % ("N", "m = Abs (x)  y = Add (x, m)"), before) == "m = Abs (x); y = Add (x, m)"
    one = text(net % ("N", "a1 = Abs (x)  b1 = Exp (x)  y = Sub (b1, a1)"), before)
    other = text(net % ("N", "u = Exp (x)  v = Abs (x)  y = Sub (u, v)"), before)
    assert one == other == "_1 = Exp (x); _2 = Abs (x); y = Sub (_1, _2)"
    assert text(net % ("3", "y = Neg (x)"), before) == "y: float32[3]; y = Neg (x)"


def test_a_long_chain_has_a_text() -> None:
    nodes = [onnx.helper.make_node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(3000)]
    info = onnx.helper.make_tensor_value_info
    ends = [info("t0", 1, [2])], [info("t3000", 1, [2])]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes[::-1], "g", *ends))
    lines = text_of(model, model)
    assert [lines[0], lines[-1], len(lines)] == ["t1 = Neg (t0)", "t3000 = Neg (t2999)", 3000]


def test_a_constant_of_each_type_has_a_text() -> None:
    for array, said in (
        (np.float16(0.5), "float16 0.5"),
        (np.array([-1e8, 1e-5, 3.4028235e38], np.float32), "{-100000000.0, 1e-05, 3.4028235e+38}"),
        (np.array([True, False]), "bool {True, False}"),
        (np.array([], np.int64), "{}"),
        (np.array(["a"], object), "object {a}"),
    ):
        tensor = onnx.numpy_helper.from_array(np.asarray(array), "c")
        node = onnx.helper.make_node("Identity", ["c"], ["y"])
        made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], [tensor]))
        assert text_of(made, made) == [f"y = Identity ({said})"]


def test_mypy_checks_the_rules_too() -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "pyproject.toml").read_text("utf-8")
    assert 'files = ["onnxq", "rules"]' in text.split("[tool.mypy]")[1]
