"""Reasons are data: their codes decide, their texts are for a reader."""

from __future__ import annotations

import ast
import copy
import json
import pickle

import onnx.parser
from trees import FILES, TREES

from onnxq.base.reason import Reason, by_of, code_of
from onnxq.graph.model import Model
from onnxq.quant.placement import make_plan
from onnxq.rule import Float, Node, Quantize, place

REASONS = {"why", "because", "reason", "reasons", "held_out"}


def test_a_reason_reads_as_its_text_and_keeps_its_code() -> None:
    reason = Reason("layer", "[[layer]] 2: boxes", "user")
    assert (f"{reason}", json.dumps([reason])) == ("[[layer]] 2: boxes", '["[[layer]] 2: boxes"]')
    for again in (copy.deepcopy(reason), pickle.loads(pickle.dumps(reason))):
        assert (again, again.code, again.by) == (reason, "layer", "user")
    assert (code_of("text"), by_of("text")) == ("", "")


def test_nothing_decides_on_how_a_reason_is_put() -> None:
    found = []
    for path in FILES:
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                value = node.func.value
                name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
                if node.func.attr in ("startswith", "endswith", "removeprefix") and name in REASONS:
                    found.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant):
                names = {getattr(one, "attr", getattr(one, "id", "")) for one in node.comparators}
                if isinstance(node.left.value, str) and names & REASONS:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_a_rule_that_speaks_like_the_user_is_no_user() -> None:
    """Its text began with that of a flag, and was taken for one."""

    @place("MatMul")
    def mine(node: Node) -> list[Float | Quantize]:
        return [Float(node, "--keep-float would be wise")]

    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 8] x, float[8, 4] z) => (float[4, 4] y) { [p] m = MatMul (x, z)  [q] y = Relu (m) }"""
    model = Model.open(onnx.parser.parse_model(text))
    (kept,) = make_plan(model, [mine]).kept_float
    assert (kept.because, kept.code, kept.by) == ("--keep-float would be wise", "rule", "mine")
    kept, relu = make_plan(model, [], keep_float=["*"]).kept_float
    assert (kept.because, kept.code, kept.by) == ("--keep-float *", "keep-float", "user")
    assert relu.op == "Relu"  # the user's own vetoes are listed whatever the operator
