"""Files that somebody quantized: their pairs are kept, become int8 around 0, or are taken out (`--pairs`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from command import run
from grid_nets import Net
from onnx import TensorProto, helper, numpy_helper
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.graph.unquantized import unquantized, without_pairs
from onnxq.run import trt

INT8_WEIGHTS = {"dtype": np.int8, "zero": 0}
QUICK = {"compile": False, "body": "fp32", "repair": "none", "layer_samples": 1}
rng = np.random.default_rng(0)
DATA = [{"x": rng.standard_normal((1, 16, 8, 8)).astype(np.float32)} for _ in range(24)]


def outputs(model: onnx.ModelProto) -> np.ndarray:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    return np.concatenate([session.run(None, sample)[0].ravel() for sample in DATA])


def db(one: np.ndarray, other: np.ndarray) -> float:
    noise = np.sum((one - other) ** 2, dtype=np.float64)
    return float("inf") if not noise else float(10 * np.log10(np.sum(one**2, dtype=np.float64) / noise))


def pair(net: Net, x: str, scale: float, zero: int, dtype: type = np.uint8, most: int | None = None) -> str:
    """A pair; `most`: the greatest code, as PyTorch clips codes of 7 bits."""
    size, point = net.const(np.float32(scale)), net.const(np.array(zero, dtype))
    codes = net.add("QuantizeLinear", x, size, point)
    if most is not None:
        codes = net.add("Clip", codes, net.const(np.array(0, dtype)), net.const(np.array(most, dtype)))
    return net.add("DequantizeLinear", codes, size, point)


def weights(net: Net, seed: int, dtype: type = np.uint8, zero: int = 128) -> str:
    """Weights of 16 x 16 x 3 x 3 as codes, a scale a channel."""
    codes = np.clip(np.random.default_rng(seed).normal(0, 40, (16, 16, 3, 3)).round(), -127, 127)
    codes[:, 0, 0, 0] = 127
    scales = np.linspace(0.0005, 0.001, 16, dtype=np.float32)
    held = net.const((codes + zero).astype(dtype), f"w{seed}")
    return net.add(
        "DequantizeLinear", held, net.const(scales), net.const(np.full(16, zero, dtype)), axis=0,
        name=f"w{seed}_floats",
    )  # fmt: skip


def bias(net: Net, seed: int) -> str:
    codes = np.random.default_rng(seed).integers(-9000, 9000, 16).astype(np.int32)
    return net.add("DequantizeLinear", net.const(codes), net.const(np.full(16, 1e-5, np.float32)), axis=0)


def two_layers(
    first: tuple[float, int], second: tuple[float, int], *, dtype: type = np.uint8, relu: bool = True,
    most: int | None = None, held: dict[str, object] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """Two convolutions with an int32 bias, of which both inputs have a pair."""
    net = Net(1, 16, 8, 8)
    x = pair(net, "x", *first, dtype, most)
    y = net.add("Conv", x, weights(net, 1, **(held or {})), bias(net, 1), pads=[1] * 4, name="one")
    if relu:
        y = net.add("Relu", y, name="relu")
    y = pair(net, y, *second, dtype, most)
    y = net.add("Conv", y, weights(net, 2, **(held or {})), bias(net, 2), pads=[1] * 4, name="two")
    return net.model(y)


SYMMETRIC = {"first": (0.03, 128), "second": (0.02, 128)}
ABOVE_ZERO = {"first": (0.03, 128), "second": (0.01, 0)}


def quantize(model: onnx.ModelProto, **options: object) -> onnxq.Result:
    return onnxq.quantize(model, DATA, **{**QUICK, **options})  # type: ignore[arg-type]


def counts(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def scales(model: onnx.ModelProto) -> list[np.float32]:
    """The scales of the activations, in the order of the nodes."""
    held = constants(model)
    return [
        held[node.input[1]].reshape(())[()] for node in model.graph.node if node.op_type == "QuantizeLinear"
    ]


def notes(result: onnxq.Result) -> str:
    return "\n".join(result.report["calibration"]["notes"])


def test_what_int8_around_zero_holds_is_adopted_without_being_asked() -> None:
    file = two_layers(**SYMMETRIC)
    result = quantize(file)
    assert scales(result.model) == [np.float32(0.03), np.float32(0.02)]
    held = constants(result.model)
    codes = [v for v in held.values() if v.dtype == np.int8 and v.ndim == 4]
    wanted = [v.astype(int) - 128 for name, v in constants(file).items() if name in ("w1", "w2")]
    assert all(np.array_equal(one, other) for one, other in zip(codes, wanted, strict=True))
    assert not {"Round", "Div", "Clip"} & set(counts(result.model))
    assert db(outputs(file), outputs(result.model)) > 60
    assert is_said(notes(result), "file-pairs.judged-same", pairs="4 pairs")
    assert float(result.report["accuracy"][0]["sqnr_db"]) > 60


def test_int8_as_it_stands_is_left_alone() -> None:
    net = Net(1, 16, 8, 8)
    file = net.model(net.add("Conv", pair(net, "x", 0.03, 0, np.int8), weights(net, 1, **INT8_WEIGHTS)))
    result = quantize(file)
    assert counts(result.model) == counts(file)
    assert result.report["plan"]["sites"] == []


def test_where_that_is_not_exact_the_pairs_are_kept_and_it_is_said_what_else_there_is() -> None:
    file = two_layers(**ABOVE_ZERO)
    result = quantize(file)
    assert counts(result.model)["Round"] == 1
    assert scales(result.model)[0] == np.float32(0.03)
    assert (
        db(outputs(file), outputs(result.model)) > 35
    )  # what is rounded in float gets a pair of int8 as well
    said = notes(result)
    assert said.startswith("1 of the file's pairs stay float arithmetic. --pairs adopt: ")
    for pairs in ("adopt", "drop"):
        other = quantize(file, pairs=pairs)
        figure = said.split(f"--pairs {pairs}: ")[1]
        told = float(figure.split(" dB")[0])
        assert abs(told - db(outputs(file), outputs(other.model))) < 3  # other samples, about no mean
        assert "% of float16's bytes" in figure


def test_asked_to_keep_them_nothing_is_said() -> None:
    result = quantize(two_layers(**ABOVE_ZERO), pairs="keep")
    assert counts(result.model)["Round"] == 1
    assert notes(result) == ""


@pytest.mark.parametrize(
    ("first", "second", "steps"),
    [
        ((0.03, 0), (0.01, 0), (0.06, 0.02)),  # codes on one side: twice the step
        ((0.03, 50), (0.01, 0), (0.03 * 205 / 127.5, 0.02)),
        ((0.03, 255), (0.01, 127), (0.06, 0.01 * 128 / 127.5)),
    ],
)
def test_other_ranges_take_the_nearest_scale(
    first: tuple[float, int], second: tuple[float, int], steps: tuple[float, float]
) -> None:
    file = two_layers(first, second)
    result = quantize(file, pairs="adopt")
    np.testing.assert_allclose(scales(result.model), steps, rtol=1e-6)
    assert not {"Round", "Div", "Clip"} & set(counts(result.model))
    assert is_said(notes(result), "file-pairs.judged-other", pairs="4 pairs", inexact=2)
    ranges = result.report["calibration"]["thresholds"]
    assert {entry["because"].split(";")[0] for entry in ranges.values()} == {
        f"the file's pair: uint8 around {zero}" for _, zero in (first, second)
    }


@pytest.mark.parametrize("pairs", ["adopt", "drop"])
@pytest.mark.parametrize(("scale", "operator"), [(0.01, "Relu"), (6 / 255, "Clip")])
def test_a_relu_that_the_codes_did_is_there_again(pairs: str, scale: float, operator: str) -> None:
    file = two_layers((0.03, 128), (scale, 0), relu=False)
    result = quantize(file, pairs=pairs)
    assert counts(result.model)[operator] == 1
    assert db(outputs(file), outputs(result.model)) > 25
    (cut,) = (node for node in result.model.graph.node if node.op_type == operator)
    assert cut.input[0] == "one"


def test_no_relu_comes_where_there_is_one_or_behind_an_input() -> None:
    float_net = unquantized(two_layers((0.03, 0), (0.01, 0)))
    assert counts(float_net) == {"Conv": 2, "Relu": 1}
    onnx.checker.check_model(float_net, full_check=True)


def test_codes_of_seven_bits() -> None:
    """PyTorch's quantization-aware training clips codes to 0..127."""
    file = two_layers((0.06, 64), (0.02, 0), most=127)
    model, stated = without_pairs(file)
    assert counts(model) == {"Conv": 2, "Relu": 1}
    assert [one.ends for one in stated if not one.constant] == [(0, 127), (0, 127)]
    result = quantize(file, pairs="adopt")
    np.testing.assert_allclose(scales(result.model), [0.06 * 64 / 127.5, 0.02 * 127 / 127.5], rtol=1e-6)
    assert not {"Round", "Clip"} & set(counts(result.model))


