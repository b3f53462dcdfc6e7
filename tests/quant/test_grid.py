"""The grid proof: for values on the int8 grid Q/DQ pairs change nothing, bit for bit.

A wrong channel axis, two scales in what must have one, or a pair at the wrong tensor cannot pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from grid_nets import Net
from onnx import numpy_helper

from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.quant.scales import quantize_weights
from onnxq.rule.load import load_rules
from onnxq.run import ort

RULES = load_rules()
RESIZE = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def conv_1d() -> onnx.ModelProto:
    net = Net(1, 16, 24)
    return net.model(net.conv(net.conv("x", 16, 16, 3), 16, 24, 1, seed=1))


def conv_2d() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    return net.model(net.conv(net.add("Relu", net.conv("x", 16, 32, 3, 3)), 32, 16, 1, 1, seed=1))


def conv_3d() -> onnx.ModelProto:
    net = Net(1, 16, 4, 4, 4)
    return net.model(net.conv("x", 16, 16, 3, 3, 3))


def grouped() -> onnx.ModelProto:
    net = Net(1, 32, 8, 8)
    return net.model(net.add("Conv", "x", net.const(net.weights(32, 8, 3, 3)), group=4, pads=[1] * 4))


def gemm(trans: int) -> onnx.ModelProto:
    net = Net(32, 16)
    weight = net.weights(24, 16)
    return net.model(net.add("Gemm", "x", net.const(weight if trans else weight.T.copy()), transB=trans))


def matmul() -> onnx.ModelProto:
    net = Net(2, 16, 16)
    return net.model(net.add("MatMul", "x", net.const(net.weights(24, 16).T.copy())))


def batched() -> onnx.ModelProto:
    net = Net(2, 16, 16)
    weights = np.stack([net.weights(24, 16, seed=seed, steps=1).T for seed in (0, 1)])
    return net.model(net.add("MatMul", "x", net.const(weights)))


def left_constant() -> onnx.ModelProto:
    net = Net(16, 24)
    return net.model(net.add("MatMul", net.const(net.weights(32, 16)), "x"))


def residual() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", net.conv("x", 16, 16, 1, 1))
    y = net.conv(net.add("Relu", net.conv(x, 16, 16, 1, 1, seed=1, steps=1)), 16, 16, 1, 1, seed=2, steps=1)
    return net.model(net.conv(net.add("Relu", net.add("Add", y, x)), 16, 16, 1, 1, seed=3))


def downsample() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    y = net.conv(net.add("Relu", net.conv("x", 16, 16, 1, 1, strides=[2, 2])), 16, 16, 1, 1, seed=2)
    return net.model(net.add("Add", y, net.conv("x", 16, 16, 1, 1, strides=[2, 2], seed=3)))


def concats() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    a, b = net.conv("x", 16, 16, 1, 1), net.conv("x", 16, 16, 1, 1, seed=1)
    one = net.add("Concat", a, b, axis=1)
    two = net.add("Concat", one, "x", axis=1)
    return net.model(net.conv(two, 48, 16, 1, 1), net.conv(one, 32, 16, 1, 1, seed=5))


def constant_part() -> onnx.ModelProto:
    net = Net(1, 15, 8, 8)
    token = net.const(np.full((1, 1, 8, 8), 96, np.float32))
    return net.model(net.conv(net.add("Concat", token, "x", axis=1), 16, 16, 1, 1))


MOVES: dict[str, Callable[[Net], str]] = {
    "MaxPool": lambda n: n.add("MaxPool", "x", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    "Reshape": lambda n: n.add("Reshape", "x", n.const(ints(1, 16, 4, 16))),
    "Transpose": lambda n: n.add("Transpose", "x", perm=[0, 1, 3, 2]),
    "Flatten": lambda n: n.add(
        "Reshape", n.add("Flatten", "x", axis=2), n.const(ints(1, 16, 8, 8))
    ),
    "Squeeze": lambda n: n.add(
        "Unsqueeze", n.add("Squeeze", "x", n.const(ints(0))), n.const(ints(0))
    ),
    "Slice": lambda n: n.add("Slice", "x", n.const(ints(1)), n.const(ints(9)), n.const(ints(2))),
    "Split": lambda n: n.add("Split", "x", n.const(ints(4, 4)), outputs=2, axis=2),
    "DepthToSpace": lambda n: n.add("SpaceToDepth", n.add("DepthToSpace", "x", blocksize=2), blocksize=2),
    "Expand": lambda n: n.add("Expand", "x", n.const(ints(2, 16, 8, 8))),
    "Tile": lambda n: n.add("Tile", "x", n.const(ints(1, 1, 2, 1))),
    "Gather": lambda n: n.add("Gather", "x", n.const(ints(3, 1, 0)), axis=3),
    "Identity": lambda n: n.add("Identity", "x"),
    "Pad": lambda n: n.add("Pad", "x", n.const(ints(0, 0, 1, 1, 0, 0, 1, 1))),
    "Pad-edge": lambda n: n.add("Pad", "x", n.const(ints(0, 0, 1, 1, 0, 0, 1, 1)), mode="edge"),
    "Pad-value": lambda n: n.add(
        "Pad", "x", n.const(ints(0, 0, 1, 1, 0, 0, 1, 1)), n.const(np.array(100, np.float32))
    ),
    "Resize": lambda n: n.add("Resize", "x", "", n.const(np.array([1, 1, 2, 2], np.float32)), **RESIZE),
    "Resize-crop": lambda n: n.add(
        "Resize", "x", n.const(np.array([0, 0, 0, 0, 1, 1, 2, 2], np.float32)),
        n.const(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
        coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=100.0,
    ),
}  # fmt: skip


def moved(name: str) -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    return net.model(net.conv(MOVES[name](net), 16, 16, 1, 1), net.conv("x", 16, 16, 1, 1, seed=1))


NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "conv 1-D": conv_1d,
    "conv 2-D": conv_2d,
    "conv 3-D": conv_3d,
    "grouped": grouped,
    "gemm": lambda: gemm(0),
    "gemm transB": lambda: gemm(1),
    "matmul": matmul,
    "batched": batched,
    "left constant": left_constant,
    "residual": residual,
    "downsample": downsample,
    "concats": concats,
    "constant part": constant_part,
    **{name: lambda name=name: moved(name) for name in MOVES},  # type: ignore[misc]
}


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    sizes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return {name: (rng.integers(-3, 4, size) * 16).astype(np.float32) for name, size in sizes.items()}


def grid_scales(proto: onnx.ModelProto, plan: QuantPlan, *, shared: bool = True) -> dict[int, np.float32]:
    """A power of two for each group, such that the values of its sources are on the grid."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(proto)
    groups = [g for g in plan.groups if any(s.group == g.id and s.kind == "activation" for s in plan.sites)]
    names = sorted({t for g in groups for t in g.sources})
    known = {o.name for o in proto.graph.output} | {i.name for i in proto.graph.input}
    tapped.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    feeds = feeds_of(proto)
    session = ort.load(tapped, optimize=False)
    values = dict(zip(session.outputs, session.run(feeds), strict=True)) | feeds
    scales = {}
    for group in groups:
        amax = max(float(np.abs(values[t]).max()) for t in group.sources)
        scales[group.id] = np.float32(2.0 ** np.ceil(np.log2(amax / 127)))
    return scales


