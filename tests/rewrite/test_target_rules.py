"""The rules for old targets: what they replace is gone, and the outputs are the same, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnxq import sanitize
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt

F = np.float32
TYPES = {np.dtype(F): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
TYPES |= {np.dtype(np.int32): TensorProto.INT32}
THOROUGH = settings(max_examples=30, deadline=None, derandomize=True)


def model_of(
    node: onnx.NodeProto,
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    opset: int = 11,
    dynamic: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model of one node; the leading dimension of the inputs `dynamic` is a symbol."""
    infos = [
        helper.make_tensor_value_info(
            name, TYPES[a.dtype], [f"n_{name}", *a.shape[1:]] if name in dynamic else a.shape
        )
        for name, a in inputs.items()
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    outputs = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "g", infos, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def outputs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
    return ort.load(model, optimize=False, threads=1).run(feeds)


def repaired(model: onnx.ModelProto, **more: Any) -> onnx.ModelProto:
    """The model for TensorRT 7, of which nothing must be left that it does not take."""
    result = sanitize(model, target="tensorrt-7", **more)
    assert result.report["unsupported"] == []
    assert result.report["rejected"] == []
    return result.model


def assert_same(before: list[Any], after: list[Any]) -> None:
    for one, other in zip(before, after, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert one.tobytes() == other.tobytes()


# --- GatherElements ---------------------------------------------------------------------------------


@st.composite
def gathers(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    rank = draw(st.integers(1, 4))
    axis = draw(st.integers(-rank, rank - 1))
    shape = [draw(st.integers(1, 5)) for _ in range(rank)]
    picked = [draw(st.integers(1, size)) for size in shape]
    picked[axis] = draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(-1000, 1000, shape).astype(draw(st.sampled_from([F, np.int64])))
    i = rng.integers(-shape[axis], shape[axis], picked).astype(draw(st.sampled_from([np.int32, np.int64])))
    inputs, constants = {"x": x, "i": i}, {}
    if draw(st.integers(0, 3)) == 0:
        constants["i"] = inputs.pop("i")
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
    dynamic = [name for name in inputs if draw(st.booleans())]
    return model_of(node, inputs, constants, 11, dynamic), inputs


@THOROUGH
@given(gathers())
def test_gather_elements_is_gathered_from_the_flat_tensor(case: Any) -> None:
    model, feeds = case
    after = repaired(model, prove="never")
    assert "GatherElements" not in {node.op_type for node in after.graph.node}
    assert_same(outputs(model, feeds), outputs(after, feeds))
    again = sanitize(after, target="tensorrt-7", prove="never")
    assert again.report["changes"] == []


def test_another_batch_than_the_one_of_the_export() -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=2)
    x, i = np.zeros((1, 2, 9), F), np.zeros((1, 2, 3), np.int64)
    model = model_of(node, {"x": x, "i": i}, {}, dynamic=["x", "i"])
    after = repaired(model)
    for batch in (1, 4):
        rng = np.random.default_rng(batch)
        feeds = {"x": rng.standard_normal((batch, 2, 9)).astype(F), "i": rng.integers(-9, 9, (batch, 2, 3))}
        assert_same(outputs(model, feeds), outputs(after, feeds))


# --- ConvTranspose ----------------------------------------------------------------------------------

TRIPLE = st.tuples(*[st.integers(1, 3)] * 3)
UP_TO_TWO = st.tuples(*[st.integers(0, 2)] * 3)


@st.composite
def deconvolutions(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    groups, size, kernel = draw(st.integers(1, 2)), draw(TRIPLE), draw(TRIPLE)
    stride, dilation = draw(TRIPLE), draw(st.tuples(*[st.integers(1, 2)] * 3))
    more = [draw(st.integers(0, s - 1)) for s in stride]
    attributes = {"strides": stride, "dilations": dilation, "group": groups, "output_padding": more}
    full = [s * (n - 1) + (k - 1) * d + 1 for s, n, k, d in zip(stride, size, kernel, dilation, strict=True)]
    kind = draw(st.sampled_from(["pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "output_shape"]))
    if kind == "pads":
        pads = [*draw(UP_TO_TWO), *draw(UP_TO_TWO)]
        assume(all(full[a] + more[a] > pads[a] + pads[a + 3] for a in range(3)))
        assume(all(full[a] > pads[a] for a in range(3)))
        attributes["pads"] = pads
    elif kind == "output_shape":
        attributes["output_shape"] = [
            max(1, n - draw(st.integers(-min(s - 1, 1), 2))) for n, s in zip(full, stride, strict=True)
        ]
        attributes["auto_pad"] = draw(st.sampled_from(["NOTSET", "SAME_UPPER"]))
    else:
        attributes["auto_pad"] = kind
        ends = [(k - 1) * d + 1 + m - s for k, d, m, s in zip(kernel, dilation, more, stride, strict=True)]
        assume(kind == "VALID" or min(ends) >= 0)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((2, 2 * groups, *size)).astype(F)
    constants = {"w": rng.standard_normal((2 * groups, 2, *kernel)).astype(F)}
    if draw(st.booleans()):
        constants["b"] = rng.standard_normal(2 * groups).astype(F)
    dynamic = ["x"] if draw(st.booleans()) else []
    opset = draw(st.sampled_from([9, 11]))
    node = helper.make_node("ConvTranspose", ["x", *constants], ["y"], **attributes)
    return model_of(node, {"x": x}, constants, opset, dynamic), {"x": x}


def assert_symmetric(model: onnx.ModelProto) -> None:
    (node,) = (node for node in model.graph.node if node.op_type == "ConvTranspose")
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    assert not any(attributes.get("output_padding", []))
    pads = attributes.get("pads", [0] * 6)
    assert pads[:3] == pads[3:]
    assert min(pads) >= 0
    assert all(len(n.input) <= 2 or n.input[2] for n in model.graph.node)


@THOROUGH
@given(deconvolutions())
def test_a_deconvolution_with_the_same_padding_at_both_ends(case: Any) -> None:
    model, feeds = case
    after = sanitize(model, target="tensorrt-7", prove="never")
    assert {entry["reason"] for entry in after.report["unsupported"]} <= {
        f"TensorRT 7 does not take ConvTranspose with dilations={[*d]}" for d in np.ndindex(3, 3, 3)
    }
    assert_symmetric(after.model)
    assert_same(outputs(model, feeds), outputs(after.model, feeds))


def deconvolution(bias: bool, **attributes: Any) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    constants = {"w": rng.standard_normal((4, 8, 3, 3, 3)).astype(F)}
    constants |= {"b": np.arange(8, dtype=F)} if bias else {}
    node = helper.make_node("ConvTranspose", ["x", *constants], ["y"], strides=[2] * 3, **attributes)
    return model_of(node, {"x": np.zeros((1, 4, 4, 5, 6), F)}, constants, dynamic=["x"])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("pads", [1, 0])
def test_the_deconvolution_of_stereo_networks_is_proved(bias: bool, pads: int) -> None:
    model = deconvolution(bias, pads=[pads] * 6, output_padding=[1] * 3)
    result = sanitize(model, target="tensorrt-7", prove="always")
    (change,) = result.report["changes"]
    assert (change["rule"], change["proof"]["verdict"]) == ("deconv3d_symmetric", "exact")
    ops = [node.op_type for node in result.model.graph.node]
    if pads:
        assert ops == ["ConvTranspose", "Slice"]
    else:  # more is left on than there is: zeros, in the depth as well
        assert ops == ["ConvTranspose", "Pad", "Transpose", "Pad", "Transpose"] + ["Add"] * bias
    assert result.report["unsupported"] == []


def test_new_targets_keep_the_deconvolution_and_the_bounds() -> None:
    model = deconvolution(True, pads=[1] * 6, output_padding=[1] * 3)
    assert sanitize(model, target="tensorrt-8.5", prove="never").report["changes"] == []
    assert sanitize(model, target="tensorrt-8.2", prove="never").report["changes"] != []


# --- Clip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F, np.int64])
@pytest.mark.parametrize("bounds", [("low",), ("", "high"), ()])
def test_a_clip_gets_the_bounds_that_it_lacks(dtype: Any, bounds: tuple[str, ...]) -> None:
    x = np.array([[-9, -1, 0, 1, 9]], dtype)
    if dtype is F:
        x = np.concatenate((x, F([[np.nan, np.inf, -np.inf, 1e-40, -0.0]])))
    constants = {"low": np.array(-1, dtype), "high": np.array(1, dtype)}
    used = {name: constants[name] for name in bounds if name}
    model = model_of(helper.make_node("Clip", ["x", *bounds], ["y"]), {"x": x}, used, 12)
    after = sanitize(model, target="tensorrt-7").model
    clips = [node for node in after.graph.node if node.op_type == "Clip"]
    assert all(len(node.input) == 3 and all(node.input) for node in clips)
    assert_same(outputs(model, {"x": x}), outputs(after, {"x": x}))


def test_the_example_of_contributing_is_the_rule() -> None:
    (rule,) = [rule for rule in load_rules() if rule.id == "explicit_clip_bounds"]
    text = Path(__file__).resolve().parents[2].joinpath("CONTRIBUTING.md").read_text("utf-8")
    assert f"```python\n{Path(rule.path).read_text('utf-8')}```" in text


# --- together ---------------------------------------------------------------------------------------


@pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's parser is not installed")
def test_the_replacements_are_graphs_that_nvidias_parser_takes(tmp_path: Path) -> None:
    gather = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    inputs = {"x": np.zeros((2, 9, 4), F), "i": np.zeros((2, 3, 4), np.int64)}
    for model in (
        model_of(gather, inputs, {}, dynamic=["x", "i"]),
        deconvolution(True, pads=[0] * 6, output_padding=[1] * 3),
    ):
        onnx.save(repaired(model), tmp_path / "after.onnx")
        assert trt.check_parse(tmp_path / "after.onnx") == []
