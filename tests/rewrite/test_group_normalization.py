"""GroupNormalization of forms that TensorRT does not take, or computes otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from said import is_said

from onnxq import check, sanitize
from onnxq.run import ort

EPSILON = 0.01


def model_of(groups: int, opset: int = 21, scales: int = 4) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : {opset}]>
        g (float[1, 4, 3, 5] x, float[{scales}] s, float[{scales}] b) => (float[1, 4, 3, 5] y) {{
            [it] y = GroupNormalization <num_groups = {groups}, epsilon = {EPSILON}> (x, s, b) }}"""
    )


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(
    ("target", "groups", "opset", "scales"),
    [
        ("tensorrt-10", 2, 21, 4),
        ("tensorrt-10", 4, 22, 4),
        ("tensorrt-10", 1, 18, 1),
        ("tensorrt-11", 1, 21, 4),
        ("tensorrt-rtx", 1, 21, 4),
        ("tensorrt-8.5", 2, 17, 2),
    ],
)
def test_it_is_an_instance_normalization(target: str, groups: int, opset: int, scales: int) -> None:
    model = model_of(groups, max(opset, 18), scales)
    result = sanitize(model, target=target)
    assert "GroupNormalization" not in operators(result.model)
    assert "InstanceNormalization" in operators(result.model)
    assert [one for one in result.report["unsupported"] if one["node"]] == []
    rng = np.random.default_rng(1)
    x, s, b = (rng.standard_normal(size) + 30 for size in ((1, 4, 3, 5), scales, scales))
    rows = x.astype(np.float32).astype(np.float64).reshape(groups, -1)
    normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + EPSILON)
    factor, shift = (
        np.repeat(one.astype(np.float32).astype(np.float64), 4 // scales)[:, None, None] for one in (s, b)
    )
    feeds = {"x": x.astype(np.float32), "s": s.astype(np.float32), "b": b.astype(np.float32)}
    (got,) = ort.load(result.model, optimize=False).run(feeds)
    np.testing.assert_allclose(got, normal.reshape(1, 4, 3, 5) * factor + shift, rtol=0, atol=2e-3)


@pytest.mark.parametrize(("target", "groups", "opset"), [("tensorrt-11", 2, 21), ("tensorrt-10", 2, 18)])
def test_what_is_taken_stays(target: str, groups: int, opset: int) -> None:
    model = model_of(groups, opset, 4 if opset >= 21 else groups)
    result = sanitize(model, target=target)
    assert operators(result.model) == {"GroupNormalization"}
    assert result.report["unsupported"] == []


def test_check_says_what_sanitize_does(tmp_path: Path) -> None:
    onnx.save(model_of(2), tmp_path / "x.onnx")
    (told,) = check(tmp_path / "x.onnx", target="tensorrt-10").findings
    assert (told.node, told.severity) == ("it", "error")
    assert is_said(
        told.reason,
        "operator",
        target="TensorRT 10",
        op="GroupNormalization with a scale for each channel, as from opset 21 on",
    )
    assert is_said(told.advice, "node-not-taken.repaired", rule="expand_group_normalization")
    sanitize(tmp_path / "x.onnx", target="tensorrt-10").save(tmp_path / "y.onnx")
    assert check(tmp_path / "y.onnx", target="tensorrt-10").findings == ()


def test_nvidias_parser_sees_one_group_now() -> None:
    """Of the original its layer has one group and the axes of each channel alone: no axis of the channels."""
    trt = pytest.importorskip("tensorrt_rtx")
    seen = []
    for model in (model_of(1), sanitize(model_of(1), target="tensorrt-rtx").model):
        logger = trt.Logger(trt.Logger.ERROR)
        builder = trt.Builder(logger)
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, logger)
        assert parser.parse(model.SerializeToString())
        layers = [network.get_layer(index) for index in range(network.num_layers)]
        (layer,) = [one for one in layers if one.type == trt.LayerType.NORMALIZATION]
        layer.__class__ = trt.INormalizationLayer
        axes = [axis for axis in range(4) if layer.axes >> axis & 1]
        seen.append((tuple(layer.get_input(0).shape), axes, layer.num_groups))
    assert seen == [((1, 4, 3, 5), [2, 3], 1), ((1, 1, 60), [2], 1)]
