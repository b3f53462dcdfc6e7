"""Files do not outgrow their float originals by what is folded, or the screen says why."""

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
from said import is_said

import onnxq
from onnxq.cli.pages.end import end_screen
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '


def parsed(text: str, **constants: Any) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
    return model


def weights(*shape: int) -> np.ndarray:
    random = np.random.default_rng(sum(shape))
    return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def ops(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


def outputs(model: onnx.ModelProto, **feeds: np.ndarray) -> list[Any]:
    return ort.load(model, optimize=False, threads=1).run(feeds)


# -- the files of three exports --------------------------------------------------------------------


def landmarks() -> onnx.ModelProto:
    """PRelu whose slopes PyTorch expands to the activation's size."""
    return parsed(
        """net (float[N, 3, 32, 32] x) => (y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1)  e = Expand (s, to)  p = PRelu (a, e)
            y = Conv <pads = [1, 1, 1, 1]> (p, w2) }""",
        w1=weights(16, 3, 3, 3),
        w2=weights(16, 16, 3, 3),
        s=weights(16, 1, 1),
        to=np.array([16, 32, 32]),
    )


def written_out() -> onnx.ModelProto:
    """The same, with the slopes stored as PyTorch expands them."""
    model = landmarks()
    model.graph.node.remove(next(node for node in model.graph.node if node.op_type == "Expand"))
    slopes = np.broadcast_to(weights(16, 1, 1), (16, 32, 32)).copy()
    model.graph.initializer.append(numpy_helper.from_array(slopes, "e"))
    return model


def normalized() -> onnx.ModelProto:
    """A BatchNorm without learned parameters over a flattened map."""
    random = np.random.default_rng(0)
    return parsed(
        """net (float[N, 3, 32, 32] x) => (y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1)  f = Flatten (a)
            one = ConstantOfShape <value = float[1] {1}> (size)  zero = ConstantOfShape (size)
            n = BatchNormalization (f, one, zero, mean, var)  r = Reshape (n, to)
            y = Conv <pads = [1, 1, 1, 1]> (r, w2) }""",
        w1=weights(16, 3, 3, 3),
        w2=weights(16, 16, 3, 3),
        size=np.array([16 * 32 * 32]),
        mean=random.standard_normal(16 * 32 * 32).astype(np.float32),
        var=random.uniform(0.5, 2, 16 * 32 * 32).astype(np.float32),
        to=np.array([-1, 16, 32, 32]),
    )


def scattered() -> onnx.ModelProto:
    """`a[:, :, ::2] = c` as it is exported: ScatterND with indices of the whole slice."""
    grids = "".join(
        f"r{i} = Range (zero, n{i}, step{i})  g{i} = Reshape (r{i}, at{i})  e{i} = Expand (g{i}, to)  "
        for i in range(3)
    )
    return parsed(
        f"""net (float[1, 3, 32, 32] x) => (y) {{
            a = Conv <pads = [1, 1, 1, 1]> (x, w1)  {grids}
            batch = ConstantOfShape <value = int64[1] {{0}}> (to)  i = Concat <axis = -1> (batch, e0, e1, e2)
            c = Conv <pads = [1, 1, 1, 1], strides = [2, 1]> (a, w2)  s = ScatterND (a, i, c)
            y = Conv <pads = [1, 1, 1, 1]> (s, w3) }}""",
        w1=weights(16, 3, 3, 3),
        w2=weights(16, 16, 3, 3),
        w3=weights(16, 16, 3, 3),
        zero=np.array(0),
        **{f"n{i}": np.array(size) for i, size in enumerate((16, 32, 32))},
        **{f"step{i}": np.array(step) for i, step in enumerate((1, 2, 1))},
        **{f"at{i}": np.array([1] * (i + 1) + [-1] + [1] * (3 - i)) for i in range(3)},
        to=np.array([1, 16, 16, 32, 1]),
    )


@pytest.mark.parametrize("net", [landmarks, written_out, normalized, scattered])
def test_an_int8_file_is_smaller_than_its_float_one(net: Any, tmp_path: Path) -> None:
    model = net()
    random = np.random.default_rng(1)
    samples = [{"x": random.standard_normal((1, 3, 32, 32)).astype(np.float32)} for _ in range(2)]
    clean = onnxq.sanitize(model)
    assert clean.report["rejected"] == []
    assert clean.model.ByteSize() < model.ByteSize() + 400  # some names
    for was, now in zip(outputs(model, **samples[0]), outputs(clean.model, **samples[0]), strict=True):
        if net is normalized:
            np.testing.assert_allclose(now, was, rtol=0, atol=1e-5 * np.abs(was).max())
        else:
            assert now.tobytes() == was.tobytes()
    result = onnxq.quantize(model, samples, method="minmax", compile=False)
    assert result.report["size"]["before"] == model.ByteSize()
    assert result.report["size"]["after"] == result.model.ByteSize() < model.ByteSize()
    assert result.report["plan"]["int8_share_of_eligible_macs"] == 1
    if net in (landmarks, written_out):
        assert "Expand" not in ops(result.model)
        assert result.model.ByteSize() < landmarks().ByteSize()


# -- folding ---------------------------------------------------------------------------------------


def test_a_weight_is_folded_however_it_is_computed() -> None:
    """Through what grows on the way: int8 wants a constant."""
    model = parsed(
        """net (float[32, 64] x) => (y) {
            e = Expand (row, to)  m = Mul (e, column)  t = Transpose (m)  y = MatMul (x, t) }""",
        row=weights(1, 64),
        column=weights(600, 1),
        to=np.array([600, 64]),
    )
    result = onnxq.quantize(model, [{"x": weights(32, 64)}], method="minmax", body="fp32", compile=False)
    assert result.report["plan"]["int8_share_of_eligible_macs"] == 1
    assert ops(result.model) == {"QuantizeLinear", "DequantizeLinear", "MatMul"}
    (largest, *_) = result.report["size"]["grown"]
    assert (largest["name"], largest["bytes"] > 600 * 64) == ("t", True)


def test_what_is_computed_is_no_activation_to_quantize() -> None:
    """A computed summand of a convolution is left in float, as the constant would be."""
    model = parsed(
        """net (float[1, 16, 16, 32] x) => (y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1)  r = Range (zero, end, step)  g = Reshape (r, to)
            b = Add (a, g)  y = Conv <pads = [1, 1, 1, 1]> (b, w2) }""",
        w1=weights(16, 16, 3, 3),
        w2=weights(16, 16, 3, 3),
        zero=np.float32(0),
        end=np.float32(8192),
        step=np.float32(1),
        to=np.array([1, 16, 16, 32]),
    )
    report = onnxq.quantize(model, [{"x": weights(1, 16, 16, 32)}], method="minmax", compile=False).report
    assert [s["tensor"] for s in report["plan"]["sites"] if s["kind"] == "activation"] == ["x", "b"]


def test_equal_results_are_stored_once() -> None:
    model = parsed(
        """net (float[300, 2] x) => (y, z) {
            a = Cos (c)  b = Cos (d)  y = Mul (x, a)  z = Concat <axis = 0> (x, b) }""",
        c=weights(300, 2),
        d=weights(300, 2),
    )
    result = onnxq.sanitize(model)
    assert [list(tensor.dims) for tensor in result.model.graph.initializer] == [[300, 2]]
    assert result.report["changes"][0]["proof"]["verdict"] == "exact"


def test_a_constant_that_others_read_is_not_replaced() -> None:
    """Folding the Transpose would store the matrix twice."""
    model = parsed(
        """net (float[N, 80, 70] x, float[N, 70, 80] z) => (y, w) {
            t = Transpose (c)  y = Mul (x, c)  w = Mul (z, t) }""",
        c=weights(80, 70),
    )
    assert "Transpose" in ops(onnxq.sanitize(model).model)


@pytest.mark.parametrize("case", ["training", "negative", "usual"])
def test_batchnorms_that_are_no_affine_map_stay(case: str) -> None:
    values = {"one": 1, "var": -1 if case == "negative" else 2}
    model = parsed(
        f"""net (float[2, 6000] x) => (y) {{
            one = ConstantOfShape <value = float[1] {{1}}> (size)
            var = ConstantOfShape <value = float[1] {{{values["var"]}}}> (size)
            y{", m, v" if case == "training" else ""} = BatchNormalization
                <training_mode = {int(case == "training")}> (x, one, one, one, var) }}""",
        size=np.array([6000]),
    )
    assert ("BatchNormalization" in ops(onnxq.sanitize(model).model)) == (case != "usual")


def test_zeros_of_both_signs_are_different() -> None:
    slopes = np.zeros((32, 8, 8), np.float32)
    slopes[3, 3, 3] = -0.0
    model = parsed("net (float[N, 32, 8, 8] x) => (y) { y = PRelu (x, c) }", c=slopes)
    assert onnxq.sanitize(model).report["changes"] == []


# -- broadcasting ----------------------------------------------------------------------------------

BINARY = ("Add", "Mul", "Sub", "Greater", "Max", "Mean", "PRelu", "Pow", "Where")


@st.composite
def broadcasts(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray], bool]:
    """A node that reads an expanded or tiled tensor and another one, with sizes that are known or not."""
    rank = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    symbols = ["A", "B", "C", "D"][:rank]
    known = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))

    def operand(name: str) -> tuple[onnx.ValueInfoProto, np.ndarray]:
        count = draw(st.integers(0, rank))
        dims: list[Any] = []
        shape: list[int] = []
        for axis in range(rank - count, rank):
            one = draw(st.booleans())
            shape.append(1 if one else sizes[axis])
            dims.append(1 if one else sizes[axis] if known[axis] else symbols[axis])
        values = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims), values

    (x, x_values), (other, other_values) = operand("x"), operand("o")
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    wide = [size if draw(st.booleans()) else 1 for size in sizes]
    if draw(st.booleans()):
        if draw(st.booleans()) and other_values.ndim:  # to the other's shape
            nodes.append(helper.make_node("Shape", ["o"], ["to"]))
        else:
            constants.append(numpy_helper.from_array(np.array(wide, np.int64), "to"))
        nodes.append(helper.make_node("Expand", ["x", "to"], ["e"]))
    else:
        counts = np.array(wide[: x_values.ndim], np.int64)
        constants.append(numpy_helper.from_array(counts, "to"))
        nodes.append(helper.make_node("Tile", ["x", "to"], ["e"]))
    op = draw(st.sampled_from(BINARY))
    reads = draw(st.sampled_from((["e", "o"], ["o", "e"], ["e", "e"])))
    if op == "Where":
        nodes.append(helper.make_node("Greater", [reads[0], reads[1]], ["c"]))
        reads = ["c", *reads]
    nodes.append(helper.make_node(op, reads, ["y"]))
    if draw(st.booleans()):
        nodes.append(helper.make_node("Relu", ["e"], ["r"]))
        nodes.append(helper.make_node("Add", ["r", "y"], ["z"]))
    kind = TensorProto.BOOL if op == "Greater" else TensorProto.FLOAT
    out = helper.make_tensor_value_info(nodes[-1].output[0] if op != "Greater" else "y", kind, None)
    if op == "Greater":
        nodes = [node for node in nodes if node.output[0] not in ("r", "z")]
    graph = helper.make_graph(nodes, "net", [x, other], [out], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": x_values, "o": other_values}, not all(known)


@given(broadcasts())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_broadcasting_takes_the_place_of_expansion(
    case: tuple[onnx.ModelProto, dict[str, np.ndarray], bool],
) -> None:
    """Bit for bit, shape included, also at other sizes of what is dynamic: without any proof."""
    model, feeds, _ = case
    try:
        was = outputs(model, **feeds)
    except ort.RunError:
        return  # shapes that do not fit
    node = model.graph.node[-1]
    if node.op_type == "PRelu" and node.input[0] == "o" and was[0].shape != feeds["o"].shape:
        return  # slopes are broadcast to what they are of, says ONNX; onnxruntime does more
    clean = onnxq.sanitize(model, prove="never").model
    now = outputs(clean, **feeds)
    assert [(a.shape, a.tobytes()) for a in now] == [(a.shape, a.tobytes()) for a in was]


# -- the screen ------------------------------------------------------------------------------------


def lines(model: onnx.ModelProto, samples: Sequence[dict[str, np.ndarray]], path: Path) -> list[str]:
    """The end screen of a run that is saved."""
    result = onnxq.quantize(model, list(samples), method="minmax", compile=False)
    result.save(path)
    return [line.text for line in end_screen(result.report).lines]


def test_the_screen_says_why_a_file_is_larger(tmp_path: Path) -> None:
    model = parsed(
        """net (float[32, 64] x) => (y) {
            e = Expand (row, to)  m = Mul (e, column)  [first] t = Transpose (m)  y = MatMul (x, t) }""",
        row=weights(1, 64),
        column=weights(600, 1),
        to=np.array([600, 64]),
    )
    said = lines(model, [{"x": weights(32, 64)}], tmp_path / "out.onnx")
    size = f"{(tmp_path / 'out.onnx').stat().st_size / 1000:.1f} kB"
    assert any(text.endswith(f" kB -> {size}") for text in said), said
    (grown,) = (text for text in said if text.startswith("+38.4 kB t: "))
    assert is_said(grown, "growth.stored")
    (share,) = (text for text in said if "eligible" in text)
    assert share.startswith("100.0 % of all multiply-accumulates: 1 of 1 eligible layer, 100.0 % of their")


def test_the_share_of_the_whole_model_counts_all_products(tmp_path: Path) -> None:
    """Those of two activations, and layers that are not eligible."""
    model = parsed(
        """net (float[1, 32, 64] x) => (y) {
            a = MatMul (x, w)  t = Transpose <perm = [0, 2, 1]> (a)  m = MatMul (a, t)  s = Softmax (m)
            y = MatMul (s, thin) }""",
        w=weights(64, 32),
        thin=weights(32, 4),
    )
    samples = [{"x": weights(1, 32, 64)}]
    plan = onnxq.quantize(model, samples, method="minmax", compile=False).report["plan"]
    formats = {layer["node"]: (layer["weights"], layer["format"]) for layer in plan["layers"]}
    assert formats == {"a": (True, "int8"), "m": (False, "float"), "y": (True, "int8")}
    int8, other = 32 * 64 * 32 + 32 * 32 * 4, 32 * 32 * 32
    assert plan["int8_share_of_eligible_macs"] == 1
    assert plan["int8_share_of_all_macs"] == pytest.approx(int8 / (int8 + other))


def test_a_recurrent_layer_counts_as_well() -> None:
    model = parsed(
        """net (float[20, 1, 16] x) => (y) {
            h = GRU <hidden_size = 24> (x, w, r)  s = Reshape (h, to)  y = MatMul (s, m) }""",
        w=weights(1, 72, 16),
        r=weights(1, 72, 24),
        m=weights(24, 32),
        to=np.array([20, 24]),
    )
    plan = onnxq.quantize(model, [{"x": weights(20, 1, 16)}], method="minmax", compile=False).report["plan"]
    int8, other = 20 * 24 * 32, 20 * 72 * (16 + 24)
    assert plan["int8_share_of_all_macs"] == pytest.approx(int8 / (int8 + other))


def test_an_einsum_of_weights_is_a_layer_and_one_of_activations_counts_as_well() -> None:
    model = parsed(
        """net (float[1, 32, 2, 32] x) => (y) {
            [a] h = Einsum <equation = "bqhd,hdo->bqo"> (x, w)
            [m] m = Einsum <equation = "bqo,bko->bqk"> (h, h)
            y = Softmax (m) }""",
        w=weights(2, 32, 64),
    )
    plan = onnxq.quantize(model, [{"x": weights(1, 32, 2, 32)}], method="minmax", compile=False).report[
        "plan"
    ]
    assert [(layer["node"], layer["op"], layer["format"]) for layer in plan["layers"]] == [
        ("a_MatMul", "MatMul", "int8")
    ]
    int8, other = 32 * 64 * 64, 32 * 32 * 64
    assert plan["int8_share_of_all_macs"] == pytest.approx(int8 / (int8 + other))


def test_the_share_of_the_whole_is_not_known_where_a_body_multiplies() -> None:
    model = parsed(
        """net (float[32, 32] x, int64 turns, bool go) => (y) {
            h = MatMul (x, w)
            y = Loop (turns, go, h) <
                body = b (int64 i, bool on, float[32, 32] v) => (bool c, float[32, 32] u) {
                c = Identity (on)  u = MatMul (v, v) }> }""",
        w=weights(32, 32),
    )
    samples = [{"x": weights(32, 32), "turns": np.array(2), "go": np.array(True)}]
    plan = onnxq.quantize(model, samples, method="minmax", compile=False).report["plan"]
    assert (plan["int8_share_of_eligible_macs"], plan["int8_share_of_all_macs"]) == (1, None)
