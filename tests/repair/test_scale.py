"""Powers of two: large channels come down on the way, and the outputs are the same bits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from edit_nets import Case, net, values_of
from hypothesis import given, settings
from hypothesis import strategies as st
from said import is_said

from onnxq.base.errors import UserError
from onnxq.graph.view import Tensor
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.draft.edits import edited
from onnxq.repair import scale
from onnxq.repair.flow import Flow
from onnxq.repair.found_edits import NoFit


def rising(shape: tuple[int, ...], factor: float, axis: int = 0, seed: int = 3) -> np.ndarray:
    """Normal weights of which those of channel 5 are larger, or smaller."""
    weights = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    np.moveaxis(weights, axis, 0)[5] *= factor
    return weights.astype(np.float32)


def equal(case: Case, proto: onnx.ModelProto) -> bool:
    """Whether the outputs are the same bits."""
    pairs = zip(
        values_of(case.proto, case.feeds, case.outputs),
        values_of(proto, case.feeds, case.outputs),
        strict=True,
    )
    return all(np.array_equal(*pair) for pair in pairs)


def found_in(proto: onnx.ModelProto) -> tuple[Case, scale.FoundEdits]:
    case = Case(proto)
    return case, scale.find(case.model, case.draft, case.channels)


def check(
    body: str, weights: dict[str, np.ndarray | tuple[int, ...]], gain: float, edits: int = 1, **more: Any
) -> None:
    """So many edits, the same bits, so many dB more, and maps and ranges that are true."""
    case, found = found_in(net(body, weights, **more))
    assert len(found.edits) == edits, found.skipped
    draft = case.draft.extended(found.edits)
    assert equal(case, case.edited(draft))
    assert case.follows_maps(draft) > 200
    assert case.noise(draft) - case.noise(case.draft) > gain
    names: list[str] = []
    for edit in found.edits:
        assert isinstance(edit, scale.Scale)
        assert edit_of(json.loads(json.dumps(edit.to_dict()))) == edit
        names += [name for name in edit.ratios if name in case.draft.amax]
    assert names
    measured = values_of(case.edited(draft), case.feeds, names)
    for name, values in zip(names, measured, strict=True):
        assert draft.amax[name] == pytest.approx(np.abs(values).max(), rel=1e-6)


LARGE = {"w": rising((32, 16, 3, 3), 300.0), "b": (32,), "v": rising((32, 32, 3, 3), 1 / 300, 1), "d": (32,)}
PADDED = "<pads = [1, 1, 1, 1]>"
HANDED_ON = {
    "relu": "s = Conv (x, w, b)  a = Relu (s)",
    "leaky": "s = Conv (x, w, b)  a = LeakyRelu <alpha = 0.125> (s)",
    "prelu": "s = Conv (x, w, b)  a = PRelu (s, slope)",
    "lower bound": "s = Conv (x, w, b)  a = Clip (s, zero)",
    "max pool": "s = Conv (x, w, b)  r = Relu (s)"
    "  a = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (r)",
    "norm": "s = Conv (x, w)  t = BatchNormalization (s, g, b, b, g)  a = Relu (t)",
    "mul": "s = Conv (x, w)  t = Mul (c4, s)  a = Relu (t)",
    "div": "s = Conv (x, w)  t = Div (s, c4)  a = Relu (t)",
    "mul and add": "s = Conv (x, w)  t = Mul (s, c4)  u = Add (t, c4)  a = Relu (u)",
    "depthwise": "s = Conv (x, w)  t = Conv <group = 32> (s, dw, b)  a = Relu (t)",
    "transposed": "s = Conv (x, k)  t = ConvTranspose <strides = [2, 2]> (s, ct, b)  a = Relu (t)",
    "identity": "s = Conv (x, w, b)  i = Identity (s)  a = Relu (i)",
    "transpose": "s = Conv (x, w, b)  i = Transpose <perm = [0, 2, 3, 1]> (s)  r = Relu (i)"
    "  a = Transpose <perm = [0, 3, 1, 2]> (r)",
    "sum": "s = Conv (x, w, b)  t = Conv (x, w)  u = Add (s, t)  a = Relu (u)",
    "gate": "s = Conv (x, w, b)  t = Conv (x, k)  g2 = Sigmoid (t)  a = Mul (s, g2)",
    "other gate": "s = Conv (x, w, b)  t = Conv (x, k)  g2 = Sigmoid (t)  a = Mul (g2, s)",
}
MORE = {
    "slope": np.full((32, 1, 1), 0.25, np.float32),
    "zero": np.array(0, np.float32),
    "g": np.ones(32, np.float32),
    "c4": np.full((1, 32, 1, 1), 0.5, np.float32),
    "dw": rising((32, 1, 3, 3), 1.0),
    "k": (32, 16, 3, 3),
    "ct": rising((32, 32, 2, 2), 300.0, 1),
}


@pytest.mark.parametrize("way", HANDED_ON)
def test_a_channel_of_300(way: str) -> None:
    check(f"{HANDED_ON[way]}  [n] y = Conv {PADDED} (a, v, d)", {**LARGE, **MORE}, 10.0)


def test_it_costs_this_and_no_more() -> None:
    """A large channel costs 18 dB of those that a net without one has; they are back."""
    body = f"s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv {PADDED} (a, v, d)"
    case, found = found_in(net(body, LARGE))
    plain = {**LARGE, "w": rising((32, 16, 3, 3), 1.0), "v": rising((32, 32, 3, 3), 1.0, 1)}
    even = Case(net(body, plain))
    lost, left = case.noise(case.draft), case.noise(case.draft.extended(found.edits))
    assert even.noise(even.draft) - lost > 15
    assert abs(even.noise(even.draft) - left) < 1.5


def test_a_branch_of_100() -> None:
    body = """s = Conv (x, w)  a = Relu (s)  t = Conv (x, k)  e = Clip (t, zero, six)
        c = Concat <axis = 1> (a, e)  m = MaxPool <kernel_shape = [2, 2]> (c)  [n] y = Conv (m, v, d)"""
    large = np.random.default_rng(0).standard_normal((32, 16, 3, 3)).astype(np.float32)
    v = np.random.default_rng(1).standard_normal((32, 64, 1, 1)).astype(np.float32)
    v[:, :32] /= 100
    weights = {
        **MORE,
        "w": large * 100,
        "k": large[::-1].copy(),
        "v": v,
        "d": (32,),
        "six": np.array(6, np.float32),
    }
    check(body, weights, 20.0)
    bounded = body.replace("Relu (s)", "Clip (s, zero, most)")
    check(bounded, {**weights, "most": np.array(600, np.float32)}, 20.0)


READERS = {
    "norm": "t = BatchNormalization (a, g, b2, b2, g)  z = Conv (t, v2, d)",
    "mul": "t = Mul (a, c4)  z = Relu (t)",
    "global pool": "t = GlobalAveragePool (a)  z = Conv (t, v1)",
    "flat": "t = GlobalAveragePool (a)  f = Flatten (t)  z = Gemm (f, m)",
    "all flat": "f = Flatten (a)  z = MatMul (f, far)",
    "reshaped": "f = Reshape (a, sizes)  z = MatMul (f, hundred)",
    "split": "p, q = Split <axis = 1, num_outputs = 2> (a)  z = Conv (p, v16)  u = Conv (q, u16)",
    "concat": "q = Concat <axis = 1> (a, x2)  z = Conv (q, v64)",
    "gated": "t = Sigmoid (x2)  q = Mul (t, a)  z = Conv (q, v1)",
    "transposed": "z = ConvTranspose (a, ct)",
    "grouped": "z = Conv <group = 4> (a, vg)",
}


@pytest.mark.parametrize("name", READERS)
def test_all_readers_undo_it(name: str) -> None:
    """Beside the layer that it is for."""
    weights = {
        **LARGE, **MORE, "b2": (32,), "v1": (32, 32, 1, 1), "m": (32, 16), "far": (3200, 8),
        "v16": (32, 16, 1, 1), "u16": (32, 16, 1, 1), "v2": (32, 32, 3, 3), "v64": (32, 64, 1, 1),
        "vg": (32, 8, 3, 3), "sizes": np.array([2, 32, 100]), "hundred": (100, 8), "wx": (32, 16, 3, 3),
    }  # fmt: skip
    body = f"""s = Conv (x, w, b)  a = Relu (s)  x2 = Conv (x, wx)  {READERS[name]}
        [n] y = Conv {PADDED} (a, v, d)"""
    outputs = "y, z, u" if "u =" in READERS[name] else "y, z"
    if name == "reshaped":  # rows that are channels: a product sums other axes
        _, found = found_in(net(body, weights, y=outputs, opset=18))
        assert not found.edits
        assert is_said(found.skipped["a"], "other-axis")
    else:
        check(body, weights, 10.0, 2 if name == "norm" else 1, y=outputs, opset=18)


REFUSED = {
    "an output": ("", "y, a", "'a' is an output"),
    "a sigmoid": ("z = Sigmoid (a)", "y, z", "'z' reads 'a' (Sigmoid)"),
    "an upper bound": (
        "z = Clip (a, zero, six)  q = Conv (z, v, d)",
        "y, q",
        "'z' bounds all channels alike",
    ),
    "computed weights": ("z = Conv (a, x3)", "y, z", "'z' reads 'a' (Conv)"),
    "a sum with an input": ("z = Add (a, x4)  q = Conv (z, v, d)", "y, q", "is an input"),
    "its square": ("z = Mul (a, a)  q = Conv (z, v, d)", "y, q", "reads it (Mul)"),
    "shared weights": ("z = Conv (x5, v, d)", "y, z", "'z' reads weights 'v' too"),
    "weights of both": ("z = Conv (x, w)", "y, z", "'z' reads weights 'w' too"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_outputs_is_left(name: str) -> None:
    more, outputs, why = REFUSED[name]
    body = f"""s = Conv (x, w, b)  a = Relu (s)  x3 = Reshape (x, kernel)  x5 = Conv (x, k)
        {more}  [n] y = Conv {PADDED} (a, v, d)"""
    weights = {**LARGE, **MORE, "six": np.array(6, np.float32), "kernel": np.array([9, 32, 4, 4])}
    x = "float[2, 32, 10, 10] x4, float[2, 16, 12, 12]" if "x4" in more else "float[2, 16, 12, 12]"
    _, found = found_in(net(body, weights, x=x, y=outputs))
    assert not found.edits
    assert why in found.skipped["a"]


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(sorted(HANDED_ON)),
    st.lists(st.sampled_from(["relu", "pool", "mul", "norm", "sum"]), max_size=3),
    st.integers(0, 99),
)
def test_ways_that_nobody_thought_of(way: str, between: list[str], seed: int) -> None:
    steps = {
        "relu": "{o} = Relu ({i})",
        "pool": "{o} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({i})",
        "mul": "{o} = Mul ({i}, c4)",
        "norm": "{o} = BatchNormalization ({i}, g, b, b, g)",
        "sum": "s{o} = Relu ({i})  {o} = Add (s{o}, {i})",
    }
    body, last = HANDED_ON[way], "a"
    for number, step in enumerate(between):
        body += "  " + steps[step].format(o=f"m{number}", i=last)
        last = f"m{number}"
    case, found = found_in(net(f"{body}  [n] y = Conv {PADDED} ({last}, v, d)", {**LARGE, **MORE}, seed=seed))
    draft = case.draft.extended(found.edits)
    assert equal(case, case.edited(draft))
    assert not found.edits or case.noise(draft) > case.noise(case.draft) + 5


def test_an_even_net_is_left() -> None:
    weights = {**LARGE, "w": (32, 16, 3, 3), "v": (32, 32, 3, 3)}
    _, found = found_in(net(f"s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv {PADDED} (a, v, d)", weights))
    assert found == scale.FoundEdits()


def test_a_channel_that_is_needed_in_full_is_left() -> None:
    """Its weights are as large as the others': they would take all codes of the weights instead."""
    weights = {**LARGE, "v": rising((32, 32, 3, 3), 1.0, 1)}
    case, found = found_in(net(f"s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv {PADDED} (a, v, d)", weights))
    draft = case.draft.extended(found.edits)
    assert not found.edits or case.noise(draft) > case.noise(case.draft)