def test_dropped_they_leave_the_float_net() -> None:
    file = two_layers(**ABOVE_ZERO)
    result, plain = quantize(file, pairs="drop"), quantize(unquantized(file))
    assert scales(result.model) == scales(plain.model)
    assert counts(result.model) == counts(plain.model)
    assert np.array_equal(outputs(result.model), outputs(plain.model))
    assert result.report["accuracy"] == plain.report["accuracy"]
    assert is_said(notes(result), "file-pairs.dropped", pairs="4 pairs")


def test_weights_of_another_zero_point_are_quantized_anew() -> None:
    file = two_layers(**SYMMETRIC, held={"zero": 120})
    result = quantize(file, pairs="adopt")
    held = [v for v in constants(result.model).values() if v.dtype == np.int8 and v.ndim == 4]
    assert [int(np.abs(codes.astype(int)).max()) for codes in held] == [127, 127]
    assert is_said(notes(result), "file-pairs.judged-other")
    assert db(outputs(file), outputs(result.model)) > 35


def test_a_least_code_of_weights_is_not_exact() -> None:
    file = two_layers(**SYMMETRIC, held=INT8_WEIGHTS)
    held = next(tensor for tensor in file.graph.initializer if tensor.name == "w1")
    codes = numpy_helper.to_array(held).copy()
    codes[0, 0, 0, 0] = -128
    held.CopyFrom(numpy_helper.from_array(codes, "w1"))
    exact = {one.tensor: one.exact for one in without_pairs(file)[1] if one.constant}
    assert exact["w1_floats"] is False
    assert exact["w2_floats"] is True
    now = next(v for v in constants(quantize(file, pairs="adopt").model).values() if v.ndim == 4)
    assert now[0, 0, 0, 0] == -127
    assert np.array_equal(now[1:], codes[1:])


