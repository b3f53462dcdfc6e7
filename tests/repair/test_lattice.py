"""Lattice: an input of 8-bit pixels is quantized without an error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from edit_nets import Case, kernels, net, ranges, sqnr, values_of
from said import is_said

from onnxq.base.errors import UserError
from onnxq.calib.stats import Stats, TensorStats
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.draft.edits import edited
from onnxq.quant.insert import insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.wants import left_float
from onnxq.repair import lattice
from onnxq.repair.found_edits import FoundEdits, NoFit
from onnxq.repair.lattice import spacing_of
from onnxq.repair.moved import moved
from onnxq.run import trt

F = np.float32
MEAN, STD = np.array([0.485, 0.456, 0.406], F), np.array([0.229, 0.224, 0.225], F)
COLOURS = np.array([123.68, 116.779, 103.939], F)

NORMALIZED = {
    "-1..1": lambda p: p / F(127.5) - F(1),
    "imagenet": lambda p: (p / F(255) - MEAN) / STD,
    "0..1": lambda p: p / F(255),
    "0..255": lambda p: p,
    "by 128": lambda p: (p - F(128)) / F(128),
    "less its mean": lambda p: p - COLOURS[::-1],
    "darker": lambda p: F(1) - p / F(255),
    "with noise": lambda p: (p / F(255) - F(0.5)) * (F(1) + np.resize(np.array([0, 1e-7], F), p.shape)),
}
"""What is made of pixels [..., channels], 0..255 in float32."""

SHAPES = {1: "float[4, 1, 24, 24]", 3: "float[4, 3, 24, 24]"}


class Images(Case):
    """A case whose samples are images."""

    def __init__(self, proto: onnx.ModelProto, feeds: list[np.ndarray]) -> None:
        super().__init__(proto)
        self.feeds = [{proto.graph.input[0].name: one} for one in feeds]
        amax = dict(
            zip(self.plan.measured, values_of(self.proto, self.feeds, self.plan.measured), strict=True)
        )
        self.draft = Draft(
            self.plan, ranges({name: float(np.abs(values).max()) for name, values in amax.items()})
        )

    def values(self, name: str) -> Iterable[np.ndarray]:
        return (
            values_of(self.proto, self.feeds, [name])[0]
            if name not in self.feeds[0]
            else (feed[name] for feed in self.feeds)
        )

    def found(self) -> FoundEdits:
        return lattice.find(self.model, self.draft, self.values)

    def input_alone(self, draft: Draft, tensor: str) -> float:
        """The SQNR, dB, of the first output where a tensor alone, and what it is moved to, is quantized."""
        model, _ = edited(self.model, draft.edits)
        copy = MeasuringCopy.of(model, draft.plan, draft.scales)
        (group,) = (group for group in draft.plan.groups if tensor in group.tensors)
        off = [s.tensor for s in draft.plan.sites if s.kind == "weight" or s.group != group.id]
        reference = values_of(self.proto, self.feeds, self.outputs[:1])[0]
        runs = [copy.run_each(feed, [Candidate(float_sites=off)], self.outputs[:1]) for feed in self.feeds]
        return sqnr(reference, np.stack([np.asarray(run[0][0], np.float64) for run in runs]))


def pixels(*shape: int, seed: int = 0, low: int = 0, high: int = 256) -> np.ndarray:
    """Smooth ones and random ones, [..., channels last], float32."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(F)


def images(name: str, channels: int, count: int = 2, *, first: bool = True, **more: int) -> list[np.ndarray]:
    """Normalized samples, [4, channels, 24, 24], or channels last."""
    found = []
    for seed in range(count):
        some = NORMALIZED[name](pixels(4, 24, 24, 3, seed=seed, **more))[..., :channels]
        found.append(np.ascontiguousarray(np.moveaxis(some, -1, 1) if first else some))
    return found


