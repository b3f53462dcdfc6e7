"""GridSample of opset 20: what TensorRT up to 11.1 reads of it is what the model says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from said import is_said

from onnxq import check, sanitize
from onnxq.run import ort, trt

READ = ("nearest", "bilinear", "bicubic")
"""The modes that the importer of TensorRT up to 11.1 knows; of any other it makes the first."""

CASES = [(mode, *form) for mode in ("linear", "cubic", "nearest", "")
         for form in (("", 20), (", align_corners = 1", 22))]  # fmt: skip
IMAGE, VOLUME = ("[1, 2, 5, 6]", "[1, 3, 4, 2]"), ("[1, 2, 3, 4, 5]", "[1, 2, 3, 3, 3]")


def model_of(mode: str, more: str = "", opset: int = 20, sizes: tuple[str, str] = IMAGE) -> onnx.ModelProto:
    stated = f'mode = "{mode}", ' if mode else ""
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g (float{sizes[0]} x, float{sizes[1]} grid) => (y) {{
            [it] y = GridSample <{stated}padding_mode = "border"{more}> (x, grid) }}"""
    )


def as_read(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model that TensorRT up to 11.1 makes of one, in the words of onnxruntime's operator."""
    read = onnx.ModelProto()
    read.CopyFrom(model)
    (node,) = read.graph.node
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    mode = given.get("mode", b"bilinear").decode()
    given["mode"] = mode if mode in READ else READ[0]
    del node.attribute[:]
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in given.items())
    node.domain = "com.microsoft"
    if all(one.domain != node.domain for one in read.opset_import):
        read.opset_import.append(onnx.helper.make_opsetid(node.domain, 1))
    return read


def outputs(model: onnx.ModelProto) -> np.ndarray:
    rng = np.random.default_rng(3)
    feeds = {"x": rng.standard_normal((1, 2, 5, 6)), "grid": rng.uniform(-1.2, 1.2, (1, 3, 4, 2))}
    return ort.load(model, optimize=False).run({name: a.astype(np.float32) for name, a in feeds.items()})[0]


@pytest.mark.parametrize("target", ["tensorrt-10", "tensorrt-11"])
@pytest.mark.parametrize(("mode", "more", "opset"), CASES)
def test_it_is_read_as_it_is_meant(mode: str, more: str, opset: int, target: str) -> None:
    model = model_of(mode, more, opset)
    result = sanitize(model, target=target)
    onnx.checker.check_model(result.model)
    assert result.report["unsupported"] == []
    meant = outputs(model)
    assert outputs(as_read(result.model)).tobytes() == meant.tobytes()
    assert bool(result.report["changes"]) == (mode in ("linear", "cubic"))
    assert (outputs(as_read(model)).tobytes() == meant.tobytes()) == (mode in ("nearest", ""))  # without


@pytest.mark.parametrize(("mode", "kind"), [("linear", "LINEAR"), ("cubic", "CUBIC"), ("nearest", "NEAREST")])
def test_nvidias_parser_reads_the_same_of_what_becomes_of_it(mode: str, kind: str) -> None:
    rtx = pytest.importorskip("tensorrt_rtx")
    logger = rtx.Logger(rtx.Logger.ERROR)
    builder = rtx.Builder(logger)
    network = builder.create_network(0)
    parser = rtx.OnnxParser(network, logger)
    assert parser.parse(sanitize(model_of(mode), target="tensorrt-11").model.SerializeToString())
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    (layer,) = [one for one in layers if one.type == rtx.LayerType.GRID_SAMPLE]
    layer.__class__ = rtx.IGridSampleLayer
    assert layer.interpolation_mode == getattr(rtx.InterpolationMode, kind)


def refused(model: onnx.ModelProto, target: str, **options: Any) -> list[tuple[str, str]]:
    found = sanitize(model, target=target, **options).report["unsupported"]
    return [(one["reason"], one["advice"]) for one in found]


def test_a_volume_is_told(tmp_path: Any) -> None:
    """TensorRT samples images only before 11.2; TensorRT-RTX volumes too, of modes of either name."""
    volume = model_of("linear", sizes=VOLUME)
    ((reason, advice),) = refused(volume, "tensorrt-10", skip=["grid_sample_gathers"])
    assert is_said(reason, "operator", op="GridSample with 5 dimensions")
    assert "cut the model" in advice
    for target in ("tensorrt-11", "tensorrt-rtx"):
        assert refused(volume, target) == []
        assert sanitize(volume, target=target).report["changes"] == []
    onnx.save(volume, tmp_path / "volume.onnx")
    (told,) = [one for one in check(tmp_path / "volume.onnx").findings if one.node == "it"]
    assert told.severity == "note"
    assert told.reason == "TensorRT 11 takes GridSample with 5 dimensions from 11.2 on"
    assert "cut the model" in told.advice


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("target", "opset", "sizes"), [("tensorrt-10", 20, VOLUME), ("tensorrt-8.2", 16, IMAGE)]
)
def test_what_is_not_sampled_is_gathered(
    target: str, opset: int, sizes: tuple[str, str], padding: str, tmp_path: Path
) -> None:
    model = model_of("" if opset < 20 else "linear", opset=opset, sizes=sizes)
    model.graph.node[0].attribute[-1].s = padding.encode()
    result = sanitize(model, target=target)
    assert {node.op_type for node in result.model.graph.node}.isdisjoint({"GridSample"})
    assert [one.op for one in result.report.unsupported if one.op] == []
    onnx.save(result.model, tmp_path / "gathered.onnx")
    if trt.installed() is not None:
        assert trt.compile_engine(tmp_path / "gathered.onnx").status == "compiled"


def test_without_the_rule_it_is_told() -> None:
    ((reason, _),) = refused(model_of("linear"), "tensorrt-11", skip=["grid_sample_modes"])
    assert is_said(reason, "misread-mode", mode="linear")