def test_pairs_whose_codes_somebody_else_reads_stay() -> None:
    net = Net(1, 16, 8, 8)
    x = pair(net, "x", 0.03, 5)
    y = net.add("Conv", x, weights(net, 1), pads=[1] * 4)
    codes = next(node.output[0] for node in net.graph.node if node.op_type == "QuantizeLinear")
    file = net.model(y, codes)
    model, stated = without_pairs(file)
    assert counts(model)["QuantizeLinear"] == 1
    assert [one.tensor for one in stated] == ["w1_floats"]


def test_codes_that_are_moved_and_joined() -> None:
    net = Net(1, 16, 8, 8)
    size, zero = net.const(np.float32(0.03)), net.const(np.uint8(128))
    one, other = (net.add("QuantizeLinear", x, size, zero) for x in ("x", net.add("Neg", "x")))
    joined = net.add("Concat", net.add("MaxPool", one, kernel_shape=[2, 2], strides=[2, 2]), net.add(
        "MaxPool", other, kernel_shape=[2, 2], strides=[2, 2]), axis=2)  # fmt: skip
    y = net.add("Conv", net.add("DequantizeLinear", joined, size, zero), weights(net, 1), pads=[1] * 4)
    file = net.model(y)
    floats = unquantized(file)
    assert counts(floats) == {"Neg": 1, "MaxPool": 2, "Concat": 1, "Conv": 1}
    assert db(outputs(file), outputs(floats)) > 30
    result = quantize(file)
    assert set(scales(result.model)) == {np.float32(0.03)}
    assert db(outputs(file), outputs(result.model)) > 60


