"""Opsets older and newer than usual, for operators whose definition changed; IR versions; functions of the model."""

from __future__ import annotations

import numpy as np
from onnx import AttributeProto

from .build import Constructs, TensorProto, f, f32, given, helper, i, i64, net, one, weights


def constructs() -> Constructs:
    # newer
    for opset in (19, 20, 21, 22, 23, 24, 25, 26):
        yield one(f"relu_{opset}", "Relu", f(2, 3), opset=opset, ir_version=11)
        yield one(f"conv_{opset}", "Conv", f(1, 2, 5, 5), weights(3, 2, 3, 3), opset=opset)

        def mixed(n):
            y = n("Transpose", n("Relu", f("N", 3, 4)), perm=[0, 2, 1])
            y = n("Reshape", n("Softmax", y, axis=-1), i64(0, -1))
            return n("Cast", n("Add", y, f32(1)), to=TensorProto.FLOAT)

        yield net(f"mixed_{opset}", mixed, opset=opset, sizes=[{"N": 1}, {"N": 2}])
    for opset in (21, 23, 24, 25):
        yield one(f"pad_{opset}", "Pad", f(2, 5), i64(0, 1, 0, 1), opset=opset)
        yield one(f"quantize_{opset}", "QuantizeLinear", f(2, 5), f32(0.1), np.int8(0), opset=opset, step=1)
        yield one(f"shape_{opset}", "Shape", f("N", 3), opset=opset, sizes=[{"N": 1}, {"N": 2}])
        yield one(f"size_{opset}", "Size", f("N", 3), opset=opset, sizes=[{"N": 1}, {"N": 2}])
        yield one(f"squeeze_{opset}", "Squeeze", f(2, 1, 3), i64([1]), opset=opset)
    yield one(
        "quantize_output_dtype",
        "QuantizeLinear",
        f(2, 5),
        f32(0.1),
        output_dtype=TensorProto.INT8,
        opset=21,
        step=1,
    )
    yield one("quantize_precision", "QuantizeLinear", f(2, 5), f32(0.1), np.int8(0), precision=TensorProto.FLOAT, opset=23,
              step=1)  # fmt: skip
    yield one("average_pool_22", "AveragePool", f(1, 2, 5, 5), kernel_shape=[2, 2], opset=22)
    yield one("dropout_22", "Dropout", f(2, 5), opset=22)
    yield one("grid_22", "GridSample", f(1, 1, 4, 4), f(1, 2, 2, 2, low=-1, high=1), opset=22)
    yield one(
        "gru_22", "GRU", f(3, 2, 3), weights(1, 15, 3), weights(1, 15, 5), outputs=2, hidden_size=5, opset=22
    )
    yield one("top_k_24", "TopK", f(2, 9), i64([3]), outputs=2, opset=24)
    # older
    yield one("slice_1", "Slice", f(3, 4), opset=9, axes=[1], starts=[1], ends=[3])
    yield one("slice_1_negative", "Slice", f(3, 4), opset=9, starts=[0, -3], ends=[2, 99])
    yield one("pad_2", "Pad", f(3, 4), opset=9, pads=[0, 1, 0, 2], mode="reflect")
    yield one("pad_2_value", "Pad", f(3, 4), opset=10, pads=[0, 1, 0, 2], value=1.5)
    yield one("clip_6", "Clip", f(3, 4), opset=9, min=-0.5, max=0.75)
    yield one("clip_6_one_side", "Clip", f(3, 4), opset=10, min=0.0)
    yield one("clip_11_no_bounds", "Clip", f(3, 4), opset=11)
    yield one("clip_13_max_only", "Clip", f(3, 4), None, f32(0.5), opset=13)
    yield one("squeeze_11", "Squeeze", f(1, 3, 1), opset=11, axes=[0, -1])
    yield one("unsqueeze_11", "Unsqueeze", f(3), opset=11, axes=[0, -1])
    yield one("reduce_sum_11", "ReduceSum", f(3, 4), opset=11, axes=[-1], keepdims=0)
    yield one("reduce_mean_13", "ReduceMean", f(3, 4), opset=13, axes=[0])
    yield one("split_11", "Split", f(3, 4), outputs=2, opset=11, axis=1, split=[1, 3])
    yield one("split_2_equal", "Split", f(3, 4), outputs=2, opset=9, axis=-1)
    yield one("split_18_uneven", "Split", f(3, 5), outputs=3, opset=18, axis=1, num_outputs=3)
    yield one("softmax_11_axis_1", "Softmax", f(2, 3, 4), opset=11, axis=1)
    yield one("log_softmax_11", "LogSoftmax", f(2, 3, 4), opset=11)
    yield one("hardmax_1", "Hardmax", f(2, 3, 4), opset=7)
    yield one("gemm_7", "Gemm", f(2, 3), weights(3, 4), weights(4), opset=7)
    yield one(
        "gemm_9_transposed",
        "Gemm",
        f(3, 2),
        weights(4, 3),
        weights(2, 1),
        opset=9,
        transA=1,
        transB=1,
        alpha=0.5,
        beta=2.0,
    )
    yield one("batch_norm_7", "BatchNormalization", f(2, 3, 4), *[np.abs(weights(3)) + f32(0.1)] * 4, opset=7)
    yield one(
        "batch_norm_9",
        "BatchNormalization",
        f(2, 3, 4),
        *[np.abs(weights(3)) + f32(0.1)] * 4,
        opset=9,
        momentum=0.8,
    )
    yield one("upsample_8", "Upsample", f(1, 2, 3, 3), opset=8, mode="nearest", scales=[1.0, 1.0, 2.0, 3.0])
    yield one("mean_8", "Mean", f(2, 3), f(3), opset=8)
    yield one("dropout_10", "Dropout", f(2, 3), outputs=2, opset=10)
    yield one("where_9", "Where", given(np.eye(3, dtype=bool)), f(3, 3), f32(0), opset=9)
    yield one("one_hot_9", "OneHot", i(4, high=3), i64(3), f32(0, 1), opset=9)
    yield one("scatter_9", "Scatter", f(3, 3), i64([[0, 1, 2]]), f(1, 3), opset=9, axis=0)
    yield one("non_zero_9", "NonZero", f(2, 2), opset=9)
    yield one(
        "nms_10",
        "NonMaxSuppression",
        given(np.sort(weights(1, 4, 2, 2), 2).reshape(1, 4, 4)),
        f(1, 1, 4),
        i64([2]),
        opset=10,
    )
    yield one("mod_10", "Mod", i(4, low=-9), i64(4), opset=10)
    yield one("resize_10_nearest", "Resize", f(1, 2, 3, 3), f32(1, 1, 2, 2), opset=10, mode="nearest")
    yield one("cum_sum_11", "CumSum", f(3, 4), np.array(1, np.int32), opset=11)
    yield one("depth_to_space_crd", "DepthToSpace", f(1, 8, 2, 2), opset=11, blocksize=2, mode="CRD")
    yield one("gather_elements_11", "GatherElements", f(3, 3), i(2, 3, high=3), opset=11)
    yield one("round_11", "Round", given(f32(0.5, 1.5, 2.5, -0.5, -1.5)), opset=11)
    yield one("arg_max_12_last", "ArgMax", f(3, 4), opset=12, select_last_index=1)
    yield one("celu_12", "Celu", f(3, 4), opset=12)
    yield one("pow_12_int", "Pow", f(3, 4, low=0.1), i64(3), opset=12)
    yield one("greater_7", "Greater", f(3, 4), f32(0), opset=7)
    yield one("equal_7", "Equal", i(3, 4, dtype=np.int32), np.int32(3), opset=7)
    yield one("cast_6", "Cast", f(3, 4), to=TensorProto.INT64, opset=6)
    yield one("top_k_1", "TopK", f(3, 9), outputs=2, opset=8, k=2, axis=1)
    yield one("max_pool_1", "MaxPool", f(1, 2, 5, 5), opset=7, ir_version=3, kernel_shape=[2, 2])
    yield one(
        "lstm_7", "LSTM", f(3, 2, 3), weights(1, 20, 3), weights(1, 20, 5), outputs=3, hidden_size=5, opset=7
    )
    yield one("ir_version_3", "Relu", f(2, 3), opset=8, ir_version=3)
    yield one("ir_version_13", "Relu", f(2, 3), opset=21, ir_version=13)

    # functions of the model itself, as torch's dynamo exporter and onnxscript write them
    def with_function(n):
        body = [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["r"])]
        n.functions.append(
            helper.make_function("pkg.nn", "silu", ["a"], ["r"], body, [helper.make_opsetid("", 18)])
        )
        return n("Relu", n("silu", f("N", 3), domain="pkg.nn"))

    yield net("function_of_the_model", with_function, domains={"pkg.nn": 1}, sizes=[{"N": 1}, {"N": 3}])

    def with_attribute(n):
        node = helper.make_node("LeakyRelu", ["a"], ["r"])
        node.attribute.append(AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope"))
        n.functions.append(
            helper.make_function(
                "pkg.nn", "leaky", ["a"], ["r"], [node], [helper.make_opsetid("", 18)], attributes=["slope"]
            )
        )
        return n("leaky", f(2, 3), domain="pkg.nn", slope=0.3)

    yield net("function_with_attribute", with_attribute, domains={"pkg.nn": 1})

    def nested(n):
        inner = [helper.make_node("Exp", ["a"], ["e"]), helper.make_node("Add", ["e", "a"], ["r"])]
        outer = [
            helper.make_node("inner", ["a"], ["t"], domain="pkg.nn"),
            helper.make_node("Tanh", ["t"], ["r"]),
        ]
        sets = [helper.make_opsetid("", 18), helper.make_opsetid("pkg.nn", 1)]
        n.functions.append(helper.make_function("pkg.nn", "inner", ["a"], ["r"], inner, sets))
        n.functions.append(helper.make_function("pkg.nn", "outer", ["a"], ["r"], outer, sets))
        return n("outer", f(2, 3), domain="pkg.nn")

    yield net("functions_in_functions", nested, domains={"pkg.nn": 1})

    def bitwise_function(n):
        body = [helper.make_node("BitwiseAnd", ["a", "b"], ["r"])]
        n.functions.append(
            helper.make_function("pkg.nn", "mask", ["a", "b"], ["r"], body, [helper.make_opsetid("", 18)])
        )
        return n("mask", i(3, high=99), i64(12), domain="pkg.nn")

    yield net("function_that_is_rejected", bitwise_function, domains={"pkg.nn": 1})
