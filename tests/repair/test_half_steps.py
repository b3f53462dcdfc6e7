"""Half steps: the same outputs from a tensor that is there twice, with a bit more of it left by int8."""

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
from onnxq.calib.stats import Stats, TensorStats
from onnxq.graph.model import Model
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.draft.edits import edited
from onnxq.quant.insert import insert
from onnxq.repair import shift, split
from onnxq.repair.moved import moved
from onnxq.run import trt

CLOSE_DB = 105.0
WEIGHTS = {
    "w": (32, 16, 3, 3), "b": (32,), "v": (32, 32, 1, 1), "d": (32,), "dw": (32, 1, 3, 3),
    "v3": (32, 32, 3, 3), "vg": (32, 8, 3, 3), "ct": (32, 16, 2, 2), "wt": (32, 16, 3, 3),
    "v2": (32, 32, 1, 1), "vh": (32, 16, 3, 3), "dw2": (32, 1, 3, 3),
    "zero": np.array(0, np.float32), "one": np.array(1, np.float32), "low": np.array(-0.5, np.float32),
}  # fmt: skip
FRONTS = {
    "conv": "s = Conv <pads = [1, 1, 1, 1]> (x, w, b)  a = Relu (s)",
    "depthwise": "t = Conv (x, w)  s = Conv <group = 32> (t, dw, b)  a = Clip (s, zero, one)",
    "linear": "a = Conv (x, w)",
    "silu": "s = Conv (x, w)  g = Sigmoid (s)  a = Mul (s, g)",
    "sum": "s = Conv (x, w)  g = Conv (x, wt)  a = Add (s, g)",
}
ENDS = {
    "conv": "{y} = Conv (a, v, d)",
    "padded": "{y} = Conv <pads = [1, 1, 1, 1]> (a, v3)",
    "float": "{y} = Exp (a)",
    "residual": "{y}r = Conv (a, v2)  {y} = Mul ({y}r, a)",
    "transposed": "{y} = ConvTranspose (a, ct)",
    "depthwise": "{y} = Conv <group = 32> (a, dw2, d)",
}


def check(proto: onnx.ModelProto, tensor: str) -> tuple[Case, split.HalfSteps, split.FoundEdits]:
    case = Case(proto)
    found = split.find(case.model, case.draft)
    (edit,) = (edit for edit in found.edits if edit.tensor == tensor)
    assert isinstance(edit, split.HalfSteps)
    assert edit_of(json.loads(json.dumps(edit.to_dict()))) == edit
    draft = case.draft.extended([edit])
    assert draft.amax == case.draft.amax
    assert case.close(draft) > CLOSE_DB
    model, maps = edited(case.model, draft.edits)
    assert tensor in maps
    inferred = Model.open(model.to_proto())
    for name, one in model.graph.tensors().items():
        assert one.shape == inferred.graph.tensors()[name].shape, name
    assert case.follows_maps(draft) > CLOSE_DB - 10
    return case, edit, found


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(FRONTS)),
    st.lists(st.sampled_from(sorted(set(ENDS) - {"conv"})), max_size=3, unique=True),
    st.integers(0, 99),
)
def test_the_outputs_stay(front: str, ends: list[str], seed: int) -> None:
    tails = [ENDS[end].format(y="y" if i == 0 else f"z{i}") for i, end in enumerate(["conv", *ends])]
    outputs = ", ".join(["y", *(f"z{i}" for i in range(1, len(ends) + 1))])
    check(net("  ".join([FRONTS[front], *tails]), WEIGHTS, y=outputs, seed=seed), "a")


