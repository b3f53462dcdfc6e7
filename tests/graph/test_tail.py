"""The tail of a model is what depends on some nodes, and computes the same of what it is fed."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import parser

from onnxq.graph.model import Model
from onnxq.graph.parts import tail_nodes, tail_of
from onnxq.run import ort

X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)

BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 4] x) => (float[2, 4] y, float[2, 4] z) <float two = {2}> {
    a = Mul (x, two)  b = Tanh (a)  s = Shape (a)  c = Exp (b)  r = Reshape (c, s)  y = Add (r, a)
    z = Neg (b) }"""

BODY = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 4] x, bool choice) => (float[2, 4] y) {
    a = Tanh (x)  b = Exp (x)
    c = If (choice) <then_branch = t () => (float[2, 4] p) { p = Add (a, b) },
                     else_branch = e () => (float[2, 4] q) { q = Sub (a, b) }>
    y = Neg (c) }"""


def opened(text: str) -> Model:
    return Model.open(parser.parse_model(text))


def fed(model: Model, feeds: dict[str, np.ndarray]) -> tuple[list[np.ndarray], Model]:
    """What a model gives, and itself."""
    onnx.checker.check_model(model.to_proto(), full_check=True)
    return ort.load(model.to_proto(), optimize=False).run(feeds), model


def test_what_depends_on_a_node_and_what_makes_what_cannot_be_fed() -> None:
    model = opened(BRANCHES)
    by_output = {node.outputs[0].name: node.name for node in model.graph.nodes}
    floats = {"a", "b", "c", "r", "y", "z"}
    names = tail_nodes(model, {by_output["c"]}, floats)
    assert names == {by_output[name] for name in ("c", "r", "y", "s")}  # a shape is not fed
    assert tail_nodes(model, {by_output["c"]}, {*floats, "s"}) == names - {by_output["s"]}
    assert tail_nodes(model, {by_output["a"]}, floats) == set(by_output.values())
    whole, _ = fed(model, {"x": X})
    (got,), tail = fed(tail_of(model, names), {"a": 2 * X, "b": np.tanh(2 * X)})
    assert {tensor.name for tensor in tail.graph.inputs} == {"a", "b"}
    assert [tensor.name for tensor in tail.graph.outputs] == ["y"]
    assert np.allclose(got, whole[0], rtol=1e-6, atol=0)
    again, _ = fed(model, {"x": X})
    assert all(map(np.array_equal, whole, again))  # the model is as it was


def test_what_a_body_reads_is_fed() -> None:
    model = opened(BODY)
    inner = next(node.name for graph in model.graphs() for node in graph.nodes if node.op == "Sub")
    names = tail_nodes(model, {inner}, {"a", "b", "c", "y"})
    assert {node.op for node in model.graph.nodes if node.name in names} == {"If", "Neg"}
    for choice in (True, False):
        (want,), _ = fed(model, {"x": X, "choice": np.array(choice)})
        (got,), tail = fed(
            tail_of(model, names), {"a": np.tanh(X), "b": np.exp(X), "choice": np.array(choice)}
        )
        assert {tensor.name for tensor in tail.graph.inputs} == {"a", "b", "choice"}
        assert np.allclose(got, want, rtol=1e-6, atol=1e-7)
