"""Smooth: channels that stand out move into the weights, where each output channel has a scale of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from edit_nets import Case, kernels, net
from onnx import TensorProto, helper, numpy_helper

from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.repair import scale, smooth
from onnxq.run import trt

CLOSE_DB = 105.0
"""Factors are no powers of two: each weight is rounded."""

GAMMA = np.ones(64, np.float32)
GAMMA[[3, 17, 40]] = 25, 60, 12
WEIGHTS = {
    "gamma": GAMMA,
    "beta": (64,),
    "w": (64, 128),
    "v": (64, 64),
    "o": (64, 32),
    "b": (128,),
    "eps": np.array(1e-5, np.float32),
    "two": np.array(2, np.float32),
    "g128": np.where(np.arange(128) % 37 == 5, 30, 1).astype(np.float32),
    "wide": np.where(np.arange(128) % 37 == 5, 30, 1).astype(np.float32)
    * np.random.default_rng(5).standard_normal((64, 128)).astype(np.float32)
    / 8,
    "down": (128, 64),
    "heads": np.array([2, 32, 4, 16]),
    "flat": np.array([2, 32, 64]),
    "vo": np.where(np.arange(64) == 9, 40, 1).astype(np.float32)
    * np.random.default_rng(6).standard_normal((64, 64)).astype(np.float32)
    / 8,
    "last": np.array([-1]),
}
NETS = {
    "layer norm": "n = LayerNormalization (x, gamma, beta)  t = MatMul (n, w)  y = Add (t, b)",
    "layer norm without beta": "n = LayerNormalization (x, gamma)  y = MatMul (n, w)",
    "two readers": "n = LayerNormalization (x, gamma, beta)  y = MatMul (n, w)  z = MatMul (n, v)",
    "skip": "m = MatMul (x, v)"
    "  n = com.microsoft.SkipLayerNormalization (m, x, gamma, beta)  y = MatMul (n, w)",
    "rms": "n = RMSNormalization (x, gamma)  y = MatMul (n, w)",
    "in steps": """m = ReduceMean <axes = [-1]> (x)
        d = Sub (x, m)  p = Pow (d, two)
        s = ReduceMean <axes = [-1]> (p)
        e = Add (s, eps)  q = Sqrt (e)  r = Div (d, q)
        g = Mul (r, gamma)  n = Add (g, beta)  y = MatMul (n, w)""",
    "rms in steps": """p = Mul (x, x)
        s = ReduceMean <axes = [-1]> (p)  e = Add (s, eps)  q = Sqrt (e)
        r = Div (x, q)  n = Mul (gamma, r)  y = MatMul (n, w)""",
    "gate": "h = MatMul (x, w)  s = Sigmoid (h)  u = MatMul (x, wide)  m = Mul (s, u)  y = MatMul (m, down)",
    "gelu": """u = MatMul (x, wide)  h = Mul (u, eps2)  r = Erf (u)  a = Add (r, one)  m = Mul (h, a)
        y = MatMul (m, down)""",
    "values": """q = MatMul (x, v)  k = Reshape (q, heads)  kt = Transpose <perm = [0, 2, 3, 1]> (k)
        kq = Transpose <perm = [0, 2, 1, 3]> (k)  sc = MatMul (kq, kt)  pr = Softmax (sc)
        u = MatMul (x, vo)  uh = Reshape (u, heads)  ut = Transpose <perm = [0, 2, 1, 3]> (uh)
        c = MatMul (pr, ut)
        ct = Transpose <perm = [0, 2, 1, 3]> (c)  f = Reshape (ct, flat)  y = MatMul (f, o)""",
}
TENSOR = {"gate": "m", "gelu": "m", "values": "f"}
GAIN = {"gelu": 3.0, "values": 2.0, "gate": 2.0}


def case_of(name: str) -> Case:
    weights = {**WEIGHTS, "eps2": np.array(0.5, np.float32), "one": np.array(1, np.float32)}
    outputs = "y, z" if "z =" in NETS[name] else "y"
    proto = net(NETS[name], weights, x="float[2, 32, 64]", y=outputs, opset=23 if name == "rms" else 17)
    if name == "skip":  # whose shapes ONNX does not infer
        proto.graph.value_info.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, [2, 32, 64]))
    return Case(proto)


@pytest.mark.parametrize("name", NETS)
def test_the_outputs_stay_and_noise_falls(name: str) -> None:
    case = case_of(name)
    found = smooth.find(case.model, case.draft, case.channels, alpha=0.5)
    tensor = TENSOR.get(name, "n")
    (edit,) = (edit for edit in found.edits if edit.tensor == tensor)
    assert isinstance(edit, scale.Scale)
    assert edit.kind == "smooth"
    assert edit_of(json.loads(json.dumps(edit.to_dict()))) == edit
    draft = case.draft.extended([edit])
    assert case.close(draft) > CLOSE_DB
    assert case.follows_maps(draft) > CLOSE_DB
    assert case.noise(draft) > case.noise(case.draft) + GAIN.get(name, 3.0)
    everything = case.draft.extended(found.edits)
    assert case.close(everything) > CLOSE_DB


def test_alpha_is_how_much_moves() -> None:
    case = case_of("layer norm")
    amax = case.channels["n"]
    (whole,) = smooth.find(case.model, case.draft, case.channels, alpha=1.0).edits
    assert isinstance(whole, scale.Scale)
    after = amax * np.array(whole.factors)
    assert after.max() / after.min() == pytest.approx(1, rel=1e-4)
    (none,) = smooth.find(case.model, case.draft, case.channels, alpha=0.0).edits
    assert isinstance(none, scale.Scale)
    columns = np.abs(weights_of(case)).max(1) / np.array(none.factors)
    assert columns.max() / columns.min() == pytest.approx(1, rel=1e-4)


def weights_of(case: Case) -> np.ndarray:
    (found,) = (t for t in case.proto.graph.initializer if t.name == "w")
    return numpy_helper.to_array(found)


REFUSED = {
    "relu": "u = MatMul (x, wide)  m = Relu (u)  y = MatMul (m, down)",
    "an input": "y = MatMul (x, w)",
    "an output": "n = LayerNormalization (x, gamma, beta)  y = MatMul (n, w)  z = Identity (n)",
    "silu": "u = MatMul (x, wide)  s = Sigmoid (u)  m = Mul (s, u)  y = MatMul (m, down)",
    "residual": "n = LayerNormalization (x, gamma, beta)  t = MatMul (n, v)  z = Add (t, x)  y = Add (z, n)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_move_is_left(name: str) -> None:
    outputs = "y, z" if "z =" in REFUSED[name] else "y"
    case = Case(net(REFUSED[name], WEIGHTS, x="float[2, 32, 64]", y=outputs))
    found = smooth.find(case.model, case.draft, case.channels)
    assert case.plan.sites
    assert not [edit for edit in found.edits if edit.tensor in ("n", "m", "x")]
    assert set(found.skipped) & {"n", "m", "x"}


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("name", ["layer norm", "gelu", "gate"])
def test_the_engine_has_as_many_kernels(tmp_path: Path, name: str) -> None:
    case = case_of(name)
    found = smooth.find(case.model, case.draft, case.channels)
    before = kernels(case.quantized(case.draft), tmp_path, half=True)
    assert kernels(case.quantized(case.draft.extended(found.edits)), tmp_path, half=True) == before