@pytest.mark.parametrize(
    ("size", "said"), [(2.0**127, "leave the range of float32"), (3e4, "half precision")]
)
def test_what_floats_do_not_hold_is_left(size: float, said: str) -> None:
    v = LARGE["v"].copy()  # type: ignore[union-attr]
    v[:, 5] = size
    weights = {**LARGE, "v": v}
    case = Case(net(f"s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv {PADDED} (a, v, d)", weights))
    flow = Flow(case.model)
    factors = np.ones(32)
    factors[5] = 2.0**-8
    flow.scale(*scale.spread(Tensor(case.model, case.model.graph.tensors()["a"]), 1, factors))

    def check() -> None:
        flow.writer.check(exact=True)
        scale.check_half(flow, case.channels)

    with pytest.raises(NoFit, match=said):
        check()


def test_weights_that_would_be_rounded_are_left() -> None:
    w = LARGE["w"].copy()  # type: ignore[union-attr]
    w[5, 0, 0, 0] = 2.0**-149
    case, found = found_in(
        net(f"s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv {PADDED} (a, v, d)", {**LARGE, "w": w})
    )
    assert case.plan.sites
    assert not found.edits
    assert is_said(found.skipped["a"], "half-range.type", dtype="float32")


def test_an_edit_of_another_model_is_refused() -> None:
    _, found = found_in(net(f"s = Conv (x, w, b)  a = Relu (s)  [n] y = Conv {PADDED} (a, v, d)", LARGE))
    other = Case(net(f"s = Conv (x, w, b)  a = Sigmoid (s)  [n] y = Conv {PADDED} (a, v, d)", LARGE))
    with pytest.raises(UserError, match="'a' cannot be scaled"):
        edited(other.model, found.edits)
    with pytest.raises(UserError, match="not complete"):
        edit_of({**found.edits[0].to_dict(), "factors": [0.0]})
