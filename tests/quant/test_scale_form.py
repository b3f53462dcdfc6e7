"""Which form of weight scales is better is said of the file alone, and the compiler agrees."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.base.reason import Reason
from onnxq.body.convert import to_half
from onnxq.compiled.traffic import traffic
from onnxq.graph.model import Model
from onnxq.quant.post_scale import post_scale
from onnxq.quant.scale_form import Better, better_forms
from onnxq.run import trt

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
PAIR = "t = Tanh (x)  q = QuantizeLinear (t, sx, z)  d = DequantizeLinear (q, sx, z)"
WIDE = Reason("user", "by the user")

NETS = {
    "conv": (
        f"g (float[1, 16, 8, 8] x) => (float[1, 32, 8, 8] y) {{ {PAIR}"
        "  w = DequantizeLinear <axis = 0> (c, s, n)"
        "  [a] m = Conv <pads = [1, 1, 1, 1]> (d, w)  y = Relu (m) }",
        {"c": (32, 16, 3, 3)},
    ),
    "two convs": (
        f"g (float[1, 16, 8, 8] x) => (float[1, 32, 8, 8] y, float[1, 32, 8, 8] u) {{ {PAIR}"
        "  w = DequantizeLinear <axis = 0> (c, s, n)  v = DequantizeLinear <axis = 0> (c2, s2, n)"
        "  [a] m = Conv (d, w)  y = Relu (m)  [b] k = Conv (d, v)  u = Sigmoid (k) }",
        {"c": (32, 16, 1, 1), "c2": (32, 16, 1, 1)},
    ),
    "two products": (
        f"g (float[1, 64, 128] x) => (float[1, 64, 128] y, float[1, 64, 128] u) {{ {PAIR}"
        "  w = DequantizeLinear <axis = 1> (c, s, n)  [a] m = MatMul (d, w)  y = Relu (m)"
        "  v = DequantizeLinear <axis = 1> (c2, s2, n)  [b] k = MatMul (d, v)  u = Sigmoid (k) }",
        {"c": (128, 128), "c2": (128, 128)},
    ),
    "cut": (
        f"g (float[1, 64, 64] x) => (float[1, 2, 64, 32] y) {{ {PAIR}"
        "  w = DequantizeLinear <axis = 1> (c, s, n)  [a] m = MatMul (d, w)  e = Add (m, bias)"
        "  r = Reshape (e, shape)  p = Transpose <perm = [2, 0, 3, 1, 4]> (r)"
        "  i0, j0, l0 = Split <axis = 0, num_outputs = 3> (p)  i = Squeeze (i0, zero)"
        "  j = Squeeze (j0, zero)  l = Squeeze (l0, zero)  h = Transpose <perm = [0, 1, 3, 2]> (j)"
        "  f = MatMul (i, h)  o = Softmax (f)  y = MatMul (o, l) }",
        {"c": (64, 192)},
    ),
    "not cut": (
        f"g (float[1, 64, 32] x) => (float[1, 64, 96] y) {{ {PAIR}  w = DequantizeLinear <axis = 1> (c, s, n)"
        "  [a] m = MatMul (d, w)  i, j, l = Split <axis = 2, num_outputs = 3> (m)  k = Mul (i, j)"
        "  y = Concat <axis = 2> (i, k, l) }",
        {"c": (32, 96)},
    ),
}


def net(name: str) -> onnx.ModelProto:
    """A quantized net; scales differ between and inside layers."""
    random = np.random.default_rng(0)
    text, codes = NETS[name]
    model = parser.parse_model(HEAD + text)
    given: dict[str, np.ndarray] = {
        "sx": np.array(0.02, np.float32),
        "z": np.array(0, np.int8),
        "zero": np.array([0]),
        "shape": np.array([1, 64, 3, 2, 32]),
        "bias": random.standard_normal(192).astype(np.float32),
    }
    for key, shape in codes.items():
        channels = shape[1] if len(shape) == 2 else shape[0]
        given[key] = random.integers(-127, 128, shape).astype(np.int8)
        given[key.replace("c", "s")] = np.exp(random.uniform(-8, -6, channels)).astype(np.float32)
        given["n"] = np.zeros(channels, np.int8)
    model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in given.items())
    return onnx.shape_inference.infer_shapes(model)


def better(name: str, *, half: bool, stays: Collection[str] = ()) -> dict[str, Better]:
    return better_forms(Model.open(net(name)), half=half, stays=stays)


@pytest.mark.parametrize(
    ("name", "half", "stays", "codes"),
    [
        ("conv", True, (), {"a": "half"}),
        ("conv", False, (), {"a": "float32"}),
        ("conv", True, ("a",), {"a": "float32"}),
        ("two convs", True, ("b",), {"a": "half", "b": "float32"}),
        ("two products", True, (), {"a": "half", "b": "half"}),
        ("two products", True, ("b",), {"a": "mixed", "b": "float32"}),
        ("two products", False, (), {"a": "float32", "b": "float32"}),
        ("cut", False, (), {"a": "int8"}),
        ("cut", True, (), {"a": "half"}),
        ("not cut", False, (), {"a": "float32"}),
    ],
)
def test_what_is_better(name: str, half: bool, stays: tuple[str, ...], codes: dict[str, str]) -> None:
    found = better(name, half=half, stays=stays)
    assert {key: said.why.code for key, said in found.items()} == codes
    assert all(said.post_scaled == (said.why.code in ("half", "int8")) for said in found.values())


def compiled(
    name: str, folder: Path, layers: Collection[str], *, half: bool, stays: Collection[str] = ()
) -> trt.Engine:
    model = Model.open(net(name))
    assert set(post_scale(model, layers).layers) == set(layers)
    if half:
        model = to_half(model, "fp16", dict.fromkeys(stays, WIDE)).model
    onnx.save(model.to_proto(), folder / "m.onnx")
    return trt.compile_engine(folder / "m.onnx")


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_the_engine_agrees(name: str, half: bool, tmp_path: Path) -> None:
    found = better(name, half=half)
    engines = [compiled(name, tmp_path, layers, half=half) for layers in ((), found)]
    one, other = ((traffic(engine.layers), int8(engine, found)) for engine in engines)
    if any(said.post_scaled for said in found.values()):
        assert (other[0].moved_mb, -other[1]) < (one[0].moved_mb, -one[1])
        assert other[0].kernels <= one[0].kernels
    else:
        assert other == one


def int8(engine: trt.Engine, names: Collection[str]) -> int:
    return sum(
        layer is not None and layer.multiplies("int8") for layer in trt.int8_of(engine, names).values()
    )


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_of_products_of_one_tensor_all_or_none_has_the_form(tmp_path: Path) -> None:
    """Why `mixed` keeps a scale a channel: on what would be better for one of them the compiler fails."""

    def status(name: str, layers: Collection[str], stays: str) -> str:
        return compiled(name, tmp_path, layers, half=True, stays=[stays]).status

    assert "failed" in {status("two products", ["a", "b"], stays) for stays in "ab"}
    assert status("two products", [], "b") == "compiled"
    assert status("two convs", ["a", "b"], "b") == "compiled"