def check(proto: onnx.ModelProto, alter: Callable[[QuantPlan], QuantPlan] = lambda p: p) -> QuantPlan:
    """Quantizes on the grid and compares bit for bit."""
    model = Model.open(proto)
    plan = alter(make_plan(model, RULES))
    result = insert(model, plan, grid_scales(model.to_proto(), plan)).model.to_proto()
    onnx.checker.check_model(result, full_check=True)
    feeds = feeds_of(proto)
    wanted = ort.load(proto, optimize=False).run(feeds)
    for one, other in zip(wanted, ort.load(result, optimize=False).run(feeds), strict=True):
        np.testing.assert_array_equal(one, other)
    return plan


@pytest.mark.parametrize("name", NETS)
def test_pairs_change_nothing_on_the_grid(name: str) -> None:
    plan = check(NETS[name]())
    assert plan.planned
    assert plan.int8_share == 1.0


def altered(axis: int) -> Callable[[QuantPlan], QuantPlan]:
    def alter(plan: QuantPlan) -> QuantPlan:
        sites = [dataclasses.replace(s, axis=axis) if s.kind == "weight" else s for s in plan.sites]
        return dataclasses.replace(plan, sites=tuple(sites))

    return alter


@pytest.mark.parametrize(
    ("name", "axis"), [("conv 1-D", 1), ("conv 2-D", 1), ("gemm", 0), ("gemm transB", 1), ("matmul", 0)]
)
def test_a_wrong_axis_does_not_pass(name: str, axis: int) -> None:
    with pytest.raises(AssertionError):
        check(NETS[name](), altered(axis))


@pytest.mark.parametrize("name", ["Pad-value", "Resize-crop", "constant part"])
def test_what_brings_in_other_values_has_a_range_of_its_own(name: str) -> None:
    plan = make_plan(Model.open(NETS[name]()), RULES)
    read = {site.tensor for site in plan.sites if site.kind == "activation"}
    (made,) = [
        group for group in plan.groups if set(group.tensors) & (read - {"x"}) and group.reasons != ("",)
    ]
    assert set(made.sources) & (read - {"x"}), "its own range counts, not its source's"


def test_weights_of_the_nets_are_on_their_grids() -> None:
    for name in ("conv 2-D", "gemm", "matmul"):
        proto = NETS[name]()
        for tensor in proto.graph.initializer:
            weights = numpy_helper.to_array(tensor)
            axis = 0 if proto.graph.node[0].op_type == "Conv" else 1
            codes, scales = quantize_weights(weights, axis)
            shape = [1] * weights.ndim
            shape[axis] = -1
            np.testing.assert_array_equal(codes * scales.reshape(shape), weights)
