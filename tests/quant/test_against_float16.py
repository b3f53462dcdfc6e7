"""`quantize` says what int8 does to the engine, against the same model in plain float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from grid_nets import Net

import onnxq
from onnxq.compiled.verdict import Verdict
from onnxq.graph.unquantized import unquantized
from onnxq.graph.view import Node
from onnxq.options.settings import Inputs, Repairs
from onnxq.pipeline.job import Job
from onnxq.pipeline.result import Result
from onnxq.pipeline.verdict import against_fp16
from onnxq.run import ort, trt

needs_compiler = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")


def two_kinds() -> onnx.ModelProto:
    """A convolution that moves less in int8, and small ones behind it that it only gives conversions."""
    net = Net(1, 64, 64, 64)
    x = net.add("Relu", net.conv("x", 64, 64, 3, 3, seed=0, name="large"))
    x = net.add("MaxPool", x, kernel_shape=[16, 16], strides=[16, 16], name="pool")
    for number in range(3):
        x = net.add("Sigmoid", net.conv(x, 64, 64, 1, 1, seed=number, name=f"small_{number}"))
    return net.model(x)


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((1, 64, 64, 64), np.float32)} for _ in range(4)]


@pytest.fixture(scope="module")
def result() -> Result:
    return onnxq.quantize(
        two_kinds(), samples(), method="minmax", repair="none", loud="int8", target="tensorrt-rtx"
    )


@needs_compiler
def test_the_report_compares_both_engines(result) -> None:
    verdict = result.report["verdict"]
    assert (verdict["kind"], verdict["schema"], verdict["reason"], verdict["form"]) == (
        "verdict", 2, "", "built",
    )  # fmt: skip
    built, merged = verdict["built"], verdict["merged"]
    assert set(built["fp16"]["macs"]) == {"fp16"}
    assert "int8" in built["int8"]["macs"]
    assert merged["int8"]["moved_mb"] < built["int8"]["moved_mb"]  # what follows a product is at its end
    assert merged["int8"]["kernels"] < built["int8"]["kernels"]
    layers = {name for part in verdict["layers"] for name in part["layers"]}
    assert layers == {"large", "small_0", "small_1", "small_2"}
    more = [part["int8_mb"] - part["fp16_mb"] for part in verdict["layers"]]
    assert more == sorted(more, reverse=True)
    assert verdict["layers"][0]["layers"] == ["large"]  # as built its float32 result is written


@needs_compiler
def test_a_file_of_anybodys_is_compared_with_itself_without_pairs(result, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(result.model, path)
    verdict = against_fp16(path, form="built")
    expected = result.report["verdict"]["built"]
    assert verdict.built is not None
    assert verdict.built.int8.kernels == expected["int8"]["kernels"]
    assert verdict.built.fp16.macs == expected["fp16"]["macs"]
    assert verdict.built.fp16.moved_mb == pytest.approx(expected["fp16"]["moved_mb"])


@needs_compiler
def test_a_model_that_came_quantized_is_compared_with_itself_without_pairs(result) -> None:
    again = onnxq.quantize(result.model, samples(), method="minmax", repair="none", target="tensorrt-rtx")
    assert again.report["plan"]["sites"] == []
    first, second = (one.report["verdict"]["built"] for one in (result, again))
    assert second["int8"] == first["int8"]
    for figure in ("kernels", "moved_mb", "macs"):  # its weights are the codes', and may fold otherwise
        assert second["fp16"][figure] == first["fp16"][figure]


CODES = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    net (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y) <float s = {0.05}, uint8 z = {113}, uint8 none = {0},
        float ws = {0.01}, int8 wz = {0}, int32[4] b = {1, 2, 3, 4}> {
        q = QuantizeLinear (x, s, z)
        [one] c = QLinearConv (q, s, z, w, ws, wz, s, z, b)
        [add] d = com.microsoft.QLinearAdd (c, s, z, q, s, z, s, none)
        e = DequantizeLinear (d, s, none)  [last] y = Sigmoid (e) }"""


def test_operators_of_codes_and_any_zero_point_leave_no_rounding() -> None:
    """Rules write them as float arithmetic with a Round, which would stay in what int8 is compared with."""
    model = onnx.parser.parse_model(CODES)
    weights = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    job, float_job = (Job.of(one, Repairs(prove="never"), Inputs(), None) for one in (model, two_kinds()))
    bare = job.unquantized()
    assert bare is not None
    assert [node.op for node in bare.graph.nodes] == ["Conv", "Add", "Sigmoid"]
    assert [t.shape for node in bare.graph.nodes[:1] for t in Node(bare, node).inputs if t is not None] == [
        (1, 4, 8, 8), (4, 4, 1, 1), (4,),
    ]  # fmt: skip
    assert "Round" in {node.op for node in job.sanitized().model.graph.nodes}
    assert float_job.unquantized() is None


def test_a_model_without_its_pairs_computes_what_the_float_model_does() -> None:
    model = two_kinds()
    made = onnxq.quantize(
        model, samples()[:1], method="minmax", repair="none", compile=False, body="fp32"
    ).model
    bare = unquantized(made)
    assert not {"QuantizeLinear", "DequantizeLinear"} & {node.op_type for node in bare.graph.node}
    (feeds,) = samples()[:1]
    one, other = (ort.load(each).run(feeds)[0] for each in (model, bare))
    assert np.abs(one - other).max() < 0.05 * np.abs(one).max()  # its weights are the codes'


def test_without_an_engine_there_is_a_reason() -> None:
    model = two_kinds()
    report = onnxq.quantize(model, samples()[:1], method="minmax", repair="none", compile=False).report
    assert report["verdict"]["reason"] == "nothing was compiled: not asked for"
    assert report["verdict"]["merged"] is None
    assert Verdict("why", "merged").compared is None