CONV = {"w": (32, 3, 4, 4), "b": (32,), "v": (32, 32, 1, 1), "d": (32,)}
NETS = {
    "conv": "[p] s = Conv <strides = [4, 4]> (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)",
    "conv without a bias": "[p] s = Conv <strides = [4, 4]> (x, w)  a = Relu (s)  [n] y = Conv (a, v, d)",
    "padded": "[p] s = Conv <pads = [1, 0, 2, 1]> (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)",
    "same": '[p] s = Conv <auto_pad = "SAME_LOWER"> (x, w, b)  a = Relu (s)  [n] y = Conv (a, v, d)',
}


def weights(channels: int) -> dict[str, tuple[int, ...]]:
    return {**CONV, "w": (32, channels, 4, 4)}


def proven(case: Images, least: float = 100) -> lattice.Lattice:
    """The edit, which is exact, and leaves the input without noise."""
    found = case.found()
    assert len(found.edits) == 1, found.skipped
    edit = found.edits[0]
    assert isinstance(edit, lattice.Lattice)
    assert edit_of(json.loads(json.dumps(edit.to_dict()))) == edit
    draft = case.draft.extended([edit])
    assert case.close(draft) > 100
    assert case.input_alone(case.draft, edit.tensor) < 60
    assert case.input_alone(draft, edit.tensor) > least
    assert not lattice.find(edited(case.model, draft.edits)[0], draft, case.values).edits
    return edit


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NORMALIZED)
def test_each_pixel_has_a_code(name: str, channels: int) -> None:
    case = Images(net(NETS["conv"], weights(channels), SHAPES[channels]), images(name, channels))
    edit = proven(case)
    assert bool(edit.factors) == (name == "imagenet" and channels == 3)
    assert bool(edit.centres) == (name != "by 128")
    assert len(edit.centres) in (0, 1, channels)


@pytest.mark.parametrize("body", ["conv without a bias", "padded", "same"])
@pytest.mark.parametrize("name", ["imagenet", "0..255", "by 128"])
def test_convolutions(body: str, name: str) -> None:
    case = Images(net(NETS[body], weights(3), SHAPES[3]), images(name, 3))
    border = body in ("padded", "same") and name == "imagenet"  # zero lies between two of its levels
    edit = proven(case, 45 if border else 100)
    ops = [node.op_type for node in case.edited(case.draft.extended([edit])).graph.node]
    assert ops.count("Pad") == (body in ("padded", "same") and bool(edit.centres))


LINEAR = {
    "gemm": "f = Flatten (x)  [p] s = Gemm (f, m, b)  a = Relu (s)  [n] y = Gemm (a, v)",
    "turned": "f = Flatten (x)  [p] s = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (f, t, b)  a = Relu (s)"
    "  [n] y = Gemm (a, v)",
    "matmul": "f = Reshape (x, sizes)  [p] q = MatMul (f, m)  [add] s = Add (q, b)  a = Relu (s)"
    "  [n] y = MatMul (a, v)",
}


@pytest.mark.parametrize("body", LINEAR)
@pytest.mark.parametrize("name", ["-1..1", "0..255", "0..1"])
def test_flat_pixels(body: str, name: str) -> None:
    held = {
        "m": (576, 32), "t": (32, 576), "b": (32,), "v": (32, 32), "sizes": np.array([16, 576], np.int64)
    }  # fmt: skip
    used = {key: one for key, one in held.items() if f", {key}" in LINEAR[body]}
    feeds = [np.tile(one, (4, 1, 1, 1)) for one in images(name, 1)]
    proven(Images(net(LINEAR[body], used, "float[16, 1, 24, 24]"), feeds))


@pytest.mark.parametrize("name", ["imagenet", "less its mean", "-1..1"])
def test_channels_last(name: str) -> None:
    body = f"t = Transpose <perm = [0, 3, 1, 2]> (x)  {NETS['conv'].replace('(x,', '(t,')}"
    case = Images(net(body, weights(3), "float[4, 24, 24, 3]"), images(name, 3, first=False))
    assert proven(case).axis == 3
    draft = case.draft.extended(case.found().edits)
    assert case.follows_maps(draft) > 100


