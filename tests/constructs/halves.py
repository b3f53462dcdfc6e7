"""Operators of other subjects in float16, alone and inside a model of half precision."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, f, f32, given, half, i, i64, net, one, weights

H = np.float16
X = half(f(1, 2, 6, 6))
N = [{"N": 1}, {"N": 3}]
UNIT = 2.0**-10
"""Of half precision between 1 and 2: by so much a float32 differs whose half precision is rounded elsewhere."""


def constructs() -> Constructs:
    yield one("max_pool_indices", "MaxPool", X, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    yield one("lp_pool", "LpPool", X, kernel_shape=[2, 2], strides=[2, 2])
    yield one("lp_pool_dilated", "LpPool", X, kernel_shape=[2, 2], dilations=[2, 2])
    yield one(
        "max_unpool",
        "MaxUnpool",
        half(f(1, 1, 2, 2)),
        i64([[[[0, 3], [13, 10]]]]),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    yield one("resize_antialias", "Resize", X, None, f32(1, 1, 0.5, 0.5), mode="linear", antialias=1)
    yield one("resize_symmetric", "Resize", X, None, f32(1, 1, 2, 2), mode="linear", opset=19,
              coordinate_transformation_mode="half_pixel_symmetric")  # fmt: skip
    yield one("grid_cubic", "GridSample", X, half(f(1, 3, 4, 2, low=-1, high=1)), mode="cubic", opset=20)
    yield one(
        "grid_volume", "GridSample", half(f(1, 2, 3, 4, 5)), half(f(1, 2, 2, 3, 3, low=-1, high=1)), opset=20
    )
    yield one("affine_grid", "AffineGrid", half(f(2, 2, 3, low=-1, high=1)), i64(2, 3, 4, 5), opset=20)
    yield one("col2im", "Col2Im", half(f(1, 9, 16)), i64(6, 6), i64(3, 3))
    yield one("cross_entropy", "SoftmaxCrossEntropyLoss", half(f(4, 5)), i(4, high=5))
    yield one("nll", "NegativeLogLikelihoodLoss", half(f(4, 5)), i(4, high=5), reduction="sum")
    yield one(
        "group_norm",
        "GroupNormalization",
        half(f(2, 6, 4, 4)),
        weights(6, dtype=H),
        weights(6, dtype=H),
        num_groups=3,
        opset=21,
    )
    yield one("rotary", "RotaryEmbedding", half(f(2, 3, 5, 8)), half(f(2, 5, 4)), half(f(2, 5, 4)), opset=23)
    yield one(
        "attention_groups",
        "Attention",
        half(f(2, 6, 4, 8)),
        half(f(2, 3, 6, 8)),
        half(f(2, 3, 6, 8)),
        opset=23,
    )
    yield one("compress", "Compress", half(f(4, 3)), np.array([True, False, True, True]), axis=0)
    yield one("cum_prod", "CumProd", half(f(3, 5)), np.int64(1), opset=26)
    yield one("center_crop_pad", "CenterCropPad", half(f(6, 5)), i64(4, 7))
    yield one("hardmax", "Hardmax", half(f(3, 5)), axis=-1)
    yield one("bernoulli", "Bernoulli", half(f(3, 4, low=0, high=1)), random=True)
    yield one("det", "Det", half(f(2, 2, 2)))
    yield one("batch_norm_training", "BatchNormalization", half(f(4, 3, 4)), *[np.abs(weights(3, dtype=H)) + H(0.1)] * 4, outputs=3,
              training_mode=1)  # fmt: skip
    yield one("dropout_mask", "Dropout", half(f(3, 4)), outputs=2)
    yield one("softmax_vector", "Softmax", half(f(5)), axis=0)

    def around(build, *dims):  # as converters of precision write it: casts at the ends, half precision inside
        def whole(n):
            y = build(n, n("Relu", n("Cast", f(*dims), to=TensorProto.FLOAT16)))
            return n("Cast", y, to=TensorProto.FLOAT)

        return whole

    yield net("inside_col2im", around(lambda n, x: n("Col2Im", x, i64(6, 6), i64(3, 3)), 1, 9, 16), step=UNIT)
    yield net("inside_scatter", around(
        lambda n, x: n("ScatterElements", x, i64([[0, 1, 0]]), np.ones((1, 3), H), reduction="max"), 4, 3))  # fmt: skip
    yield net("inside_sequence", around(
        lambda n, x: n("ConcatFromSequence", n("SequenceConstruct", x, n("Neg", x)), axis=1), "N", 3), sizes=N)  # fmt: skip
    yield net("inside_gelu", around(lambda n, x: n("BiasGelu", x, weights(8, dtype=H), domain="com.microsoft"), 2, 8),
              domains={"com.microsoft": 1}, step=UNIT)  # fmt: skip
    yield one(
        "pair_shifted",
        "DequantizeLinear",
        i(2, 5, high=256, dtype=np.uint8),
        H(0.05),
        np.uint8(120),
        opset=19,
    )
    yield one("given_boxes", "RoiAlign", X, given(np.array([[0, 0, 4, 4]], H)), i64([0]), output_height=2, output_width=2,
              sampling_ratio=2, opset=16)  # fmt: skip
