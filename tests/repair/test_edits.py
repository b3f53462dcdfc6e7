"""Edits one after another, what follows from them, and what is known of channels."""

from __future__ import annotations

import json

import numpy as np
import pytest
from edit_nets import Case, net, sqnr, values_of
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.draft.edits import ChannelMap, edited
from onnxq.repair import scale, shift, smooth, split
from onnxq.repair.statistics import channel_axes, followed

BLOCKS = """s1 = Conv <pads = [1, 1, 1, 1]> (x, w, b)  a1 = Relu (s1)
    t2 = Conv <group = 32, pads = [1, 1, 1, 1]> (a1, dw, b)  a2 = Clip (t2, zero, six)
    s3 = Conv (a2, v, d)  a3 = Relu (s3)  s4 = Conv (a3, v4, d)  n = BatchNormalization (s4, g, b, b, g)
    s5 = Conv (n, v5)  r = Add (s5, a3)  a5 = Relu (r)  s6 = Conv (a5, v6)  y = Relu (s6)"""


def blocks(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    g = np.exp(rng.standard_normal(32)).astype(np.float32)
    g[rng.integers(32)] *= 40
    w = (rng.standard_normal((32, 16, 3, 3)) / 12).astype(np.float32)
    v = (rng.standard_normal((32, 32, 1, 1)) / 6).astype(np.float32)
    large = rng.integers(32)
    v[large] *= 200
    v4 = (rng.standard_normal((32, 32, 1, 1)) / 6).astype(np.float32)
    v4[:, large] /= 200
    weights = {
        "w": w, "b": (32,), "d": (32,), "dw": (32, 1, 3, 3), "v": v, "v4": v4, "v5": (32, 32, 1, 1),
        "v6": (32, 32, 1, 1), "g": g, "zero": np.array(0, np.float32), "six": np.array(6, np.float32),
    }  # fmt: skip
    return Case(net(BLOCKS, weights, seed=seed))


def after(case: Case, draft: Draft, step: str, take: list[bool]) -> Draft:
    """A draft with some of the edits of a step."""
    model, maps = edited(case.model, draft.edits)
    channels = followed(case.channels, maps)
    found = {
        "scale": lambda: scale.find(model, draft, channels),
        "smooth": lambda: smooth.find(model, draft, channels, 0.5),
        "shift": lambda: shift.find(model, draft),
        "split": lambda: split.find(model, draft),
    }[step]()
    kept = [edit for edit, taken in zip(found.edits, take * len(found.edits), strict=False) if taken]
    return draft.extended(edit_of(json.loads(json.dumps(edit.to_dict()))) for edit in kept)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.sampled_from(["scale", "smooth", "shift", "split"]), min_size=1, max_size=4, unique=True),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(0, 99),
)
def test_any_edits_in_any_order(steps: list[str], take: list[bool], seed: int) -> None:
    case = blocks(seed)
    draft = case.draft
    for step in steps:
        draft = after(case, draft, step, take)
    assert case.close(draft) > 85  # a shift by half of a range of 200 leaves the small channels fewer bits
    model, maps = edited(case.model, draft.edits)
    measured = list(case.plan.measured)
    whole = values_of(model.to_proto(), case.feeds, measured)
    for name, values in zip(measured, whole, strict=True):
        room = 1.01 if name in maps else 1 + 1e-5  # a quarter of a step, or what float32 rounds
        assert np.abs(values).max() <= room * draft.amax[name]
    inferred = Model.open(model.to_proto()).graph.tensors()
    for name, tensor in model.graph.tensors().items():
        assert tensor.shape == inferred[name].shape, name
    case.quantized(draft)


@settings(max_examples=6, deadline=None)
@given(st.permutations(["scale", "smooth", "shift", "split"]), st.integers(0, 99))
def test_what_a_node_gives_is_what_the_maps_say(steps: list[str], seed: int) -> None:
    """By whatever name its tensor goes: comparisons of layers rely on it."""
    case = blocks(seed)
    draft = case.draft
    for step in steps:
        draft = after(case, draft, step, [True])
    model, maps = edited(case.model, draft.edits)
    own, made = given_by(case.model), given_by(model)
    shared = own.keys() & made.keys()
    before = values_of(case.model.to_proto(), case.feeds, [own[place] for place in shared])
    values = values_of(model.to_proto(), case.feeds, [made[place] for place in shared])
    assert any(own[place] != made[place] for place in shared) == any(e.kind == "split" for e in draft.edits)
    for place, one, other in zip(shared, before, values, strict=True):
        change = maps.get(made[place])
        assert (change.was if change is not None else "") == own[place] * (own[place] != made[place]), place
        expected = one if change is None else change.apply(one, 2)
        assert sqnr(expected, other) > 70, place


def given_by(model: Model) -> dict[tuple[str, int], str]:
    return {
        (node.name, place): tensor.name
        for node in model.graph.nodes
        for place, tensor in enumerate(node.outputs)
    }


def test_each_step_finds_something_in_the_blocks() -> None:
    case = blocks(0)
    for step in ("scale", "smooth", "shift", "split"):
        assert after(case, case.draft, step, [True]).edits, step


def test_channels_follow_edits() -> None:
    case = blocks(0)
    draft = after(case, after(case, case.draft, "scale", [True]), "smooth", [True])
    model, maps = edited(case.model, draft.edits)
    told = followed(case.channels, maps)
    assert set(told) == set(case.channels)
    for name, axis in channel_axes(case.model, case.plan).items():
        (values,) = values_of(model.to_proto(), case.feeds, [name])
        found = np.abs(np.moveaxis(values, axis + 1, 0)).reshape(values.shape[axis + 1], -1).max(1)
        assert sqnr(found, told[name]) > 100


def test_an_offset_makes_magnitudes_unknown() -> None:
    amax = np.ones(4, np.float32)
    assert followed({"a": amax}, {"a": ChannelMap.of(offset=-1.0)}) == {}
    twice = ChannelMap(np.float32(2), np.float32(0), np.array([0, 1, 2, 3, 0]))  # type: ignore[arg-type]
    assert followed({"a": amax}, {"a": twice})["a"].tolist() == [2.0] * 5


AXES = {
    "y = Conv (x, w)": ("float[2, 16, 8, 8]", (32, 16, 3, 3), 1),
    "y = MatMul (x, w)": ("float[2, 32, 64]", (64, 64), 2),
    "y = Gemm (x, w)": ("float[32, 64]", (64, 64), 1),
    "y = Gemm <transA = 1> (x, w)": ("float[64, 32]", (64, 64), 0),
    "t = Transpose <perm = [0, 2, 1]> (x)  y = MatMul (t, w)": ("float[2, 64, 32]", (64, 64), 1),
    "y = Exp (x)": ("float[2, 3]", (1, 1), None),
    "y = Conv (x, w)  z = MatMul (x, m)": ("float[2, 16, 8, 8]", (32, 16, 3, 3), None),
}


@pytest.mark.parametrize("body", AXES)
def test_the_channel_axis_is_what_readers_say(body: str) -> None:
    from onnxq.graph.view import Tensor
    from onnxq.repair.statistics import channel_axis

    shape, weight, axis = AXES[body]
    weights = {"w": weight, "m": (8, 8)}
    used = {name: one for name, one in weights.items() if f", {name})" in body}
    model = Model.open(net(body, used, x=shape, y="y, z" if "z =" in body else "y"))
    assert channel_axis(Tensor(model, model.graph.tensors()["x"])) == axis