PRODUCTS = {
    "gemm": "s = Gemm (x, w, b)  a = Relu (s)  y = Gemm (a, v, d)",
    "factors": "s = Gemm <alpha = 0.5, beta = 2.0, transB = 1> (x, w, b)  a = Clip (s, zero, one)"
    "  y = Gemm <alpha = 0.5, transB = 1> (a, v, d)",
    "matmul": "q = MatMul (x, w)  s = Add (q, b)  a = Relu (s)  y = MatMul (a, v)",
    "one number": "q = MatMul (x, w)  s = Add (low, q)  a = Clip (s, low, one)  y = MatMul (a, v)",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    weights = {**WEIGHTS, "w": (64, 64), "b": (64,), "v": (64, 64), "d": (64,)}
    check(net(PRODUCTS[name], weights, x="float[32, 64]"), "a")


def test_it_is_a_bit() -> None:
    """Weights and image lie on their grids: what is left is the tensor."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.choice(np.array([-1, 1], np.float32), (32, 16, 3, 3)) / 8,
        "b": np.zeros(32, np.float32),
        "v": rng.choice(np.array([-1, 1], np.float32), (32, 32, 1, 1)),
        "d": np.zeros(32, np.float32),
    }
    case = Case(net("s = Conv (x, w, b)  a = Relu (s)  y = Conv (a, v, d)", weights))
    for feed in case.feeds:
        feed["x"] = np.rint(np.clip(feed["x"], -3, 3) * 42).astype(np.float32) / 42
    before = case.draft.with_amax({"x": 127 / 42})
    after = before.extended(split.find(case.model, before).edits)
    assert 5.5 < case.noise(after) - case.noise(before) < 6.5
    moved = before.extended(shift.find(case.model, before).edits)
    both = moved.extended(split.find(edited(case.model, moved.edits)[0], moved).edits)
    assert case.close(both) > CLOSE_DB
    assert 11.0 < case.noise(both) - case.noise(before) < 13.0


def test_what_stays_as_it_was_has_its_statistics() -> None:
    case = Case(net("{} {}".format(FRONTS["conv"], ENDS["conv"].format(y="y")), WEIGHTS))
    edit = next(one for one in split.find(case.model, case.draft).edits if one.tensor == "a")
    model, maps = edited(case.model, [edit])
    of_a = TensorStats(np.zeros(1, np.float32), np.full(1, 3, np.float32), 8, None, None)
    after = moved(Stats({"a": of_a}, np.arange(1)), maps, model).tensors
    assert (after["a_once"].lows.item(), after["a_once"].highs.item()) == (0, 3)
    assert after["a"].highs.item() == np.float32(3 + edit.step / 4)


def test_the_price_is_stated() -> None:
    case, _, found = check(net("s = Conv (x, w, b)  a = Relu (s)  y = Conv (a, v, d)", WEIGHTS), "a")
    macs = {layer.node: layer.macs for layer in case.plan.layers}
    assert found.macs["a"] == macs["y"]


REFUSED = {
    "an output": ("s = Conv (x, w, b)  a = Relu (s)  y = Conv (a, v, d)", "y, a", "is an output"),
    "an input": ("y = Conv (x, w, b)", "y", "'x' is an input"),
    "groups": ("s = Conv (x, w, b)  a = Relu (s)  y = Conv <group = 2> (a, vh)", "y", "not one matrix"),
    "shared weights": (
        "s = Conv (x, w, b)  a = Relu (s)  y = Conv (a, v, d)  t = Conv (x, wt)  z = Conv (t, v)", "y, z",
        "reads weights 'v' too",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_outputs_is_left(name: str) -> None:
    lines, outputs, why = REFUSED[name]
    case = Case(net(lines, WEIGHTS, y=outputs))
    found = split.find(case.model, case.draft)
    assert not found.edits
    assert any(why in said for said in found.skipped.values()), found.skipped


def test_rounded_values_are_left() -> None:
    lines = (
        "s = Conv (x, w, b)  a = Relu (s)  [p] m = MaxPool <kernel_shape = [2, 2]> (a)  y = Conv (m, v, d)"
    )
    case = Case(net(lines, WEIGHTS))
    assert any("rounded already" in why for why in split.find(case.model, case.draft).skipped.values())


def test_an_edit_of_another_model_is_refused() -> None:
    other = Case(net("s = Conv (x, w, b)  a = Sigmoid (s)  y = Conv <group = 2> (a, vh, d)", WEIGHTS))
    with pytest.raises(UserError, match="'a' cannot be computed twice"):
        edited(other.model, [split.HalfSteps("a", 0.1, ("y",))])
    with pytest.raises(UserError, match="'a' cannot be computed twice"):
        edited(other.model, [split.HalfSteps("a", 0.1, ("z",))])
    with pytest.raises(UserError, match="not complete"):
        edit_of({"kind": "split", "tensor": "a", "step": 0, "readers": []})


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("half", [False, True])
def test_the_engine_has_as_many_kernels(tmp_path: Path, half: bool) -> None:
    lines = """t = Conv <pads = [1, 1, 1, 1]> (x, w, b)  s = Conv <group = 32, pads = [1, 1, 1, 1]> (t, dw, b)
        a = Clip (s, zero, one)  y = Conv (a, v, d)"""
    case = Case(net(lines, WEIGHTS))
    before = kernels(case.quantized(case.draft), tmp_path, half=half)
    for first in ((), shift.find(case.model, case.draft).edits):
        draft = case.draft.extended(first)
        model, _ = edited(case.model, draft.edits)
        after = draft.extended(split.find(model, draft).edits)
        assert len(after.edits) == len(first) + 1
        made = insert(edited(case.model, after.edits)[0], after.plan, after.scales).model.to_proto()
        assert kernels(made, tmp_path, half=half) == before
