"""A half body without data: what weights bound is converted, what nothing bounds stays, and data free it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper, parser
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.body.bounds import ASSUMED, assumed, bounds
from onnxq.graph.model import Model
from onnxq.quant.plan_reading import read_plan
from onnxq.run import ort, trt

BOUNDED = "[a] h = MatMul (x, w)  [r] i = Relu (h)  [b] j = MatMul (i, v)  [s] y = Sigmoid (j)"
UNBOUNDED = {
    "exponential": "[a] h = MatMul (x, w)  [o] i = Exp (h)  [b] j = MatMul (i, v)  [s] y = Tanh (j)",
    "power": "[a] h = MatMul (x, w)  [o] i = Pow (h, p)  [b] j = MatMul (i, v)  [s] y = Tanh (j)",
    "quotient": "[a] h = MatMul (x, w)  [c] k = Softplus (h)  [o] i = Div (h, k)  [b] j = MatMul (i, v)"
    "  [s] y = Tanh (j)",
    "sum of squares": "[a] h = MatMul (x, w)  [q] k = Mul (h, h)  [o] i = ReduceSum (k, l)"
    "  [e] m = Add (i, h)  [b] j = MatMul (m, v)  [s] y = Tanh (j)",
}


def net(text: str, opset: int = 17) -> onnx.ModelProto:
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[N, 64] x) => (float[N, 64] y) {{ {text} }}'
    )
    random = np.random.default_rng(0)
    constants: dict[str, Any] = {n: random.standard_normal((64, 64)).astype(np.float32) / 8 for n in "wv"}
    constants |= {"p": np.float32(3), "l": np.array([-1])}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in used
    )
    return model


def samples(scale: float = 0.1) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": (scale * random.standard_normal((4, 64))).astype(np.float32)} for _ in range(16)]


def float32(result: Any) -> set[str]:
    return {entry.node for entry in result.report.body.float32}


def notes(result: Any) -> str:
    return "\n".join(result.report.body.notes)


def nearness(model: onnx.ModelProto, other: onnx.ModelProto) -> float:
    """How near the outputs are on numbers as large as what the bounds are for, dB."""
    noise = signal = 0.0
    for feeds in samples(1.0):
        (one,), (two,) = ort.load(model).run(feeds), ort.load(other).run(feeds)
        noise, signal = noise + float(((one - two) ** 2).sum()), signal + float((one**2).sum())
    return 10 * np.log10(signal / max(noise, 1e-30))


def test_what_weights_bound_is_all_half() -> None:
    model = net(BOUNDED)
    result = onnxq.sanitize(model, body="fp16")
    assert (float32(result), result.report.body.half) == (set(), 4)
    kinds = {one.data_type for one in result.model.graph.initializer}
    assert kinds == {TensorProto.FLOAT16}
    assert result.report.body.outputs[0].body_db > 50
    assert nearness(model, result.model) > 50
    assert is_said(notes(result), "body-ranges.no-data", assumed=64)
    assert "made up" in notes(result)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_what_nothing_bounds_stays_and_data_free_it(name: str) -> None:
    model = net(UNBOUNDED[name])
    result = onnxq.sanitize(model, body="fp16")
    assert {"o", "b"} <= float32(result)
    assert "a" not in float32(result)
    assert is_said(notes(result), "body-ranges.free")
    assert "b (MatMul: " in notes(result)
    assert nearness(model, result.model) > 40
    freed = onnxq.sanitize(model, samples(), body="fp16")
    assert "b" not in float32(freed)
    assert "lack of data" not in notes(freed)


def test_large_inputs_do_not_overflow() -> None:
    half = onnxq.sanitize(net(BOUNDED), body="fp16", io="fp16").model
    large = [np.full((1, 64), 4 * ASSUMED, np.float16), np.zeros((1, 64), np.float16)]
    for value in large:
        assert np.isfinite(ort.load(half).run({"x": value})[0]).all()


BOUNDS = {
    "product": "y = MatMul (x, w)", "power": "h = Tanh (x)  y = Pow (h, p)",
    "quotient": "y = Div (x, c)", "exponential": "h = Tanh (x)  y = Exp (h)",
    "root": "h = Abs (x)  y = Sqrt (h)",
    "normalization": "y = LayerNormalization (x, g, d)",
    "attention": "t = Transpose (x)  h = MatMul (x, t)  s = Softmax (h)  y = MatMul (s, x)",
    "matrices": "t = Transpose (x)  h = MatMul (x, t)  y = MatMul (h, x)",
}  # fmt: skip


@given(st.sampled_from(sorted(BOUNDS)), st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 1e3]))
def test_bounds_hold(name: str, seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[8, 8] x) => (float[8, 8] y) {{ {BOUNDS[name]} }}'
    )
    values = {
        "w": random.standard_normal((8, 8)), "p": np.array(3.0), "c": random.uniform(0.1, 4, 8),
        "g": random.standard_normal(8), "d": random.standard_normal(8),
    }  # fmt: skip
    used = {one for node in model.graph.node for one in node.input}
    for key in used & values.keys():
        model.graph.initializer.append(numpy_helper.from_array(values[key].astype(np.float32), key))
    opened = Model.open(model)
    found = {
        tensor.name: bounds(opened, assumed(opened)).get(tensor)
        for node in opened.nodes
        for tensor in node.outputs
    }
    x = np.clip(scale * random.standard_normal((8, 8)), -ASSUMED, ASSUMED).astype(np.float32)
    got = ort.load(model).run({"x": x})[0]
    if found["y"] is None:
        assert name == "matrices"
    else:
        assert np.abs(got).max() <= found["y"] * (1 + 1e-5)


def test_bfloat16_needs_no_bounds() -> None:
    result = onnxq.sanitize(net(UNBOUNDED["quotient"], opset=22), body="bf16")
    assert float32(result) == set()
    assert "lack of data" not in notes(result)


def test_a_model_that_runs_on_nothing_made_up_is_converted_unseen() -> None:
    model = net(f"[i] k = Reshape (x, d)  {BOUNDED.replace('(x', '(k')}")
    model.graph.initializer.append(numpy_helper.from_array(np.array([7, 64]), "d"))
    result = onnxq.sanitize(model, body="fp16")
    assert result.report.body.half
    assert not result.report.body.outputs
    assert is_said(notes(result), "body-did-not-run", dtype="float16")


class TestKeepFloat32:
    """Nodes that the user has stay float32."""

    @pytest.mark.parametrize("data", [None, samples()])
    def test_exactly_what_is_named(self, data: Any) -> None:
        result = onnxq.sanitize(net(BOUNDED), data, body="fp16", keep_fp32=["b", "s"])
        assert float32(result) == {"b", "s"}
        assert {entry.because for entry in result.report.body.float32} == {"keep_fp32 b", "keep_fp32 s"}
        kinds = {one.name: one.data_type for one in result.model.graph.initializer}
        assert kinds == {"w": TensorProto.FLOAT16, "v": TensorProto.FLOAT}

    def test_is_not_quantized_either(self) -> None:
        quick: dict[str, Any] = {"prove": "never", "compile": False, "repair": "none", "method": "minmax"}
        free = onnxq.quantize(wide(), wide_samples(), **quick)
        assert {"b"} <= {layer.node for layer in free.report.plan.layers if layer.node not in kept(free)}
        result = onnxq.quantize(wide(), wide_samples(), keep_fp32=["b"], **quick)
        assert kept(result)["b"] == "keep_fp32 b"
        assert "b" in float32(result)
        assert "a" not in kept(result)
        assert float32(result) - float32(free) == {"b"}

    def test_of_a_plan_file(self, tmp_path: Path) -> None:
        for data in (None, wide_samples()):
            onnxq.plan(wide(), data, keep_fp32=["b"], prove="never").save(tmp_path / "p.toml", force=True)
            body = read_plan(tmp_path / "p.toml").body
            assert body is not None
            assert body.settled == (data is not None)
            assert dict(body.float32) == {"b": "keep_fp32 b"}
            obeying: dict[str, Any] = {"plan": tmp_path / "p.toml", "prove": "never", "compile": False}
            assert "b" in float32(onnxq.quantize(wide(), wide_samples(), **obeying))
            more = onnxq.quantize(wide(), wide_samples(), keep_fp32=["s"], **obeying)
            assert {"b", "s"} <= float32(more)

    def test_a_node_keeps_its_bodies(self) -> None:
        text = """[l] y = If (c) <then_branch = t () => (float[N, 64] k) { [in] k = MatMul (h, w) },
            else_branch = e () => (float[N, 64] q) { [other] q = MatMul (h, w) }>"""
        model = net(
            f"[a] h = MatMul (x, w)  [n] n = Shape (x)  [m] m = Gather (n, z)  [q] c = Equal (m, z)  {text}"
        )
        model.graph.initializer.append(numpy_helper.from_array(np.array(0), "z"))
        assert "in" not in float32(onnxq.sanitize(model, body="fp16", prove="never"))
        assert {"in", "other"} <= float32(onnxq.sanitize(model, body="fp16", prove="never", keep_fp32=["l"]))
        one = float32(onnxq.sanitize(model, body="fp16", prove="never", keep_fp32=["in"]))
        assert "in" in one
        assert "other" not in one

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"body": "fp16", "keep_fp32": ["nobody*"]}, "there is no node 'nobody"),
            ({"keep_fp32": ["a"]}, "there is none"),
            ({"body": "fp32", "keep_fp32": ["a"]}, "there is none"),
        ],
    )
    def test_mistakes(self, said: dict[str, Any], message: str) -> None:
        with pytest.raises(UserError, match=message):
            onnxq.sanitize(net(BOUNDED), samples(), **said)
        if "body" in said:
            with pytest.raises(UserError, match=message):
                onnxq.quantize(net(BOUNDED), samples(), **said)

    def test_pairs_of_the_file_stay(self) -> None:
        model = onnxq.quantize(wide(), wide_samples(), prove="never", compile=False, body="fp32").model
        with pytest.raises(UserError, match="the model itself quantizes node 'b'"):
            onnxq.quantize(model, wide_samples(), pairs="keep", keep_fp32=["b"], prove="never", compile=False)


def wide() -> onnx.ModelProto:
    """Two layers that have enough rows for int8."""
    model = net(BOUNDED)
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].dim_value = 256
    return model


def wide_samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((256, 64)).astype(np.float32)} for _ in range(16)]


def kept(result: Any) -> dict[str, str]:
    return {entry.node: entry.because for entry in result.report.plan.kept_float}


@pytest.mark.skipif(trt.installed() is None, reason="the compiler is not installed")
@pytest.mark.parametrize("text", [BOUNDED, *UNBOUNDED.values()], ids=["bounded", *UNBOUNDED])
def test_the_compiler_takes_it(text: str, tmp_path: Path) -> None:
    onnxq.sanitize(net(text), body="fp16", keep_fp32=["a"]).save(tmp_path / "half.onnx")
    profiles = {"x": ((1, 64), (4, 64), (8, 64))}
    assert trt.compile_engine(tmp_path / "half.onnx", profiles=profiles).status == "compiled"
