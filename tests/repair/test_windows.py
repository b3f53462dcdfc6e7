"""Windows take what a convolution multiplies, in any geometry: as onnxruntime does it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.repair.windows import Windows
from onnxq.run import ort

GEOMETRIES = [
    ((9,), (3,), {}),
    ((9,), (4,), {"strides": [3], "pads": [2, 1]}),
    ((8, 7), (1, 1), {}),
    ((8, 7), (3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    ((11, 9), (3, 3), {"dilations": [2, 3], "pads": [2, 3, 1, 0]}),
    ((7, 10), (3, 4), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    ((7, 10), (3, 4), {"strides": [2, 3], "auto_pad": "SAME_LOWER"}),
    ((7, 10), (3, 2), {"strides": [2, 2], "auto_pad": "VALID"}),
    ((3, 3), (3, 3), {"pads": [4, 4, 4, 4]}),  # some windows are all padding
    ((5, 4, 6), (2, 3, 2), {"strides": [1, 2, 2], "pads": [1, 1, 0, 0, 1, 1]}),
]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("sizes", "kernel", "attributes"), GEOMETRIES)
def test_a_convolution_is_a_product_of_windows(
    sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, object], groups: int
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, (2, 4, *sizes)).astype(np.float32)
    w = rng.integers(-9, 10, (6, 4 // groups, *kernel)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", group=groups, **attributes)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    graph = helper.make_graph(
        [node], "g", [info], [onnx.ValueInfoProto(name="y")], [onnx.numpy_helper.from_array(w, "w")]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (exact,) = ort.load(proto, optimize=False, threads=1).run({"x": x})
    model = Model.open(proto)
    windows = Windows.of(Node(model, model.graph.nodes[0]), kernel)
    assert windows.positions(sizes) == exact.shape[2:]
    flat = exact.reshape(2, 6, -1)
    at = rng.permutation(flat.shape[2])[: flat.shape[2] // 2 + 1]
    taken = windows.taken(x.astype(np.int8), at)
    assert taken.dtype == np.int8
    rows = taken.reshape(2, len(at), groups, -1).astype(np.float32)
    found = np.einsum("bpgt,got->bpgo", rows, w.reshape(groups, 6 // groups, -1)).reshape(2, len(at), 6)
    np.testing.assert_array_equal(found, flat[:, :, at].transpose(0, 2, 1))


def test_no_positions() -> None:
    windows = Windows((3, 3), (1, 1), (1, 1), (0, 0, 0, 0))
    assert windows.positions((2, 5)) == (0, 3)
    assert windows.taken(np.zeros((1, 4, 2, 5), np.int8), np.zeros(0, np.int64)).shape == (1, 0, 36)
