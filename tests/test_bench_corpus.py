"""What the corpus benchmark says of a model is read from the model and its engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from benchmarks import corpus_score
from onnxq.run import trt

VALUE = helper.make_tensor_value_info


def two_convs(path: Path) -> Path:
    """Two eligible convolutions of the same size; the nodes have no names."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17, name)
        for name in ("w0", "w1")
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["h"], pads=[1] * 4),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "w1"], ["y"], pads=[1] * 4),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [VALUE("x", TensorProto.FLOAT, ["N", 32, 16, 16])],
        [VALUE("y", TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture
def samples(tmp_path: Path) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    found = [{"x": random.standard_normal((1, 32, 16, 16)).astype(np.float32)} for _ in range(4)]
    (tmp_path / "held").mkdir()
    for index, feeds in enumerate(found):
        np.savez(tmp_path / "held" / f"{index}.npz", **feeds)
    return found


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_share_is_that_of_the_engine(tmp_path: Path, samples: list[dict[str, np.ndarray]]) -> None:
    float_model = two_convs(tmp_path / "float.onnx")
    made = onnxq.quantize(float_model, samples, keep_float=[second(float_model)], compile=False)
    made.save(tmp_path / "half.onnx")
    scored = corpus_score.score(float_model, tmp_path / "half.onnx", tmp_path / "held")
    assert scored["engine"] == "compiled"
    assert scored["int8"] == 0.5
    assert scored["qdq"] == 2
    assert 20 < scored["sqnr"] < 60
    unchanged = corpus_score.score(float_model, float_model, tmp_path / "held")
    assert (unchanged["int8"], unchanged["qdq"], unchanged["sqnr"]) == (0.0, 0, 999.0)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_reported_engine_is_the_compiled_one(
    tmp_path: Path, samples: list[dict[str, np.ndarray]]
) -> None:
    float_model = two_convs(tmp_path / "float.onnx")
    onnxq.quantize(float_model, samples).save(tmp_path / "out.onnx")
    paths = (float_model, tmp_path / "out.onnx", tmp_path / "held")
    report = tmp_path / "out.report.json"
    assert json.loads(report.read_text("utf-8"))["plan"]["int8_share_of_eligible_macs"] == 1.0
    assert corpus_score.score(*paths, report) == corpus_score.score(*paths)
    assert corpus_score.score(*paths)["int8"] == 1.0


def test_without_qdq_the_weights_are_constants_of_their_shape(
    tmp_path: Path, samples: list[dict[str, np.ndarray]]
) -> None:
    made = onnxq.quantize(two_convs(tmp_path / "float.onnx"), samples, body="fp32", compile=False).model
    bare = corpus_score.without_qdq(made)
    assert [node.op_type for node in bare.graph.node] == ["Conv", "Relu", "Conv"]
    kinds = {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in bare.graph.initializer}
    for node in (bare.graph.node[0], bare.graph.node[2]):
        assert kinds[node.input[1]] == (TensorProto.FLOAT, [32, 32, 3, 3])


def second(path: Path) -> str:
    """The name that onnxq gives the second convolution."""
    return str(onnxq.sanitize(path).model.graph.node[2].name)