@pytest.mark.parametrize("kind", ["float", "uint8"])
def test_a_net_that_normalizes_itself(kind: str) -> None:
    rest = NETS["padded"].replace("(x,", "(q,")
    body = f"c = Cast <to = 1> (x)  f = Sub (c, mean)  q = Div (f, std)  {rest}"
    held = {**weights(3), "mean": 255 * MEAN.reshape(1, 3, 1, 1), "std": 255 * STD.reshape(1, 3, 1, 1)}
    feeds = [one.astype(kind if kind == "uint8" else F) for one in images("0..255", 3)]
    edit = proven(Images(net(body, held, f"{kind}[4, 3, 24, 24]"), feeds), 45)
    assert edit.tensor == "q"


def test_others_read_it_as_it_was() -> None:
    body = f"{NETS['conv']}  e = Exp (x)"
    case = Images(net(body, weights(3), SHAPES[3], y="y, e"), images("imagenet", 3))
    proven(case)


def test_float_layers_read_what_the_edit_made() -> None:
    case = Images(net(NETS["padded"], weights(3), SHAPES[3]), images("imagenet", 3))
    draft = case.draft.extended([proven(case, 45)])
    model, _ = edited(case.model, draft.edits)
    ops = {node.name: node.op for node in model.graph.nodes}
    freed = insert(model, left_float(case.plan, {"p": "why", "n": "why"}, ops), draft.scales).model.to_proto()
    assert "QuantizeLinear" not in {node.op_type for node in freed.graph.node}
    pair = values_of(case.proto, case.feeds, ["y"]), values_of(freed, case.feeds, ["y"])
    assert sqnr(pair[0][0], pair[1][0]) > 100


def test_half_precision() -> None:
    body = NETS["conv"]
    case = Images(
        net(body, weights(3), SHAPES[3].replace("float", "float16")),
        [one.astype(np.float16) for one in images("0..255", 3)],
    )
    draft = case.draft.extended(case.found().edits)
    assert len(draft.edits) == 1
    assert case.close(draft) > 40


def test_what_lies_on_no_lattice() -> None:
    rng = np.random.default_rng(0)
    shape = (4, 3, 24, 24)
    body = net(NETS["conv"], weights(3), SHAPES[3])

    def why(*feeds: np.ndarray) -> str:
        found = Images(body, list(feeds)).found()
        assert not found.edits
        return found.skipped["x"]

    whole = np.arange(np.prod(shape)).reshape(shape).astype(F)
    assert "more than 256 values" in why(rng.standard_normal(shape).astype(F))
    assert "more than 256 values" in why(whole % 300)
    assert is_said(why(rng.choice(np.sqrt(np.arange(100, dtype=F)), shape)), "not-even.lattice")
    assert "256" in why(whole % 256, rng.choice(np.array([0, 0.5, 1], F), shape))
    assert is_said(why(rng.choice(np.array([0, 0.3], F), shape)), "few-values", where="channel 0", count=2)
    assert "zero" in why(np.zeros(shape, F))
    assert "code already" in why(whole % 128)
    assert "code already" in why(whole % 255 - 127)
    assert "NaN" in why(whole % 256, np.where(whole > 5, np.nan, whole % 256).astype(F))


READ = {
    "q = MatMul (x, m)  r = Relu (q)  [n] y = Conv (r, v, d)": "has no bias",
    "a = MaxPool <kernel_shape = [1, 1]> (x)  [p] s = Conv <pads = [1, 1, 1, 1]> (a, w, b)"
    "  [n] y = Conv (s, v, d)": "behind what moves it",
    "[p] s = Conv <pads = [1, 1, 1, 1]> (x, w, b)  [q] r = Conv (x, w2, b)  [n] y = Conv (s, v, d)"
    "  [n2] z = Conv (r, v, d)": "pad it alike",
}


