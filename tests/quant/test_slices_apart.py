"""Slices that meet in a Concat: another scale for the compiler, the same codes for everybody else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from grid_nets import Net

from onnxq import quantize
from onnxq.compiled.traffic import traffic
from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.slices_apart import set_slices_apart
from onnxq.rule.load import load_rules, select
from onnxq.run import ort, trt

RULES = select(load_rules(()), (), ())


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def conv(net: Net, x: str, out: int, cin: int, rank: int = 2) -> str:
    weights = np.random.default_rng(out).standard_normal((out, cin, *[3] * rank)) / np.sqrt(cin * 3**rank)
    return net.add("Relu", net.add("Conv", x, net.const(weights.astype(np.float32)), pads=[1] * 2 * rank))


def volume(shifts: int, *, read_in_float: bool = False) -> onnx.ModelProto:
    """A cost volume: a tensor beside another one, shifted further and further by a Pad and a Slice."""
    net = Net(1, 16, 32, 64)
    left, right = conv(net, "x", 16, 16), conv(net, conv(net, "x", 32, 16), 16, 32)
    parts, outputs = [net.add("Concat", left, right, axis=1)], list[str]()
    for shift in range(1, shifts + 1):
        wide = net.add("Pad", right, net.const(ints(0, 0, 0, shift, 0, 0, 0, 0)))
        cut = net.add("Slice", wide, *(net.const(ints(n)) for n in (0, -shift, 3)), name=f"cut{shift}")
        parts.append(net.add("Concat", left, cut, axis=1))
        if read_in_float and not outputs:
            outputs.append(net.add("Tanh", cut))
    parts = [net.add("Unsqueeze", part, net.const(ints(2))) for part in parts]
    y = net.add("Concat", *parts, axis=2, name="volume")
    return net.model(conv(net, y, 32, 32, rank=3), *outputs)


def quantized(proto: onnx.ModelProto) -> Model:
    model = Model.open(proto)
    plan = make_plan(model, RULES)
    groups = {site.group for site in plan.sites if site.kind == "activation"}
    return insert(model, plan, {group: np.float32(0.013 + group / 999) for group in groups}).model


def test_the_codes_behind_them_are_the_same_bit_for_bit() -> None:
    model = quantized(volume(4))
    before = model.to_proto()
    assert set_slices_apart(model, 3) == {f"cut{n}": "volume" for n in (1, 2, 3, 4)}
    after = model.to_proto()
    scales = {t.name: onnx.numpy_helper.to_array(t) for t in after.graph.initializer if "_apart" in t.name}
    (name,) = scales
    own = {t.name: onnx.numpy_helper.to_array(t) for t in before.graph.initializer}[
        name.removesuffix("_apart")
    ]
    assert scales[name] == np.nextafter(own, np.float32(1))
    x = np.random.default_rng(0).standard_normal((1, 16, 32, 64)).astype(np.float32) * 3
    (one,), (other,) = (ort.load(proto).run({"x": x}) for proto in (before, after))
    assert np.array_equal(one, other)
    assert np.ptp(one) > 0


@pytest.mark.parametrize(
    ("proto", "least"),
    [(volume(2), 3), (volume(4), 5), (volume(4), 0)],
    ids=["two slices", "fewer than asked for", "a target without that"],
)
def test_others_keep_their_scale(proto: onnx.ModelProto, least: int) -> None:
    model = quantized(proto)
    before = model.to_proto().SerializeToString()
    assert set_slices_apart(model, least) == {}
    assert model.to_proto().SerializeToString() == before


def test_a_slice_that_a_float_layer_reads_too_has_its_values() -> None:
    assert set(set_slices_apart(quantized(volume(4, read_in_float=True)), 3)) == {"cut2", "cut3", "cut4"}


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_compiler_makes_one_kernel_of_them(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 16, 32, 64)).astype(np.float32)
    result = quantize(volume(6), [{"x": x}], method="minmax", repair="none", prove="never", compile=False)
    assert set(result.report["body"]["slices_apart"]) == {f"cut{n}" for n in range(1, 7)}
    merged = onnx.ModelProto()
    merged.CopyFrom(result.model)
    for node in merged.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = name.removesuffix("_apart")
    kernels = []
    for name, proto in (("apart", result.model), ("same", merged)):
        onnx.save(proto, tmp_path / f"{name}.onnx")
        kernels.append(traffic(trt.compile_engine(tmp_path / f"{name}.onnx").layers).kernels)
    assert kernels[0] <= kernels[1] - 5
