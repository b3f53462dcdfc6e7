"""The rules that fuse movement, and those for what every TensorRT rejects: outputs, and the real compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

from onnxq import sanitize
from onnxq.graph.model import Model
from onnxq.rewrite.engine import RewriteReport, rewrite
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt

F = np.float32
ROOT = Path(__file__).resolve().parents[2]
THOROUGH = settings(max_examples=30, deadline=None, derandomize=True)
RULES = {rule.id: rule for rule in load_rules()}
needs_compiler = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")


def built(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray],
) -> onnx.ModelProto:
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [info], [onnx.ValueInfoProto(name=o) for o in outputs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def fused(model: onnx.ModelProto, *names: str) -> tuple[onnx.ModelProto, RewriteReport]:
    """The model after some rules, every change of which must be proved bit-equal."""
    opened = Model.open(model)
    report = rewrite(opened, [RULES[name] for name in names], lambda feature: True)
    assert report.rejected == []
    assert {change.proof.verdict for change in report.changes} <= {"exact"}
    return opened.to_proto(), report


def run(model: onnx.ModelProto, x: np.ndarray) -> list[Any]:
    return ort.load(model, optimize=False, threads=1).run({"x": x})


def assert_same(before: onnx.ModelProto, after: onnx.ModelProto, *shapes: Sequence[int]) -> None:
    for shape in shapes:
        x = np.random.default_rng(0).standard_normal(shape).astype(F)
        for one, other in zip(run(before, x), run(after, x), strict=True):
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes()


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


# --- Transpose and Reshape --------------------------------------------------------------------------


@THOROUGH
@given(st.data())
def test_a_chain_of_transposes_is_at_most_one(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    count = data.draw(st.integers(2, 5))
    nodes, composed = [], list(range(rank))
    for index in range(count):
        order = data.draw(st.permutations(range(rank)))
        name = f"t{index + 1}" if index < count - 1 else "t"
        nodes.append(
            helper.make_node("Transpose", [f"t{index}" if index else "x"], [name], f"n{index}", perm=order)
        )
        composed = [composed[axis] for axis in order]
    nodes.append(helper.make_node("Relu", ["t"], ["y"], "relu"))
    watched = data.draw(st.sampled_from([None, *(f"t{i}" for i in range(1, count))]))
    model = built(nodes, ["N", 2, 3, 4][:rank], ["y", *filter(None, [watched])], {})
    after, _ = fused(model, "cancel_transposes", "drop_noop_movement")
    if watched is None:
        assert ops(after) == ["Transpose", "Relu"][composed == sorted(composed) :]
    else:
        assert ops(after).count("Transpose") <= 2
    assert_same(model, after, [3, 2, 3, 4][:rank], [0, 2, 3, 4][:rank])


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[onnx.ModelProto, bool]:
    """Reshapes in a row that are right for every size of the dynamic dimensions, and whether it has any."""
    shape: list[int | str] = [draw(st.sampled_from(["N", 6])), draw(st.sampled_from(["M", 2])), 4, 1]
    start, nodes, constants = list(shape), [], {}
    for index in range(draw(st.integers(2, 5))):
        source, out, name = f"r{index}" if index else "x", f"r{index + 1}", f"c{index}"
        given = [source, name]
        kind = draw(st.sampled_from(["Unsqueeze", "Squeeze", "Flatten", "Copy", "Rest", "Split"]))
        if kind == "Squeeze" and 1 in shape:
            axis = shape.index(1)
            shape = shape[:axis] + shape[axis + 1 :]
            constants[name] = np.array([axis])
        elif kind == "Flatten" and len(shape) > 1:
            given, axis = [source], draw(st.integers(1, len(shape) - 1))
            shape = [joined(shape[:axis]), joined(shape[axis:])]
            nodes.append(helper.make_node("Flatten", given, [out], f"n{index}", axis=axis))
            continue
        elif kind == "Copy" and len(shape) > 1 and isinstance(shape[-1], int):
            kind, constants[name] = "Reshape", np.array([0] * (len(shape) - 1) + [1, shape[-1]])
            shape = [*shape[:-1], 1, shape[-1]]
        elif kind == "Rest" and len(shape) > 1:
            kind, constants[name] = "Reshape", np.array([0, -1])
            shape = [shape[0], joined(shape[1:])]
        elif kind == "Split" and shape[-1] == 4:
            kind, constants[name] = "Reshape", np.array([-1, 2, 2])
            shape = [joined(shape[:-1]), 2, 2]
        else:
            axis = draw(st.integers(0, len(shape)))
            kind, constants[name] = "Unsqueeze", np.array([axis])
            shape = [*shape[:axis], 1, *shape[axis:]]
        nodes.append(helper.make_node(kind, given, [out], f"n{index}"))
    nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], ["y"], "relu"))
    watched = draw(st.sampled_from([None, *(node.output[0] for node in nodes[:-2])]))
    model = built(nodes, start, ["y", *filter(None, [watched])], constants)
    return model, watched is None and all(isinstance(dim, int) for dim in start)


def joined(dims: Sequence[int | str]) -> int | str:
    if all(isinstance(dim, int) for dim in dims):
        return int(np.prod(dims, dtype=np.int64))
    return "*".join(map(str, dims))


@settings(THOROUGH, max_examples=50)
@given(reshapes())
def test_reshapes_in_a_row(case: tuple[onnx.ModelProto, bool]) -> None:
    model, merges = case
    after, report = fused(model, "merge_reshapes")
    if merges:
        assert len(ops(after)) <= 2
        assert report.near_misses == []
    n, m, *_ = (dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    for shape in ([n or 5, m or 3, 4, 1], [n or 1, m or 1, 4, 1], [n or 0, m or 7, 4, 1]):
        try:
            run(model, np.zeros(shape, F))
        except ort.RunError:
            continue  # a -1 beside a dimension of size 0
        assert_same(model, after, shape)


# --- Pad --------------------------------------------------------------------------------------------


@THOROUGH
@given(st.data())
def test_a_convolution_pads_by_itself(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    few, steps = st.integers(0, 2), st.integers(1, 2)

    def each(numbers: st.SearchStrategy[int], count: int) -> list[int]:
        return data.draw(st.lists(numbers, min_size=count, max_size=count))

    groups, depth = data.draw(st.sampled_from([(1, 3), (2, 1), (4, 1), (1, 4)]))
    kernel, own, added = each(st.integers(1, 3), rank), each(few, 2 * rank), each(few, 2 * rank)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    constants = {
        "w": rng.standard_normal((4, depth, *kernel)).astype(F),
        "b": rng.standard_normal(4).astype(F),
        "p": np.array([0, 0, *added[:rank], 0, 0, *added[rank:]]),
    }
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["a"], "pad"),
        helper.make_node(
            "Conv", ["a", "w", "b"][: data.draw(st.integers(2, 3))], ["y"], "conv",
            pads=own, group=groups, strides=each(steps, rank), dilations=each(steps, rank),
        ),
    ]  # fmt: skip
    model = built(nodes, ["N", groups * depth, *[6] * rank], ["y"], constants)
    after, _ = fused(model, "pad_into_conv")
    assert ops(after) == ["Conv"]
    assert_same(model, after, [2, groups * depth, *[6] * rank])


# --- what the compiler rejects ----------------------------------------------------------------------

REJECTED = {
    "drop_unused_optional_outputs": [
        "{ y, i = MaxPool <kernel_shape = [2, 2]> (x) }",
        "<float[8] s = {1, 1, 1, 1, 1, 1, 1, 1}> { y, m, d = LayerNormalization (x, s) }",
    ],
    "fold_dq_int32_bias": [
        """<float[2, 3, 1, 1] w = {1, 2, 3, -4, 0.5, 0}, int32[2] b = {70000, -3}, float[2] s = {0.1, 0.2}>
        { d = DequantizeLinear <axis = 0> (b, s)  y = Conv (x, w, d) }"""
    ],
    "int8_zero_point": [
        """<float s = {0.1}, uint8 z = {128}> { q = QuantizeLinear (x, s, z)
        m = MaxPool <kernel_shape = [2, 2]> (q)  y = DequantizeLinear (m, s, z) }"""
    ],
    "symmetric_weights": [
        f"""<{dtype}[8, 2] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 200}}, float s = {{0.1}},
        {dtype} z = {{{zero}}}> {{ d = DequantizeLinear (w, s, z)  y = MatMul (x, d) }}"""
        for dtype, zero in (("uint8", 128), ("uint8", 3), ("uint8", 0), ("int16", 0), ("uint16", 9))
    ],
    "positive_scales": [
        """<int8[8, 2] w = {1, 0, 3, 0, 5, 0, 7, 0, 9, 0, 11, 0, 13, 0, 15, 0}, float[2] s = {0.1, 0}>
        { d = DequantizeLinear (w, s)  y = MatMul (x, d) }"""
    ],
    "explicit_slice_axes": [
        "<int64[2] s = {0, 1}, int64[2] e = {1, 3}> { y = Slice (x, s, e) }",
        "<int32[1] s = {1}, int32[1] e = {4}, int32[1] a = {2}> { y = Slice (x, s, e, a) }",
    ],
    "dq_before_gather": [
        """<int64[3] i = {1, 0, 1}, int8[2, 3] table = {1, -2, 3, 4, 5, -6}, float s = {0.1}> {
        r = ReduceMax <keepdims = 0> (x)  c = Cast <to = 7> (r)  j = Add (i, c)  k = Sub (j, c)
        g = Gather (table, k)  y = DequantizeLinear (g, s) }"""
    ],
}


@needs_compiler
@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, bodies in REJECTED.items() for number in range(len(bodies))]
)
def test_the_compiler_takes_what_it_rejected(name: str, number: int, tmp_path: Path) -> None:
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[1, 3, 8, 8] x) => (y) {REJECTED[name][number]}'
    )
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    onnx.save(model, tmp_path / "before.onnx")
    before = trt.compile_engine(tmp_path / "before.onnx")
    assert before.status == "failed"
    messages = [line.strip() for line in RULES[name].doc.splitlines() if line.startswith("    ")]
    assert any(message in before.reason for message in messages), before.reason
    result = sanitize(model, target="tensorrt-rtx")
    assert name in {change["rule"] for change in result.report["changes"]}
    assert result.report["rejected"] == []
    assert {change["proof"]["verdict"] for change in result.report["changes"]} == {"exact"}
    onnx.save(result.model, tmp_path / "after.onnx")
    after = trt.compile_engine(tmp_path / "after.onnx")
    assert after.status == "compiled", after.reason


@needs_compiler
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
def test_what_onnxruntime_quantized_around_128_runs_in_int8(weights: str, tmp_path: Path) -> None:
    images = iter({"image": np.random.default_rng(seed).random((1, 1, 8, 8), F)} for seed in range(4))

    class Images(CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(images, None)

    quantize_static(
        ROOT / "sample_models" / "digits" / "digits.onnx",
        tmp_path / "before.onnx",
        Images(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType[weights],
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
    )
    profile = {"image": ((1, 1, 8, 8),) * 3}
    assert trt.compile_engine(tmp_path / "before.onnx", profiles=profile).status == "failed"
    result = sanitize(tmp_path / "before.onnx", target="tensorrt-rtx")
    assert result.report["rejected"] == []
    assert {change["proof"]["verdict"] for change in result.report["changes"]} == {"exact"}
    assert sanitize(result.model, target="tensorrt-rtx").report["changes"] == []
    onnx.save(result.model, tmp_path / "after.onnx")
    engine = trt.compile_engine(tmp_path / "after.onnx", profiles=profile)
    assert engine.status == "compiled"
    assert sum(layer.multiplies("int8") for layer in engine.layers) == 7


@needs_compiler
def test_attention_with_biases_of_zeros_compiles(tmp_path: Path) -> None:
    """As those of a network that is not trained: one number in their place the compiler does not take."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["bias", "m"], ["a"]),
        helper.make_node("Reshape", ["a", "heads"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[2, 0, 3, 1, 4]),
        helper.make_node("Split", ["t", "thirds"], ["s0", "s1", "s2"]),
        *(helper.make_node("Squeeze", [f"s{part}", "first"], [name]) for part, name in enumerate("qkv")),
        helper.make_node("Mul", ["q", "scale"], ["scaled"]),
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["scaled", "turned"], ["scores"]),
        helper.make_node("Add", ["scores", "places"], ["placed"]),
        helper.make_node("Softmax", ["placed"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    random = np.random.default_rng(0)
    constants = {
        "w": random.standard_normal((384, 1152)).astype(F) / 20,
        "bias": np.zeros(1152, F),
        "heads": np.array([1, 49, 3, 12, 32]),
        "thirds": np.array([1, 1, 1]),
        "first": np.array([0]),
        "scale": np.array(32**-0.5, F),
        "places": random.standard_normal((1, 12, 49, 49)).astype(F),
    }
    model = built(nodes, [1, 49, 384], ["y"], constants)
    onnx.save(sanitize(model).model, tmp_path / "after.onnx")
    engine = trt.compile_engine(tmp_path / "after.onnx")
    assert engine.status == "compiled", engine.reason
