"""The proof finds what is wrong: at one value only, for one size only, at the boundary only."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from said import is_said

import onnxq
from onnxq.graph.edit import Editor
from onnxq.graph.model import Model
from onnxq.graph.snippet import Snippet
from onnxq.graph.view import Node
from onnxq.rewrite import proof as proving
from onnxq.rewrite import prover, sampling
from onnxq.rewrite.difference import EXACT, Claim, difference
from onnxq.rewrite.engine import RewriteReport, rewrite
from onnxq.rewrite.oracle import Oracle, Truth, oracle
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.prover import Prover
from onnxq.rewrite.reproducer import save_reproducer
from onnxq.rewrite.whole import Differs, WholeModel
from onnxq.rule import Close, op
from onnxq.rule.api import Rule
from onnxq.run import ort, reference

H = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
F = np.float32
INF, NAN = F(np.inf), F(np.nan)


def opened(text: str) -> Model:
    return Model.open(onnx.parser.parse_model(H + text))


def prove(text: str, replacement: Callable[[Node], Any], claim: Claim = EXACT) -> Proof:
    """The proof of a replacement of the node named `n`."""
    model = opened(text)
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    return Prover().prove(model, node, {0: replacement(node)}, claim)[0]


def wrong_where(node: Node, condition: Any, instead: Any = 7.0) -> Any:
    """The node again, but `instead` where a condition on its input holds."""
    x = node.inputs[0]
    again = op.Identity(x) if node.op == "Identity" else getattr(op, node.op)(*node.inputs)
    return op.Where(condition(x), np.asarray(instead, x.dtype if x is not None else None), again)


# -- wrong at one value ----------------------------------------------------------------------------

AT: dict[str, Callable[[Any], Any]] = {
    "nan": lambda x: op.IsNaN(x),
    "inf": lambda x: op.Equal(x, INF),
    "-inf": lambda x: op.Equal(x, -INF),
    "+0": lambda x: op.Equal(op.Div(F(1), x), INF),
    "-0": lambda x: op.Equal(op.Div(F(1), x), -INF),
    "1": lambda x: op.Equal(x, F(1)),
    "0.5": lambda x: op.Equal(x, F(0.5)),
    "6": lambda x: op.Equal(x, F(6)),
    "max": lambda x: op.Equal(x, np.finfo(F).max),
    "lowest": lambda x: op.Equal(x, np.finfo(F).min),
    "tiny": lambda x: op.Equal(x, np.finfo(F).tiny),
    "large": lambda x: op.Greater(op.Abs(x), F(10)),
}
SHAPES = ("1", "2", "2, 3", "N", "5, N", "64, 33", "1, 3, 40, 40")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("at", AT)
def test_a_change_wrong_at_one_value_only(at: str, shape: str) -> None:
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ [n] a = Abs (x)  y = Relu (a) }}"
    if at == "large" and shape in ("1", "2", "2, 3"):
        pytest.skip("an ordinary value, of which a small input holds few")
    found = prove(text, lambda n: wrong_where(n, AT[at]))
    assert found.verdict == "failed", found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_right_change_is_exact(shape: str) -> None:
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ [n] a = Abs (x)  y = Relu (a) }}"
    assert prove(text, lambda n: wrong_where(n, lambda x: op.Less(x, x))).verdict == "exact"


def test_min_is_not_clip() -> None:
    text = "g (float[N] x) => (float[N] y) <float high = {0.5}> { [n] a = Clip (x, , high)  y = Abs (a) }"
    found = prove(text, lambda n: op.Min(n.inputs[0], n.inputs[2]))
    low = np.finfo(F).min
    assert found.verdict == "failed", "Clip without a minimum takes -inf to the lowest number"
    assert prove(text, lambda n: op.Clip(n.inputs[0], low, n.inputs[2])).verdict == "exact"


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("edge", ["min", "max"])
@pytest.mark.parametrize("shape", ["1", "N", "40"])
def test_a_change_wrong_at_an_integer_s_boundary(kind: str, edge: str, shape: str) -> None:
    text = f"g ({kind}[{shape}] x) => ({kind}[{shape}] y) {{ [n] a = Abs (x)  y = Identity (a) }}"
    value = getattr(np.iinfo(kind), edge)
    if value == 0:
        pytest.skip("0 is no boundary of its own")
    found = prove(text, lambda n: wrong_where(n, lambda x: op.Equal(x, np.array(value, kind)), 1))
    assert found.verdict == "failed", found


def test_two_equal_inputs_are_tried() -> None:
    text = "g (float[4] x, float[4] z) => (bool[4] y) { [n] a = Less (x, z)  y = Not (a) }"
    found = prove(text, lambda n: op.Not(op.Greater(*n.inputs)))
    assert found.verdict == "failed"
    for value in (INF, F(0), F(1), np.finfo(F).max):

        def both(n: Node, value: Any = value) -> Any:
            same = op.And(op.Equal(n.inputs[0], value), op.Equal(n.inputs[1], value))
            return op.Or(op.Less(*n.inputs), same)

        assert prove(text, both).verdict == "failed", value


def test_both_values_of_a_boolean_are_tried() -> None:
    text = "g (bool c, float[2] x) => (float[2] y) { [n] a = Where (c, x, x2)  y = Relu (a) }".replace(
        "x2", "x"
    )
    text = text.replace("Where (c, x, x)", "Where (c, x, k)").replace(") {", ") <float k = {3}> {", 1)
    for wrong in (lambda n: op.Add(n.inputs[1], F(0)), lambda n: op.Expand(n.inputs[2], np.array([2]))):
        assert prove(text, wrong).verdict == "failed"


# -- wrong for one size ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "wrong"),
    [
        (
            "N, 4",
            lambda n: op.Squeeze(op.Unsqueeze(op.ReduceMax(n.inputs[0], axes=[0], keepdims=0), [0]), []),
        ),
        ("N, 4", lambda n: op.Slice(n.inputs[0], np.array([0]), np.array([3]))),
        ("N, 4", lambda n: op.Slice(n.inputs[0], np.array([0]), np.array([1]))),
        ("N, M", lambda n: op.Reshape(n.inputs[0], np.array([3, 3]))),
        ("N, M", lambda n: op.Transpose(op.Transpose(n.inputs[0], perm=[1, 0]), perm=[0, 1])),
        (
            "N, 4",
            lambda n: op.Expand(op.ReduceMean(n.inputs[0], axes=[0], keepdims=1), op.Shape(n.inputs[0])),
        ),
    ],
)
def test_a_change_wrong_but_for_one_size(shape: str, wrong: Callable[[Node], Any]) -> None:
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ [n] a = Identity (x)  y = Relu (a) }}"
    assert prove(text, wrong).verdict == "failed"


def test_a_change_wrong_only_for_size_one() -> None:
    text = "g (float[N, 3] x) => (float[N, 3] y) { [n] a = Neg (x)  y = Relu (a) }"

    def wrong(n: Node) -> Any:
        size = op.Cast(op.Equal(op.Gather(op.Shape(n.inputs[0]), 0), 1), to=1)
        return op.Sub(op.Neg(n.inputs[0]), size)

    assert prove(text, wrong).verdict == "failed"


def test_dynamic_dimensions_have_several_sizes() -> None:
    text = "g (float[N, 3] x, float[M] z) => (float[N, 3] y) { [n] a = Neg (x)  y = Relu (a) }"
    found = prove(text, lambda n: op.Sub(F(-0.0), n.inputs[0]))
    assert found.verdict == "exact"
    assert found.bindings >= 3
    inputs = [("x", np.dtype(F), ("N", 3, "M")), ("z", np.dtype(F), ("M", "N"))]
    for first, second in sampling.bindings(inputs, {}):
        assert (first[0], first[2]) == (second[1], second[0]), "one symbol has one size"
    assert {first[0] == 1 for first, _ in sampling.bindings(inputs, {})} == {True, False}


def test_what_ran_with_one_size_only_is_not_proved() -> None:
    text = """g (float[N, 3] x) => (y) <int64[2] s = {3, 3}> { [n] a = Reshape (x, s)  y = Relu (a) }"""
    found = prove(text, lambda n: op.Reshape(n.inputs[0], np.array([-1, 3])))
    assert (found.verdict, found.bindings) == ("unproven", 1)
    assert "one size" in found.why


def test_samples_hold_what_breaks_rules() -> None:
    for kind, wanted in {"special": ("nan", "inf", "-inf"), "boundary": ("-0", "max", "tiny")}.items():
        values = sampling.sample(np.dtype(F), (4, 50), kind, 3).reshape(-1)
        for name in wanted:
            test = {
                "nan": np.isnan(values), "inf": values == np.inf, "-inf": values == -np.inf,
                "-0": (values == 0) & np.signbit(values), "max": values == np.finfo(F).max,
                "tiny": values == np.finfo(F).tiny,
            }[name]  # fmt: skip
            assert test.any(), (kind, name)


# -- numbers that stand in the graph ---------------------------------------------------------------

CROPPED = "g (float[N, %s] x) => (float[N, %s] y) <int64[1] b = {0}, int64[1] e = {%d}, int64[1] a = {%d}> {"
CROPPED += " [n] r = Slice (x, b, e, a)  y = Neg (r) }"


@pytest.mark.parametrize(
    ("width", "end", "axis", "verdict"),
    [
        ("4", 5000, 0, "failed"),
        ("4", 2**63 - 1, 0, "exact"),
        ("4", 2**31 - 1, 0, "exact"),
        ("4", 3_000_000, 0, "unproven"),
        ("4", 3_000_000, 1, "exact"),
        ("400000", 1000, 0, "unproven"),
        ("400000", 500000, 1, "exact"),
    ],
)
def test_a_number_that_no_sample_reaches_is_named(width: str, end: int, axis: int, verdict: str) -> None:
    found = prove(CROPPED % (width, width, end, axis), lambda n: n.inputs[0])
    assert found.verdict == verdict
    assert (f"a size of {end}," in found.why) == (verdict == "unproven")


@pytest.mark.parametrize("value", [0.3, -77.25, 4242.0])
@pytest.mark.parametrize("shape", ["1", "N", "5, N", "2, 3, 40, 40"])
def test_a_change_wrong_beside_a_number_of_the_graph(value: float, shape: str) -> None:
    head = f"g (float[{shape}] x) => (float[{shape}] y) <float c = {{{value}}}>"
    text = head + " { [n] a = PRelu (x, c)  y = Abs (a) }"
    near = np.nextafter(F(value), F(np.inf))
    for number in (F(value), near):
        found = prove(text, lambda n, number=number: wrong_where(n, lambda x: op.Equal(x, number)))
        assert found.verdict == "failed", number


def test_a_part_that_seldom_runs_proves_nothing_alone() -> None:
    text = """g (float[N, 4] x) => (y) <int64[1] most = {8}, int64[1] rest = {-1}> {
        s = Shape <start = 0, end = 1> (x)  m = Min (s, most)  t = Concat <axis = 0> (m, rest)
        [n] r = Reshape (x, t)  y = Neg (r) }"""
    assert prove(text, lambda n: n.inputs[0]).verdict == "failed"


# -- reasons upstream ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "verdict"), [("Abs", "exact"), ("Relu", "exact"), ("Neg", "failed"), ("Floor", "failed")]
)
def test_the_cut_grows_upstream_of_what_the_replacement_reads(first: str, verdict: str) -> None:
    text = f"g (float[N, 4] x) => (y) {{ a = {first} (x)  b = Sqrt (a)  [n] r = Relu (b)  y = Neg (r) }}"
    found = prove(text.replace("Sqrt", "Identity"), lambda n: n.inputs[0])
    assert found.verdict == verdict


def test_what_fails_near_is_no_better_where_more_of_it_does_not_run() -> None:
    text = "g (float[N, 4] x) => (y) { a = Mystery (x)  b = Floor (a)  [n] r = Relu (b)  y = Neg (r) }"
    model = opened(text)
    for tensor in model.graph.tensors().values():
        tensor.dtype, tensor.shape = np.dtype(F), ("N", 4)
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    assert Prover().prove(model, node, {0: node.inputs[0]}, EXACT)[0].verdict == "failed"


# -- the bound of `close` --------------------------------------------------------------------------

EPS = float(np.finfo(F).eps)
CLOSE = Claim(close=True)
TANH = "g (float[N, 8] x) => (float[N, 8] y) { [n] a = Tanh (x)  y = Relu (a) }"


@pytest.mark.parametrize(("steps", "verdict"), [(0, "close"), (2, "close"), (40, "failed"), (400, "failed")])
def test_close_means_little_further_from_double_precision(steps: int, verdict: str) -> None:
    off = F(1 + steps * EPS)
    found = prove(TANH, lambda n: op.Mul(op.Tanh(n.inputs[0]), off), CLOSE)
    assert found.verdict == verdict, found
    assert (found.max_abs <= found.bound) == (verdict == "close")


def test_close_is_never_exact() -> None:
    assert prove(TANH, lambda n: op.Tanh(n.inputs[0]), CLOSE).verdict == "close"
    assert prove(TANH, lambda n: op.Tanh(n.inputs[0])).verdict == "exact"


def test_a_channel_is_off_by_what_its_own_values_allow() -> None:
    text = """g (float[N, 2] x) => (float[N, 2] y) <float[2] c = {1, 1e-7}> {
        a = Tanh (x)  [n] b = Mul (a, c)  y = Relu (b) }"""
    quiet = np.array([1, 1.001e-7], F)
    assert prove(text, lambda n: op.Mul(n.inputs[0], quiet), CLOSE).verdict == "failed"


_SUMMED = """g (float[N, 6, 3, 3] x) => (y) <float[4, 6, 1, 1] w = {%s}, float[4] b = {%s},
    float[4] s = {1, 2, 3, 4}, float[4] o = {0, 1, 0, 1}, float[4] v = {1, 2, 3, 4}> {
    c = Conv (x, w, b)  [n] r = BatchNormalization (c, s, o, b, v)  y = Neg (r) }"""


@pytest.mark.parametrize("bias", [0.0, 1.0, 1e6])
@pytest.mark.parametrize(("slip", "verdict"), [(0.0, "close"), (1e-4, "failed")])
def test_a_mean_that_cancels_the_sum_is_folded(bias: float, slip: float, verdict: str) -> None:
    weights = np.sin(np.arange(24, dtype=F)).reshape(4, 6, 1, 1)
    text = _SUMMED % (", ".join(f"{value:.7f}" for value in weights.ravel()), ", ".join([f"{bias}"] * 4))

    def folded(node: Node) -> Any:
        source = node.inputs[0]
        assert source is not None
        assert source.producer is not None
        x, w, _ = source.producer.inputs
        assert w is not None
        assert w.constant is not None
        factor = np.array([1, 2, 3, 4], F) / np.sqrt(np.array([1, 2, 3, 4]) + 1e-5)
        scaled = w.constant * factor.reshape(4, 1, 1, 1) * (1 + slip)
        return op.Conv(x, scaled.astype(F), np.array([0, 1, 0, 1], F))

    assert prove(text, folded, CLOSE).verdict == verdict


@pytest.mark.parametrize("at", ["nan", "inf", "-inf"])
def test_close_is_strict_about_nan_and_infinity(at: str) -> None:
    text = "g (float[N, 8] x) => (float[N, 8] y) { [n] a = Abs (x)  y = Relu (a) }"
    assert prove(text, lambda n: wrong_where(n, AT[at]), CLOSE).verdict == "failed"


def test_close_says_nothing_of_integers() -> None:
    text = "g (int64[N] x) => (int64[N] y) { [n] a = Abs (x)  y = Neg (a) }"
    assert prove(text, lambda n: op.Add(op.Abs(n.inputs[0]), 1), CLOSE).verdict == "failed"


# -- other shapes and types ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n: op.Cast(op.Abs(n.inputs[0]), to=11),
        lambda n: op.Unsqueeze(op.Abs(n.inputs[0]), np.array([0])),
        lambda n: op.Reshape(op.Abs(n.inputs[0]), np.array([-1])),
        lambda n: op.Gather(op.Abs(n.inputs[0]), np.array([5]), axis=0),
    ],
)
def test_another_type_or_shape_fails(wrong: Callable[[Node], Any]) -> None:
    text = "g (float[3, 4] x) => (float[3, 4] y) { [n] a = Abs (x)  y = Relu (a) }"
    assert prove(text, wrong).verdict == "failed"


def test_equal_snippets_are_proved_once() -> None:
    lines = "".join(f"[n{i}] a{i + 1} = Neg (a{i}) " for i in range(40))
    model = opened(f"g (float[N, 4] a0) => (float[N, 4] y) {{ {lines} y = Relu (a40) }}")
    prover = Prover()
    for raw in model.graph.nodes[:-1]:
        node = Node(model, raw)
        assert prover.prove(model, node, {0: op.Sub(F(-0.0), node.inputs[0])}, EXACT)[0].verdict == "exact"
    assert prover.runs == 1
    last = Node(model, model.graph.nodes[0])
    assert prover.prove(model, last, {0: op.Sub(F(0.0), last.inputs[0])}, EXACT)[0].verdict == "failed"
    assert prover.runs == 2


def test_an_assumption_proves_nothing_of_another_dimension() -> None:
    model = opened(
        "g (float[2, N] x, float[2, M] z) => (float[2] y, float[2] w) "
        "{ [n] a = ReduceMax <axes = [1], keepdims = 0> (x)  y = Relu (a) "
        "  [m] b = ReduceMax <axes = [1], keepdims = 0> (z)  w = Relu (b) }"
    )
    model.assumed["N"] = 1
    prover = Prover()
    nodes = {str(raw.name): Node(model, raw) for raw in model.graph.nodes}
    verdicts = [
        prover.prove(model, nodes[name], {0: op.Gather(nodes[name].inputs[0], 0, axis=1)}, EXACT)[0].verdict
        for name in ("n", "m")
    ]
    assert verdicts == ["exact", "failed"]


# -- the whole model -------------------------------------------------------------------------------


def test_a_broken_edit_is_found_by_the_whole_model() -> None:
    model = opened("g (float[N, 4] x) => (float[N, 4] y) { a = Abs (x)  [n] b = Neg (a)  y = Exp (b) }")
    whole = WholeModel(model)
    editor = Editor(model)
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    editor.replace(node, {0: op.Neg(op.Mul(node.inputs[0], F(1.001)))})
    editor.finish()
    with pytest.raises(Differs, match=r"outputs change by up to 0\.\d+ \("):
        whole.compare(model, "fuse", exact=True)
    assert whole.compare(opened_again(model), "fuse", exact=False).verdict == "close"


@pytest.mark.parametrize(
    ("factor", "steps", "kept"), [(1.01, False, False), (1.01, True, True), (1.1, True, False)]
)
def test_codes_that_are_a_step_off_leave_more_room_to_the_whole_model(
    factor: float, steps: bool, kept: bool
) -> None:
    """40 dB is what steps do, and nothing else does; 20 dB is more than they do."""
    model = opened("g (float[N, 4] x) => (float[N, 4] y) { a = Abs (x)  [n] y = Neg (a) }")
    whole = WholeModel(model)
    editor = Editor(model)
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    editor.replace(node, {0: op.Neg(op.Mul(node.inputs[0], F(factor)))})
    editor.finish()
    if kept:
        assert whole.compare(model, "compat", exact=False, steps=steps).verdict == "close"
    else:
        with pytest.raises(Differs, match="outputs change"):
            whole.compare(model, "compat", exact=False, steps=steps)


def test_where_sums_on_the_way_may_cancel_large_inputs_may_overflow_but_not_be_wrong() -> None:
    one, truth = np.array([1, 2], F), np.array([1.0, 2.0])
    within, flat = (Truth(truth, truth, 1.0, -1, cancels=cancels) for cancels in (True, False))
    lost, wrong = np.array([1, NAN], F), np.array([1, 3], F)
    close = Claim(close=True)
    assert not difference(one, lost, close, within, finite=True, extreme=True).wrong
    assert difference(one, lost, close, flat, finite=True, extreme=True).wrong
    assert difference(one, lost, close, within, finite=True).wrong
    assert difference(one, wrong, close, within, finite=True, extreme=True).wrong


def opened_again(model: Model) -> Model:
    return Model.open(model.to_proto())


def test_a_model_that_does_not_run_any_more_differs() -> None:
    model = opened("g (float[2, 4] x) => (float[2, 4] y) { [n] a = Abs (x)  y = Exp (a) }")
    whole = WholeModel(model)
    editor = Editor(model)
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    editor.replace(node, {0: op.Reshape(node.inputs[0], np.array([3]))})
    editor.finish()
    with pytest.raises(Differs, match="does not run any more"):
        whole.compare(model, "clean", exact=True)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_what_meets_a_bound_of_memory_proves_nothing() -> None:
    """The bound is ours: that the rewritten model meets it is no fault of the rules."""
    model = opened("g (float[2, 4] x) => (float[2, 4] y) { [n] a = Abs (x)  y = Exp (a) }")
    whole = WholeModel(model)
    editor = Editor(model)
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    large = op.Expand(op.ReduceMax(node.inputs[0], keepdims=0), np.array([1_500_000_000]))
    editor.replace(node, {0: op.Max(op.Abs(node.inputs[0]), op.ReduceMin(large, keepdims=0))})
    editor.finish()
    with ort.made_up():
        proof = whole.compare(model, "clean", exact=True)
    assert proof.verdict == "unproven"
    assert "the rewritten model: Expand node 'n_Expand' makes" in proof.why


BRANCHES = """g (float[N, 4] x, bool flag) => (float[N, 4] y) {
    y = If (flag) <then_branch = t () => (float[N, 4] a) { [one] a = Abs (x) },
                   else_branch = e () => (float[N, 4] b) { [other] b = Neg (x) }> }"""
LOOPS = """g (float[N, 4] x, int64 steps) => (float[N, 4] y) <bool yes = {1}> {
    y = Loop (steps, yes, x) <body = b (int64 i, bool on, float[N, 4] v) => (bool c, float[N, 4] w) {
        c = Identity (on)  [one] a = Abs (v)  w = Mul (a, a) }> }"""


@pytest.mark.parametrize(("text", "name"), [(BRANCHES, "one"), (BRANCHES, "other"), (LOOPS, "one")])
def test_the_whole_model_is_compared_in_every_branch_and_with_turns_of_its_loops(
    text: str, name: str
) -> None:
    model = opened(text)
    whole = WholeModel(model)
    assert whole.compare(opened(text), "clean", exact=True).verdict == "exact"
    editor = Editor(model)
    (node,) = [Node(model, n) for graph in model.graphs() for n in graph.nodes if n.name == name]
    editor.replace(node, {0: op.Exp(node.inputs[0])})
    editor.finish()
    with pytest.raises(Differs, match="outputs change"):
        whole.compare(model, "clean", exact=True)


def test_what_stands_behind_a_loop_is_proved_with_it() -> None:
    """Its result has no rank that is known: with the Loop in front both sides run."""
    model = opened("""g (float[N, 4] x, int64 steps) => (float[N, 4] y)
        <bool yes = {1}, float two = {2}> {
        s = Shape (x)  zeros = ConstantOfShape (s)
        a, b = Loop (steps, yes, zeros, x) <
            body = body (int64 i, bool on, float u, float v) => (bool c, float p, float q) {
                c = Identity (on)  t = Cast <to = 1> (i)  q = Add (v, t)  p = Add (u, q) }>
        [n] y = Mul (a, two) }""")
    (node,) = [Node(model, n) for n in model.graph.nodes if n.name == "n"]
    a, two = node.inputs
    assert a.rank is None
    proof, _ = Prover().prove(model, node, {0: op.Mul(two, a)}, EXACT)
    assert (proof.verdict, proof.inputs > 0) == ("exact", True), proof.why


def test_random_models_are_not_compared_whole() -> None:
    text = "g (float[4] x) => (float[4] y) { i = Identity (x)  r = RandomNormalLike (i)  y = Add (x, r) }"
    model = opened(text)
    rule = Rule("drop", lambda node: node.inputs[0], ("Identity",), "clean")
    report = rewrite(model, [rule], lambda feature: True, whole=WholeModel(model))
    assert len(report.changes) == 1
    assert report.whole[0].verdict == "unproven"


def fired(report: RewriteReport) -> list[str]:
    return [change.rule for change in report.changes]


def test_an_assumption_of_a_refused_change_does_not_last() -> None:
    from onnxq.rule import Assuming

    model = opened("g (float[N, 4] x) => (float[N, 4] y) { [n] a = Abs (x)  y = Exp (a) }")
    wrong = Rule("wrong", lambda n: Assuming(op.Neg(n.inputs[0]), "N", 1, "me"), ("Abs",), "clean")
    report = rewrite(model, [wrong], lambda feature: True)
    assert fired(report) == []
    assert len(report.rejected) == 1
    assert model.assumed == {}
    assert report.assumptions == []
    right = Rule("right", lambda n: Assuming(op.ReduceMax(n.inputs[0]), "N", 1, "me"), ("Exp",), "clean")
    assert rewrite(model, [right], lambda feature: True).changes == []


def test_close_is_asked_for_by_the_rule() -> None:
    text = "g (float[N, 8] x) => (float[N, 8] y) { [n] a = Tanh (x)  y = Relu (a) }"
    off = F(1 + 3 * EPS)
    for answer, kept in ((lambda v: v, 0), (lambda v: Close(v, 1), 1)):
        model = opened(text)

        def function(node: Node, answer: Any = answer) -> Any:
            fresh = node.inputs[0] is not None and node.inputs[0].is_input
            return answer(op.Mul(op.Tanh(node.inputs[0]), off)) if fresh and node.name == "n" else None

        rule = Rule("r", function, ("Tanh",), "clean")
        report = rewrite(model, [rule], lambda feature: True, whole=WholeModel(model))
        assert len(report.changes) == kept
        assert ort.load(model.to_proto())


# -- loops -----------------------------------------------------------------------------------------

LOOP = """g (float[N, 4] x, int64 k) => (float[N, 4] y) <bool yes = {1}, float two = {2}> {
    [n] y = If (yes) <then_branch = t () => (float[N, 4] a) {
        a = Loop (%s, yes, x) <body = b (int64 i, bool on, float[N, 4] v) => (bool c, float[N, 4] w) {
            c = Identity (on)  w = Mul (v, two) }> },
        else_branch = e () => (float[N, 4] b) { b = Neg (x) }> }"""


def taken(node: Node) -> Any:
    return node.body("then_branch")[0]


def test_a_loop_does_not_count_to_the_largest_integer() -> None:
    assert prove(LOOP % "k", taken).verdict == "exact"


COUNTED = "g (int32 a, int32 b) => (int32[K] y) <int32 one = {1}> { [n] y = Range (a, b, one) }"
GATHERED = """g (int32[N, T] i, int32[1, T] p) => (float[N, T, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}, float[2] g = {1, 2}> {
    [n] y, c = com.microsoft.EmbedLayerNormalization (i, , w, w, , g, g, , p) }"""


@pytest.mark.parametrize(
    ("text", "again"),
    [
        (COUNTED, lambda n: op.Range(*n.inputs)),  # a Range to 2^31 takes 8 GB
        (GATHERED, lambda n: op.Gather(n.inputs[2], n.inputs[0])),  # an index out of its table may be read
    ],
    ids=["count", "trusted"],
)
def test_integers_that_count_or_are_trusted_stay_small(
    text: str, again: Callable[[Node], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Watching(ort.Session):
        def run(self, feeds: Any, outputs: Any = None, *, seconds: float | None = None) -> list[Any]:
            seen.extend(int(value) for array in feeds.values() for value in array.ravel())
            return [np.zeros((1,), np.float32)]  # it is the feeds that matter

    monkeypatch.setattr(ort, "Session", Watching)
    prove(text, again)
    assert seen
    assert min(seen) >= 0
    assert max(seen) < 100


def test_a_loop_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "_LOOP_SECONDS", 0.2)
    found = prove(LOOP % "", taken)
    assert (found.verdict, found.why) == ("unproven", "the original: it did not end in 0.2 s")


# -- what onnxruntime does not run -----------------------------------------------------------------

DILATED = """g (float[N, 2, H, W] x, float[3, 2, 3, 2] w) => (y) {
    [n] y = Conv <auto_pad = "SAME_UPPER", dilations = [2, 3]> (x, w) }"""


@pytest.mark.parametrize(
    ("pads", "verdict"), [([2, 1, 2, 2], "exact"), ([2, 2, 2, 1], "failed"), ([2, 1, 2, 3], "failed")]
)
def test_what_onnxruntime_refuses_is_compared_by_its_definition(pads: list[int], verdict: str) -> None:
    found = prove(DILATED, lambda node: op.Conv(*node.inputs, dilations=[2, 3], pads=pads))
    assert found.verdict == verdict
    assert "Dilation not supported" in found.why
    if verdict == "exact":
        assert (found.inputs, found.bindings) == (6, 2)
        assert found.why.startswith(proving.BY_DEFINITION)


HALVES = """g (float[4, 6] x, int64[1] k, float[6, 3] w) => (y)
    <int64[1] o = {0}, int64[1] a1 = {1}, int64[1] a0 = {0}> {
    u = Slice (x, o, k, a1)
    v = Slice (w, o, k, a0)
    v2 = Concat <axis = 0> (v, v)
    u2 = Concat <axis = 1> (u, u)
    [n] y = MatMul (u2, v2) }"""


def test_a_larger_part_tells_before_the_slow_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around the MatMul alone the sizes of u and v2 are unknown, and no two that are tried fit each other."""

    def twice(node: Node) -> Any:
        u = node.inputs[0].producer.inputs[0]  # type: ignore[union-attr]
        return op.MatMul(op.Concat(u, u, axis=1), node.inputs[1])

    def slow(*_: Any) -> Any:
        raise AssertionError("onnx's own evaluator was asked")

    monkeypatch.setattr(reference, "Evaluator", slow)
    assert prove(HALVES, twice).verdict == "exact"


def test_what_nobody_runs_stays_unproven() -> None:
    found = prove("g (float[N, 4] x) => (y) { [n] y = Mystery (x) }", lambda node: op.Relu(node.inputs[0]))
    assert found.verdict == "unproven"


def test_the_reference_evaluator_begins_no_run_after_its_time() -> None:
    model = onnx.parser.parse_model(H + "g (float[N] x) => (float[N] y) { y = Relu (x) }")
    feeds = {"x": np.array([-1, 2], F)}
    assert reference.Evaluator(model, 60.0).run(feeds)[0].tolist() == [0, 2]
    with pytest.raises(ort.RunError, match="the time"):
        reference.Evaluator(model, 0.0).run(feeds)


# -- what a failed proof tells ---------------------------------------------------------------------


def test_a_rejected_change_saves_the_input_on_which_it_differs(tmp_path: Path) -> None:
    model = opened("g (float[N, 4] x) => (float[N, 4] y) { [n] a = Abs (x)  y = Exp (a) }")
    wrong = Rule("wrong", lambda n: wrong_where(n, AT["6"]), ("Abs",), "clean")
    (rejected,) = rewrite(model, [wrong], lambda feature: True, reproducers=tmp_path).rejected
    assert rejected.reproducer is not None
    folder = Path(rejected.reproducer)
    saved = dict(np.load(folder / "counterexample.npz"))
    before, after = (
        ort.load(onnx.load(folder / name), optimize=False).run({"x": saved["x"]})[0]
        for name in ("before.onnx", "after.onnx")
    )
    assert np.array_equal(before, saved["before"], equal_nan=True)
    assert np.array_equal(after, saved["after"], equal_nan=True)
    assert (before[saved["x"] == 6] == 6).all()
    assert (after[saved["x"] == 6] == 7).all()
    assert is_said(
        (folder / "counterexample.txt").read_text(),
        "differs-by.element",
        after=7,
        before=6,
        inputs="x = float32[",
    )


def test_the_largest_difference_of_the_sum_is_excused_where_any_order_overflows() -> None:
    text = "g (float[N, 4] x) => (y) { [n] r = ReduceSum <keepdims = 1> (x)  y = Neg (r) }"
    halves = lambda n: op.Mul(op.ReduceSum(op.Mul(n.inputs[0], F(0.5)), keepdims=1), F(2))  # noqa: E731
    assert prove(text, halves, CLOSE).verdict == "close"
    text = "g (float[N, 4] x) => (y) { [n] r = Abs (x)  y = Neg (r) }"
    doubled = lambda n: op.Mul(op.Mul(op.Abs(n.inputs[0]), F(2)), F(0.5))  # noqa: E731
    assert prove(text, doubled, CLOSE).verdict == "failed"


@pytest.mark.skipif(os.name != "posix", reason="elsewhere there is no root of all files")
def test_what_a_weight_alone_makes_is_proved_with_the_weight_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory it was there twice: a weight of 3 GB took 6."""
    model = onnx.parser.parse_model(
        H + "g (float[4] x) => (float[4] y) { m = ReduceMax <keepdims = 0> (w)  y = Add (x, m) }"
    )
    weight = np.arange(1 << 20, dtype=F)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    proved: list[Snippet] = []
    compare = prover.compare

    def watched(snippet: Snippet, *more: Any, **settings: Any) -> Proof:
        proved.append(snippet)
        return compare(snippet, *more, **settings)

    monkeypatch.setattr(prover, "compare", watched)
    (change,) = onnxq.sanitize(tmp_path / "m.onnx").report.changes
    assert change.proof.verdict == "exact"
    (snippet,) = proved
    assert snippet.before.ByteSize() < 1000
    # whoever else reads such a part finds the weight
    assert proving.by_definition(snippet, EXACT, {}, Proof("unproven")).verdict == "exact"
    exact = oracle(snippet.before)
    assert exact is not None
    ((truth,),) = exact.run([{}])
    assert truth is not None
    assert truth.values == weight[-1]
    kept = onnx.load(save_reproducer(snippet, tmp_path / "kept", "m") / "before.onnx")
    assert ort.evaluate(kept) == [weight[-1]]


def in_double(node: str, **given: np.ndarray) -> np.ndarray:
    """What the oracle gives for one node."""
    names = ", ".join(f"{name}" for name in given)
    kinds = {"f": "double", "i": "int64"}
    typed = ", ".join(f"{kinds[a.dtype.kind]}[{','.join(map(str, a.shape))}] {n}" for n, a in given.items())
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 22]> g ({typed}) => (double y) {{ y = {node} ({names}) }}'
    )
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    ((truth,),) = Oracle(model).run([given])
    assert truth is not None
    return truth.values


def by_evaluator(node: str, **given: np.ndarray) -> np.ndarray:
    """What ONNX's own evaluator gives."""
    made = onnx.parser.parse_node(f"y = {node} ({', '.join(given)})")
    ((found,)) = onnx.reference.ReferenceEvaluator(made, opsets={"": 22}).run(None, dict(given))
    return np.asarray(found)


@pytest.mark.parametrize("seed", range(20))
def test_own_kernels_of_windows_are_onnx_s(seed: int) -> None:
    dice = np.random.default_rng(seed)
    size, strides, dilations, pads = ([*dice.integers(1, 4, n)] for n in (2, 2, 2, 4))
    pads = [int(min(pad, k - 1)) for pad, k in zip(pads, 2 * size, strict=True)]
    shape = [int(n) for n in dice.integers(10, 14, 2)]
    ends = zip(shape, size, strides, dilations, pads[:2], pads[2:], strict=True)
    counts = [(n + b + e - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, e in ends]
    window = f"strides = {list(map(int, strides))}, dilations = {list(map(int, dilations))}, pads = {pads}"
    x = dice.standard_normal((2, 3 * math.prod(map(int, size)), math.prod(counts)))
    blocks = {"x": x, "image": np.array(shape), "block": np.array(size)}
    np.testing.assert_allclose(*(run(f"Col2Im <{window}>", **blocks) for run in (in_double, by_evaluator)))

    x = dice.standard_normal((2, 3, *shape))
    for include in (0, 1):
        pool = f"AveragePool <kernel_shape = {list(map(int, size))}, count_include_pad = {include}, {window}>"
        np.testing.assert_allclose(*(run(pool, x=x) for run in (in_double, by_evaluator)))
        # ONNX's evaluator moves windows where ceil_mode adds to them
        pool = pool.replace("<", "<ceil_mode = 1, ")
        (found,) = made_by_onnxruntime(pool, x.astype(F))
        np.testing.assert_allclose(in_double(pool, x=x), found, atol=1e-5)


def made_by_onnxruntime(node: str, x: np.ndarray) -> list[Any]:
    head = '<ir_version: 10, opset_import: ["" : 22]> g (float[N,C,H,W] x) => (float[N,C,K,L] y)'
    model = onnx.parser.parse_model(f"{head} {{ y = {node} (x) }}")
    return ort.load(model).run({"x": x})


@pytest.mark.parametrize("pads", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_pads_of_a_mean_that_depend_on_its_input_are_onnx_s(pads: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 8))
    pool = f'AveragePool <kernel_shape = [4, 3], strides = [2, 3], auto_pad = "{pads}">'
    np.testing.assert_allclose(in_double(pool, x=x), by_evaluator(pool, x=x))
