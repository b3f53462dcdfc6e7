"""Which tensor of one stage is which of another."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from layer_nets import HEAD, made, samples_of
from onnx import TensorProto, helper, numpy_helper
from said import is_said

import onnxq
from onnxq.analysis import layerwise
from onnxq.analysis.match import match, match_saved
from onnxq.analysis.stages import Saved, Stage


def quantized(model: onnx.ModelProto, body: str = "fp32") -> onnx.ModelProto:
    result = onnxq.quantize(
        model, samples_of(model, 4), method="minmax", repair="none", body=body, compile=False, prove="never"
    )
    return result.model


def renamed(model: onnx.ModelProto, nodes: bool) -> onnx.ModelProto:
    """The model under other names of tensors, of nodes too where it is said."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = {"x", *(tensor.name for tensor in copy.graph.initializer)}
    for node in copy.graph.node:
        node.name = f"other_{node.name}" if nodes else node.name
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = name if name in kept or not name else f"other_{name}"
    for info in copy.graph.output:
        info.name = f"other_{info.name}"
    del copy.graph.value_info[:]
    return copy


@pytest.mark.parametrize("body", ["fp32", "fp16"])
def test_a_quantized_model_is_matched_by_name_and_what_a_rule_removed_is_said(body: str) -> None:
    model = made("normalized")
    result = onnxq.quantize(
        model, samples_of(model, 4), method="minmax", repair="none", body=body, compile=False, prove="never"
    )
    removed = {name: c["rule"] for c in result.report["changes"] for name in c["removed"]}
    found = match(Stage(model), Stage(result.model), removed)
    assert [(one.a, one.b, one.how) for one in found.pairs] == [
        (name, name, "name") for name in ("n", "r", "g", "y")
    ]
    assert [(one.tensor, one.why) for one in found.left_a] == [("a", "gone: fold_batchnorm")]
    assert found.share == 1.0


@pytest.mark.parametrize(("nodes", "how"), [(False, "node"), (True, "structure")])
def test_tensors_of_other_names_are_matched_by_node_or_by_what_makes_them(nodes: bool, how: str) -> None:
    model = made("residual")
    other = renamed(quantized(model), nodes)
    found = match(Stage(model), Stage(other))
    assert {(one.a, one.b) for one in found.pairs} == {(n, f"other_{n}") for n in ("a", "r", "c", "s", "y")}
    assert {one.how for one in found.pairs} == {how}


def test_twins_are_not_matched_by_structure() -> None:
    model = onnx.parser.parse_model(
        HEAD + "net (float[4] x) => (float[4] y) { a = Relu (x)  b = Relu (x)  y = Sub (a, b) }"
    )
    found = match(Stage(model), Stage(renamed(model, nodes=True)))
    assert not found.pairs
    assert all(is_said(one.why, "unmatched.not-made") for one in found.left_a)


def test_a_tensor_of_another_shape_is_not_compared() -> None:
    def model(size: int) -> onnx.ModelProto:
        text = f"net (float[2, {size}] x) => (float[2, {size}] y) {{ a = Relu (x)  y = Neg (a) }}"
        return onnx.parser.parse_model(HEAD + text)

    found = match(Stage(model(3)), Stage(model(4)))
    assert not found.pairs
    assert {one.why for one in found.left_a} == {"another shape there"}


def test_what_polygraphy_saved_is_matched_by_name() -> None:
    model = made("residual")
    saved = Saved("s.json", "trt", ({"s": np.ones(3, np.float32), "other": np.ones(1, np.float32)},))
    found = match_saved(Stage(model), saved)
    assert [one.b for one in found.pairs] == ["s"]
    assert [one.tensor for one in found.left_b] == ["other"]
    assert {one.why for one in found.left_a} == {"not saved"}


def test_bodies_are_read_where_layers_run_alone() -> None:
    """A layer in front of an If whose branches read it: its readers in the copy read A's values."""
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["a"], [f"{op}_out"])], op,
            [], [helper.make_tensor_value_info(f"{op}_out", TensorProto.FLOAT, None)],
        )
        for op in ("Relu", "Neg")
    ]  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "one"),
        helper.make_node("ReduceSum", ["a"], ["sum"], "sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"], "test"),
        helper.make_node("If", ["positive"], ["c"], "if", then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("MatMul", ["c", "w"], ["y"], "two"),
    ]
    info = helper.make_tensor_value_info
    weights = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.float32(0), "zero")]
    graph = helper.make_graph(nodes, "net", [info("x", 1, [4, 16])], [info("y", 1, [4, 16])], constants)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights * np.float32(1.5), "w"))
    samples = [{"x": np.random.default_rng(n).standard_normal((4, 16)).astype(np.float32)} for n in range(3)]
    found = onnxq.analyze(model, other, samples)
    assert is_said(found.notes, "not-in-bodies", ops="If", names="'if'")
    rows = {row.tensor: row for row in found.rows}
    assert rows["c"].isolated is not None
    assert rows["y"].isolated is not None
    assert rows["c"].isolated.mse == 0.0  # of A's values the If gives A's
    assert rows["c"].accumulated.mse is not None
    assert rows["c"].accumulated.mse > 0.0
    assert rows["y"].isolated.max_abs == pytest.approx(rows["y"].accumulated.max_ref * 0.5, rel=1e-5)