@pytest.mark.parametrize("pairs", ["adopt", "drop"])
def test_weights_in_blocks_stay(pairs: str) -> None:
    codes = helper.make_tensor("q", TensorProto.INT4, [32, 16], np.arange(512) % 15 - 7)
    held = [codes, numpy_helper.from_array(np.full((2, 16), 0.1, np.float32), "s")]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="m"),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, n]) for name, n in (("x", 32), ("y", 16))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data = [{"x": np.random.default_rng(i).standard_normal((32, 32)).astype(np.float32)} for i in range(4)]
    result = onnxq.quantize(model, data, pairs=pairs, **QUICK)  # type: ignore[arg-type]
    assert counts(result.model) == {"DequantizeLinear": 1, "MatMul": 1}
    assert is_said(notes(result), "file-pairs.none-out")


def test_a_file_without_pairs_says_so() -> None:
    net = Net(1, 16, 8, 8)
    result = quantize(net.model(net.conv("x", 16, 16, 1, 1)), pairs="adopt")
    assert "--pairs adopt changes nothing" in notes(result)
    with pytest.raises(UserError, match="there is no choice of pairs 'adpot'"):
        quantize(net.model("x"), pairs="adpot")


def test_plans_and_statistics_are_of_the_net_without_pairs(tmp_path: Path) -> None:
    file = two_layers(**ABOVE_ZERO)
    onnx.save(file, tmp_path / "file.onnx")
    path, samples = tmp_path / "file.onnx", DATA
    options = {"pairs": "adopt", "repair": "none", "body": "fp32"}
    kept = onnxq.plan(path, samples, **{**options, "pairs": None})  # type: ignore[arg-type]
    assert is_said("".join(kept.report.calibration.notes), "file-pairs.choices")
    onnxq.plan(path, samples, **options).save(tmp_path / "plan.toml")  # type: ignore[arg-type]
    result = onnxq.quantize(path, plan=tmp_path / "plan.toml", pairs="adopt", compile=False, layer_samples=1)
    assert scales(result.model) == scales(quantize(file, pairs="adopt").model)
    with pytest.raises(UserError, match="--pairs"):
        onnxq.quantize(path, plan=tmp_path / "plan.toml", pairs="keep")
    onnxq.calibrate(path, samples, tmp_path / "x.stats.npz", pairs="drop")
    dropped = quantize(path, pairs="drop", stats=tmp_path / "x.stats.npz")  # type: ignore[arg-type]
    assert scales(dropped.model)[0] != np.float32(0.03)


def test_what_the_user_says_of_a_layer_wins() -> None:
    rule = onnxq.LayerRule(match=("two",), amax=1.27)
    result = quantize(two_layers(**ABOVE_ZERO), pairs="adopt", layers=[rule])
    np.testing.assert_allclose(scales(result.model), [0.03, 0.01], rtol=1e-6)


