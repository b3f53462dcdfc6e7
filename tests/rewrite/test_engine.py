"""The engine: stages to a fixpoint, what is kept and what is not, and what it says of it."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq import sanitize
from onnxq.base.errors import Fault, UserError
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.rewrite.engine import RewriteReport, rewrite
from onnxq.rule import Skip, op
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules
from onnxq.run import ort

H = '<ir_version: 8, opset_import: ["" : 17]>\n'
F = np.float32
CHAIN = "g (float[N, 4] x) => (float[N, 4] y) { a = Abs (x)  b = Neg (a)  y = Exp (b) }"


def opened(text: str) -> Model:
    model = Model.open(onnx.parser.parse_model(H + text))
    model.runtime = ort.evaluate
    return model


def rule(
    function: Callable[[Node], Any], *roots: str, stage: Any = "clean", lacks: str | None = None
) -> Rule:
    return Rule(function.__name__, function, roots, stage, lacks)


def run(model: Model, *rules: Rule, **more: Any) -> RewriteReport:
    return rewrite(model, rules, lambda feature: feature == "absent", **more)


def sub_for_neg(node: Node) -> Any:
    return op.Sub(F(-0.0), node.inputs[0])


def neg_for_sub(node: Node) -> Any:
    return op.Neg(node.inputs[1]) if node.inputs[0] is not None and node.inputs[0].is_constant else None


def wrong_neg(node: Node) -> Any:
    return op.Abs(node.inputs[0])


def test_a_stage_runs_to_its_fixpoint() -> None:
    count = 60
    lines = "".join(f"a{i + 1} = Identity (a{i}) " for i in range(count))
    model = opened(f"g (float[N, 4] a0) => (float[N, 4] y) {{ {lines} y = Relu (a{count}) }}")
    (drop,) = [r for r in load_rules() if r.id == "drop_identity"]
    report = run(model, drop)
    assert len(report.changes) == count
    assert [node.op for node in model.graph.nodes] == ["Relu"]
    assert run(model, drop).changes == []


def test_rules_that_undo_each_other_are_named() -> None:
    with pytest.raises(
        Fault, match=r"(sub_for_neg and neg_for_sub|neg_for_sub and sub_for_neg) undo"
    ) as info:
        run(opened(CHAIN), rule(sub_for_neg, "Neg"), rule(neg_for_sub, "Sub"))
    assert "skip = " in info.value.hint


def test_a_rule_fires_only_for_what_the_target_lacks() -> None:
    assert len(run(opened(CHAIN), rule(sub_for_neg, "Neg", lacks="absent")).changes) == 1
    assert run(opened(CHAIN), rule(sub_for_neg, "Neg", lacks="present")).changes == []


def test_stages_run_in_order() -> None:
    seen: list[str] = []
    rules = [rule(sub_for_neg, "Neg", stage="fuse"), rule(neg_for_sub, "Sub", stage="clean")]
    report = run(opened(CHAIN), *rules, observe=seen.append)
    assert seen == ["clean", "compat", "fuse"]
    assert [change.rule for change in report.changes] == ["sub_for_neg"]


# -- what is not kept ------------------------------------------------------------------------------


def test_a_failed_change_is_refused_once_and_saved(tmp_path: Path) -> None:
    calls = []

    def wrong(node: Node) -> Any:
        calls.append(node.name)
        return op.Abs(node.inputs[0])

    model = opened(CHAIN)
    before = model.to_proto()
    (drop,) = [r for r in load_rules() if r.id == "drop_identity"]
    report = run(model, rule(wrong, "Neg"), drop, reproducers=tmp_path)
    assert model.to_proto() == before
    assert report.changes == []
    (refused,) = report.rejected
    assert (refused.rule, refused.node, refused.proof.verdict) == ("wrong", "b", "failed")
    assert len(calls) == 1
    assert refused.reproducer is not None
    one, other = (Path(refused.reproducer) / name for name in ("before.onnx", "after.onnx"))
    feeds = {name: np.full((2, 4), 3, F) for name in ort.load(one).inputs}
    assert ort.load(one).run(feeds)[0][0, 0] == -3
    assert ort.load(other).run(feeds)[0][0, 0] == 3
    assert refused.told().to_dict()["reproducer"] == refused.reproducer


def test_reproducers_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for count in (1, 2, 3):
        run(opened(CHAIN), rule(wrong_neg, "Neg"), reproducers=tmp_path)
        assert len(list(tmp_path.iterdir())) == count


def raises(node: Node) -> Any:
    raise KeyError("oh")


@pytest.mark.parametrize(
    "answer", [42, "text", [1], {5: "x"}, {0: 3}, {0: None}, {"a": None}, {7: np.zeros(1, F)}], ids=repr
)
def test_an_answer_that_is_no_value_is_refused(answer: Any) -> None:
    def odd(node: Node) -> Any:
        return answer

    model = opened(CHAIN)
    report = run(model, rule(odd, "Neg"))
    assert report.changes == []
    assert "not valid" in report.rejected[0].proof.why
    assert report.rejected[0].rule == "odd"


@pytest.mark.parametrize("prove", ["always", "when-possible", "never"])
def test_an_invalid_replacement_is_refused(prove: Any) -> None:
    def too_new(node: Node) -> Any:
        return op.Gelu(node.inputs[0])

    def too_many(node: Node) -> Any:
        return op.Relu(node.inputs[0], node.inputs[0])

    report = run(opened(CHAIN), rule(too_new, "Neg"), rule(too_many, "Exp"), rule(raises, "Abs"), prove=prove)
    assert report.changes == []
    why = {entry.rule: entry.proof.why for entry in report.rejected}
    assert "no operator Gelu" in why["too_new"]
    assert "takes 1 to 1 inputs" in why["too_many"]
    assert "KeyError" in why["raises"]


def test_near_misses_say_why_and_of_what_is_left() -> None:
    (drop,) = [r for r in load_rules() if r.id == "drop_identity"]

    def guarded(node: Node) -> Any:
        raise Skip("because I say so")

    model = opened("g (float[2] x) => (float[2] y) { a = Identity (x)  b = Neg (a)  y = Exp (b) }")
    report = run(model, rule(guarded, "Identity", "Neg"), drop)
    assert [(m.rule, m.node, m.reason) for m in report.near_misses] == [("guarded", "b", "because I say so")]


# -- how much proof --------------------------------------------------------------------------------

UNKNOWN = """<ir_version: 8, opset_import: ["" : 17, "org.example" : 1]>
    g (float[N, 4] x) => (float[N, 4] y) { a = org.example.Mine (x)  b = Neg (a)  y = Exp (b) }"""


@pytest.mark.parametrize(("prove", "kept"), [("always", 0), ("when-possible", 1), ("never", 1)])
def test_what_cannot_be_proved(prove: Any, kept: int) -> None:
    model = Model.open(onnx.parser.parse_model(UNKNOWN))
    report = run(model, rule(sub_for_neg, "Neg"), prove=prove)
    assert len(report.changes) == kept
    assert len(report.rejected) == 1 - kept
    (entry,) = report.changes + report.rejected
    assert entry.proof.verdict == "unproven"
    assert entry.proof.why
    assert entry.reproducer is None


@pytest.mark.parametrize(("prove", "kept"), [("always", 0), ("when-possible", 0), ("never", 1)])
def test_what_is_wrong(prove: Any, kept: int) -> None:
    assert len(run(opened(CHAIN), rule(wrong_neg, "Neg"), prove=prove).changes) == kept


# -- a user's rules --------------------------------------------------------------------------------

GOOD = '''"""Turn Neg into Sub.

