"""Weights as floats with a pair, for targets whose compiler stops at constants of codes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from grid_nets import Net
from onnx import numpy_helper

import onnxq
from onnxq.graph.model import Model
from onnxq.quant.float_weights import float_weights
from onnxq.run import ort

QUICK = {"compile": False, "repair": "none", "method": "minmax", "prove": "never"}
OLD = ["tensorrt-8.0", "tensorrt-8.2", "tensorrt-8.5", "tensorrt-8.6"]


def net() -> onnx.ModelProto:
    """A convolution, and a MatMul: a scale for each channel, along different axes."""
    random, made = np.random.default_rng(0), Net(1, 32, 8, 8)
    weights = made.const(random.standard_normal((32, 32, 3, 3)).astype(np.float32))
    conv = made.add("Relu", made.add("Conv", "x", weights, pads=[1] * 4))
    matrix = made.const(random.standard_normal((8, 32)).astype(np.float32))
    return made.model(made.add("MatMul", conv, matrix))


def samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((1, 32, 8, 8)).astype(np.float32)} for _ in range(8)]


def made_for(target: str) -> onnx.ModelProto:
    return onnxq.quantize(net(), samples(), target=target, **QUICK).model  # type: ignore[arg-type]


def weights(proto: onnx.ModelProto) -> list[str]:
    """What makes the codes of each constant that is dequantized: "codes", or "floats"."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    makers = {name: node for node in proto.graph.node for name in node.output}
    found = []
    for node in proto.graph.node:
        if node.op_type == "DequantizeLinear":
            maker = makers.get(node.input[0])
            if maker is None:
                assert constants[node.input[0]].dtype == np.int8
                found.append("codes")
            elif maker.input[0] in constants:
                assert constants[maker.input[0]].dtype == np.float32
                assert [*maker.input[1:]] == [*node.input[1:]]
                assert [*maker.attribute] == [*node.attribute]
                found.append("floats")
    return found


@pytest.mark.parametrize("target", [*OLD, "tensorrt-10", "tensorrt-11", "tensorrt-rtx"])
def test_only_old_targets_have_them(target: str) -> None:
    assert set(weights(made_for(target))) == {"floats" if target in OLD else "codes"}


def test_the_codes_are_the_same() -> None:
    """So are the outputs: those of the same file for a target that takes constants of codes."""
    old, new = (ort.load(made_for(target)) for target in ("tensorrt-8.6", "tensorrt-10"))
    for sample in samples():
        for one, other in zip(old.run(sample), new.run(sample), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("scale", "zero", "changed"), [(0.02, 0, True), (0.02, 3, True), (0.0, 0, False)])
def test_what_is_not_rounded_back_stays(scale: float, zero: int, changed: bool) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y)'
        f"<int8[4] w = {{-127, 1, 5, 127}}, float s = {{{scale}}}, int8 z = {{{zero}}}>"
        "{ d = DequantizeLinear (w, s, z)  y = Add (x, d) }"
    )
    model = Model.open(proto)
    assert float_weights(model) == (("w",) if changed else ())
    after = model.to_proto()
    onnx.checker.check_model(after)
    assert weights(after) == ["floats" if changed else "codes"]
    feeds = {"x": np.zeros(4, np.float32)}
    (one,), (other,) = (ort.load(each).run(feeds) for each in (proto, after))
    np.testing.assert_array_equal(one, other)


def test_constants_that_several_read_are_made_once() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y)'
        "<int8[4] w = {-127, 1, 5, 127}, float s = {0.5}, int8 z = {0}>"
        "{ d = DequantizeLinear (w, s, z)  e = DequantizeLinear (w, s, z)  f = Add (x, d)  y = Add (f, e) }"
    )
    model = Model.open(proto)
    assert float_weights(model) == ("w",)
    kinds = [node.op_type for node in model.to_proto().graph.node]
    assert kinds.count("QuantizeLinear") == 1
