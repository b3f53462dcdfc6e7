"""Models that hold Q/DQ pairs: what they have is kept, what lacks is added, nothing is doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from grid_nets import Net
from test_compiled import NETS

import onnxq
from onnxq.errors import UserError
from onnxq.run import trt


def data(model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return [{n: rng.standard_normal(s, np.float32) for n, s in shapes.items()} for _ in range(4)]


def quantize(model: onnx.ModelProto, **arguments: object) -> onnxq.Result:
    return onnxq.quantize(model, data(model), **{"compile": False, **arguments})  # type: ignore[arg-type]


def counts(result: onnxq.Result) -> Counter[str]:
    return Counter(node.op_type for node in result.model.graph.node)


def layers(result: onnxq.Result) -> dict[str, bool]:
    return {layer["node"]: layer["int8"] for layer in result.report["plan"]["layers"]}


@pytest.mark.parametrize("name", NETS)
def test_a_quantized_model_is_left_as_it_is(name: str) -> None:
    once = quantize(NETS[name]())
    twice = quantize(once.model)
    assert twice.model.graph == once.model.graph
    assert twice.report["plan"]["sites"] == []
    assert layers(twice) == layers(once)
    assert set(layers(once).values()) == {True}


@pytest.mark.parametrize("name", NETS)
def test_a_half_quantized_model_is_completed(name: str) -> None:
    whole = quantize(NETS[name]())
    for layer in layers(whole):
        half = quantize(NETS[name](), keep_float=[layer])
        assert not layers(half)[layer]
        result = quantize(half.model)
        assert all(layers(result).values())
        assert counts(result) == counts(whole)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("name", ["conv 2-D", "residual", "concat"])
def test_a_completed_model_runs_in_int8(name: str) -> None:
    layer = list(layers(quantize(NETS[name]())))[1]
    half = quantize(NETS[name](), keep_float=[layer])
    engine = quantize(half.model, compile=True).report["engine"]
    assert engine["status"] == "compiled", engine
    assert engine["int8"] == engine["planned"] == len(layers(half))


def pair(net: Net, x: str, scale: float) -> str:
    zero, size = net.const(np.int8(0)), net.const(np.float32(scale))
    codes = net.add("QuantizeLinear", x, size, zero)
    return net.add("DequantizeLinear", codes, size, zero)


def test_others_read_the_models_own_pair() -> None:
    net = Net(1, 16, 8, 8)
    own = pair(net, "x", 0.03)
    a, b = net.conv(own, 16, 16, 1, 1), net.conv("x", 16, 16, 3, 3)
    result = quantize(net.model(a, b))
    assert counts(result)["QuantizeLinear"] == 1
    assert [pair["tensor"] for pair in result.report["plan"]["own_pairs_read"]] == ["x"]
    assert all(layers(result).values())
    scales = [n.input[1] for n in result.model.graph.node if n.op_type == "QuantizeLinear"]
    (scale,) = (onnx.numpy_helper.to_array(t) for t in result.model.graph.initializer if t.name in scales)
    assert scale == np.float32(0.03)


@pytest.mark.parametrize("codes", [True, False])
def test_quantized_weights_get_a_quantized_input(codes: bool) -> None:
    net = Net(1, 16, 8, 8)
    weights = np.arange(16 * 16, dtype=np.float32).reshape(16, 16, 1, 1) % 13 - 6
    if codes:
        scale, zero = net.const(np.float32(1)), net.const(np.int8(0))
        weight = net.add("DequantizeLinear", net.const(weights.astype(np.int8)), scale, zero)
    else:
        weight = pair(net, net.const(weights), 1.0)
    result = quantize(net.model(net.add("Conv", "x", weight, name="c")))
    assert layers(result) == {"c": True}
    assert [site["tensor"] for site in result.report["plan"]["sites"]] == ["x"]


def test_a_quantized_input_gets_quantized_weights() -> None:
    net = Net(1, 16, 8, 8)
    result = quantize(net.model(net.conv(pair(net, "x", 0.03), 16, 16, 1, 1)))
    assert [site["kind"] for site in result.report["plan"]["sites"]] == ["weight"]
    assert all(layers(result).values())


def test_what_the_model_quantizes_cannot_be_kept_in_float() -> None:
    model = quantize(NETS["gemm"]()).model
    with pytest.raises(UserError, match="the model itself quantizes"):
        quantize(model, keep_float=[next(n.name for n in model.graph.node if n.op_type == "Gemm")])


def test_what_onnxruntime_quantized_is_kept(tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    model = NETS["residual"]()
    feeds = iter(data(model))

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(feeds, None)

    onnx.save(model, tmp_path / "float.onnx")
    quantization.quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "int8.onnx",
        Reader(),
        activation_type=quantization.QuantType.QInt8,
        per_channel=True,
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False},
    )
    before = Counter(node.op_type for node in onnx.load(tmp_path / "int8.onnx").graph.node)
    result = quantize(onnx.load(tmp_path / "int8.onnx"))
    assert all(layers(result).values())
    assert counts(result)["QuantizeLinear"] == before["QuantizeLinear"] > 4


@pytest.mark.parametrize("how", ["other scale", "computed scale", "truncated"])
def test_a_pair_that_is_not_symmetric_serves_nobody_else(how: str) -> None:
    net = Net(1, 16, 8, 8)
    zero, one, other = net.const(np.int8(0)), net.const(np.float32(0.03)), net.const(np.float32(5))
    c = net.conv("x", 16, 16, 1, 1)
    if how == "computed scale":
        one = other = net.add("ReduceMax", net.add("Abs", c), keepdims=0)
    source = net.add("Cast", net.add("Cast", "x", to=6), to=1) if how == "truncated" else "x"
    codes = net.add("QuantizeLinear", source, one, zero)
    pair = net.add("DequantizeLinear", codes, one if how == "truncated" else other, zero)
    result = quantize(net.model(c, pair))
    assert result.report["plan"]["own_pairs_read"] == []
    assert layers(result) == {"conv1": True}
