"""`onnxq.inspect` and `onnxq.draw`: what the graph says of each node; the piece around one; hostile names."""

from __future__ import annotations

import re
import time

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.analysis.nodes import ModelNodes, NodeRow, NodeTensor
from onnxq.base.errors import UserError

PAIRS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y)
    <float s = {0.5}, int8 z = {0}> {
        [quantize] c = QuantizeLinear (x, s, z)
        [dequantize] d = DequantizeLinear (c, s, z)
        [weights] w = DequantizeLinear (q, s, z)
        [conv] v = Conv <pads = [1, 1, 1, 1]> (d, w, b)
        [relu] r = Relu (v)
        [low] h = Cast <to = 10> (r)
        [twice] t = Add (h, h)
        [high] y = Cast <to = 1> (t)
    }"""


@pytest.fixture(scope="module")
def pairs() -> onnx.ModelProto:
    model = onnx.parser.parse_model(PAIRS)
    for name, values in (("q", np.ones((4, 3, 3, 3), np.int8)), ("b", np.ones(4, np.float32))):
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def of(found: ModelNodes) -> dict[str, NodeRow]:
    return {row.name: row for row in found.nodes}


def test_what_a_node_reads_writes_and_is(pairs: onnx.ModelProto) -> None:
    found = onnxq.inspect(pairs)
    conv = of(found)["conv"]
    assert (found.total, conv.index, conv.op, conv.graph) == (8, 3, "Conv", "")
    assert conv.attributes == {"pads": (1, 1, 1, 1)}
    assert conv.inputs == (
        NodeTensor("d", "activation", "float32", ("N", 3, 8, 8), None),
        NodeTensor("w", "activation", "float32", (4, 3, 3, 3), None),
        NodeTensor("b", "constant", "float32", (4,), (1.0, 1.0, 1.0, 1.0)),
    )
    assert conv.outputs == (NodeTensor("v", "activation", "float32", ("N", 4, 8, 8), None),)
    quantize = of(found)["quantize"]
    assert [tensor.kind for tensor in quantize.inputs] == ["input", "constant", "constant"]
    assert [tensor.values for tensor in quantize.inputs[1:]] == [(0.5,), (0,)]
    assert of(found)["weights"].inputs[0].values is None, "108 values are too many to show"
    assert of(found)["high"].outputs[0].kind == "output"


def test_precision_is_that_of_the_codes(pairs: onnx.ModelProto) -> None:
    precision = {name: row.precision for name, row in of(onnxq.inspect(pairs)).items()}
    assert precision == {
        "quantize": "pair", "dequantize": "pair", "weights": "pair", "conv": "int8", "relu": "float32",
        "low": "float16", "twice": "float16", "high": "float32",
    }  # fmt: skip


def test_choices(pairs: onnx.ModelProto) -> None:
    def names(**choice: object) -> list[str]:
        return [row.name for row in onnxq.inspect(pairs, **choice).nodes]  # type: ignore[arg-type]

    assert names(ops=["DequantizeLinear"]) == ["dequantize", "weights"]
    assert names(match=["*quantize"]) == ["quantize", "dequantize"]
    assert names(match=["v"]) == ["conv"], "a tensor's name as well: who writes it"
    assert names(match=["[qx]"]) == ["quantize", "weights"], "or who reads what nobody writes"
    assert names(match=["*quantize", "low"], ops=["Cast"]) == ["low"]
    assert names(around="conv", depth=0) == ["conv"]
    assert names(around="conv", depth=1) == ["dequantize", "weights", "conv", "relu"]
    assert names(around="h", depth=0) == ["low", "twice"], "the nodes of a tensor"
    assert names(around="conv", depth=100) == names()
    for choice, message in (
        ({"ops": ["Gemm"]}, "operator in the model named 'Gemm'"),
        ({"match": ["zz*"]}, r"no node fits 'zz\*'"),
        ({"around": "konv"}, "node or tensor 'konv'"),
        ({"around": "conv", "depth": -1}, "depth -1"),
    ):
        with pytest.raises(UserError, match=message):
            names(**choice)


def test_a_pattern_with_brackets_is_a_name_too() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[2] x) => (float[2] y) { y = Relu (x) }'
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = "blocks[0]"
    assert [row.name for row in onnxq.inspect(model, match=["blocks[0]"]).nodes] == ["blocks[0]"]


def test_bodies_read_what_is_around_them() -> None:
    node = helper.make_node
    body = helper.make_graph(
        [node("And", ["c", "c"], ["co"], "and"), node("Add", ["v", "r"], ["vo"], "add")],
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (
            ("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("v", TensorProto.FLOAT, [4]))],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (
            ("co", TensorProto.BOOL, []), ("vo", TensorProto.FLOAT, [4]))],
    )  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Loop", ["n", "", "r"], ["y"], "loop"),
    ]
    nodes[1].attribute.append(helper.make_attribute("body", body))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(np.array(3), "n")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = onnxq.inspect(model)
    assert {name: row.graph for name, row in of(found).items()} == {
        "relu": "", "loop": "", "and": "loop.body", "add": "loop.body",
    }  # fmt: skip
    assert of(found)["loop"].bodies == ("loop.body",)
    assert of(found)["loop"].inputs[1] == NodeTensor("", "", None, None, None)
    assert list(of(onnxq.inspect(model, around="relu", depth=1))) == ["relu", "loop", "add"]
    assert "n0 -> n3" in onnxq.draw(found)


def test_a_drawing_shows_pairs_types_and_what_leads_out(pairs: onnx.ModelProto) -> None:
    text = onnxq.draw(onnxq.inspect(pairs, around="conv", depth=1))
    colors = dict(re.findall(r'^  n(\d+) .*fillcolor="(#\w+)"\];$', text, re.MULTILINE))
    assert colors["1"] == colors["2"] != colors["3"] != colors["4"], "pairs, int8 and float differ"
    assert re.search(r'n1 -> n3 \[label="float32 \[Nx3x8x8\]"\]', text)
    assert re.search(r'i\d+ -> n1 \[label="int8 \[Nx3x8x8\]", style=dashed\]', text), (
        "its producer is left out"
    )
    assert re.search(r"n4 -> o\d+ \[.*style=dashed\]", text)
    assert r"pads = [1, 1, 1, 1]\nb: [1, 1, 1, 1]" in text
    whole = onnxq.draw(onnxq.inspect(pairs))
    assert "dashed" not in whole, "nothing is left out"
    assert re.search(r'n0 -> n1 \[label="int8 \[Nx3x8x8\]", color=', whole), "codes stand out"


# Strings as Graphviz reads them (lib/cgraph/scan.l): \" and \\ are pairs, all else stands for itself.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


@pytest.mark.parametrize(
    "name",
    ['a"]; evil [label="x', "back\\", '\\"', "\\N\\G", "<b>x</b>", "&lt;&#34;", "a\nb", "\x1b[31m",
     "\u202eabc", "\x00", "n0 -> n0;", "}", "x" * 10_000, "//", "/*", "#"],
)  # fmt: skip
def test_no_name_is_more_than_text(name: str) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    text = f"{head} net (float[2] x) => (float[2] y) {{ t = Relu (x) y = Neg (t) }}"
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        node.name = f"{name}{node.op_type}"
        for names in (node.input, node.output):
            names[:] = [name if one == "t" else one for one in names]
    drawn = onnxq.draw(onnxq.inspect(model))
    plain = _STRING.sub("S", drawn)
    harmless = onnx.parser.parse_model(text)
    for node in harmless.graph.node:
        node.name = f"n{node.op_type}"
    assert plain == _STRING.sub("S", onnxq.draw(onnxq.inspect(harmless))), "the drawing but for its texts"
    assert '"' not in plain
    assert drawn.replace("\n", "").isprintable()
    assert max(map(len, drawn.splitlines())) < 1000
    for content in _STRING.findall(drawn):
        assert re.fullmatch(r'(?:[^\\&]|\\\\|\\"|\\n|&amp;)*', content), "no escape and no entity of a name's"


def test_ten_thousand_nodes_take_seconds() -> None:
    weight = numpy_helper.from_array(np.ones((8, 8, 1, 1), np.float32), "w")
    nodes = []
    for index in range(5000):
        read = f"r{index - 1}" if index else "x"
        nodes.append(helper.make_node("Conv", [read, "w"], [f"c{index}"], f"conv{index}"))
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"], f"relu{index}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8, 4, 4]) for name in ("x", "r4999")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    start = time.process_time()
    found = onnxq.inspect(model)
    assert len(found.nodes) == 10_000
    assert onnxq.draw(found).count(" -> ") == 10_001
    assert time.process_time() - start < 10, "1.5 s where it was measured"