Why not.
"""
import numpy as np
from onnxq.rule import Fires, Node, Skips, op, rule

@rule("Neg", stage="compat")
def {name}(node: Node):
    return {result}

EXAMPLES = [Fires(lambda: None), Skips(lambda: None)]
'''
SUB = "op.Sub(np.float32(-0.0), node.inputs[0])"


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def chain() -> onnx.ModelProto:
    return onnx.parser.parse_model(H + CHAIN)


def test_a_user_s_rule_fires(tmp_path: Path) -> None:
    rules = folder(tmp_path, mine=GOOD.format(name="mine", result=SUB), _helper="raise RuntimeError")
    result = sanitize(chain(), rules=[rules])
    assert [c["rule"] for c in result.report["changes"]] == ["mine"]
    assert result.report["changes"][0]["proof"]["verdict"] == "exact"
    assert [n.op_type for n in result.model.graph.node] == ["Abs", "Sub", "Exp"]


def test_a_user_s_wrong_rule_changes_nothing(tmp_path: Path) -> None:
    wrong = GOOD.format(name="mine", result="op.Abs(node.inputs[0])")
    result = sanitize(chain(), rules=[folder(tmp_path, mine=wrong)])
    assert result.report["changes"] == []
    assert [n.op_type for n in result.model.graph.node] == ["Abs", "Neg", "Exp"]


def test_a_rule_that_writes_into_weights_is_refused(tmp_path: Path) -> None:
    text = '''"""Not pure."""
from onnxq.rule import Node, op, rule

@rule("Mul", stage="clean")
def impure(node: Node):
    values = node.inputs[1].constant
    values *= 2
'''
    model = onnx.parser.parse_model(
        H + "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add (w, w)  y = Mul (x, a) }"
    )
    result = sanitize(model, rules=[folder(tmp_path, impure=text)])
    (out,) = ort.load(result.model).run({"x": np.array([1, 1], F)})
    assert out.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:", "does not load: SyntaxError"),
        ("import nothing_of_this_name", "does not load: ModuleNotFoundError"),
        ("x = 1", "has 0 rules"),
        (
            GOOD.format(name="a", result=SUB) + "\nb = rule('Abs', stage='clean')(lambda n: None)",
            "has 2 rules",
        ),
        (GOOD.format(name="a", result=SUB).replace("node: Node", "node: Node, extra"), "must take one node"),
        (GOOD.format(name="inline_if", result=SUB), "two rules are called 'inline_if'"),
    ],
)
def test_a_rule_file_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sanitize(chain(), rules=[folder(tmp_path, mine=text)])


def test_a_folder_without_rules(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no rule in folder"):
        sanitize(chain(), rules=[tmp_path])
    with pytest.raises(UserError, match="no rules folder"):
        sanitize(chain(), rules=[tmp_path / "missing"])


@pytest.mark.parametrize("flag", ["enable", "skip"])
def test_a_rule_that_does_not_exist_names_the_nearest(flag: str) -> None:
    with pytest.raises(UserError, match="drop_idenity") as info:
        sanitize(chain(), **{flag: ["drop_idenity"]})  # type: ignore[arg-type]
    assert "drop_identity" in info.value.hint


def test_a_skipped_rule_does_not_fire() -> None:
    model = onnx.parser.parse_model(
        H + "g (float[2] x) => (float[2] y) { a = Abs (x)  b = Identity (a)  y = Exp (b) }"
    )
    assert len(sanitize(model).model.graph.node) == 2
    assert len(sanitize(model, skip=["drop_identity"]).model.graph.node) == 3


# -- order and repetition --------------------------------------------------------------------------

MIXED = """g (float[N, 2, 4, 4] x, bool c) => (y, z) <float[3, 2, 1, 1] w = {1, 2, 3, -4, 0.5, 0},
        float[3] s = {1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] m = {0.5, 0, -0.25},
        float[3] v = {1, 4, 0.25},
        float k = {2}, float one = {1}, int64 axis = {1}, int64[1] rest = {-1},
        int64[1] at = {0}, bool t = {1}> {
    i = Identity (x)  u = Mul (i, one)  q = Conv (u, w)  b = BatchNormalization (q, s, o, m, v)
    d = Mul (b, k)  e = Add (d, one)  r = Relu (e)  dead = Exp (r)
    sh = Shape (r)  n = Gather (sh, axis)  n1 = Unsqueeze (n, at)  to = Concat <axis = 0> (rest, n1)
    f = Reshape (r, to)
    g1 = If (t) <then_branch = b1 () => (p) { h = Identity (f)  p = Neg (h) },
                 else_branch = b2 () => (p) { p = Abs (f) }>
    z = If (c) <then_branch = b3 () => (p) { h = Identity (g1)  p = Mul (h, one) },
                else_branch = b4 () => (p) { p = Neg (g1) }>
    y = Identity (g1) }"""


def test_the_order_of_rules_does_not_matter() -> None:
    rules = [r for r in load_rules() if r.stage != "place"]
    results = []
    for seed in range(6):
        shuffled = list(rules)
        random.Random(seed).shuffle(shuffled)
        model = opened(MIXED)
        report = run(model, *shuffled)
        assert report.rejected == []
        results.append(model.to_proto())
    ops = [sorted(n.op_type for n in result.graph.node) for result in results]
    assert ops[0] == sorted(["Conv", "Relu", "Reshape", "Neg", "If"])
    assert all(names == ops[0] for names in ops)
    for result in results[1:]:
        weights = [
            {t.name: onnx.numpy_helper.to_array(t) for t in r.graph.initializer} for r in (results[0], result)
        ]
        assert sorted(a.tobytes() for a in weights[0].values()) == sorted(
            a.tobytes() for a in weights[1].values()
        )


def test_sanitize_is_idempotent_and_leaves_its_input_alone() -> None:
    proto = onnx.parser.parse_model(H + MIXED)
    before = proto.SerializeToString(deterministic=True)
    once = sanitize(proto)
    assert proto.SerializeToString(deterministic=True) == before
    assert once.report["changes"]
    again = sanitize(once.model)
    assert again.report["changes"] == []
    assert again.model == once.model
    twice = sanitize(proto)
    assert twice.model.SerializeToString(deterministic=True) == once.model.SerializeToString(
        deterministic=True
    )


CORPUS = os.environ.get("ONNXQ_CORPUS")
REAL = ("silero_vad", "gtcrn_simple", "ppocr_cls_v2", "light_densenet121", "tract_qlstm", "yunet_120x160")


@pytest.mark.skipif(not CORPUS, reason="ONNXQ_CORPUS is not set")
@pytest.mark.parametrize("name", REAL)
def test_real_models_are_sanitized_once(name: str) -> None:
    once = sanitize(Path(str(CORPUS), "models", f"{name}.onnx"))
    failed = [c for c in once.report["changes"] if c["proof"]["verdict"] == "failed"]
    assert failed == []
    again = sanitize(once.model)
    assert [c["rule"] for c in again.report["changes"]] == []


def test_pairs_of_rules_alone_do_what_they_do_together() -> None:
    rules = [r for r in load_rules() if r.stage == "clean"]
    for pair in itertools.combinations(rules, 2):
        model = opened(MIXED)
        assert run(model, *pair).rejected == []
        onnx.checker.check_model(model.to_proto())


@pytest.mark.parametrize("pool", ["", "p = MaxPool <kernel_shape = [2], strides = [2]> (x)"])
def test_a_squeezed_dimension_of_another_size_is_refused_at_run_time(pool: str) -> None:
    source = "p" if pool else "x"
    proto = onnx.parser.parse_model(
        H
        + f"""g (float[B, 2, N] x) => (y)
        <int64 one = {{1}}, int64[1] axis = {{2}}, float[2, 2] w = {{1, 2, 3, 4}}> {{ {pool}
            s = Shape ({source})  d = Gather (s, axis)  c = Equal (d, one)
            t = If (c) <then_branch = b1 () => (a) {{ a = Squeeze ({source}, axis) }},
                        else_branch = b2 () => (b) {{ b = Identity ({source}) }}>
            y = Gemm (t, w) }}"""
    )
    repaired = sanitize(proto).model
    assert "If" not in {node.op_type for node in repaired.graph.node}
    session, right = ort.load(repaired), 2 if pool else 1
    assert session.run({"x": np.zeros((3, 2, right), F)})[0].shape == (3, 2)
    with pytest.raises(ort.RunError):
        session.run({"x": np.zeros((3, 2, 2 * right), F)})
