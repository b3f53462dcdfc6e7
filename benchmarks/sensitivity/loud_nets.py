"""Small nets in which one cheap layer spoils int8: less than 1 % of the work.

A trunk of convolutions; behind a pooled map stand the cheap layers, the heads. What is planted is exact in
float: the reader, or what is behind it, undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.sensitivity.planted_nets import APART, LOUD, SIZE, WIDTH, Chain, Planted

_POOLED = SIZE // 3


def _trunk(seed: int) -> tuple[Chain, str]:
    """Five convolutions, and the map that the heads read."""
    chain = Chain(seed)
    x = "x"
    for place in range(5):
        x = chain.relu(chain.conv(f"trunk{place}", x, chain.kernel(WIDTH, WIDTH, 3)))
    return chain, chain.add("AveragePool", "pooled", x, kernel_shape=[3, 3], strides=[3, 3])


def _constant(chain: Chain, name: str, values: np.ndarray) -> str:
    chain.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
    return name


def _ended(chain: Chain, outputs: Sequence[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        chain.nodes,
        "planted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH, SIZE, SIZE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        chain.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _beside(chain: Chain, name: str, x: str, great: np.ndarray) -> str:
    """A layer whose input has something great added; behind it that is taken away."""
    x = chain.add("Add", f"{name}.great", x, _constant(chain, f"{name}.added", great))
    weight = chain.kernel(WIDTH, WIDTH, 1).astype(np.float32)
    undone = -np.einsum("oc,nchw->nohw", weight[..., 0, 0].astype(np.float64), great)
    y = chain.conv(name, x, weight)
    return chain.add("Add", f"{name}.undone", y, _constant(chain, f"{name}.undo", undone))


def _spiked(chain: Chain, name: str, x: str) -> str:
    """A layer whose input is 300 greater at one place."""
    spike = np.zeros((1, WIDTH, _POOLED, _POOLED))
    spike[..., 1, 2] = LOUD
    return _beside(chain, name, x, spike)


def _head(chain: Chain, name: str, x: str) -> str:
    return chain.conv(name, x, chain.kernel(WIDTH, WIDTH, 1))


def loud_head(seed: int) -> Planted:
    """One of two heads reads a tensor that is 300 greater at one place."""
    chain, x = _trunk(seed)
    boxes, scores = _spiked(chain, "boxes", x), _head(chain, "scores", x)
    return Planted("a loud head", _ended(chain, [boxes, scores]), frozenset({"boxes"}))


def loud_neck(seed: int) -> Planted:
    """A cheap layer between the trunk and the head likewise."""
    chain, x = _trunk(seed)
    x = chain.relu(_spiked(chain, "neck", x))
    return Planted(
        "a loud tensor before a cheap layer", _ended(chain, [_head(chain, "head", x)]), frozenset({"neck"})
    )


def uneven_concat(seed: int) -> Planted:
    """Two maps, 300 to 1, above each other in one; behind the head they are alike again."""
    chain, x = _trunk(seed)
    great = chain.add("Mul", "great", x, _constant(chain, "much", np.array(LOUD)))
    both = chain.add("Concat", "both", great, x, axis=2)
    alike = np.ones((1, 1, 2 * _POOLED, 1))
    alike[:, :, :_POOLED] /= LOUD
    y = chain.add("Mul", "alike", _head(chain, "head", both), _constant(chain, "less", alike))
    return Planted("Concat of uneven parts", _ended(chain, [y]), frozenset({"head"}))


def bimodal(seed: int) -> Planted:
    """The head reads values near -200 or 200, and takes that away."""
    chain, x = _trunk(seed)
    shift = APART * chain.random.permutation(np.repeat([-1.0, 1.0], WIDTH // 2)).reshape(1, -1, 1, 1)
    x = chain.add("Add", "modes", x, _constant(chain, "shift", shift))
    weight = chain.kernel(WIDTH, WIDTH, 1)
    head = chain.conv("head", x, weight, -weight[..., 0, 0] @ shift.ravel())
    return Planted("values near -200 or 200", _ended(chain, [head]), frozenset({"head"}))


def tiny_regression(seed: int) -> Planted:
    """Offsets beside the places of a grid, up to 300 times as great, which are taken away behind the head."""
    chain, x = _trunk(seed)
    places = np.linspace(0, LOUD, _POOLED * _POOLED).reshape(1, 1, _POOLED, _POOLED).repeat(WIDTH, 1)
    boxes, scores = _beside(chain, "boxes", x, places), _head(chain, "scores", x)
    return Planted("tiny offsets beside places", _ended(chain, [boxes, scores]), frozenset({"boxes"}))


MAKERS: tuple[Callable[[int], Planted], ...] = (
    loud_head,
    loud_neck,
    uneven_concat,
    bimodal,
    tiny_regression,
)