def test_a_tensor_whose_channels_repair_scaled_is_compared_as_the_report_says(tmp_path: Path) -> None:
    model = made("residual")
    other = onnx.ModelProto()
    other.CopyFrom(model)
    factors = np.exp2(np.arange(16) % 3 - 1).astype(np.float32)
    for tensor in other.graph.initializer:  # Relu takes positive factors through
        values = numpy_helper.to_array(tensor)
        by = {"w16x16x3x3": factors[:, None, None, None], "b16": factors}.get(tensor.name)
        by = 1 / factors[None, :, None, None] if tensor.name == "v16x16x1x1" else by
        if by is not None:
            tensor.CopyFrom(numpy_helper.from_array(values * by, tensor.name))
    onnx.save(other, tmp_path / "b.onnx")
    maps = [
        {"tensor": name, "axis": 1, "scale": factors.tolist(), "offset": 0.0, "index": None}
        for name in ("a", "r")
    ]
    digest = hashlib.sha256((tmp_path / "b.onnx").read_bytes()).hexdigest()
    report = {"onnxq": "0", "sha256": digest, "changes": [], "repair": {"maps": maps, "edits": [{"by": 1.0}]}}
    (tmp_path / "b.report.json").write_text(json.dumps(report))
    rows = onnxq.analyze(model, tmp_path / "b.onnx", samples_of(model)).rows
    assert {row.tensor for row in rows} == {"a", "r", "c", "s", "y"}
    for row in rows:
        assert row.accumulated.sqnr_db is not None
        assert row.accumulated.sqnr_db > 120, row.tensor
        assert row.causes == ()
    (tmp_path / "b.report.json").unlink()
    plain = {row.tensor: row for row in onnxq.analyze(model, tmp_path / "b.onnx", samples_of(model)).rows}
    assert plain["r"].accumulated.sqnr_db is not None
    assert plain["r"].accumulated.sqnr_db < 20
    assert plain["a"].causes[0].code == "weights"


def test_parts_hand_on_what_is_compared_later_than_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A makes its tensors in another order than B, and each is a part of its own."""
    text = "net (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {{ a = Relu (x) {} }}"
    one = "c = Neg (a)  z = Abs (a)  d = Add (z, c)  y = Neg (d)"
    other = "c = Neg (a)  k = Abs (a)  d = Add (k, c)  y = Neg (d)  z = Abs (a)"
    a, b = (onnx.parser.parse_model(HEAD + text.format(part)) for part in (one, other))
    samples = [{"x": np.random.default_rng(n).standard_normal((1, 4)).astype(np.float32)} for n in range(2)]
    whole = onnxq.analyze(a, b, samples)
    monkeypatch.setattr(layerwise.Walker.__init__, "__kwdefaults__", {
        **(layerwise.Walker.__init__.__kwdefaults__ or {}), "budget": 1,
    })  # fmt: skip
    parted = onnxq.analyze(a, b, samples)
    assert parted.groups == len(whole.rows) > 3
    assert [row.tensor for row in parted.rows] == [row.tensor for row in whole.rows]
    assert [row.accumulated for row in parted.rows] == [row.accumulated for row in whole.rows]


def test_a_tensor_that_an_edit_renamed_is_the_one_that_the_report_tells(tmp_path: Path) -> None:
    """The node of its name gave another one before: it was fused with what follows."""
    rng = np.random.default_rng(0)
    factors = np.exp2(np.arange(8) % 3 - 1).astype(np.float32).reshape(1, 8, 1, 1)
    w, v = (rng.standard_normal((8, 8, 1, 1)).astype(np.float32) for _ in range(2))
    shapes = "net (float[1, 8, 4, 4] x) => (float[1, 8, 4, 4] y)"
    a = onnx.parser.parse_model(
        HEAD + shapes + "{ [conv] a = Conv (x, w)  [norm] t = Mul (a, two)  [end] y = Conv (t, v) }"
    )
    b = onnx.parser.parse_model(HEAD + shapes + "{ [conv] t_once = Conv (x, w)  [end] y = Conv (t_once, v) }")
    folded = {"w": 2 * w * factors.reshape(8, 1, 1, 1), "v": v / factors}
    for model, arrays in ((a, {"w": w, "v": v, "two": np.float32(2)}), (b, folded)):
        for name, values in arrays.items():
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    onnx.save(b, tmp_path / "b.onnx")
    scale = {"scale": factors.reshape(-1).tolist(), "shape": [1, 8, 1, 1], "offset": 0.0, "index": None}
    maps = [{"tensor": "t_once", "axis": None, "was": "t", **scale}]
    digest = hashlib.sha256((tmp_path / "b.onnx").read_bytes()).hexdigest()
    report = {"onnxq": "0", "sha256": digest, "changes": [], "repair": {"maps": maps, "edits": [{"by": 1.0}]}}
    (tmp_path / "b.report.json").write_text(json.dumps(report))
    samples = [{"x": rng.standard_normal((1, 8, 4, 4)).astype(np.float32)} for _ in range(2)]
    rows = {row.tensor: row for row in onnxq.analyze(a, tmp_path / "b.onnx", samples).rows}
    assert (rows["t_once"].a_tensor, rows["t_once"].how) == ("t", "name")
    for name in ("t_once", "y"):
        for figures in (rows[name].accumulated, rows[name].isolated):
            assert figures is not None
            assert figures.sqnr_db is not None
            assert figures.sqnr_db > 120, name
