"""Shift: the same outputs from tensors of which int8 has twice as many steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from edit_nets import Case, kernels, net
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.base.errors import UserError
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.draft.edits import edited
from onnxq.repair import shift
from onnxq.run import trt

CLOSE_DB = 105.0
"""Float32 sums in another order; of half precision 50."""

CONV = {"w": (32, 16, 3, 3), "b": (32,), "v": (32, 32, 1, 1), "d": (32,)}
SIX = np.array(6, np.float32)
ZERO = np.array(0, np.float32)


def shifted(proto: onnx.ModelProto) -> tuple[Case, shift.FoundEdits]:
    case = Case(proto)
    return case, shift.find(case.model, case.draft)


FRONTS = {
    "conv": "[p] s = Conv <pads = [1, 1, 1, 1]> (x, w, b)",
    "conv without a bias": "[p] s = Conv <pads = [1, 1, 1, 1]> (x, w)",
    "conv and norm": "t = Conv (x, w)  [p] s = BatchNormalization (t, b, b, b, one)",
    "conv and add": "t = Conv (x, w)  [p] s = Add (d4, t)",
    "conv and sub": "t = Conv (x, w)  [p] s = Sub (t, d4)",
    "sub from": "t = Conv (x, w)  [p] s = Sub (d4, t)",
    "depthwise": "t = Conv (x, w)  [p] s = Conv <group = 32, pads = [1, 1, 1, 1]> (t, dw)",
    "transposed": "t = Conv (x, w)  [p] s = ConvTranspose <strides = [2, 2]> (t, ct, b)",
}
BENDS = {"relu": "a = Relu (s)", "clip": "a = Clip (s, zero, six)", "half a clip": "a = Clip (s, zero)"}
BETWEEN = {
    "nothing": "[m] c = Identity (a)",
    "pool": "[m] c = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)",
    "concat": "[u] s2 = Conv (x, w, b)  [r] a2 = Relu (s2)  [h] a3 = MaxPool <kernel_shape = [1, 1]> (a2)"
    "  [m] c = Concat <axis = 0> (a3, a3)",
    "transpose": "[m] c = Transpose <perm = [0, 1, 3, 2]> (a)",
    "split": "[m] c, rest = Split <axis = 0, num_outputs = 2> (a)  [n2] z = Conv (rest, v)",
}
ENDS = {
    "conv": "[n] y = Conv (c, v, d)",
    "conv without a bias": "[n] y = Conv (c, v)",
    "wide": "[n] y = Conv <strides = [2, 1], dilations = [1, 2]> (c, v3, d)",
    "groups": "[n] y = Conv <group = 2> (c, vg, d)",
    "same": '[n] y = Conv <auto_pad = "SAME_UPPER"> (c, v, d)',
    "valid": '[n] y = Conv <auto_pad = "VALID"> (c, v3, d)',
}
WEIGHTS = {
    **CONV,
    "one": np.ones(32, np.float32),
    "d4": (1, 32, 1, 1),
    "dw": (32, 1, 3, 3),
    "ct": (32, 32, 2, 2),
    "v3": (32, 32, 3, 3),
    "vg": (32, 16, 1, 1),
    "six": SIX,
    "zero": ZERO,
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("bend", BENDS)
def test_the_outputs_stay_whatever_makes_it(front: str, bend: str) -> None:
    check(FRONTS[front] + BENDS[bend] + ENDS["conv"].replace("(c", "(a"))


@pytest.mark.parametrize("end", ENDS)
def test_the_outputs_stay_whatever_reads_it(end: str) -> None:
    check(FRONTS["conv"] + BENDS["clip"] + ENDS[end].replace("(c", "(a"))


@pytest.mark.parametrize("between", ["nothing", "pool", "transpose", "split"])
@pytest.mark.parametrize("end", ["conv", "wide"])
def test_the_outputs_stay_whatever_is_between(between: str, end: str) -> None:
    check(
        FRONTS["conv"] + BENDS["relu"] + BETWEEN[between] + ENDS[end], "y, z" if between == "split" else "y"
    )


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(FRONTS)),
    st.sampled_from(sorted(BENDS)),
    st.sampled_from(["nothing", "pool", "transpose"]),
    st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_nets_that_nobody_thought_of(front: str, bend: str, between: str, ends: list[str], seed: int) -> None:
    tails = [ENDS[end].replace("[n]", f"[n{i}]").replace("y =", f"y{i} =") for i, end in enumerate(ends)]
    outputs = ", ".join(f"y{i}" for i in range(len(ends)))
    check(FRONTS[front] + BENDS[bend] + BETWEEN[between] + " ".join(tails), outputs, seed)


def check(body: str, outputs: str = "y", seed: int = 0) -> None:
    """One shift is found, the outputs stay, and what it says of tensors and ranges is true."""
    case, found = shifted(net(body.replace("[p]", "  [p]"), WEIGHTS, y=outputs, seed=seed, opset=18))
    (edit,) = found.edits
    assert isinstance(edit, shift.Shift)
    draft = case.draft.extended(found.edits)
    assert case.close(draft) > CLOSE_DB
    assert case.follows_maps(draft) > CLOSE_DB - 5
    assert draft.amax == {**case.draft.amax, edit.tensor: edit.by}
    assert 2 * edit.by == pytest.approx(case.draft.amax[edit.tensor], rel=1e-6)
    assert edit_of(json.loads(json.dumps(edit.to_dict()))) == edit


def test_branches_of_a_concat_move_together() -> None:
    body = """[p] s = Conv (x, w, b)  a = Relu (s)  [q] t = Conv (x, u)  e = Clip (t, zero, six)
        c = Concat <axis = 1> (a, e)  m = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c)
        [n] y = Conv (m, vv, d)"""
    weights = {**WEIGHTS, "u": (32, 16, 3, 3), "vv": (32, 64, 1, 1)}
    case, found = shifted(net(body, weights))
    (edit,) = found.edits
    assert isinstance(edit, shift.Shift)
    assert set(edit.tensors) == {"a", "e"}
    draft = case.draft.extended(found.edits)
    assert draft.amax["a"] == draft.amax["e"] == edit.by
    assert case.close(draft) > CLOSE_DB
    names = set(edited(case.model, draft.edits)[1])
    assert names == {"s", "a", "t", "e", "c", "m"}


PRODUCTS = {
    "gemm": "[p] s = Gemm (x, w, b)  a = Relu (s)  [n] y = Gemm (a, v, d)",
    "gemm, factors": "[p] s = Gemm <alpha = 0.5, beta = 2.0, transB = 1> (x, w, b)  a = Relu (s)"
    "  [n] y = Gemm <alpha = 0.5, beta = 2.0, transB = 1> (a, v, d)",
    "gemm without a bias": "[p] s = Gemm (x, w)  a = Relu (s)  [n] y = Gemm (a, v)",
    "gemm, one number": "[p] s = Gemm (x, w, one)  a = Relu (s)  [n] y = Gemm (a, v, one)",
    "matmul": "q = MatMul (x, w)  [p] s = Add (q, b)  a = Relu (s)  r = MatMul (a, v)  [n] y = Add (d, r)",
    "matmul, one number": "q = MatMul (x, w)  [p] s = Add (one, q)  a = Relu (s)  r = MatMul (a, v)"
    "  [n] y = Add (r, one)",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    weights = {"w": (64, 64), "b": (64,), "v": (64, 64), "d": (64,), "one": np.array([0.5], np.float32)}
    case, found = shifted(net(PRODUCTS[name], weights, x="float[32, 64]"))
    assert len(found.edits) == 1
    draft = case.draft.extended(found.edits)
    assert case.close(draft) > CLOSE_DB
    assert case.follows_maps(draft) > CLOSE_DB - 5


def test_half_precision() -> None:
    half = {"six": np.array(6, np.float16), "zero": np.array(0, np.float16)}
    body = FRONTS["conv"] + BENDS["clip"] + ENDS["conv"].replace("(c", "(a")
    case, found = shifted(net(body, {**CONV, **half}, x="float16[2, 16, 12, 12]"))
    assert case.close(case.draft.extended(found.edits)) > 50


def test_bounds_of_an_old_clip() -> None:
    body = "[p] s = Conv (x, w, b)  a = Clip <min = 0.0, max = 6.0> (s)  [n] y = Conv (a, v, d)"
    case, found = shifted(net(body, CONV, opset=10))
    (edit,) = found.edits
    (clip,) = (n for n in case.edited(case.draft.extended([edit])).graph.node if n.op_type == "Clip")
    (low, high) = (attribute.f for attribute in sorted(clip.attribute, key=lambda a: a.name, reverse=True))
    assert (low, high) == pytest.approx((-edit.by, 6 - edit.by))
    assert case.close(case.draft.extended([edit])) > CLOSE_DB


def test_a_shift_is_a_bit() -> None:
    """The weights of both layers lie on their grids, and the image as well: what is left is the tensor."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.choice(np.array([-1, 1], np.float32), (32, 16, 3, 3)) / 8,
        "b": np.zeros(32, np.float32),
        "v": rng.choice(np.array([-1, 1], np.float32), (32, 32, 1, 1)),
        "d": np.zeros(32, np.float32),
    }
    case, found = shifted(net("[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)", weights))
    for feed in case.feeds:
        feed["x"] = np.rint(np.clip(feed["x"], -3, 3) * 42).astype(np.float32) / 42
    before = case.draft.with_amax({"x": 127 / 42})
    gained = case.noise(before.extended(found.edits)) - case.noise(before)
    assert 5.5 < gained < 6.5


