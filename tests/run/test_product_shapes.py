"""Which tensors of a kernel are multiplied, from shapes as engines have them."""

from __future__ import annotations

import pytest

from onnxq.run.product_shapes import Operands, operands

BIAS, SCALE = (1, 32, 1, 1), (1,)


@pytest.mark.parametrize(
    ("kind", "inputs", "constants", "outputs", "expected"),
    [
        # 8 x 8 results of 32 channels, each of 16 x 3 x 3 products
        ("convolution", [(1, 16, 8, 8)], [SCALE, (32, 16, 3, 3)], [(1, 32, 8, 8)], ((0,), 2, 2048 * 144)),
        # four groups: each result is of 4 channels
        ("convolution", [(1, 16, 8, 8)], [(32, 4, 3, 3)], [(1, 32, 8, 8)], ((0,), 1, 2048 * 36)),
        # depthwise, two samples
        ("convolution", [(2, 32, 8, 8)], [BIAS, (32, 1, 3, 3)], [(2, 32, 8, 8)], ((0,), 2, 4096 * 9)),
        # a residual in front of the activation, weights that are an input
        (
            "convolution",
            [(1, 1024, 14, 14), (1, 256, 14, 14), (1024, 256, 1, 1)],
            [(1, 1024, 1, 1)],
            [(1, 1024, 14, 14)],
            ((1,), 2, 196 * 1024 * 256),
        ),
        # a residual that has the shape of the activation: nobody can tell
        ("convolution", [(1, 32, 8, 8)] * 2, [(32, 32, 1, 1)], [(1, 32, 8, 8)], ((0, 1), 2, 64 * 1024)),
        # each value of the input meets the whole window, of half the channels
        ("deconvolution", [(1, 32, 8, 8)], [(32, 16, 2, 2)], [(1, 16, 16, 16)], ((0,), 1, 2048 * 64)),
        ("deconvolution", [(1, 8, 9, 9), (1, 32, 8, 8)], [(32, 8, 2, 2)], [(1, 8, 9, 9)], ((1,), 2, 65536)),
        # three dimensions
        ("convolution", [(1, 8, 4, 4, 4)], [(8, 8, 3, 3, 3)], [(1, 8, 4, 4, 4)], ((0,), 1, 512 * 216)),
        ("matmul", [(1, 10, 64)], [(1, 64, 32), (1, 32)], [(1, 10, 32)], ((0,), 1, 320 * 64)),
        # weights on the left, and transposed
        ("matmul", [(1, 960, 49)], [(1, 320, 1), (1, 320, 960)], [(1, 320, 49)], ((0,), 2, 320 * 49 * 960)),
        ("matmul", [(10, 64)], [(32, 64)], [(10, 32)], ((0,), 1, 320 * 64)),
        # a residual first
        ("matmul", [(1, 10, 32), (1, 10, 128)], [(1, 128, 32)], [(1, 10, 32)], ((1,), 2, 320 * 128)),
        # two activations, and a dynamic size that counts as one
        ("matmul", [(4, 10, 64), (4, 64, 20)], [SCALE], [(4, 10, 20)], ((1,), 0, 800 * 64)),
        ("matmul", [(-1, 64)], [(64, 32)], [(-1, 32)], ((0,), 1, 64 * 32)),
    ],
)  # fmt: skip
def test_operands(kind, inputs, constants, outputs, expected) -> None:
    assert operands(kind, inputs, constants, outputs) == Operands(*expected)


@pytest.mark.parametrize(
    ("kind", "inputs", "constants", "outputs"),
    [
        ("convolution", [(1, 16, 8, 8)], [BIAS], [(1, 32, 8, 8)]),
        ("matmul", [(10, 64)], [(63, 32)], [(10, 32)]),
        ("matmul", [(10, 64)], [], [(10, 32)]),
        ("matmul", [], [(64, 32)], [(10, 32)]),
        ("deconvolution", [(1, 32, 8, 8)], [(31, 16, 2, 2)], [(1, 16, 16, 16)]),
        ("convolution", [()], [()], [()]),
    ],
)
def test_what_does_not_fit_is_not_guessed(kind, inputs, constants, outputs) -> None:
    assert operands(kind, inputs, constants, outputs) is None
