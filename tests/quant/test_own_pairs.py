"""Models that hold Q/DQ pairs: what they have is kept, what lacks is added, nothing is doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from grid_nets import Net
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from test_compiled import NETS

import onnxq
from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.quant.insert import unify_scale_types
from onnxq.run import trt


def data(model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return [{n: rng.standard_normal(s, np.float32) for n, s in shapes.items()} for _ in range(4)]


def quantize(model: onnx.ModelProto, **arguments: object) -> onnxq.Result:
    return onnxq.quantize(
        model, data(model), **{"compile": False, "body": "fp32", "repair": "none", **arguments}
    )  # type: ignore[arg-type]


def counts(result: onnxq.Result) -> Counter[str]:
    return Counter(node.op_type for node in result.model.graph.node)


def layers(result: onnxq.Result) -> dict[str, bool]:
    """Whether each layer with constant weights is quantized."""
    found = result.report["plan"]["layers"]
    return {layer["node"]: layer["format"] == "int8" for layer in found if layer["weights"]}


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


@pytest.mark.parametrize(
    ("kind", "says"),
    [("int4", "weights as int4 in blocks of 16"), ("fp8", "'d' as fp8, which products in int8")],
)
def test_other_codes_than_int8_are_not_completed(kind: str, says: str) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    if kind == "int4":
        codes = helper.make_tensor("q", TensorProto.INT4, [32, 16], np.arange(512) % 15 - 7)
        scales = numpy_helper.from_array(np.full((2, 16), 0.1, np.float32), "s")
        nodes = [
            helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=16),
            helper.make_node("MatMul", ["x", "w"], ["y"], name="m"),
        ]
        constants = [codes, scales]
    else:
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("MatMul", ["d", "w"], ["y"], name="m"),
        ]
        zero = helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0])
        weights = numpy_helper.from_array(np.linspace(-1, 1, 512, dtype=np.float32).reshape(32, 16), "w")
        constants = [numpy_helper.from_array(np.float32(0.1), "s"), zero, weights]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    result = quantize(model, number_format="int8")  # a file in fp8 stays fp8 by itself
    assert layers(result) == {"m": False}
    assert result.report["plan"]["sites"] == []
    (kept,) = result.report["plan"]["kept_float"]
    assert (kept["code"], kept["by"]) == ("other-codes", "model")
    assert says in kept["because"]


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


def with_vector_scales(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with scales and zero points of shape [1] where it has scalars."""
    pairs = [n for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    operands = {name for node in pairs for name in node.input[1:]}
    for tensor in model.graph.initializer:
        if tensor.name in operands and not tensor.dims:
            tensor.dims.append(1)
    return model


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_scales_of_shape_1_are_repaired(tmp_path: Path) -> None:
    model = with_vector_scales(quantize(NETS["residual"]()).model)
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "before.onnx")
    names = [node.name for node in model.graph.node if node.op_type == "Conv"]

    def int8(path: Path) -> list[bool]:
        found = trt.int8_of(trt.compile_engine(path), names).values()
        return [layer is not None and layer.multiplies("int8") for layer in found]

    assert int8(tmp_path / "before.onnx") == [False] * 4
    result = onnxq.sanitize(model)
    assert {c["rule"] for c in result.report["changes"]} == {"scalar_scales"}
    assert result.report["proved"]["exact"] == len(result.report["changes"])
    onnx.save(result.model, tmp_path / "after.onnx")
    assert int8(tmp_path / "after.onnx") == [True] * 4


def one_channel(op: str) -> onnx.ModelProto:
    """Layers of one output channel, of one for all weights, and of one a channel."""
    net = Net(1, 32, 16, 16) if op == "Conv" else Net(32, 64)
    if op == "Conv":
        return net.model(net.conv("x", 32, 1, 3, 3), net.conv("x", 32, 32, 1, 1))
    narrow = net.const(np.linspace(-1, 1, 64, dtype=np.float32).reshape(64, 1))
    stacked = net.const(net.weights(1, 64, 16))
    outputs = [net.add(op, "x", narrow)]
    if op == "MatMul":
        outputs.append(net.add(op, net.add("Unsqueeze", "x", net.const(np.array([0]))), stacked))
    return net.model(*outputs)


