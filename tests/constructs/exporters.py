"""What exporters write around operators: dynamo, tf2onnx, paddle2onnx, optimum; and what an input decides."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, f, f32, given, i, i64, net, one, tensor, weights

N = [{"N": 1}, {"N": 3}]


def constructs() -> Constructs:
    # values that an input states: frozen, they are constants
    yield one("reshape_by_input", "Reshape", f(2, 12), given(i64(4, 6)))
    yield one("expand_by_input", "Expand", f(1, 3), given(i64(4, 3)))
    yield one("tile_by_input", "Tile", f(2, 3), given(i64(2, 2)))
    yield one("slice_by_input", "Slice", f(8, 3), given(i64([2])), given(i64([6])), i64([0]))
    yield one("slice_steps_by_input", "Slice", f(8, 3), i64([0]), i64([8]), i64([0]), given(i64([2])))
    yield one("slice_axes_by_input", "Slice", f(8, 3), i64([1]), i64([3]), given(i64([1])))
    yield one("unsqueeze_by_input", "Unsqueeze", f(8, 3), given(i64([1])))
    yield one("squeeze_by_input", "Squeeze", f(8, 1, 3), given(i64([1])))
    yield one("split_by_input", "Split", f(2, 6), given(i64(2, 4)), outputs=2, axis=1)
    yield one("range_by_input", "Range", np.int64(0), given(i64(5)), np.int64(1))
    yield one("constant_of_shape_by_input", "ConstantOfShape", given(i64(2, 3)), value=tensor(f32([2]), "v"))
    yield one("resize_by_input", "Resize", f(1, 2, 4, 4), None, None, given(i64(1, 2, 6, 6)), mode="linear")
    yield one("trilu_by_input", "Trilu", f(4, 4), given(i64(1)))
    yield one("cum_sum_by_input", "CumSum", f(3, 4), given(i64(1)))
    yield one("reduce_by_input", "ReduceMean", f(3, 4), given(i64([1])))
    yield one("one_hot_by_input", "OneHot", i(4, high=3), given(i64(3)), f32(0, 1))
    yield one("pad_by_input", "Pad", f(3, 4), given(i64(0, 1, 0, 1)))

    def training_flag(n):  # a flag of training as an input
        return n("Dropout", n("Relu", f(3, 4)), f32(0.5), given(np.array(False)))

    yield net("training_flag", training_flag)

    def scale_factor(n):  # a scale of the image as an input
        x = f(1, 2, 4, 4)
        x = n("Relu", x)
        scale = n("Concat", f32([1, 1]).reshape(2), given(f32([2])), given(f32([2])), axis=0)
        return n("Resize", x, None, scale, mode="nearest")

    yield net("scale_factor_input", scale_factor)

    # torch.onnx.export(dynamo=True)
    def arange_mask(n):
        length = n("Squeeze", n("Shape", i("N", "S", high=9), start=1, end=2), i64([0]))
        rows = n("Range", i64(0), length, i64(1))
        mask = n("Greater", n("Unsqueeze", rows, i64([0])), n("Unsqueeze", rows, i64([1])))
        return n("Where", mask, f32(-3.4028235e38), f32(0))

    yield net("dynamo_causal_mask", arange_mask, sizes=[{"N": 1, "S": 4}, {"N": 2, "S": 6}])

    def index_put(n):  # x[:, index] = value
        x = n("Relu", f(3, 5))
        y = n(
            "ScatterND", n("Transpose", x, perm=[1, 0]), n("Unsqueeze", given(i64(1, 3)), i64([-1])), f(2, 3)
        )
        return n("Transpose", y, perm=[1, 0])

    yield net("dynamo_index_put", index_put)

    def index_put_accumulate(n):
        x = n("Relu", f(5, 3))
        return n("ScatterND", x, n("Unsqueeze", given(i64(1, 3, 1)), i64([-1])), f(3, 3), reduction="add")

    yield net("dynamo_index_put_accumulate", index_put_accumulate)

    def nan_to_num(n):
        x = given(f32(1, np.nan, np.inf, -np.inf))
        y = n("Where", n("IsNaN", x), f32(0), n.nodes[0].input[0])
        return n("Clip", y, f32(-3.4e38), f32(3.4e38))

    yield net("dynamo_nan_to_num", nan_to_num)

    def logical(n):
        x = n("Relu", f(2, 3))
        wanted = n("And", n("Not", n("Equal", x, f32(0))), n("LessOrEqual", x, f32(1)))
        return n(
            "Cast",
            n("ReduceMax", n("Cast", wanted, to=TensorProto.INT32), i64([1]), keepdims=0),
            to=TensorProto.BOOL,
        )

    yield net("dynamo_any", logical)

    def all_bool(n):
        return n("ReduceMin", n("Greater", f("N", 3), f32(-1)), i64([1]), keepdims=0)

    yield net("dynamo_all_of_bool", all_bool, opset=20, sizes=N)

    def bucketize(n):
        x = n("Unsqueeze", f(2, 5), i64([-1]))
        above = n("Cast", n("GreaterOrEqual", x, f32(-1, 0, 1)), to=TensorProto.INT64)
        return n("ReduceSum", above, i64([-1]), keepdims=0)

    yield net("dynamo_bucketize", bucketize)

    def floor_divide(n):
        x = n("Cast", i(2, 5, low=-20, high=20), to=TensorProto.FLOAT)
        return n("Cast", n("Floor", n("Div", x, f32(3))), to=TensorProto.INT64)

    yield net("dynamo_floor_divide", floor_divide)

    def roll(n):
        x = n("Relu", f("N", 6))
        return n(
            "Concat",
            n("Slice", x, i64([4]), i64([99]), i64([1])),
            n("Slice", x, i64([0]), i64([4]), i64([1])),
            axis=1,
        )

    yield net("dynamo_roll", roll, sizes=N)

    def embedding_bag(n):
        rows = n("Gather", weights(9, 4), i(3, 5, high=9))
        return n("ReduceMax", rows, i64([1]), keepdims=0)

    yield net("dynamo_embedding_bag", embedding_bag)

    def split_module(n):
        parts = n.several(3, "Split", f("N", 9), axis=1, num_outputs=3)
        return n("Concat", parts[2], parts[0], parts[1], axis=-1)

    yield net("dynamo_split", split_module, sizes=N)

    def logsumexp(n):
        x = n("Relu", f("N", 6))
        top = n("ReduceMax", x, i64([1]))
        return n("Add", n("Log", n("ReduceSum", n("Exp", n("Sub", x, top)), i64([1]))), top)

    yield net("dynamo_logsumexp", logsumexp, sizes=N)

    def unfold(n):  # im2col by gathers
        x = n("Relu", f(1, 2, 6, 6))
        rows = n("Gather", x, np.arange(4)[:, None] + np.arange(3)[None], axis=2)
        y = n("Gather", rows, np.arange(4)[:, None] + np.arange(3)[None], axis=4)
        return n("Reshape", n("Transpose", y, perm=[0, 1, 3, 5, 2, 4]), i64(1, 18, 16))

    yield net("dynamo_unfold", unfold)

    # tf2onnx
    def preprocess(n):
        x = n("Cast", i("N", 8, 8, 3, high=256, dtype=np.uint8), to=TensorProto.FLOAT)
        x = n("Sub", n("Mul", x, f32(2 / 255)), f32(1))
        return n(
            "Conv",
            n("Transpose", x, perm=[0, 3, 1, 2]),
            weights(4, 3, 3, 3),
            strides=[2, 2],
            auto_pad="SAME_UPPER",
        )

    yield net("tf_bytes_channels_last", preprocess, sizes=N)

    def space_to_batch(n):  # a dilated convolution as TensorFlow wrote it
        x = n("Pad", n("Relu", f(1, 2, 6, 6)), i64(0, 0, 1, 1, 0, 0, 1, 1))
        x = n("SpaceToDepth", n("Transpose", x, perm=[1, 0, 2, 3]), blocksize=2)
        y = n("Conv", n("Reshape", n("Transpose", n("Reshape", x, i64(2, 4, 1, 4, 4)), perm=[1, 2, 0, 3, 4]), i64(4, 2, 4, 4)),
              weights(3, 2, 2, 2))  # fmt: skip
        return n("Transpose", n("Reshape", y, i64(2, 2, 3, 3, 3)), perm=[2, 3, 0, 4, 1])

    yield net("tf_space_to_batch", space_to_batch)

    def resize_corners(n):
        x = n("Transpose", f(1, 4, 5, 2), perm=[0, 3, 1, 2])
        y = n(
            "Resize",
            x,
            f32([]),
            f32([]),
            i64(1, 2, 7, 9),
            mode="linear",
            coordinate_transformation_mode="align_corners",
        )
        return n("Transpose", y, perm=[0, 2, 3, 1])

    yield net("tf_resize_align_corners", resize_corners)
    yield net("tf_resize_bicubic", lambda n: n("Resize", f(1, 2, 4, 4), f32([]), f32(1, 1, 2, 2), mode="cubic", cubic_coeff_a=-0.5,
                                               exclude_outside=1, coordinate_transformation_mode="half_pixel"))  # fmt: skip

    def crop_and_resize(n):
        x = n("Relu", f(1, 2, 6, 6))
        return n("Resize", x, f32(0, 0, 0.1, 0.2, 1, 1, 0.7, 0.9), f32([]), i64(1, 2, 3, 3), mode="linear",
                 coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=0.0)  # fmt: skip

    yield net("tf_crop_and_resize", crop_and_resize)

    def strided(n):  # a strided slice that drops an axis
        y = n("Slice", f("N", 5, 6), i64(0, 4), i64(5, -7), i64(1, 2), i64(2, -1))
        return n("Squeeze", n("Slice", y, i64([1]), i64([2]), i64([1])), i64([1]))

    yield net("tf_strided_slice", strided, sizes=N)

    def hashed_bucket(n):
        return n("Gather", weights(7, 3), n("Mod", i("N", high=1000), i64(7)))

    yield net("tf_bucket_embedding", hashed_bucket, sizes=N)

    def where_gather(n):
        return n("GatherND", f(3, 4), n("Concat", i(5, 1, high=3), i(5, 1, high=4), axis=1))

    yield net("tf_gather_nd", where_gather)

    def segment_sum(n):
        return n(
            "ScatterND",
            np.zeros((4, 3), np.float32),
            n("Unsqueeze", given(i64(0, 0, 2, 3)), i64([1])),
            f(4, 3),
            reduction="add",
        )

    yield net("tf_segment_sum", segment_sum)

    def dense_bincount(n):
        hot = n("OneHot", i(2, 6, high=5), i64(5), f32(0, 1), axis=-1)
        return n("ReduceSum", hot, i64([1]), keepdims=0)

    yield net("tf_bincount", dense_bincount)

    def scalar_shape(n):
        x = f("N", 4)
        x = n("Relu", x)
        rows = n(
            "Squeeze",
            n("Slice", n("Cast", n("Shape", x), to=TensorProto.INT32), i64([0]), i64([1]), i64([0])),
            i64([0]),
        )
        return n("Div", x, n("Cast", rows, to=TensorProto.FLOAT))

    yield net("tf_divide_by_batch", scalar_shape, sizes=N)

    # paddle2onnx
    def paddle_shape(n):
        x = n("Relu", f("N", 2, "H", "W"))
        sizes = n(
            "Cast",
            n("Slice", n("Cast", n("Shape", x), to=TensorProto.INT32), i64([2]), i64([4]), i64([0])),
            to=TensorProto.INT64,
        )
        head = n("Slice", n("Shape", x), i64([0]), i64([2]), i64([0]))
        y = n("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        return n(
            "Resize",
            y,
            None,
            None,
            n("Concat", head, sizes, axis=0),
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )

    yield net("paddle_interpolate", paddle_shape, sizes=[{"N": 1, "H": 4, "W": 6}, {"N": 2, "H": 8, "W": 4}])

    def paddle_nms(n):
        boxes = (
            np.sort(np.random.default_rng(5).uniform(0, 9, (1, 6, 2, 2)), 2)
            .reshape(1, 6, 4)
            .astype(np.float32)
        )
        kept = n(
            "NonMaxSuppression", given(boxes), f(1, 2, 6, low=0, high=1), i64([4]), f32([0.5]), f32([0.2])
        )
        return n("Cast", kept, to=TensorProto.INT32)

    yield net("paddle_multiclass_nms", paddle_nms)

    def paddle_pool(n):  # adaptive pooling
        return n(
            "AveragePool",
            f("N", 2, 6, 6),
            kernel_shape=[3, 3],
            strides=[3, 3],
            ceil_mode=1,
            count_include_pad=0,
        )

    yield net("paddle_adaptive_pool", paddle_pool, opset=11, sizes=N)

    def paddle_hard(n):
        x = n("Relu", f("N", 4))
        return n("Mul", x, n("HardSigmoid", x, alpha=0.1666667, beta=0.5))

    yield net("paddle_hard_swish", paddle_hard, opset=11, sizes=N)

    def paddle_ctc(n):  # recognition head: the best class and its score
        x = n("Softmax", f("N", 5, 7), axis=2)
        return n("ArgMax", x, axis=2, keepdims=0), n("ReduceMax", x, axes=[2], keepdims=0)

    yield net("paddle_ctc_head", paddle_ctc, opset=11, sizes=N)
    yield net("paddle_double_scale", lambda n: n("Cast", n("Mul", n("Cast", f("N", 3), to=TensorProto.DOUBLE), np.float64(0.5)),
                                                 to=TensorProto.FLOAT), opset=11, sizes=N)  # fmt: skip
    yield net(
        "paddle_fill_like",
        lambda n: n("Add", f(2, 3), n("ConstantOfShape", n("Shape", f(2, 3)), value=tensor(f32([2]), "v"))),
        opset=11,
    )

    # optimum and transformers
    def position_ids(n):  # positions from the attention mask
        mask = i("N", "S", low=1, high=2)
        total = n("CumSum", n("Identity", mask), np.int64(1))
        return n("Where", n("Equal", n.nodes[0].output[0], i64(0)), i64(1), n("Sub", total, i64(1)))

    yield net("optimum_position_ids", position_ids, sizes=[{"N": 1, "S": 4}, {"N": 2, "S": 3}])

    def pooled(n):  # sentence embedding: a masked mean
        x = f("N", "S", 4)
        mask = n("Unsqueeze", n("Cast", i("N", "S", low=1, high=2), to=TensorProto.FLOAT), i64([-1]))
        total = n("ReduceSum", n("Mul", x, mask), i64([1]), keepdims=0)
        y = n("Div", total, n("Clip", n("ReduceSum", mask, i64([1]), keepdims=0), f32(1e-9)))
        return n("LpNormalization", y, axis=-1, p=2)

    yield net("optimum_mean_pooling", pooled, sizes=[{"N": 1, "S": 4}, {"N": 2, "S": 3}])

    def eos_pool(n):  # CLIP: the state of the last token
        ids = n("Identity", i("N", 5, high=20))
        x = f("N", 5, 4)
        where = n("ArgMax", n("Cast", ids, to=TensorProto.INT32), axis=1, keepdims=0)
        batch = n("Range", i64(0), n("Squeeze", n("Shape", ids, start=0, end=1)), i64(1))
        index = n("Concat", n("Unsqueeze", batch, i64([1])), n("Unsqueeze", where, i64([1])), axis=1)
        return n("GatherND", x, index)

    yield net("optimum_clip_pooling", eos_pool, sizes=N)

    def mask_bias(n):
        mask = n("Cast", i("N", 4, high=2), to=TensorProto.FLOAT)
        return n("Mul", n("Sub", f32(1), n("Unsqueeze", mask, i64(1, 2))), f32(-3.4028235e38))

    yield net("optimum_mask_bias", mask_bias, sizes=N)

    def bool_mask(n):
        mask = n("Cast", i("N", 4, high=2), to=TensorProto.BOOL)
        scores = n("Where", n("Unsqueeze", n("Not", mask), i64([1])), f32(-10000), f("N", 4, 4))
        return n("Softmax", scores, axis=-1)

    yield net("optimum_bool_mask", bool_mask, sizes=N)

    def t5_buckets(n):
        near = n("Abs", n("Sub", np.arange(6)[None], n("Unsqueeze", i(6, high=6), i64([1]))))
        far = n(
            "Cast",
            n(
                "Mul",
                n("Log", n("Div", n("Cast", n("Max", near, i64(1)), to=TensorProto.FLOAT), f32(2))),
                f32(3.5),
            ),
            to=TensorProto.INT64,
        )
        bucket = n("Where", n("Less", near, i64(2)), near, n("Min", n("Add", far, i64(2)), i64(7)))
        return n("Transpose", n("Gather", weights(8, 2), bucket), perm=[2, 0, 1])

    yield net("optimum_t5_buckets", t5_buckets)

    def whisper_mel(n):
        y = n("Conv", f("N", 4, 12), weights(6, 4, 3), pads=[1, 1], strides=[2])
        return n("Gelu", n("Add", n("Transpose", y, perm=[0, 2, 1]), weights(6, 6)))

    yield net("optimum_whisper_encoder", whisper_mel, opset=20, sizes=N)

    def dynamic_cache(n):  # a cache that grows by one
        keys = n("Concat", f("N", 2, "P", 4), f("N", 2, 1, 4), axis=2)
        return n(
            "Softmax", n("MatMul", f("N", 2, 1, 4), n("Transpose", keys, perm=[0, 1, 3, 2])), axis=-1
        ), keys

    yield net("optimum_cache", dynamic_cache, sizes=[{"N": 1, "P": 3}, {"N": 2, "P": 5}])

    def string_free_classifier(n):
        x = n("MatMul", f("N", 4), weights(4, 3))
        return n("Gather", i64(10, 20, 30), n("ArgMax", x, axis=1, keepdims=0))

    yield net("sklearn_labels_by_gather", string_free_classifier, sizes=N)

    def knn(n):  # nearest neighbours by distances
        x = n("Unsqueeze", f("N", 3), i64([1]))
        gaps = n("ReduceSumSquare", n("Sub", x, weights(8, 3)), i64([2]), keepdims=0)
        _, near = n.several(2, "TopK", gaps, i64([3]), largest=0)
        votes = n(
            "ReduceSum",
            n("OneHot", n("Gather", i64(0, 1, 2, 0, 1, 2, 0, 1), near), i64(3), f32(0, 1)),
            i64([1]),
            keepdims=0,
        )
        return n("ArgMax", votes, axis=1, keepdims=0)

    yield net("sklearn_neighbours", knn, sizes=N)

    def kmeans(n):
        x = n("Relu", f("N", 3))
        gaps = n("Gemm", x, weights(5, 3), transB=1, alpha=-2.0)
        gaps = n("Add", gaps, n("ReduceSumSquare", x, i64([1])))
        return n("ArgMin", gaps, axis=1, keepdims=0), n("Sqrt", n("Abs", gaps))

    yield net("sklearn_kmeans", kmeans, sizes=N)

    def naive_bayes(n):
        x = n("Cast", f("N", 3, dtype=np.float64), to=TensorProto.FLOAT)
        joint = n("MatMul", x, weights(3, 4))
        return n("Exp", n("Sub", joint, n("ReduceLogSumExp", joint, i64([1]))))

    yield net("sklearn_double_input", naive_bayes, sizes=N)
