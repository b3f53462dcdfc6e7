"""Boxes in pixels and scores in one Concat: they share no scale, whoever reads it."""

from __future__ import annotations

import numpy as np
import onnx
from grid_nets import Net

from onnxq import quantize
from onnxq.graph.model import Model
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.rule.load import load_rules, select

RULES = select(load_rules(()), (), ())


def layer(net: Net, op: str, x: str, *shape: int, name: str = "") -> str:
    weights = np.random.default_rng(len(net.graph.node)).standard_normal(shape) / np.sqrt(shape[-1])
    return net.add(op, x, net.const(weights.astype(np.float32)), name=name)


def detector(*, reads: str) -> onnx.ModelProto:
    """Boxes and scores of 32 places in one output; `reads`: who reads what of them in int8."""
    net = Net(1, 32, 32)
    trunk = net.add("Relu", layer(net, "MatMul", "x", 32, 32))
    offsets = layer(net, "MatMul", trunk, 32, 16)
    boxes = net.add("Mul", offsets, net.const(np.float32(640).reshape(())), name="boxes")
    logits = layer(net, "MatMul", trunk, 32, 16)
    scores = net.add("Sigmoid", net.add("Sub", logits, net.const(np.float32(3).reshape(()))), name="scores")
    both = net.add("Concat", boxes, scores, axis=2, name="both")
    outputs = [both]
    if reads == "branches":
        outputs += [layer(net, "MatMul", one, 16, 16, name=f"from_{one}") for one in (boxes, scores)]
    if reads == "parts":
        ends = [net.const(np.array([n])) for n in (16, 32, 2)]
        part = net.add("Slice", both, *ends, name="part")
        outputs.append(layer(net, "MatMul", part, 16, 16, name="from_part"))
    return net.model(*outputs)


def planned(proto: onnx.ModelProto) -> QuantPlan:
    return make_plan(Model.open(proto), RULES)


def test_an_output_that_no_int8_layer_reads_joins_nothing() -> None:
    plan = planned(detector(reads="nobody"))
    assert {site.tensor for site in plan.sites if site.kind == "activation"} == {"x", "relu2"}
    plan = planned(detector(reads="branches"))
    group = {site.tensor: site.group for site in plan.sites}
    assert group["boxes"] != group["scores"]
    assert "both" not in group
    assert all(len(one.tensors) == 1 for one in plan.groups)


def test_a_part_of_them_has_a_scale_of_its_own() -> None:
    proto = detector(reads="parts")
    plan = planned(proto)
    assert {site.tensor for site in plan.sites if site.kind == "activation"} == {"x", "relu2", "part"}
    rng = np.random.default_rng(0)
    samples = [{"x": rng.standard_normal((1, 32, 32)).astype(np.float32)} for _ in range(12)]
    result = quantize(proto, samples, repair="none", prove="never", compile=False)
    found = {entry["output"]: entry["sqnr_db"] for entry in result.report["accuracy"]}
    assert found["from_part"] > 20  # in the scale of boxes every score is 0, or the code 1
    assert result.report["plan"]["int8_share_of_eligible_macs"] == 1.0
