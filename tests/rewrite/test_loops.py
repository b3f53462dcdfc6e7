"""A Loop that never ends on made-up input: comparisons end all the same, and decide nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from said import is_said

import onnxq
from onnxq.graph.loops import has_loop, stoppable
from onnxq.graph.model import Model
from onnxq.rewrite import prover, whole
from onnxq.run import ort

H = '<ir_version: 8, opset_import: ["" : 17]>\n'
FOREVER = "int64 m = {9223372036854775807}, bool c = {1}"
HANGS = 60.0  # seconds; without a limit none of these ends

# Sizes are open, so that there are many inputs to try; an Identity is there to be removed.
ENDLESS = f"""g (float[N, M] x) => (float[N, M] y) <{FOREVER}> {{
    a = Identity (x)
    y = Loop (m, c, a) <body = b (int64 i, bool on, float[N, M] v) => (bool co, float[N, M] w) {{
        co = Identity (on)  w = Add (v, v) }}> }}"""

# The body has no nodes; onnxruntime looks only between nodes whether it is to stop.
BARE = f"""g (float[N, M] x) => (float[N, M] y) <{FOREVER}> {{
    a = Identity (x)
    y = Loop (m, c, a) <body = b (int64 i, bool on, float[N, M] v) => (bool on, float[N, M] v) {{ }}> }}"""

CONSTANT = f"""g (float[N, 2] x) => (float[N, 2] y) <{FOREVER}, float[2] k = {{1, 2}}> {{
    a = Loop (m, c, k) <body = b (int64 i, bool on, float[2] v) => (bool co, float[2] w) {{
        co = Identity (on)  w = Neg (v) }}>
    i = Identity (x)  y = Add (i, a) }}"""

# What is compared has no inputs at all.
CONSTANT_BRANCH = f"""g (float[N, 2] x) => (float[N, 2] y) <{FOREVER}, float[2] k = {{1, 2}}> {{
    t = If (c) <then_branch = t () => (float[2] a) {{
        a = Loop (m, c, k) <body = b (int64 i, bool on, float[2] v) => (bool co, float[2] w) {{
            co = Identity (on)  w = Neg (v) }}> }}, else_branch = e () => (float[2] n) {{ n = Neg (k) }}>
    i = Identity (x)  y = Add (i, t) }}"""


TEXTS = {"endless": ENDLESS, "bare": BARE, "constant": CONSTANT, "constant-branch": CONSTANT_BRANCH}


def branches(count: int, trips: str = "m") -> str:
    """Branches that are always taken, each with a Loop: the proof of its removal runs the Loop."""
    lines = [
        f"""t{n} = If (c) <then_branch = t () => (float[N, 4] a{n}) {{
            a{n} = Loop ({trips}, c, {f"t{n - 1}" if n else "x"}) <body = b
                (int64 i{n}, bool on{n}, float[N, 4] v{n}) => (bool d{n}, float[N, 4] w{n}) {{
                    k{n} = Constant <value_float = {n}.5> ()  d{n} = Identity (on{n})
                    w{n} = Sub (k{n}, v{n}) }}> }},
            else_branch = e () => (float[N, 4] n{n}) {{ n{n} = Neg ({f"t{n - 1}" if n else "x"}) }}>"""
        for n in range(count)
    ]
    return f"g (float[N, 4] x) => (float[N, 4] y) <{FOREVER}, int64 few = {{20000}}> {{\n" + "\n".join(
        [*lines, f"y = Relu (t{count - 1}) }}"]
    )


def thrice(text: str) -> str:
    """The same Loop, which ends."""
    return text.replace("(m, c, a)", "(k, c, a)").replace(FOREVER, f"int64 k = {{3}}, {FOREVER}")


def sanitized(text: str, **options: Any) -> Any:
    start = time.monotonic()
    result = onnxq.sanitize(onnx.parser.parse_model(H + text), **options)
    assert time.monotonic() - start < HANGS
    return result


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_LOOP_SECONDS", 0.3)
    monkeypatch.setattr(prover, "_LOOP_SECONDS", 0.3)
    monkeypatch.setattr(prover, "_IN_VAIN", 0.6)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("prove", ["when-possible", "always"])
def test_the_first_run_that_does_not_return_is_the_last(text: str, prove: Any, impatient: None) -> None:
    start = time.monotonic()
    result = sanitized(text, prove=prove)
    assert time.monotonic() - start < 10
    (found,) = result.report["whole_model"]
    assert found["verdict"] == "unproven"
    assert is_said(found["why"], "unproven.original-endless", seconds="0.3")
    assert "drop_identity" in {change["rule"] for change in result.report["changes"]}


def test_the_limits_are_ten_seconds_at_most() -> None:
    assert whole._LOOP_SECONDS * 2 <= 10  # the original, and the rewritten model
    assert prover._LOOP_SECONDS <= prover._IN_VAIN <= 10


def test_many_snippets_together(impatient: None) -> None:
    start = time.monotonic()
    result = sanitized(branches(12))
    assert time.monotonic() - start < 10
    reasons = [change["proof"]["why"] for change in result.report["changes"]]
    assert reasons.count("it has a Loop, which may never end on made-up input") >= 8
    assert "If" not in {node.op_type for node in result.model.graph.node}


@pytest.mark.parametrize("prove", ["when-possible", "always"])
def test_a_slow_machine_writes_the_same_file(prove: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for seconds in (600.0, 0.0):
        monkeypatch.setattr(whole, "_LOOP_SECONDS", seconds)
        monkeypatch.setattr(prover, "_LOOP_SECONDS", seconds)
        monkeypatch.setattr(prover, "_IN_VAIN", max(seconds, 1.0))
        result = sanitized(branches(2, "few"), prove=prove)
        files.append(result.model.SerializeToString(deterministic=True))
        if prove == "when-possible":
            verdicts = {change["proof"]["verdict"] for change in result.report["changes"]}
            assert verdicts == ({"exact"} if seconds else {"unproven"})
    assert files[0] == files[1]


def test_a_rewritten_model_that_does_not_end_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_LOOP_SECONDS", 0.3)
    model, other = (Model.open(onnx.parser.parse_model(H + text)) for text in (thrice(ENDLESS), ENDLESS))
    found = whole.WholeModel(model).compare(other, "clean", exact=True)
    assert (found.verdict, found.why) == ("unproven", "the rewritten model: it did not end in 0.3 s")


def test_a_body_without_nodes_computes_the_same() -> None:
    model = onnx.parser.parse_model(H + thrice(BARE))
    changed = stoppable(model)
    assert len(changed.graph.node[1].attribute[0].g.node) == 1
    assert not model.graph.node[1].attribute[0].g.node
    onnx.checker.check_model(changed, full_check=True)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    (y,) = ort.load(changed, optimize=False).run({"x": x})
    assert y.tobytes() == x.tobytes()


def test_where_a_loop_is_seen() -> None:
    inner = branches(1)
    function = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[N] x) => (float[N] y) { y = own.f (x) }
        <domain: "own", opset_import: ["" : 17]>
        f (x) => (y) { m = Constant <value_int = 3> ()  c = Constant <value_int = 1> ()  d = Cast <to = 9> (c)
            y = Loop (m, d, x) <body = b (int64 i, bool on, float[N] v) => (bool co, float[N] w) {
                co = Identity (on)  w = Neg (v) }> }"""
    assert has_loop(onnx.parser.parse_model(H + inner))
    assert has_loop(onnx.parser.parse_model(function))
    assert not has_loop(onnx.parser.parse_model(H + "g (float[2] x) => (float[2] y) { y = Neg (x) }"))


def test_the_body_of_an_operator_of_another_domain_stays_as_it_is() -> None:
    """Nobody knows what its nodes are taken for; what it reads of the graph around it is kept."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>
        g (float[3] x, float[3] w) => (float[3] y) {
            t = Identity (x)  n = Neg (w)  u = Identity (n)
            y = my.ops.Apply (t) <body = b (float[3] a) => (float[3] e) {
                k = Identity (a)  z = Identity (u)  e = Add (k, z) }> }""")
    made = onnxq.sanitize(model).model
    assert [node.op_type for node in made.graph.node] == ["Neg", "Apply"]
    (body,) = [attribute.g for attribute in made.graph.node[1].attribute]
    assert [node.op_type for node in body.node] == ["Identity", "Identity", "Add"]
    assert body.node[1].input[0] == made.graph.node[0].output[0]
