"""Weights that several layers read are named once, with all that read them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.numpy_helper import from_array
from said import is_said

import onnxq
from onnxq.cli.pages.model import model_page
from onnxq.cli.pages.statistics import weights_page
from onnxq.graph.model import Model
from onnxq.graph.shared import shared_weights

TEXT = """<ir_version: 9, opset_import: ["" : 19]>
    net (int64[N, 5] ids, float[N, 4] x) => (float[N, 5, 7] y, float[N, 4] z, float[N, 4] u) {
        [look] e = Gather <axis = 0> (table, ids)
        turned = Transpose <perm = [1, 0]> (table)
        [head] y = MatMul (e, turned)
        [one] a = MatMul (x, w) [two] z = MatMul (a, w) [own] u = MatMul (x, v) }"""


def tied(quantized: bool = False) -> onnx.ModelProto:
    text = TEXT
    if quantized:
        text = text.replace("[one]", "w = DequantizeLinear (codes, step) [one]")
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    held = {"table": rng.standard_normal((7, 4), np.float32), "v": rng.standard_normal((4, 4), np.float32)}
    if quantized:
        held |= {
            "codes": rng.integers(-127, 128, (4, 4)).astype(np.int8),
            "step": np.float32(0.1).reshape(()),
        }
    else:
        held["w"] = rng.standard_normal((4, 4), np.float32)
    model.graph.initializer.extend(from_array(np.asarray(values), name) for name, values in held.items())
    return model


@pytest.mark.parametrize("quantized", [False, True])
def test_readers_are_named_through_what_moves_and_dequantizes(quantized: bool) -> None:
    found = {one.weight: one for one in shared_weights(Model.open(tied(quantized)))}
    name = "codes" if quantized else "w"
    assert list(found) == ["table", name]
    assert found["table"].readers == ("look", "head")
    assert (found["table"].dtype, found["table"].shape, found["table"].bytes) == ("float32", (7, 4), 112)
    assert found[name].readers == ("one", "two")
    assert found[name].bytes == (16 if quantized else 64)


def test_a_transpose_of_nothing_is_none() -> None:
    model = tied()
    next(node for node in model.graph.node if node.op_type == "Transpose").ClearField("input")
    assert len(shared_weights(Model.open(model))) == 1  # w, and no table


def test_a_table_that_is_only_looked_up_in_is_no_weight() -> None:
    model = tied()
    del model.graph.node[1:3]
    del model.graph.output[0]
    model.graph.node.append(onnx.helper.make_node("Gather", ["table", "ids"], ["f"], "again", axis=0))
    model.graph.output.append(onnx.helper.make_tensor_value_info("f", 1, None))
    model.graph.output.append(onnx.helper.make_tensor_value_info("e", 1, None))
    assert [one.weight for one in shared_weights(Model.open(model))] == ["w"]


def test_inspect_and_weights_show_them() -> None:
    described, table = onnxq.describe(tied()), onnxq.weights(tied())
    assert described.shared == table.shared == shared_weights(Model.open(tied()))
    for page in (model_page(described, full=False), weights_page(table, full=False)):
        text = [line.text.strip() for line in page.lines]
        assert is_said(text, "shared-weights", weights="2 weights")
        assert any(line.startswith("table  float32 7x4, 112 B: look, head") for line in text)
