"""Sizes that the values decide: NonMaxSuppression, NonZero, Unique, Compress; and what detectors put around them."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, b, f, f32, given, i, i64, net, one, tensor, weights

RANDOM = np.random.default_rng(3)
CORNERS = np.sort(RANDOM.uniform(0, 10, (1, 8, 2, 2)), axis=2).reshape(1, 8, 4).astype(np.float32)
SCORES = RANDOM.uniform(0, 1, (1, 2, 8)).astype(np.float32)
ONE = tensor(i64([1]), "one")


def constructs() -> Constructs:
    boxes, scores = given(CORNERS), given(SCORES)
    yield one("nms", "NonMaxSuppression", boxes, scores, i64([3]), f32([0.5]), f32([0.3]))
    yield one("nms_scalars", "NonMaxSuppression", boxes, scores, i64(3), f32(0.5), f32(0.3))
    yield one("nms_center", "NonMaxSuppression", boxes, scores, i64([3]), f32([0.5]), center_point_box=1)
    yield one("nms_default", "NonMaxSuppression", boxes, scores, i64([8]))
    yield one("non_zero", "NonZero", given(f32([1, 0, 2], [0, 3, 0])))
    yield one("non_zero_bool", "NonZero", b(3, 4))
    yield one("unique", "Unique", given(f32(2, 1, 1, 3, 4, 3)), outputs=4)
    yield one("unique_axis", "Unique", given(f32([1, 0], [1, 0], [2, 3])), outputs=1, axis=0)
    yield one("unique_not_sorted", "Unique", i(9, high=4), outputs=1, sorted=0)
    yield one("compress", "Compress", f(4, 3), b(4), axis=0)
    yield one("compress_flat", "Compress", f(2, 3), b(5))
    yield one("compress_constant", "Compress", f(4, 3), np.array([True, False, True, True]), axis=0)
    yield one(
        "compress_constant_short",
        "Compress",
        f("N", 5),
        np.array([False, True, True]),
        axis=1,
        sizes=[{"N": 2}, {"N": 3}],
    )
    yield one("compress_constant_flat", "Compress", f(2, 3), np.array([False, True, True, False, True]))

    def yolo(n):  # boxes of an end-to-end export
        y = n("Transpose", f(1, 7, 12, low=0, high=1), perm=[0, 2, 1])
        box, score = n.several(2, "Split", y, i64(4, 3), axis=2)
        kept = n(
            "NonMaxSuppression",
            n("Mul", box, f32(10)),
            n("Transpose", score, perm=[0, 2, 1]),
            i64([4]),
            f32([0.6]),
            f32([0.25]),
        )
        rows = n("Gather", kept, i64(2), axis=1)
        return n("Gather", box, rows, axis=1)

    yield net("yolo_with_nms", yolo)

    def masked(n):  # x[x > 0].sum(): a selection that a sum follows
        x = n("Identity", f(3, 4))
        where = n("Transpose", n("NonZero", n("Greater", x, f32(0))), perm=[1, 0])
        return n("ReduceSum", n("GatherND", x, where), i64([0]), keepdims=0)

    yield net("masked_sum", masked)

    def masked_set(n):  # x[x < 0] = 0
        x = n("Identity", f(3, 4))
        where = n("Transpose", n("NonZero", n("Less", x, f32(0))), perm=[1, 0])
        size = n("Slice", n("Shape", where), i64([0]), i64([1]))
        return n("ScatterND", x, where, n("Expand", f32([0]), size))

    yield net("masked_assignment", masked_set)

    def counted(n):  # how many are above
        return n("Slice", n("Shape", n("NonZero", n("Greater", f(3, 4), f32(0)))), i64([1]), i64([2]))

    yield net("count_non_zero", counted)

    def of_constant(n):  # positions that are known: NonZero of ones of a shape
        ones = n("ConstantOfShape", n("Shape", n("Relu", f(5))), value=ONE)
        return n("Cast", n("NonZero", ones), to=TensorProto.FLOAT)

    yield net("non_zero_of_ones", of_constant)

    def of_ones_dynamic(n):  # torch.arange of a size, as older exporters write it
        x = n("Relu", f("N", 3))
        ones = n("ConstantOfShape", n("Slice", n("Shape", x), i64([0]), i64([1])), value=ONE)
        rows = n("Squeeze", n("Transpose", n("NonZero", ones), perm=[1, 0]), i64([1]))
        return n("Add", x, n("Unsqueeze", n("Cast", rows, to=TensorProto.FLOAT), i64([1])))

    yield net("arange_by_non_zero", of_ones_dynamic, sizes=[{"N": 2}, {"N": 4}])
    yield net("gather_by_constant_mask", lambda n: n("Gather", f(5, 2), n("Squeeze", n(
        "NonZero", np.array([True, False, True, True, False])), i64([0])), axis=0))  # fmt: skip

    def scored(n):  # the best boxes without suppression
        scores = n("ReduceMax", f(1, 12, 3, low=0, high=1), i64([2]), keepdims=0)
        values, places = n.several(2, "TopK", scores, i64([5]), axis=1)
        return values, n(
            "GatherElements", f(1, 12, 4), n("Expand", n("Unsqueeze", places, i64([2])), i64(1, 5, 4)), axis=1
        )

    yield net("best_boxes", scored)

    def levels(n):  # RoiAlign over pyramid levels, chosen by size
        rois = n("Relu", given(CORNERS[0], "R", 4))
        x0, y0, x1, y1 = n.several(4, "Split", rois, axis=1, num_outputs=4)
        size = n("Sqrt", n("Mul", n("Sub", x1, x0), n("Sub", y1, y0)))
        return n("Cast", n("Clip", n("Floor", n("Add", f32(4), n("Div", n("Log", n("Add", n("Div", size, f32(224)), f32(1e-6))),
                 f32(np.log(2))))), f32(2), f32(5)), to=TensorProto.INT64)  # fmt: skip

    yield net("pyramid_level", levels, sizes=[{"R": 8}])

    def one_level(n):
        rois = given(CORNERS[0])
        picked = n("NonZero", n("Greater", n("Slice", rois, i64([2]), i64([3]), i64([1])), f32(4)))
        rows = n("Gather", picked, i64(0), axis=0)
        return n("Gather", n("MatMul", f(8, 4), weights(4, 2)), rows, axis=0)

    yield net("rows_of_a_level", one_level)
    yield one("tril_indices", "NonZero", i(3, 3, high=2))
    yield one("one_hot_negative", "OneHot", i(4, low=-3, high=3), i64(4), f32(-1, 1), axis=0)
    yield one("one_hot_computed_depth", "OneHot", i(4, high=3), given(i64(3)), f32(0, 1))
    yield one("one_hot_int_values", "OneHot", i(2, 2, high=3), i64(3), i64(5, 7), axis=1)
    yield one("gather_nd_batch", "GatherND", f(2, 3, 4), i(2, 1, high=3), batch_dims=1)
    yield one("gather_nd_negative", "GatherND", f(3, 4), i64([-1, -2], [0, 1]))
    yield one("gather_negative_computed", "Gather", f(5, 2), i(3, low=-5, high=0), axis=0)
    yield one("gather_elements_negative", "GatherElements", f(3, 3), i(3, 3, low=-3, high=0), axis=0)
    yield one("has_nan", "IsNaN", f(3, 4))
    yield one("is_inf_positive_only", "IsInf", given(f32(1, np.inf, -np.inf)), detect_negative=0)
    yield one("is_inf_20_half", "IsInf", given(f32(1, np.inf, -np.inf).astype(np.float16)), opset=20)
    yield one("eye_like_shift", "EyeLike", f(3, 4), k=1)
    yield one("eye_like_dynamic", "EyeLike", f("N", 4), dtype=TensorProto.FLOAT, sizes=[{"N": 3}, {"N": 5}])
    yield one("trilu_dynamic_k", "Trilu", f(4, 4), i(low=-1, high=2))
    yield one("tfidf", "TfIdfVectorizer", i(2, 6, high=5), max_gram_length=1, min_gram_length=1, max_skip_count=0, mode="TF",
              ngram_counts=[0], ngram_indexes=[0, 1, 2], pool_int64s=[1, 2, 4])  # fmt: skip
    yield one("tfidf_bigrams", "TfIdfVectorizer", i(1, 8, high=4), max_gram_length=2, min_gram_length=1, max_skip_count=0, mode="TF",
              ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], pool_int64s=[1, 2, 1, 3])  # fmt: skip