REFUSED = {
    "padded": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv <pads = [1, 1, 1, 1]> (a, v3, d)",
        "'n' pads it with zeros",
    ),
    "padded a side": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv <pads = [0, 0, 0, 1]> (a, v, d)",
        "'n' pads it with zeros",
    ),
    "same": (
        '[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv <auto_pad = "SAME_LOWER"> (a, v3, d)',
        "'n' pads it with zeros",
    ),
    "an output": ("[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)", "'a' is an output"),
    "an output in front": ("[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)", "others read 's'"),
    "another reader": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)  z = Exp (a)",
        "'z' reads it",
    ),
    "read twice in front": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)  z = Exp (s)",
        "others read 's'",
    ),
    "no bias": ("[p] s = Exp (x)  a = Relu (s)  [n] y = Conv (a, v1, d)", "has no bias"),
    "an input": ("a = Relu (x)  [n] y = Conv (a, v1, d)", "is an input"),
    "transposed": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)  z = ConvTranspose (a, v)",
        "'z' reads it",
    ),
    "a residual": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [n] t = Conv (a, v, d)  y = Add (t, a)",
        "'y' reads it",
    ),
    "a branch that is no relu": (
        "[p] s = Conv (x, w, b)  a = Relu (s)  [q] e = Conv (x, w)"
        "  c = Concat <axis = 1> (a, e)  [n] y = Conv (c, vv, d)",
        "what 'q' gives",
    ),
    "a computed bound": (
        "[p] s = Conv (x, w, b)  h = ReduceMax <keepdims = 0> (x)  a = Clip (s, zero, h)"
        "  [n] y = Conv (a, v, d)",
        None,
    ),
    "both signs": ("[p] s = Conv (x, w, b)  a = Clip (s, low, six)  [n] y = Conv (a, v, d)", None),
    "a sigmoid": ("[p] s = Conv (x, w, b)  a = Sigmoid (s)  [n] y = Conv (a, v, d)", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_outputs_is_left(name: str) -> None:
    body, why = REFUSED[name]
    weights = {**WEIGHTS, "v1": (32, 16, 1, 1), "vv": (32, 64, 1, 1), "low": np.array(-6, np.float32)}
    outputs = {"an output": "y, a", "an output in front": "y, s"}.get(name, "y, z" if "z =" in body else "y")
    case, found = shifted(net(body, weights, y=outputs))
    assert case.plan.sites
    assert not found.edits
    assert (why is None) == (not found.skipped)
    assert why is None or any(why in said for said in found.skipped.values()), found.skipped


def test_a_matmul_without_a_bias_is_left() -> None:
    body = "[p] s = Gemm (x, w, b)  a = Relu (s)  [n] y = MatMul (a, v)"
    _, found = shifted(net(body, {"w": (64, 64), "b": (64,), "v": (64, 64)}, x="float[32, 64]"))
    assert found.skipped == {"a": "'n' has no bias"}


def test_a_bias_of_two_layers_stays_that_of_the_other() -> None:
    body = "[p] s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, b)  [o] z = Conv (x, w, b)"
    case, found = shifted(net(body, CONV, y="y, z"))
    assert case.close(case.draft.extended(found.edits)) > CLOSE_DB


def test_an_edit_of_another_model_is_refused() -> None:
    case, found = shifted(net(FRONTS["conv"] + BENDS["relu"] + "[n] y = Conv (a, v, d)", CONV))
    other = Case(net("[p] s = Conv (x, w, b)  a = Sigmoid (s)  [n] y = Conv (a, v, d)", CONV))
    with pytest.raises(UserError, match="'a' cannot be shifted"):
        edited(other.model, found.edits)
    with pytest.raises(UserError, match="no tensor 'q'"):
        edited(case.model, [shift.Shift("q", 1.0, ("q",))])
    with pytest.raises(UserError, match="not complete"):
        edit_of({"kind": "shift", "tensor": "a"})
    with pytest.raises(UserError, match="no kind of edit 'shfit'"):
        edit_of({"kind": "shfit"})


BLOCKS = """[p1] s1 = Conv <pads = [1, 1, 1, 1]> (x, w, b)  a1 = Relu (s1)  [p2] s2 = Conv (a1, v, d)
    [p3] t3 = Conv <group = 32, pads = [1, 1, 1, 1]> (s2, dw, b)  a3 = Clip (t3, zero, six)
    [p4] s4 = Conv (a3, v4, d)  a4 = Relu (s4)
    [r4] m4 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a4)
    [p5] y = Conv (m4, v5, d)"""


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("half", [False, True])
def test_the_engine_has_as_many_kernels(tmp_path: Path, half: bool) -> None:
    weights = {**WEIGHTS, "v4": (32, 32, 1, 1), "v5": (32, 32, 1, 1)}
    case, found = shifted(net(BLOCKS, weights))
    assert len(found.edits) == 3
    before = kernels(case.quantized(case.draft), tmp_path, half=half)
    after = kernels(case.quantized(case.draft.extended(found.edits)), tmp_path, half=half)
    assert after == before
    assert before[1] == 4
