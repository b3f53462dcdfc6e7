"""Resize: every mode, transformation and rounding, region of interest, antialias, axes, sizes that are not known."""

from __future__ import annotations

import numpy as np

from .build import Constructs, f, f32, given, i, i64, net, one, weights

X = f(1, 2, 5, 6)
UP, DOWN = f32(1, 1, 2, 2), f32(1, 1, 0.6, 0.5)


def constructs() -> Constructs:
    for transform in (
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric",
    ):
        for mode in ("nearest", "linear", "cubic"):
            yield one(f"{mode}_{transform}", "Resize", X, None, UP, mode=mode, coordinate_transformation_mode=transform,
                      opset=19)  # fmt: skip
            yield one(f"{mode}_{transform}_sizes", "Resize", X, None, None, i64(1, 2, 7, 4), mode=mode, opset=19,
                      coordinate_transformation_mode=transform)  # fmt: skip
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        yield one(f"nearest_{rounding}", "Resize", X, None, DOWN, mode="nearest", nearest_mode=rounding)
        yield one(f"nearest_{rounding}_asymmetric", "Resize", X, None, f32(1, 1, 1.6, 2.5), mode="nearest",
                  nearest_mode=rounding, coordinate_transformation_mode="asymmetric")  # fmt: skip
    for mode in ("linear", "cubic"):
        yield one(f"{mode}_antialias", "Resize", X, None, DOWN, mode=mode, antialias=1)
        yield one(
            f"{mode}_antialias_sizes",
            "Resize",
            f(1, 2, 9, 8),
            None,
            None,
            i64(1, 2, 4, 3),
            mode=mode,
            antialias=1,
        )
        yield one(f"{mode}_antialias_dynamic_batch", "Resize", f("N", 2, 9, 8), None, f32(1, 1, 0.5, 0.4), mode=mode,
                  antialias=1, sizes=[{"N": 1}, {"N": 3}])  # fmt: skip
        yield one(f"{mode}_antialias_up", "Resize", X, None, UP, mode=mode, antialias=1)
        yield one(f"{mode}_crop", "Resize", X, f32(0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9), None, i64(1, 2, 4, 4), mode=mode,
                  coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    yield one(
        "linear_antialias_exclude_outside",
        "Resize",
        X,
        None,
        DOWN,
        mode="cubic",
        antialias=1,
        exclude_outside=1,
    )
    yield one("nearest_crop", "Resize", X, f32(0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9), None, i64(1, 2, 4, 4), mode="nearest",
              coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    yield one("linear_crop_outside", "Resize", X, f32(0, 0, -0.3, 0, 1, 1, 1.2, 1), None, i64(1, 2, 6, 5), mode="linear",
              coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)  # fmt: skip
    yield one("linear_crop_computed", "Resize", X, given(f32(0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9)), None, i64(1, 2, 4, 4),
              mode="linear", coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    yield one("cubic_coefficient", "Resize", X, None, UP, mode="cubic", cubic_coeff_a=-0.5)
    yield one("cubic_exclude_outside", "Resize", X, None, UP, mode="cubic", exclude_outside=1)
    yield one("cubic_down", "Resize", X, None, DOWN, mode="cubic")
    for policy in ("stretch", "not_larger", "not_smaller"):
        yield one(f"policy_{policy}", "Resize", X, None, None, i64(7, 9), axes=[2, 3], mode="linear",
                  keep_aspect_ratio_policy=policy)  # fmt: skip
    yield one("axes_scales", "Resize", X, None, f32(2, 1.5), axes=[2, 3], mode="linear")
    yield one("axes_negative", "Resize", X, None, f32(2, 2), axes=[-2, -1], mode="nearest")
    yield one("axes_cubic_sizes", "Resize", X, None, None, i64(8, 8), axes=[2, 3], mode="cubic")
    yield one("linear_channels", "Resize", f(1, 4, 3, 3), None, f32(1, 2, 1, 1), mode="linear")
    yield one("linear_batch", "Resize", f(2, 3, 4), None, f32(2, 1, 1), mode="linear")
    yield one("linear_rank_2", "Resize", f(5, 6), None, f32(2, 2), mode="linear")
    yield one("linear_rank_3", "Resize", f(2, 5, 6), None, f32(1, 2, 2), mode="linear")
    yield one("linear_rank_5", "Resize", f(1, 2, 3, 4, 5), None, f32(1, 1, 2, 2, 2), mode="linear")
    yield one("nearest_rank_1", "Resize", f(6), None, f32([2]), mode="nearest")
    yield one("nearest_rank_5", "Resize", f(1, 2, 3, 4, 5), None, f32(1, 1, 2, 2, 2), mode="nearest")
    yield one("linear_channels_last", "Resize", f(1, 4, 5, 3), None, f32(1, 2, 2, 1), mode="linear")
    yield one("cubic_channels_last", "Resize", f(1, 4, 5, 3), None, f32(1, 2, 2, 1), mode="cubic")
    yield one("cubic_rank_2", "Resize", f(5, 6), None, f32(2, 2), mode="cubic")
    yield one("nearest_int32", "Resize", i(1, 2, 3, 4, dtype=np.int32), None, UP, mode="nearest")
    yield one("linear_half", "Resize", f(1, 2, 3, 4, dtype=np.float16), None, UP, mode="linear")
    yield one("cubic_half", "Resize", f(1, 2, 3, 4, dtype=np.float16), None, UP, mode="cubic")
    yield one("computed_scales", "Resize", X, None, given(UP), mode="nearest")
    yield one("computed_sizes", "Resize", X, None, None, given(i64(1, 2, 7, 9)), mode="linear")

    def like(n, mode, **more):  # F.interpolate(x, y.shape[2:])
        x, y = f("N", 2, "H", "W"), f("N", 2, "P", "Q")
        x = n("Relu", x)
        y = n("Relu", y)
        sizes = n("Concat", n("Slice", n("Shape", x), i64([0]), i64([2])), n("Slice", n("Shape", y), i64([2]), i64([4])),
                  axis=0)  # fmt: skip
        return n("Add", y, n("Resize", x, None, None, sizes, mode=mode, **more))

    two = [{"N": 1, "H": 4, "W": 5, "P": 8, "Q": 10}, {"N": 2, "H": 3, "W": 6, "P": 7, "Q": 5}]
    for mode in ("nearest", "linear", "cubic"):
        yield net(f"{mode}_like_another", lambda n, mode=mode: like(n, mode), sizes=two)
    yield net("linear_antialias_like_another", lambda n: like(n, "linear", antialias=1), sizes=two)
    yield net(
        "linear_symmetric_like_another",
        lambda n: like(n, "linear", coordinate_transformation_mode="half_pixel_symmetric"), opset=19, sizes=two,
    )  # fmt: skip
    spread = [{"N": 1, "H": 4, "W": 5}, {"N": 2, "H": 3, "W": 6}]
    for mode in ("nearest", "linear", "cubic"):
        yield one(f"{mode}_dynamic", "Resize", f("N", 2, "H", "W"), None, UP, mode=mode, sizes=spread)
    yield one("linear_antialias_dynamic", "Resize", f("N", 2, "H", "W"), None, f32(1, 1, 0.5, 0.5), mode="linear",
              antialias=1, sizes=spread)  # fmt: skip
    yield one("cubic_align_corners_dynamic", "Resize", f("N", 2, "H", "W"), None, UP, mode="cubic",
              coordinate_transformation_mode="align_corners", sizes=spread)  # fmt: skip
    yield one("upsample_9", "Upsample", X, UP, mode="nearest", opset=9)
    yield one("upsample_9_linear", "Upsample", X, UP, mode="linear", opset=9)
    yield one("upsample_7", "Upsample", X, opset=7, ir_version=3, mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
    yield one("resize_10", "Resize", X, UP, mode="linear", opset=10)
    yield one("resize_11_for_nn", "Resize", X, f32(0), UP, opset=11, mode="nearest",
              coordinate_transformation_mode="tf_half_pixel_for_nn")  # fmt: skip

    def head(n):  # a segmentation head that ends in a cubic upsampling and the classes
        y = n("Conv", f(1, 4, 6, 6), weights(3, 4, 1, 1))
        return n("ArgMax", n("Resize", y, None, f32(1, 1, 4, 4), mode="cubic"), axis=1, keepdims=0)

    yield net("cubic_then_argmax", head)
