"""The pipeline's own decisions: what it retries, names and mentions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from said import is_said

from onnxq import quantize, sanitize
from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.pipeline.calibration import unloadable
from onnxq.pipeline.engine_part import engine_not_run
from onnxq.pipeline.not_taken import refused
from onnxq.rewrite import whole
from onnxq.run import ort, trt

BATCH_NORM = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 2, 4, 4] x) => (float[1, 3, 4, 4] y) <float[3, 2, 1, 1] w = {1, 2, 3, -4, 0.5, 0.3},
        float[3] s = {1.1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] m = {0.5, 0, -0.3},
        float[3] v = {1, 4, 0.3}> {
        i = Identity (x)  c = Conv (i, w)  y = BatchNormalization (c, s, o, m, v) }"""


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_close_changes_that_add_up_to_another_model_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(BATCH_NORM)
    assert ops(sanitize(model).model) == ["Conv"]
    monkeypatch.setattr(whole, "_MIN_SQNR", 1e9)
    monkeypatch.setattr(whole.WholeModel, "_own_noise", lambda self: None)
    result = sanitize(model)
    assert ops(result.model) == ["Conv", "BatchNormalization"]  # the exact change is made all the same
    (rejected,) = result.report["rejected"]
    assert rejected["rule"] == "fold_batchnorm"
    assert "change by up to" in rejected["proof"]["why"]


def test_a_model_that_amplifies_rounding_is_held_against_its_own_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole, "_MIN_SQNR", 1e9)
    monkeypatch.setattr(whole.WholeModel, "_own_noise", lambda self: 20.0)
    result = sanitize(onnx.parser.parse_model(BATCH_NORM))
    assert ops(result.model) == ["Conv"]
    assert result.report["rejected"] == []


# With 512 values the branch for other rates would join tensors of two and of three dimensions.
RATES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, M] x, int64 rate) => (float[K, L] y)
        <int64 fast = {16000}, int64 one = {1}, int64[1] zero = {0}, int64 most = {256}> {
        f = Equal (rate, fast)
        y = If (f) <then_branch = t () => (float[A, B] a) { a = Neg (x) },
                    else_branch = e () => (float[C, D] b) {
            n = Shape (x)  m = Gather (n, one)  w = Greater (m, most)
            k = If (w) <then_branch = u () => (float[P, Q, R] p) { p = Unsqueeze (x, zero) },
                        else_branch = v () => (float[S, T] q) { q = Identity (x) }>
            b = Concat <axis = 0> (k, x) }> }"""


@pytest.mark.parametrize("prove", ["when-possible", "never"])
def test_a_shape_with_which_a_branch_cannot_be_asks_for_the_input_that_decides(prove: Any) -> None:
    model = onnx.parser.parse_model(RATES)
    with pytest.raises(UserError, match=r"with --shape x=1x512 onnxruntime does not load") as caught:
        sanitize(model, shapes={"x": (1, 512)}, prove=prove)
    assert caught.value.hint.endswith("--freeze rate=16000")
    frozen = sanitize(model, shapes={"x": (1, 512)}, freeze={"rate": 16000}, prove=prove).model
    assert ort.load(frozen).inputs == ("x",)
    assert ort.load(sanitize(model, shapes={"x": (1, 256)}, prove=prove).model).inputs == ("x", "rate")


def test_a_model_that_never_loads_is_not_refused_for_its_shape() -> None:
    model = onnx.parser.parse_model(RATES.replace("Equal", "mine.Equal").replace("17]", '17, "mine" : 1]'))
    result = sanitize(model, shapes={"x": (1, 512)})
    assert result.report["unsupported"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "Type Error: Type 'tensor(float16)' of input parameter (x) of operator (Conv) is invalid.",
            "float32",
        ),
        (
            "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Conv(11)",
            "float32",
        ),
        ("[ONNXRuntimeError] : 1 : FAIL : Node (n) Op (LSTM) [ShapeInferenceError]", "--freeze rate=16000"),
    ],
)
def test_the_hint_for_a_model_that_does_not_load_fits_the_reason(text: str, hint: str) -> None:
    model = Model.open(onnx.parser.parse_model(RATES))
    assert hint in unloadable(ort.RunError(text), model).hint
    model.freeze_input("rate", np.asarray(8000))
    assert "--freeze" not in unloadable(ort.RunError(text), model).hint
    assert unloadable(ort.RunError(text, hint="--ort-ops"), model).hint == "--ort-ops"


def test_dimensions_that_inference_finds_are_named_after_their_tensor() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, int64[2] s) => (y) { r = Reshape (x, s)  a = Relu (r)  y = Exp (a) }"""
    )
    symbols = Model.open(model).dim_symbols()
    assert symbols == {"N", "r.0", "r.1"}
    result = sanitize(model)
    assert result.report["interface_changes"] == []
    assert "r.0" not in str(result.model)


@pytest.mark.parametrize(("target", "mentions"), [("tensorrt-11", 1), ("tensorrt-rtx", 0)])
def test_an_opset_that_the_target_does_not_document_is_mentioned(target: str, mentions: int) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 26]> g (float[2] x) => (float[2] y) { y = Relu (x) }"""
    )
    found = sanitize(model, target=target).report["unsupported"]
    assert len(found) == mentions
    assert all(is_said(entry["reason"], "newer-opset", opset=26, most=25) for entry in found)


def test_what_the_user_keeps_in_float_is_listed_whatever_it_is() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 4] x) => (float[1, 4] y) { [plus] y = Add (x, x) }"""
    )
    result = quantize(model, [{"x": np.ones((1, 4), np.float32)}], keep_float=["pl*"], compile=False)
    assert [entry["node"] for entry in result.report["plan"]["kept_float"]] == ["plus"]