@pytest.mark.parametrize("body", READ)
def test_why_layers_cannot_read_codes(body: str) -> None:
    held = {**weights(16), "w2": (32, 16, 4, 4), "m": (24, 32), "v": (32, 32, 1, 1)}
    if "MatMul" in body:
        held["v"] = (32, 16, 1, 1)
    used = {key: one for key, one in held.items() if f", {key}" in body}
    feeds = [pixels(4, 16, 24, 24, seed=seed) / F(255) for seed in range(2)]
    case = Images(net(body, used, "float[4, 16, 24, 24]", y="y, z" if "z =" in body else "y"), feeds)
    found = case.found()
    assert not found.edits
    assert READ[body] in found.skipped["x"]


def test_values_among_many_are_seen() -> None:
    """Of a large sample some values are looked at, in each row and column."""
    many = pixels(3, 1200, 1200)
    assert spacing_of([many], 0).steps.tolist() == [1.0]
    for place in (np.s_[:, 5::7, :], np.s_[1, :, 600]):
        odd = many.copy()
        odd[place] += F(0.3)
        with pytest.raises(NoFit):
            spacing_of([many, odd], 0)


def test_float_layers_need_none() -> None:
    layers = "[p] s = Conv (x, w)  [n] z = Conv (s, v)  y = Relu (z)"
    held = {"w": (8, 1, 3, 3), "v": (32, 8, 3, 3)}
    case = Images(net(layers, held, SHAPES[1]), images("0..1", 1))
    assert case.found() == FoundEdits((), {"x": "no quantized layer reads it"})


def test_statistics_of_what_is_put_in_between() -> None:
    case = Images(net(NETS["padded"], weights(3), SHAPES[3]), images("imagenet", 3))
    model, maps = edited(case.model, case.draft.extended([proven(case, 45)]).edits)
    (values,) = values_of(case.proto, case.feeds, ["x"])
    flat = values.reshape(len(values), -1).astype(F)
    of_x = TensorStats(flat.min(1), flat.max(1), flat.size, None, None)
    stats = Stats({"x": of_x}, np.arange(len(values)))
    after = moved(stats, maps, model).tensors
    for name in ("x_padded", "x_centred", "x_even"):
        (found,) = values_of(model.to_proto(), case.feeds, [name])
        each = found.reshape(len(found), -1)
        low, high = after[name].lows, after[name].highs
        assert (low <= each.min(1) + 1e-6).all()
        assert (high >= each.max(1) - 1e-6).all()
        assert (np.maximum(-low, high) < 1.4 * np.abs(each).max(1)).all()


def test_an_edit_of_another_model() -> None:
    case = Images(net(NETS["conv"], weights(3), SHAPES[3]), images("imagenet", 3))
    edit = proven(case)
    other = Images(net(NETS["conv"], weights(1), SHAPES[1]), images("imagenet", 1))
    with pytest.raises(UserError, match="cannot be read as codes"):
        edited(other.model, [edit])
    for change in ({"step": 0}, {"factors": [-1.0]}, {"centres": [float("nan")]}, {"axis": "x"}):
        with pytest.raises(UserError, match="lattice"):
            edit_of({**edit.to_dict(), **change})
    with pytest.raises(UserError):
        edited(case.model, [edit_of({**edit.to_dict(), "axis": 2})])
    with pytest.raises(UserError):
        edited(case.model, [edit_of({**edit.to_dict(), "readers": ["n"]})])


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("body", ["conv", "padded"])
def test_the_engine_multiplies_as_much_int8(tmp_path: Path, body: str, half: bool) -> None:
    case = Images(net(NETS[body], weights(3), SHAPES[3]), images("imagenet", 3))
    draft = case.draft.extended([proven(case, 45)])
    before = kernels(case.quantized(case.draft), tmp_path, half=half)
    after = kernels(case.quantized(draft), tmp_path, half=half)
    print(body, half, before, after)
    assert after[1] == before[1]
    assert after[0] <= before[0] + 1
