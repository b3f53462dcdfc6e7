"""A classifier's outputs in front of their Softmax: which these are, and what they hold."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.graph.logits import at_logits, logits_of
from onnxq.run import ort

SOFT = "y = Softmax <axis = {axis}> (x)"
RESHAPED = "s = Softmax <axis = 1> (x)  y = Flatten (s)"


def net(opset: int, given: str, out: str, nodes: str) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(f"{head} net (float[{given}] x) => (float[{out}] y) {{ {nodes} }}")


def run(model: onnx.ModelProto, values: np.ndarray) -> np.ndarray:
    (result,) = ort.load(model).run({"x": values}, ["y"])
    return np.asarray(result)


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
@pytest.mark.parametrize(
    ("given", "out", "nodes"),
    [
        ("1, 10", "1, 10", SOFT.format(axis=1)),
        ("N, 10", "N, 10", SOFT.format(axis=-1)),
        ("1, 10, 1, 1", "1, 10, 1, 1", SOFT.format(axis=1)),
        ("1, 10, 1, 1", "1, 10", RESHAPED),
    ],
)
def test_scores_are_logits_about_their_mean(opset: int, given: str, out: str, nodes: str) -> None:
    model = net(opset, given, out, nodes)
    values = np.random.default_rng(0).standard_normal((1, 10)).astype(np.float32) * 30
    shape = (1, 10, 1, 1) if "1, 1" in given[4:] else (1, 10)
    changed = at_logits(model, copy=True)
    assert changed is not model
    found = run(changed, values.reshape(shape))
    np.testing.assert_allclose(found.reshape(1, 10), values - values.mean(), rtol=1e-5, atol=1e-5)
    moved = run(changed, values.reshape(shape) + 5)  # which changes no answer
    np.testing.assert_allclose(moved, found, rtol=1e-4, atol=1e-4)
    soft = run(model, values.reshape(shape))  # what is given stays as it is
    assert soft.sum() == pytest.approx(1.0, abs=1e-5)
    assert at_logits(model) is model
    np.testing.assert_array_equal(run(model, values.reshape(shape)), found)


@pytest.mark.parametrize("opset", [17, 21])
def test_what_is_there_is_what_scores_become(opset: int) -> None:
    model = net(opset, "2, 10", "2, 10", "r = Neg (x)  " + SOFT.format(axis=-1).replace("(x)", "(r)"))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "N"
    values = np.random.default_rng(0).standard_normal((2, 10)).astype(np.float32) * 30
    values[0, 3] = values[1, 5] = np.inf  # masked classes
    ((output, found),) = logits_of(model).items()
    assert (output, found.tensor) == ("y", "r")
    theirs = run(at_logits(model, copy=True), values)
    finite = np.isfinite(theirs)
    assert finite.sum() == 18
    for mask in (np.inf, 1e4, 1e9, np.finfo(np.float32).max):
        values[0, 3] = values[1, 5] = mask
        np.testing.assert_allclose(found.about_mean(-values), theirs, rtol=1e-5, atol=1e-5)
        again = run(at_logits(model, copy=True), values)
        np.testing.assert_allclose(again, theirs, rtol=1e-5, atol=1e-5)
    values[0, 0] = np.nan
    assert not np.isfinite(found.about_mean(-values)[0]).any()
    (inner,) = model.graph.node[-1:]
    inner.output[0] = "s"
    model.graph.node.append(onnx.helper.make_node("Cast", ["s"], ["y"], to=onnx.TensorProto.FLOAT))
    assert not logits_of(model)
    assert logits_of(model, casts=True) == {"y": found}
    assert not logits_of(net(12, "1, 10", "1, 10", SOFT.format(axis=1)))  # along all axes from one on


@pytest.mark.parametrize("opset", [13, 18])
def test_masked_classes_are_infinite_and_the_others_are_about_their_own_mean(opset: int) -> None:
    changed = at_logits(net(opset, "N, 5", "N, 5", SOFT.format(axis=1)))
    values = np.array([[1, -np.inf, 3, 8, -np.inf], [1, 2, 3, 4, 5]], np.float32)
    expected = [[-3, -np.inf, -1, 4, -np.inf], [-2, -1, 0, 1, 2]]
    np.testing.assert_allclose(run(changed, values), expected)


@pytest.mark.parametrize(
    ("opset", "given", "out", "nodes"),
    [
        (12, "1, 10", "1, 10", SOFT.format(axis=1)),  # along all axes behind it, there
        (17, "1, 30, 2", "1, 30, 2", SOFT.format(axis=2)),  # rows of anchors
        (17, "1, 10", "1, 10", "y = Sigmoid (x)"),
        (17, "1, 10", "1, 10", "s = Softmax (x)  y = Mul (s, s)"),
        (17, "1, 10", "1, 10", "y = Softmax (x)  z = Relu (y)"),  # somebody else reads the scores
    ],
)
def test_other_outputs_stay(opset: int, given: str, out: str, nodes: str) -> None:
    model = net(opset, given, out, nodes)
    before = model.SerializeToString()
    assert at_logits(model, copy=True) is model
    assert model.SerializeToString() == before