def test_prove_always_refuses_an_upgrade_that_is_not_proved() -> None:
    """Random numbers differ in every run, so that the model is not compared as a whole."""
    model = onnx.parser.parse_model(
        """<ir_version: 7, opset_import: ["" : 11]>
        g (float[16, 16] x) => (float[16, 16] y) { r = RandomNormalLike (x) y = Add (x, r) }"""
    )
    data = [{"x": np.zeros((16, 16), np.float32)}]
    with pytest.raises(UserError, match="is not proved: RandomNormalLike gives other values"):
        quantize(model, data, prove="always", compile=False)
    assert quantize(model, data, compile=False).report["changes"][-1]["rule"] == "upgrade_opset"


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_what_the_compiler_refuses_is_listed_with_advice() -> None:
    """An antialiased Resize of any size is in no table; NVIDIA's parser names its node."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[1, 16, H, 8] x) => (y) <float[4] s = {1, 1, 0.5, 0.5}> {
            y = Resize <mode = "linear", antialias = 1> (x, , s) }"""
    )
    result = quantize(model, [{"x": np.ones((1, 16, 8, 8), np.float32)}])
    (entry,) = result.report["unsupported"]
    assert (entry["node"], entry["op"]) == ("y", "Resize")
    assert "Antialiasing" in entry["reason"]
    assert "onnxq pieces split" in entry["advice"]


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_what_the_target_takes_and_the_compiler_here_does_not_is_told_apart() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 10, 4] b, float[1, 2, 10] s) => (y) <int64 k = {3}, float t = {0.5}> {
            [nms] y = NonMaxSuppression (b, s, k, t) }"""
    )
    feeds = {"b": np.ones((1, 10, 4), np.float32), "s": np.ones((1, 2, 10), np.float32)}
    report = quantize(model, [feeds]).report
    assert report["engine"]["status"] == "failed"
    assert report["engine"]["reason"].startswith("TensorRT 11 takes NonMaxSuppression; ")
    assert report["unsupported"] == []


def test_the_layer_that_the_builder_names_is_the_node_that_is_listed() -> None:
    reason = "Assertion !layerImpls.empty() failed. cut_12 has no runners that implement it"
    engine = replace(engine_not_run(reason), status="failed")
    (entry,) = refused(engine, [], {"cut": "NonMaxSuppression"})
    assert (entry.node, entry.op) == ("cut", "NonMaxSuppression")
    (entry,) = refused(engine, [], {"other": "Relu"})
    assert (entry.node, entry.op) == ("", "")


def test_close_changes_stay_close_after_a_size_is_written_into_the_inputs() -> None:
    """The second run of the rules makes exact changes only, to a model that is no longer bit-equal."""
    text = BATCH_NORM.replace(
        "(float[1, 2, 4, 4] x) => (", "(float[1, 2, 4, 4] x, float[N, 4] v2) => (float[M] s2, "
    )
    model = onnx.parser.parse_model(
        text.replace(
            "{\n        i =", "{\n        h = Shape (v2)  k = Cast <to = 1> (h)  s2 = Mul (k, k)  i ="
        )
    )
    result = sanitize(model, assume={"N": 3})
    assert [proof["verdict"] for proof in result.report["whole_model"]][-1] == "close"
    assert ops(result.model) == ["Conv", "Identity"]  # of a constant: an output needs a node


def test_external_data_of_every_size(tmp_path: Path) -> None:
    """Small external tensors too: of a first convolution, of a bias."""
    model = onnx.parser.parse_model(BATCH_NORM)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="w", size_threshold=0)
    data = [{"x": np.full((1, 2, 4, 4), i, np.float32)} for i in range(4)]
    result = quantize(tmp_path / "net.onnx", data, body="fp32", compile=False)
    result.save(tmp_path / "out.onnx")
    assert result.report["accuracy"][0]["sqnr_db"] == "inf"  # too few channels for int8


def test_asymmetric_pairs_are_computed_in_float() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[16, 16] x) => (float[16, 16] y) <float s = {0.1}, int8 z = {-100}> {
            q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  y = Relu (d) }"""
    model = onnx.parser.parse_model(text)
    result = sanitize(model)
    assert result.report["unsupported"] == []
    assert not {"QuantizeLinear", "DequantizeLinear"} & set(ops(result.model))
    x = np.linspace(-20, 20, 256, dtype=np.float32).reshape(16, 16)
    (before,), (after,) = (ort.load(one).run({"x": x}) for one in (model, result.model))
    np.testing.assert_array_equal(before, after)


def test_weights_that_are_an_output_are_quantized_all_the_same() -> None:
    weights = np.random.default_rng(5).standard_normal((32, 32)).astype(np.float32)
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[32, 32] x, float[32, 32] w) => (float[32, 32] y, float[32, 32] w) { y = MatMul (x, w) }"""
    )
    del model.graph.input[1]
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    feeds = [{"x": np.random.default_rng(i).standard_normal((32, 32)).astype(np.float32)} for i in range(6)]
    report = quantize(model, feeds, compile=False, repair="none").report
    assert [layer["format"] for layer in report["plan"]["layers"]] == ["int8"]
    y, w = report["accuracy"]
    assert 30 < y["sqnr_db"] < 60
    assert w["equal"] == 1.0


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_an_input_that_is_an_output_does_not_lose_the_result() -> None:
    """NVIDIA's parser gives such an input another name, which no profile knows."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 16] x) => (float[N, 16] x, float[N, 16] y) { y = Relu (x) }"""
    )
    result = quantize(model, [{"x": np.ones((4, 16), np.float32)}])
    assert result.report["engine"]["status"] in ("not-run", "compiled")