@pytest.mark.parametrize("op", ["Conv", "Gemm", "MatMul"])
@pytest.mark.parametrize("method", ["auto", "minmax"])
def test_no_scale_of_ours_has_shape_1(op: str, method: str) -> None:
    result = quantize(one_channel(op), method=method)
    assert all(layers(result).values())
    constants = {tensor.name: tensor for tensor in result.model.graph.initializer}
    for node in result.model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            scale, zero = (list(constants[name].dims) for name in node.input[1:])
            assert scale == zero != [1]
            assert bool(scale) == any(a.name == "axis" for a in node.attribute)


def half_quantized(side: str) -> onnx.ModelProto:
    """Two float16 products of x and one of their sum; one side of each has a pair with float16 scales."""
    net, half = Net(1, 32, 64), np.float16
    zero = net.const(np.int8(0))

    def product(x: str, seed: int) -> str:
        weights = net.weights(64, 64, seed=seed)
        if side == "data" or (side == "some weights" and seed):
            return net.add("MatMul", x, net.const(weights.astype(half)))
        scales = net.const(np.linspace(0.001, 0.002, 64).astype(half))
        codes, zeros = net.const((weights * 127).astype(np.int8)), net.const(np.zeros(64, np.int8))
        return net.add("MatMul", x, net.add("DequantizeLinear", codes, scales, zeros, axis=1))

    def data(x: str) -> str:
        if side != "data":
            return x
        scale = net.const(half(0.03))
        return net.add("DequantizeLinear", net.add("QuantizeLinear", x, scale, zero), scale, zero)

    x = data("x")
    model = net.model(product(data(net.add("Add", product(x, 0), product(x, 1))), 2), opset=19)
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    del model.graph.value_info[:]
    model.ir_version = 9
    return model


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("side", ["data", "weights", "some weights"])
def test_what_float16_scales_leave_half_quantized_compiles(side: str, tmp_path: Path) -> None:
    model = half_quantized(side)
    onnx.save(model, tmp_path / "before.onnx")
    assert trt.compile_engine(tmp_path / "before.onnx").status == "compiled"
    samples = [{"x": sample["x"].astype(np.float16)} for sample in data(model)]
    result = onnxq.quantize(model, samples, method="minmax")
    assert all(layers(result).values())
    engine = result.report["engine"]
    assert engine["status"] == "compiled", engine["reason"]
    assert engine["not_int8"] == []
    assert any("scales" in note and "float32" in note for note in result.report["calibration"]["notes"])


def test_float16_scales_become_float32_only_where_they_meet_them() -> None:
    text = """<ir_version: 9, opset_import: ["" : 19]> g (float16[32, 16] x, float16[32, 16] u) => (y, v)
        <float16 s = {10158}, float16 r = {8479}, float f = {0.01}, int8[16, 16] w = {%s}, int8 z = {0}> {
        q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)
        a = DequantizeLinear (w, r, z)  b = DequantizeLinear (w, f, z)  c = Cast <to = 10> (b)
        one = MatMul (d, a)  two = MatMul (d, c)  y = Add (one, two)
        p = QuantizeLinear (u, s, z)  e = DequantizeLinear (p, s, z)
        g = DequantizeLinear (w, r, z)  v = MatMul (e, g) }"""  # of float16 the bits: 0.03 and 0.01
    model = Model.open(onnx.parser.parse_model(text % ", ".join(map(str, range(-128, 128)))))
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((32, 16)).astype(np.float16) for name in ("x", "u")}
    before = ReferenceEvaluator(model.to_proto()).run(None, feeds)
    assert unify_scale_types(model) == ["d", "a"]
    after = model.to_proto()
    for one, other in zip(before, ReferenceEvaluator(after).run(None, feeds), strict=True):
        np.testing.assert_array_equal(one, other)
    types = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    scales = {n.name: types[n.input[1]] for n in after.graph.node if n.op_type == "DequantizeLinear"}
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    assert scales == {"d": single, "a": single, "b": single, "e": half, "g": half}
    assert unify_scale_types(model) == []
