"""Nodes of TensorRT's own plugins: which target has which, what is said, and that nothing touches them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from said import is_said

from onnxq import check, quantize, sanitize
from onnxq.targets import NAMES, load_target, with_plugin


def detector(op: str = "EfficientNMS_TRT", domain: str = "TRT") -> onnx.ModelProto:
    """Two convolutions, boxes and scores, and a plugin that selects."""
    rng = np.random.default_rng(5)
    weights = {
        "w0": rng.standard_normal((16, 3, 3, 3)) * 0.2,
        "w1": rng.standard_normal((24, 16, 1, 1)) * 0.2,
        "b": np.linspace(-1, 1, 24),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["h"], "relu"),
        helper.make_node("Conv", ["h", "w1", "b"], ["c"], "last"),
        helper.make_node("Reshape", ["c", "sizes"], ["r"], "flat"),
        helper.make_node("Split", ["r", "parts"], ["boxes", "scores"], "parts", axis=2),
        helper.make_node(op, ["boxes", "scores"], ["n", "kept"], "nms", domain=domain, plugin_version="1",
                         max_output_boxes=10, score_threshold=0.25),
    ]  # fmt: skip
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants += [
        numpy_helper.from_array(np.array([1, 64, 24]), "sizes"),
        numpy_helper.from_array(np.array([4, 20]), "parts"),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("n", TensorProto.INT32, [1, 1]),
         helper.make_tensor_value_info("kept", TensorProto.FLOAT, [1, 10, 4])],
        constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("plugin", "first", "last"),
    [
        ("EfficientNMS_TRT", "tensorrt-8.0", "tensorrt-11"),
        ("EfficientNMS_ONNX_TRT", "tensorrt-8.0", "tensorrt-10"),
        ("BatchedNMS_TRT", "tensorrt-7", "tensorrt-10"),
        ("BatchedNMSDynamic_TRT", "tensorrt-7", "tensorrt-10"),
        ("ROIAlign_TRT", "tensorrt-8.5", "tensorrt-11"),
        ("MultiscaleDeformableAttnPlugin_TRT", "tensorrt-8.5", "tensorrt-11"),
        ("DisentangledAttention_TRT", "tensorrt-8.5", "tensorrt-11"),
        ("ModulatedDeformConv2d", "tensorrt-8.6", "tensorrt-11"),
        ("ScatterElements", "tensorrt-10", "tensorrt-11"),
        ("PyramidROIAlign_TRT", "tensorrt-7", "tensorrt-11"),
        ("TopkLastDim", "tensorrt-11", "tensorrt-11"),
        ("NMS_TRT", "tensorrt-7", "tensorrt-10"),
    ],
)
def test_which_versions_have_a_plugin(plugin: str, first: str, last: str) -> None:
    names = [target.name for target in with_plugin(plugin)]
    assert (names[0], names[-1]) == (first, last)
    assert names == list(NAMES[NAMES.index(first) : NAMES.index(last) + 1])


def test_tensorrt_rtx_has_none() -> None:
    assert load_target("tensorrt-rtx").plugins == frozenset()


@pytest.mark.parametrize("domain", ["TRT", ""])
def test_a_plugin_of_the_target_is_no_error(domain: str, tmp_path: Path) -> None:
    onnx.save(detector(domain=domain), tmp_path / "x.onnx")
    for target in ("tensorrt-8.0", "tensorrt-10", "tensorrt-11"):
        result = sanitize(tmp_path / "x.onnx", target=target)
        assert [one for one in result.report["unsupported"] if one["node"]] == []
        (note,) = [one for one in result.report["notes"] if "nms (EfficientNMS_TRT)" in one]
        assert f"a plugin of {load_target(target).title}'s own library" in note
    (told,) = check(tmp_path / "x.onnx", target="tensorrt-11", compile=False).findings
    assert (told.check, told.severity, told.node) == ("plugin", "note", "nms")
    assert is_said(told.advice, "plugin/do")


@pytest.mark.parametrize(
    ("op", "target", "reason", "there"),
    [
        ("EfficientNMS_TRT", "tensorrt-rtx",
         "TensorRT for RTX 1.7 has no plugin EfficientNMS_TRT: it has none of TensorRT's; "
         "TensorRT 8.0 to TensorRT 11 have it", "tensorrt-11"),
        ("BatchedNMS_TRT", "tensorrt-11",
         "TensorRT 11 has no plugin BatchedNMS_TRT; TensorRT 7 to TensorRT 10 have it", "tensorrt-10"),
        ("TopkLastDim", "tensorrt-10",
         "TensorRT 10 has no plugin TopkLastDim; TensorRT 11 has it", "tensorrt-11"),
    ],
)  # fmt: skip
def test_a_plugin_that_the_target_lacks(op: str, target: str, reason: str, there: str) -> None:
    result = sanitize(detector(op), target=target)
    (told,) = result.report["unsupported"]
    assert (told["node"], told["op"], told["reason"]) == ("nms", op, reason)
    assert f"--target {there}" in told["advice"]
    assert not [one for one in result.report["notes"] if op in one]


def test_what_is_no_plugin_is_told_as_before() -> None:
    for op, domain, reason in (
        ("NoSuchOperator", "mine", "mine.NoSuchOperator is no operator of ONNX or TensorRT 11"),
        (
            "CropAndResize",
            "com.microsoft",
            "com.microsoft.CropAndResize is no operator of ONNX or TensorRT 11",
        ),
    ):
        (told,) = sanitize(detector(op, domain), target="tensorrt-11").report["unsupported"]
        assert told["reason"] == reason
    maps = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
        g (float[1, 2] x) => (float[1, 2] y, seq(map(int64, float)) z) {
            y = Abs (x)  z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (y) }""")
    told = [one["reason"] for one in sanitize(maps, target="tensorrt-11").report["unsupported"]]
    assert is_said(told, "operator.domain", target="TensorRT 11", domain="ai.onnx.ml", op="ZipMap")
    scatter = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, int64[2] i, float[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }""")
    result = sanitize(scatter, target="tensorrt-11")  # ONNX's own operator has the name of a plugin
    assert (result.report["unsupported"], result.report["notes"]) == ([], [])


@pytest.mark.parametrize("domain", ["TRT", ""])
def test_it_is_quantized_in_front_of_the_plugin(domain: str) -> None:
    model = detector(domain=domain)
    rng = np.random.default_rng(2)
    samples = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]
    result = quantize(model, samples, method="minmax", repair="none", compile=False)
    assert result.report["unsupported"] == []
    (node,) = [node for node in result.model.graph.node if node.op_type == "EfficientNMS_TRT"]
    (before,) = [node for node in model.graph.node if node.op_type == "EfficientNMS_TRT"]
    assert (node.domain, list(node.output)) == (domain, list(before.output))
    given = [{one.name: helper.get_attribute_value(one) for one in each.attribute} for each in (node, before)]
    assert given[0] == given[1]
    weights = [one for one in result.model.graph.initializer if len(one.dims) == 4]
    assert [one.data_type for one in weights] == [TensorProto.INT8] * 2
