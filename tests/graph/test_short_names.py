"""Names that are too long for TensorRT: shortened wherever they stand, and nothing else is changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from said import is_said

import onnxq
from onnxq.graph.names import LONGEST, long_names
from onnxq.run import ort, trt

needs_compiler = pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's compiler is not installed")


def model(length: int) -> onnx.ModelProto:
    """One whose nodes, tensors and weights have long names that differ at their ends, or in their middle."""
    a, b, w = "n" * length, "n" * (length // 2) + "m" + "n" * (length // 2), "é" * (length // 2)
    body = "(float[2, 4] {out}) {{ {out} = {op} (A) }}"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x, bool c) => (float[2, 4] y) <float[4] W = {{1, 2, 3, 4}}> {{
            A = Mul (x, W)
            B = If (c) <then_branch = t () => {body.format(out="p", op="Relu")},
                        else_branch = e () => {body.format(out="q", op="Neg")}>
            y = Add (A, B) }}"""
    proto = onnx.parser.parse_model(text)
    names = {"A": a, "B": b, "W": w, "p": f"{a}p", "q": f"{a}q"}

    def rename(graph: onnx.GraphProto) -> None:
        for place, node in enumerate(graph.node):
            node.name = f"{a}{graph.name}{place}"
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
            for attribute in node.attribute:
                rename(attribute.g)
        for one in (*graph.initializer, *graph.output):
            one.name = names.get(one.name, one.name)

    rename(proto.graph)
    return proto


@pytest.mark.parametrize("length", [LONGEST + 2, 100_000])
def test_the_outputs_are_the_same(length: int) -> None:
    proto = model(length)
    result = onnxq.sanitize(proto)
    assert not long_names(result.model)
    assert is_said(" ".join(result.report.notes), "long-names", names="names", most=LONGEST)
    x = np.float32([[1, -2, 3, -4], [-1, 2, 0, 4]])
    for c in (True, False):
        feeds = {"x": x, "c": np.array(c)}
        (expected,), (given,) = (ort.load(one, optimize=False).run(feeds) for one in (proto, result.model))
        np.testing.assert_array_equal(given, expected)


def test_shorter_names_stay() -> None:
    proto = model(1000)
    assert not long_names(proto)
    names = {node.name for node in proto.graph.node}
    assert {node.name for node in onnxq.sanitize(proto).model.graph.node} == names


@needs_compiler
def test_the_compiler_takes_it(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x) => (float[2, 4] y) { a = Relu (x)  y = Neg (a) }""")
    first, second = proto.graph.node
    first.name = first.output[0] = second.input[0] = "a" * (LONGEST + 1)
    onnx.save(proto, tmp_path / "long.onnx")
    assert trt.check_parse(tmp_path / "long.onnx")
    onnxq.sanitize(tmp_path / "long.onnx").save(tmp_path / "short.onnx")
    assert trt.check_parse(tmp_path / "short.onnx") == []
