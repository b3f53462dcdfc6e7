"""The sample models: each has the constructs that it stands for, and goes through the whole job."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onnxq
from onnxq.run import ort, trt

SAMPLES = Path(__file__).resolve().parents[1] / "sample_models"


@dataclass(frozen=True)
class Sample:
    """A model, its data and its script.

    Attributes:
        path: of the model.
        script: what wrote it, beside it.
        net: the script's class.
        shapes: of the inputs, as the data has them.
        opset: what the script's `export` takes besides.
        exact: whether only bit-equal rules fire.
        not_taken: nodes that TensorRT 7 does not take and no rule repairs; "" for the model's opset.
        features: the constructs that it stands for.
    """

    path: str
    script: str
    net: str
    shapes: dict[str, list[int | str]]
    opset: tuple[int, ...] = ()
    exact: bool = True
    not_taken: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()

    @property
    def model(self) -> Path:
        return SAMPLES / self.path

    def feeds(self) -> list[dict[str, np.ndarray]]:
        with np.load(self.model.parent / "calib.npz") as data:
            arrays = {name: data[name] for name in self.shapes}
        count = len(next(iter(arrays.values())))
        return [{name: array[i : i + 1] for name, array in arrays.items()} for i in range(count)]


STEREO = Sample(
    "stereo/stereo.onnx",
    "train.py",
    "Stereo",
    {"left": ["N", 3, 48, 96], "right": ["N", 3, 48, 96]},
    features=frozenset(
        ("If", "GatherElements", "Clip without a bound", "asymmetric 3-D ConvTranspose", "Pad, computed")
    ),
)
DETECTOR = Sample(
    "detector/detector.onnx",
    "export.py",
    "Detector",
    {"image": ["N", 3, 160, 160]},
    features=frozenset(("Resize, computed", "Reshape, computed", "Floor")),
)
INTERPOLATE = [
    Sample(
        f"interpolate/interpolate_{opset}.onnx",
        "export.py",
        "EncoderDecoder",
        {"image": ["N", 3, 64, 64]},
        opset=(opset,),
        # All but the nearest one: TensorRT 7 has none of their coordinates. Its last opset is 11.
        not_taken=frozenset(("/Resize", "/Resize_1", "/Resize_3", "/Resize_4", *[""] * (opset > 11))),
        features=frozenset(("Resize, computed", "Floor")),
    )
    for opset in (11, 17)
]
INITIALIZERS = Sample(
    "initializers_as_inputs/initializers_as_inputs.onnx",
    "export.py",
    "Classifier",
    {"image": ["N", 3, 32, 32]},
    exact=False,  # batch norms are folded
    features=frozenset(("weights as inputs", "duplicate names", "empty names", "Upsample", "Constant")),
)
ALL = [STEREO, DETECTOR, *INTERPOLATE, INITIALIZERS]
NAMES = [sample.model.stem for sample in ALL]


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and its bodies."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


def features(model: onnx.ModelProto) -> set[str]:
    """The constructs of a model that the samples are about."""
    found = {node.op_type for node in nodes(model.graph)}
    constants = {info.name for info in model.graph.initializer}
    constants |= {node.output[0] for node in nodes(model.graph) if node.op_type == "Constant"}
    for node in nodes(model.graph):
        given = [*node.input, "", ""]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Clip" and "" in given[1:3] and "min" not in attributes:
            found.add("Clip without a bound")
        if node.op_type == "ConvTranspose":
            pads = attributes.get("pads", [0] * 6)
            if len(pads) == 6 and (any(attributes.get("output_padding", ())) or pads[:3] != pads[3:]):
                found.add("asymmetric 3-D ConvTranspose")
        if node.op_type in ("Resize", "Reshape", "Pad"):
            settings = node.input[3:4] if node.op_type == "Resize" else node.input[1:2]
            found |= {f"{node.op_type}, computed" for name in settings if name not in constants}
    names = [node.name for node in nodes(model.graph)]
    if "" in names:
        found.add("empty names")
    if max(Counter(name for name in names if name).values()) > 1:
        found.add("duplicate names")
    if constants & {info.name for info in model.graph.input}:
        found.add("weights as inputs")
    return found


def outputs(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]]) -> list[list[Any]]:
    session = ort.load(model, optimize=False)
    return [session.run(feed) for feed in feeds]


def runnable(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose nodes have no names: onnxruntime refuses two of the same name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        node.name = ""
    return copy


@pytest.mark.parametrize("sample", ALL, ids=NAMES)
def test_it_has_what_it_stands_for(sample: Sample) -> None:
    assert sample.model.stat().st_size < 1_000_000
    assert sample.features <= features(onnx.load(sample.model))


@pytest.mark.parametrize("sample", ALL, ids=NAMES)
def test_sanitized_for_tensorrt_7(sample: Sample) -> None:
    static = {name: [1, *shape[1:]] for name, shape in sample.shapes.items()}
    result = onnxq.sanitize(sample.model, target="tensorrt-7", shapes=static)
    assert result.report["rejected"] == []
    assert result.report["proved"]["unproven"] == 0
    assert {entry["node"] for entry in result.report["unsupported"]} == sample.not_taken
    assert not features(result.model) & (sample.features - {"Upsample"})  # which TensorRT 7 has
    feeds = sample.feeds()
    expected = outputs(runnable(onnx.load(sample.model)), feeds)
    for want, got in zip(expected, outputs(result.model, feeds), strict=True):
        for one, other in zip(want, got, strict=True):
            if sample.exact:
                assert one.tobytes() == other.tobytes()
            else:
                # Two batch norms are folded; measured: 3.7e-8 of 0.27.
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-7)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("sample", ALL, ids=NAMES)
def test_quantized_and_compiled(sample: Sample) -> None:
    feeds = sample.feeds()
    result = onnxq.quantize(sample.model, feeds)
    report = result.report
    assert report["rejected"] == []
    assert report["engine"]["status"] == "compiled", report["engine"]["reason"]
    assert report["engine"]["not_int8"] == []
    assert report["plan"]["int8_share_of_eligible_macs"] >= 0.95
    for got in outputs(result.model, feeds[:2]):
        assert all(np.isfinite(array).all() for array in got)


@pytest.mark.parametrize("sample", ALL, ids=NAMES)
def test_its_script_writes_it(sample: Sample, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    committed = onnx.load(sample.model)
    if not torch.__version__.startswith(committed.producer_version):
        pytest.skip(f"written with torch {committed.producer_version}, not {torch.__version__}")
    script = runpy.run_path(str(sample.model.parent / sample.script))
    net = script[sample.net]().eval()
    for value in net.state_dict().values():
        if value.is_floating_point():  # equal weights would be one initializer
            value.uniform_(0.5, 1.5)
    script["export"](net, tmp_path / "out.onnx", *sample.opset)
    written = onnx.load(tmp_path / "out.onnx")
    assert written.ir_version == committed.ir_version
    assert [node.op_type for node in nodes(written.graph)] == [
        node.op_type for node in nodes(committed.graph)
    ]
