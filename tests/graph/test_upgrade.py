"""Raising the opset to 13, or to 21, changes nothing that an old model computes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.graph.upgrade import BLOCKS, upgrade
from onnxq.run import ort

X = np.random.default_rng(7).standard_normal((2, 3, 6, 6)).astype(np.float32)

# Opset, the nodes that make `y` of `x` [2, 3, 6, 6], and how many nodes they are afterwards.
NETS = {
    "squeeze": (11, "u = Unsqueeze <axes = [0, 3]> (x)  y = Squeeze <axes = [0, 3]> (u)", 2),
    "reduce sum": (12, "y = ReduceSum <axes = [1, -1], keepdims = 0> (x)", 1),
    "reduce all": (12, "y = ReduceSum (x)", 1),
    "split": (11, "a, b = Split <axis = 2, split = [1, 5]> (x)  y = Concat <axis = 2> (b, a)", 2),
    "even split": (11, "a, b = Split <axis = 2> (x)  y = Sub (a, b)", 2),
    "softmax of all that follows": (12, "y = Softmax <axis = 2> (x)", 4),
    "softmax of the default axis": (11, "y = LogSoftmax (x)", 4),
    "softmax of the last axis": (12, "y = Softmax <axis = 3> (x)", 1),
    "hardmax": (11, "y = Hardmax <axis = 2> (x)", 4),
    "clip": (10, "y = Clip <min = -0.5, max = 0.25> (x)", 1),
    "clip below": (7, "y = Clip <min = -0.5> (x)", 1),
    "clip above": (7, "y = Clip <max = 0.5> (x)", 1),
    "pad": (10, "y = Pad <pads = [0, 0, 1, 2, 0, 0, 0, 3]> (x)", 1),
    "pad with a value": (7, "y = Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1], value = 2.5> (x)", 1),
    "pad by reflection": (7, 'y = Pad <mode = "reflect", pads = [0, 0, 2, 1, 0, 0, 1, 2]> (x)', 1),
    "slice": (9, "y = Slice <axes = [3, 1], starts = [1, -2], ends = [2147483647, 3]> (x)", 1),
    "slice of the first axes": (7, "y = Slice <starts = [0, 1], ends = [1, -1]> (x)", 1),
    "top k": (9, "a, i = TopK <k = 2, axis = 3> (x)  j = Cast <to = 1> (i)  y = Mul (a, j)", 3),
    "dropout": (9, "y = Dropout <ratio = 0.75> (x)", 1),
    "batch normalization": (8, "y = BatchNormalization <spatial = 1> (x, c, c, c, c)", 1),
    "upsample by attribute": (7, 'y = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 1.5]> (x)', 1),
    "upsample": (9, 'y = Upsample <mode = "linear"> (x, grow)', 1),
    "resize, larger": (10, "y = Resize (x, grow)", 1),
    "resize, smaller": (10, "y = Resize (x, shrink)", 1),
    "resize, interpolated": (10, 'y = Resize <mode = "linear"> (x, shrink)', 1),
    "scatter": (9, "y = Scatter <axis = 3> (x, where, one)", 1),
    "in a body": (
        11,
        "y = If (yes) <then_branch = t () => (float[2, 3, 6, 6] a) { a = Softmax <axis = 2> (x) }, "
        "else_branch = e () => (float[2, 3, 6, 6] b) { b = Neg (x) }>",
        1,
    ),
}


# The same of what changed behind opset 13.
LATER = {
    "mean of axes": (13, "y = ReduceMean <axes = [1, -1], keepdims = 0> (x)", 1),
    "other reductions": (13, "a = ReduceMax <axes = [2]> (x)  b = ReduceL2 (x)  y = Mul (a, b)", 3),
    "even split": (13, "a, b = Split <axis = 2> (x)  y = Sub (a, b)", 2),
    "split of sizes": (13, "a, b = Split <axis = 2> (x, parts)  y = Concat <axis = 2> (b, a)", 2),
    "roi align": (13, "y = RoiAlign <output_height = 2, spatial_scale = 0.5> (x, boxes, image)", 1),
    "grid sample": (16, 'y = GridSample <mode = "bicubic"> (x, grid)', 1),
    "grid sample of the default mode": (18, "y = GridSample <align_corners = 1> (x, grid)", 1),
    "average pool": (13, "y = AveragePool <kernel_shape = [2, 2], pads = [0, 0, 1, 1]> (x)", 1),
    "batch normalization": (13, "y = BatchNormalization (x, c, c, c, c)", 1),
    "resize": (13, 'y = Resize <mode = "cubic"> (x, , grow)', 1),
    "pad": (13, "y = Pad (x, pads)", 1),
}  # fmt: skip


def net(opset: int, nodes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 4, opset_import: ["" : {opset}]>
        g (float[2, 3, 6, 6] x) => (y) <bool yes = {{1}}, float[3] c = {{0.5, 1, 2}},
            float[4] grow = {{1, 1, 1.7, 2}}, float[4] shrink = {{1, 1, 0.7, 0.4}},
            int64[1, 1, 1, 1] where = {{4}}, float[1, 1, 1, 1] one = {{1}}, int64[2] parts = {{1, 5}},
            int64[8] pads = {{0, 0, 1, 0, 0, 0, 0, 2}}, float[2, 4] boxes = {{0, 1, 8, 9, 2, 2, 7, 11}},
            int64[2] image = {{1, 0}}, float[2, 1, 2, 2] grid = {{0, 0.3, -0.9, 1.2, 0.5, -0.5, 1, 1}}> {{
            {nodes} }}"""
    )