def test_repair_that_nobody_asks_for_leaves_the_ranges() -> None:
    file = two_layers(**ABOVE_ZERO)
    result = quantize(file, pairs="adopt", repair="auto")
    np.testing.assert_allclose(scales(result.model), [0.03, 0.02], rtol=1e-6)
    tried = {step["step"] for step in result.report["repair"]["steps"]}
    assert tried <= {"bias", "gptq", "residual"}
    assert quantize(two_layers(**SYMMETRIC), repair="auto").report["repair"] is None


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_adopted_layers_run_in_int8() -> None:
    engine = quantize(two_layers(**ABOVE_ZERO), pairs="adopt", compile=True).report["engine"]
    assert engine["status"] == "compiled", engine["reason"]
    assert engine["int8"] == engine["planned"] == 2


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_what_onnxruntime_quantized(symmetric: bool, form: str, tmp_path: Path) -> None:
    """It leaves out Relus, and quantizes sums; the int8 net is as near to the float one as the file."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    net = Net(1, 16, 8, 8)
    y = net.add("Relu", net.conv("x", 16, 16, 3, 3, seed=1), name="r")
    float_net = net.model(
        net.conv(net.add("Add", y, net.conv(y, 16, 16, 1, 1, seed=2)), 16, 16, 3, 3, seed=3)
    )
    onnx.save(float_net, tmp_path / "float.onnx")
    feeds = iter(DATA)

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(feeds, None)

    kind = quantization.QuantType.QInt8 if symmetric else quantization.QuantType.QUInt8
    quantization.quantize_static(
        tmp_path / "float.onnx", tmp_path / "file.onnx", Reader(), activation_type=kind,
        weight_type=quantization.QuantType.QInt8, extra_options={"ActivationSymmetric": symmetric},
        quant_format=quantization.QuantFormat[form],
    )  # fmt: skip
    file = onnx.load(tmp_path / "file.onnx")
    result = quantize(file, pairs="adopt")
    assert ("QLinearConv" in counts(file)) == (form == "QOperator")
    assert form == "QOperator" or counts(file)["Relu"] == symmetric
    assert not {"Round", "Div", "Clip", "QLinearConv"} & set(counts(result.model))
    floats = outputs(float_net)
    assert db(floats, outputs(result.model)) > db(floats, outputs(file)) - 0.5
    if not symmetric:
        assert counts(result.model)["Relu"] == 1
        without_data = onnxq.quantize(file, pairs="adopt", **QUICK)  # type: ignore[arg-type]
        assert np.array_equal(outputs(without_data.model), outputs(result.model))
        assert is_said(notes(result), "file-pairs.judged-other")
        assert is_said(notes(without_data), "file-pairs.other")
        assert "accuracy" not in notes(without_data)
        planned = run(tmp_path, "plan", "file.onnx", "--pairs", "adopt")
        assert is_said(planned.out, "plan-ranges.file")
        assert "--calib" not in planned.out.split("Next")[1]


def test_a_tensor_without_a_pair_needs_data() -> None:
    net = Net(1, 16, 8, 8)
    file = net.model(
        net.conv(pair(net, net.conv("x", 16, 16, 3, 3, seed=1), 0.05, 128), 16, 16, 3, 3, seed=2)
    )
    with pytest.raises(UserError, match=r"the file has no pair of tensor 'x' \(1 of those"):
        onnxq.quantize(file, pairs="adopt", **QUICK)  # type: ignore[arg-type]
    assert quantize(file, pairs="adopt").report["calibration"]["samples"] > 0
    assert onnxq.plan(file, pairs="adopt").report["calibration"]["measured"] is False


def test_a_range_whose_pair_is_not_written_bounds_nothing() -> None:
    """The file clips at 25.4; the written model does not, and float16 would overflow."""
    net = Net(1, 16, 8, 8)
    large = net.add(
        "Mul", net.conv(pair(net, "x", 0.03, 128), 16, 16, 3, 3, seed=1), net.const(np.float32(3e5))
    )
    clipped = pair(net, large, 0.2, 128)
    file = net.model(
        net.add("Tanh", net.conv(clipped, 1, 16, 3, 3, seed=2, group=16, name="deep"), name="end")
    )
    made = onnxq.quantize(file, pairs="adopt", compile=False)
    kept = {one.node for one in made.report.body.float32}
    assert kept >= {"deep", "end"}
    assert counts(made.model)["QuantizeLinear"] == 1


def test_without_data_the_ranges_of_pairs_say_what_can_be_float16() -> None:
    """What is between pairs is bounded by the weights, and by what the pair in front lets through."""
    file = two_layers(**ABOVE_ZERO)
    made = onnxq.quantize(file, pairs="adopt", compile=False)
    assert made.report["body"]["type"] == "fp16"
    assert made.report["body"]["float32"] == []


@pytest.mark.parametrize("first", [SYMMETRIC["first"], (0.03, 100)], ids=["adopted", "kept, and measured"])
def test_weights_beside_the_file_are_found_from_any_folder(tmp_path: Path, first: tuple[float, int]) -> None:
    """Nothing but codes stands beside it, so that the model without its pairs has nothing there."""
    file, path = two_layers(first, SYMMETRIC["second"]), tmp_path / "m.onnx"
    inside = quantize(file)
    onnx.save(file, path, save_as_external_data=True, location="m.codes", size_threshold=2000)
    kept = onnx.load(path, load_external_data=False).graph.initializer
    assert {t.data_type for t in kept if t.external_data} == {TensorProto.UINT8}
    beside = onnxq.quantize(path, DATA, **QUICK)  # type: ignore[arg-type]
    assert notes(beside) == notes(inside)
    beside.save(tmp_path / "q.onnx")
    assert np.array_equal(outputs(onnx.load(tmp_path / "q.onnx")), outputs(inside.model))
