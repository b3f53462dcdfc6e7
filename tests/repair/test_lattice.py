"""Lattice: an input of 8-bit pixels is quantized without an error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from edit_nets import RULES, Case, kernels, net, sqnr, values_of

from onnxq.errors import UserError
from onnxq.quant.insert import in_float, insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.repair import lattice
from onnxq.repair.draft import Draft
from onnxq.repair.edits import edited
from onnxq.repair.found import FoundEdits
from onnxq.repair.registry import edit_of
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
        amax = dict(zip(self.plan.measured, values_of(self.proto, self.feeds, self.plan.measured), strict=True))
        self.draft = Draft(self.plan, {name: float(np.abs(values).max()) for name, values in amax.items()})

    def values(self, name: str) -> Iterable[np.ndarray]:
        return values_of(self.proto, self.feeds, [name])[0] if name not in self.feeds[0] else (
            feed[name] for feed in self.feeds
        )

    def found(self) -> FoundEdits:
        return lattice.find(self.model, self.draft, self.values)

    def input_alone(self, draft: Draft) -> float:
        """The SQNR, dB, of the first output with all in float but the input's pair."""
        model, _ = edited(self.model, draft.edits)
        floats = model.to_proto()
        copy = MeasuringCopy.of(model, draft.plan, draft.scales)
        first = {site.tensor for site in draft.plan.sites if site.kind == "activation"}
        near = {group.id for group in draft.plan.groups if self.proto.graph.input[0].name in group.tensors}
        off = [s.tensor for s in draft.plan.sites if s.kind == "weight" or s.group not in near]
        assert first
        reference = values_of(self.proto, self.feeds, self.outputs[:1])[0]
        runs = [copy.run_each(feed, [Candidate(float_sites=off)], self.outputs[:1]) for feed in self.feeds]
        assert floats
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
    assert edit_of(json.loads(json.dumps(edit.to_json()))) == edit
    draft = case.draft.extended([edit])
    assert case.close(draft) > 100
    assert case.input_alone(case.draft) < 60
    assert case.input_alone(draft) > least
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
