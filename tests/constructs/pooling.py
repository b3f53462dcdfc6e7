"""Pooling: indices, unpooling, dilation, ceil, Lp, regions; every rank and padding."""

from __future__ import annotations

import numpy as np

from .build import Constructs, f, f32, given, i, i64, net, one, weights

X = f(1, 2, 7, 6)


def constructs() -> Constructs:
    for op in ("MaxPool", "AveragePool", "LpPool"):
        short = op.removesuffix("Pool").lower()
        yield one(f"{short}_1d", op, f(2, 3, 9), kernel_shape=[3], strides=[2])
        yield one(f"{short}_2d", op, X, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        yield one(f"{short}_3d", op, f(1, 2, 5, 6, 5), kernel_shape=[2, 3, 2], strides=[2, 2, 1])
        yield one(
            f"{short}_dilated",
            op,
            X,
            kernel_shape=[2, 2],
            dilations=[2, 2],
            opset=22 if op != "AveragePool" else 19,
        )
        yield one(f"{short}_ceil", op, X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, opset=22)
        yield one(f"{short}_ceil_padded", op, X, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
                  opset=22)  # fmt: skip
        yield one(f"{short}_same_upper", op, X, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        yield one(f"{short}_same_lower", op, X, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")
        yield one(f"{short}_uneven_pads", op, X, kernel_shape=[3, 3], pads=[2, 0, 1, 1])
        yield one(f"{short}_dynamic", op, f("N", 2, "H", "W"), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
                  sizes=[{"N": 1, "H": 6, "W": 7}, {"N": 2, "H": 9, "W": 8}])  # fmt: skip
        yield one(f"{short}_half", op, f(1, 2, 7, 6, dtype=np.float16), kernel_shape=[3, 3])
    for p in (1, 3):
        yield one(f"lp_{p}", "LpPool", X, kernel_shape=[2, 2], strides=[2, 2], p=p)
    yield one("lp_padded", "LpPool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=2)
    yield one(
        "lp_dilated_ceil", "LpPool", X, kernel_shape=[2, 2], strides=[2, 2], dilations=[2, 1], ceil_mode=1
    )
    yield one(
        "average_count_pads", "AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    )
    yield one("average_count_pads_ceil", "AveragePool", X, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
              count_include_pad=1, ceil_mode=1, opset=22)  # fmt: skip
    yield one("average_dilated_padded", "AveragePool", X, kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 2, 1, 2],
              opset=19, count_include_pad=1)  # fmt: skip
    yield one(
        "average_dilated_no_count",
        "AveragePool",
        X,
        kernel_shape=[3, 3],
        dilations=[2, 2],
        pads=[2, 2, 2, 2],
        opset=19,
    )
    yield one("average_1d_padded", "AveragePool", f(2, 3, 9), kernel_shape=[3], pads=[1, 1])
    yield one("max_dilated_padded", "MaxPool", X, kernel_shape=[3, 3], dilations=[2, 2], pads=[2, 2, 2, 2])
    yield one("max_dilated_dynamic", "MaxPool", f("N", 2, "H", 6), kernel_shape=[2, 2], dilations=[2, 2],
              sizes=[{"N": 1, "H": 6}, {"N": 3, "H": 9}])  # fmt: skip
    yield one("max_dilated_1d", "MaxPool", f(1, 2, 9), kernel_shape=[3], dilations=[2])
    yield one("max_dilated_3d", "MaxPool", f(1, 1, 5, 5, 5), kernel_shape=[2, 2, 2], dilations=[2, 2, 2])
    yield one("max_int8", "MaxPool", i(1, 2, 4, 4, low=-9, dtype=np.int8), kernel_shape=[2, 2])
    yield one("max_double", "MaxPool", f(1, 2, 4, 4, dtype=np.float64), kernel_shape=[2, 2])
    yield one("max_indices", "MaxPool", X, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    yield one(
        "max_indices_padded", "MaxPool", X, outputs=2, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    yield one("max_indices_column_major", "MaxPool", X, outputs=2, kernel_shape=[2, 2], storage_order=1)
    yield one("max_indices_1d", "MaxPool", f(2, 3, 8), outputs=2, kernel_shape=[2], strides=[2])
    yield one("max_indices_dynamic", "MaxPool", f("N", 2, 6, 6), outputs=2, kernel_shape=[2, 2], strides=[2, 2],
              sizes=[{"N": 1}, {"N": 3}])  # fmt: skip
    yield one("max_indices_overlapping", "MaxPool", X, outputs=2, kernel_shape=[3, 3], strides=[1, 1])

    def unpooled(n, **more):
        y, where = n.several(2, "MaxPool", f(1, 2, 6, 6), kernel_shape=[2, 2], strides=[2, 2])
        return n("MaxUnpool", y, where, kernel_shape=[2, 2], strides=[2, 2], **more)

    yield net("pool_and_unpool", unpooled)

    def segnet(n):
        y, where = n.several(2, "MaxPool", n("Conv", f("N", 2, 6, 6), weights(4, 2, 3, 3), pads=[1, 1, 1, 1]),
                             kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip
        y = n("MaxUnpool", n("Relu", y), where, kernel_shape=[2, 2], strides=[2, 2])
        return n("Conv", y, weights(2, 4, 3, 3), pads=[1, 1, 1, 1])

    yield net("segnet", segnet, sizes=[{"N": 1}, {"N": 2}])
    where = i64([[[[0, 3], [13, 10]]]])
    yield one("unpool", "MaxUnpool", f(1, 1, 2, 2), where, kernel_shape=[2, 2], strides=[2, 2])
    yield one(
        "unpool_computed", "MaxUnpool", f(1, 1, 2, 2), given(where), kernel_shape=[2, 2], strides=[2, 2]
    )
    yield one(
        "unpool_shape",
        "MaxUnpool",
        f(1, 1, 2, 2),
        where,
        i64(1, 1, 5, 5),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    yield one("global_lp", "GlobalLpPool", X, p=2)
    yield one("global_lp_1", "GlobalLpPool", f(1, 3, 5), p=1)
    yield one("global_lp_3", "GlobalLpPool", X, p=3)
    yield one("global_max_1d", "GlobalMaxPool", f(2, 3, 5))
    yield one("global_average_3d", "GlobalAveragePool", f(2, 3, 2, 2, 2))
    yield one("global_average_dynamic", "GlobalAveragePool", f("N", 3, "H", "W"),
              sizes=[{"N": 1, "H": 4, "W": 5}, {"N": 2, "H": 3, "W": 3}])  # fmt: skip
    boxes = f32([0, 0, 0, 3, 3], [0, 1, 2, 5, 6], [0, 2, 2, 4, 5])
    yield one("max_roi", "MaxRoiPool", f(1, 2, 7, 7), boxes, pooled_shape=[2, 2])
    yield one("max_roi_scaled", "MaxRoiPool", f(1, 2, 7, 7), f32([0, 0, 0, 12, 12], [0, 4, 0, 10, 8]),
              pooled_shape=[3, 2], spatial_scale=0.5)  # fmt: skip
    yield one("max_roi_computed", "MaxRoiPool", f(1, 2, 7, 7), given(boxes), pooled_shape=[2, 2])
    yield one("max_1d_wide", "MaxPool", f(1, 2, 12), kernel_shape=[5], strides=[3], pads=[2, 2])
