"""What a change replaced is drawn: the nodes that went and those that came, with what they read."""

from __future__ import annotations

import onnx.parser

import onnxq
from onnxq.graph.model import Model
from onnxq.rewrite.change_sketch import CHANGES
from onnxq.rewrite.changes import Change
from onnxq.rewrite.proof import Proof

NET = """<ir_version: 8, opset_import: ["" : 17]> net (float[2, 3] x) => (float[2, 3] y)
 <float one = {1.0}> { [t1] a = Transpose <perm = [1, 0]> (x) [t2] b = Transpose <perm = [1, 0]> (a)
 [add] c = Add (b, one) [end] y = Relu (c) }"""


def test_a_change_has_the_nodes_that_went_and_came() -> None:
    changes = onnxq.sanitize(onnx.parser.parse_model(NET)).report["changes"]
    change = next(one for one in changes if set(one["removed"]) >= {"t1", "t2"})
    before = {node["name"]: node for node in change["sketch"]["before"]}
    assert (before["t2"]["op"], before["t2"]["inputs"], before["t1"]["inputs"]) == ("Transpose", ["a"], ["x"])
    assert before["t1"]["outputs"] == ["a"]
    assert [node["name"] for node in change["sketch"]["after"]] == change["added"]


def test_constants_are_left_out_and_many_changes_have_no_drawing() -> None:
    lines = " ".join(
        f"[p{i}] p{i} = Transpose <perm = [1, 0]> ({'x' if i == 0 else f'r{i - 1}'}) "
        f"[q{i}] q{i} = Transpose <perm = [1, 0]> (p{i}) [r{i}] r{i} = Add (q{i}, one)"
        for i in range(CHANGES + 3)
    )
    head = NET.split("{ [t1]")[0]
    model = onnx.parser.parse_model(f"{head} {{ {lines} [end] y = Relu (r{CHANGES + 2}) }}")
    changes = onnxq.sanitize(model).report.changes
    rule = max((one.rule for one in changes), key=[one.rule for one in changes].count)
    mine = [one for one in changes if one.rule == rule]
    assert len(mine) > CHANGES
    assert sum(one.sketch is not None for one in mine) == CHANGES
    drawn = [node for one in changes if one.sketch is not None for node in one.sketch.before]
    assert all("one" not in node.inputs for node in drawn)


def test_a_node_whose_name_was_handed_on_is_not_removed() -> None:
    """The Conv of the result has the name of the one that is gone; nothing else of the two was called so."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2] one = {1, 2}, float[2] two = {3, 4}> {
            [conv] a = Conv (x, w) [norm] b = BatchNormalization (a, one, two, one, two)
            [end] y = Relu (b) }""")
    result = onnxq.sanitize(model)
    (change,) = result.report.changes
    assert (change.removed, change.added) == (("norm",), ("conv",))
    assert {node.name for node in result.model.graph.node} == {"conv", "end"}
    assert change.sketch is not None
    assert {node.name for node in change.sketch.before} == {"conv", "norm"}
    later = Change("rule", "clean", "n", ("gone", "end"), (), Proof("exact"))  # another node is "end" now
    told = later.told({node.name for node in Model.open(result.model).graph.nodes})
    assert told.removed == ("gone",)
