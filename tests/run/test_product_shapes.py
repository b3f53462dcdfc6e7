"""Which tensors of a kernel are multiplied, from shapes as engines have them."""

from __future__ import annotations

import pytest

from onnxq.run.product_shapes import Operands, attention_places, operands

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


Q, K, V = (1, 8, 64, 32), (1, 8, 48, 32), (1, 8, 48, 16)
OUT, MASK = (1, 8, 64, 16), (1, 1, 64, 48)
FEW_K, FEW_V, ONE_K, ONE_V = (1, 2, 48, 32), (1, 2, 48, 16), (1, 1, 48, 32), (1, 1, 48, 16)


@pytest.mark.parametrize(
    ("inputs", "out", "expected"),
    [
        ((Q, K, V), OUT, (0, 1, 2)),
        ((Q, K, MASK, V), OUT, (0, 1, 3)),
        # keys and values of two heads, or of one, for eight of queries
        ((Q, FEW_K, FEW_V), OUT, (0, 1, 2)),
        ((FEW_K, FEW_V, Q), OUT, (2, 0, 1)),
        ((FEW_K, MASK, FEW_V, Q), OUT, (3, 0, 2)),
        (((8, 64, 32), ONE_K, ONE_V), (8, 64, 16), (0, 1, 2)),
        # a size of the batch that is known at run time only
        (((-1, 8, 64, 32), (-1, 2, 48, 32), (-1, 2, 48, 16)), (-1, 8, 64, 16), (0, 1, 2)),
        # as many heads go first: no mask is taken for keys of one head
        (((1, 1, 64, 64), (1, 8, 64, 64), (1, 1, 64, 64), *((1, 8, 64, 64),) * 2), (1, 8, 64, 64), (1, 3, 4)),
        # three heads for eight, keys of two and values of one, and no head at all: none fit
        ((Q, (1, 3, 48, 32), (1, 3, 48, 16)), OUT, None),
        ((Q, FEW_K, ONE_V), OUT, None),
        ((Q, (1, 0, 48, 32), (1, 0, 48, 16)), OUT, None),
        ((Q, K), OUT, None),
    ],
)  # fmt: skip
def test_the_factors_of_attention(inputs, out, expected) -> None:
    assert attention_places(inputs, out) == expected