@pytest.mark.parametrize("name", NETS)
def test_the_same_outputs(name: str) -> None:
    opset, nodes, count = NETS[name]
    source = net(opset, nodes)
    model = Model.open(source)
    upgrade(model)
    proto = model.to_proto()
    assert (proto.opset_import[0].version, proto.ir_version) == (13, 7)
    assert len(proto.graph.node) == count
    (wanted,) = ort.load(source, optimize=False).run({"x": X})
    (got,) = ort.load(proto, optimize=False).run({"x": X})
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", [*NETS, *(f"later: {name}" for name in LATER)])
def test_the_same_outputs_of_opset_21(name: str) -> None:
    later = name.removeprefix("later: ")
    opset, nodes, count = LATER[later] if later != name else NETS[name]
    source = net(opset, nodes)
    model = Model.open(source)
    upgrade(model, BLOCKS)
    proto = model.to_proto()
    assert (proto.opset_import[0].version, proto.ir_version) == (21, 10)
    assert len(proto.graph.node) == count
    onnx.checker.check_model(proto)
    (wanted,) = ort.load(source, optimize=False).run({"x": X})
    (got,) = ort.load(proto, optimize=False).run({"x": X})
    # onnxruntime's AveragePool of opset 19 sums in another order
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-7 if later == "average pool" else 0)


@pytest.mark.parametrize(
    ("opset", "nodes", "why"),
    [
        (13, "y = AveragePool <kernel_shape = [2, 2], ceil_mode = 1> (x)", "ceil_mode"),
        (18, "y = GroupNormalization <num_groups = 1> (x, e, e)", "since opset 21"),
    ],
)
def test_what_has_no_equal_in_opset_21_is_refused(opset: int, nodes: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        upgrade(Model.open(net(opset, nodes.replace("e, e", "c, c"))), BLOCKS)


def test_opset_13_stays() -> None:
    model = Model.open(net(13, "y = Relu (x)"))
    before = model.to_proto()
    upgrade(model)
    assert model.to_proto() == before


@pytest.mark.parametrize(
    ("opset", "nodes", "why"),
    [
        (6, "y = Relu (x)", "older than 7"),
        (8, "y = BatchNormalization <spatial = 0> (x, c, c, c, c)", "spatial=0"),
        (9, "a, m = Dropout (x)  y = Add (a, m)", "its mask is read"),
        (7, "y = Upsample <scales = [1.0, 1.0, 0.7, 2.0]> (x)", "shrinks one dimension and enlarges"),
    ],
)
def test_what_has_no_equal_is_refused(opset: int, nodes: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        upgrade(Model.open(net(opset, nodes)))
