"""Models with custom operators, with and without their library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.base.errors import UserError
from onnxq.run import ort

extensions = pytest.importorskip("onnxruntime_extensions")
LIBRARY = extensions.get_library_path()


def model() -> onnx.ModelProto:
    """Two products around an operator of the library: NegPos, the negative and the positive part."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], name="first"),
        helper.make_node("Identity", ["h"], ["i"]),
        helper.make_node("NegPos", ["i"], ["low", "high"], name="custom", domain="ai.onnx.contrib"),
        helper.make_node("MatMul", ["high", "b"], ["y"], name="second"),
    ]
    weights = [numpy_helper.from_array(rng.standard_normal((32, 32), np.float32), name) for name in "ab"]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, 32]) for name in ("x", "high", "y")]
    graph = helper.make_graph(nodes, "net", infos[:1], infos[2:], weights, value_info=infos[1:2])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((16, 32), np.float32)} for _ in range(8)]


def layers(result: onnxq.Result) -> dict[str, bool]:
    return {layer["node"]: layer["format"] == "int8" for layer in result.report["plan"]["layers"]}


def test_without_the_library_the_part_before_it_is_calibrated() -> None:
    result = onnxq.quantize(model(), samples(), compile=False)
    assert layers(result) == {"first": True, "second": False}
    assert result.report["calibration"]["not_run"]["second"] == "ai.onnx.contrib.NegPos"
    assert result.report["whole_model"][0]["verdict"] == "unproven"


def test_with_the_library_all_of_it_is() -> None:
    result = onnxq.quantize(model(), samples(), ort_ops=[LIBRARY], compile=False)
    assert layers(result) == {"first": True, "second": True}
    assert result.report["calibration"]["not_run"] == {}
    (accuracy,) = result.report["accuracy"]
    assert 25 < accuracy["sqnr_db"] < 60
    assert result.report["whole_model"][0]["verdict"] == "exact"
    assert ort.runs_as().ort_ops == ()


def test_many_tensors_of_it_are_probed_in_a_saved_model(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = onnxq.quantize(model(), samples(), ort_ops=[LIBRARY], compile=False)
    monkeypatch.setattr(ort, "_MANY", 1)
    saved = []
    optimized = ort.optimized
    monkeypatch.setattr(ort, "optimized", lambda *given: saved.append(optimized(*given)) or saved[-1])
    result = onnxq.quantize(model(), samples(), ort_ops=[LIBRARY], compile=False)
    proto = saved[0][0]  # of the probed model; then of the result, whose fusions are counted
    assert "NegPos" in [node.op_type for node in proto.graph.node]
    assert result.report["calibration"]["ranges"] == expected.report["calibration"]["ranges"]
    assert result.model == expected.model


def test_a_library_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no operator library"):
        onnxq.sanitize(model(), ort_ops=[tmp_path / "none.so"])
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(UserError, match="does not load the operator library"):
        onnxq.sanitize(model(), ort_ops=[tmp_path / "text.so"])


def test_a_model_is_cut_at_the_operator_without_its_domain() -> None:
    whole = onnxq.split(model(), at_op=["ai.onnx.contrib.NegPos"])
    short = onnxq.split(model(), at_op=["NegPos"])
    assert [piece.model for piece in short.pieces] == [piece.model for piece in whole.pieces]
    with pytest.raises(UserError, match="no operator 'Neg'"):
        onnxq.split(model(), at_op=["Neg"])
