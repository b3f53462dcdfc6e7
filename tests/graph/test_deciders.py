"""Inputs that decide which branch runs, and what the user is told of them."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from onnxq.graph.deciders import deciding_inputs, freeze_hint

H = '<ir_version: 8, opset_import: ["" : 17]>\n'
BRANCHES = """<then_branch = t () => (float[4] a) { a = Neg (x) }, else_branch = e () => (float[4] b) {
    b = Abs (x) }>"""


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(H + text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            f"""g (float[4] x, int64 k) => (float[4] y) <int64 r = {{16000}}> {{
                c = Equal (k, r)  y = If (c) {BRANCHES} }}""",
            {"k": ["16000"]},
        ),
        (  # through a cast, and one condition made of two
            f"""g (float[4] x, int32[1] k, bool[1] u) => (float[4] y) <float[1] r = {{8}}, float[1] s = {{9}}>
                {{ f = Cast <to = 1> (k)  p = Equal (r, f)  q = Equal (f, s)  o = Or (p, q)  c = And (o, u)
                y = If (c) {BRANCHES} }}""",
            {"k": ["8", "9"], "u": ["true", "false"]},
        ),
        (  # half of it is another value, so that what it is compared with is none for it
            f"""g (float[4] x, int64 k) => (float[4] y) <int64 r = {{8}}, int64 h = {{2}}> {{
                f = Div (k, h)  c = Equal (f, r)  y = If (c) {BRANCHES} }}""",
            {"k": []},
        ),
        (
            "g (float[4] x, int64[1] k) => (float[N] y) <int64[1] z = {0}> { y = Slice (x, z, k) }",
            {"k": []},
        ),
        (  # a body decides inside of another one
            f"""g (float[4] x, bool u, int64 k) => (float[4] y) <int64 r = {{3}}> {{
                y = If (u) <then_branch = o () => (float[4] v) {{ c = Equal (k, r)  v = If (c) {BRANCHES} }},
                            else_branch = n () => (float[4] w) {{ w = Neg (x) }}> }}""",
            {"u": ["true", "false"], "k": ["3"]},
        ),
        ("g (float[4] x, int64 k) => (float[4] y) { f = Cast <to = 1> (k)  y = Mul (x, f) }", {}),
        ("g (float[4] x, int64[4] k) => (float[N] y) <int64[1] z = {0}> { y = Slice (x, z, k) }", {}),
        ("g (float[4] x, int64 k) => (float[N] y) { s = Shape (k)  y = Reshape (x, s) }", {}),
        ("g (float[4] x, float k) => (float[N] y) { y = Range (k, k, k) }", {}),
    ],
    ids=["equal", "cast", "half", "slice", "nested", "value", "list", "shape", "float"],
)  # fmt: skip
def test_what_decides(text: str, found: dict[str, list[str]]) -> None:
    assert deciding_inputs(parse(text)) == found


def test_a_node_that_reads_nothing_decides_nothing() -> None:
    model = parse("g (float[4] x, int64 k) => (float[4] y) { c = Cast <to = 9> (k)  y = Neg (x) }")
    model.graph.node[0].ClearField("input")
    assert deciding_inputs(model) == {}


def test_what_the_user_is_told() -> None:
    text = f"""g (float[4] x, int64 k) => (float[4] y) <int64 r = {{8}}, int64 s = {{9}}> {{
        p = Equal (k, r)  q = Equal (k, s)  c = Or (p, q)  y = If (c) {BRANCHES} }}"""
    assert freeze_hint(parse(text)).endswith("--freeze k=8 (or 9)")
    assert freeze_hint(parse("g (float[4] x, int64 k) => (float[4] y) { y = Neg (x) }")) == ""
