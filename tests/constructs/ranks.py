"""Ranks: scalars, vectors, more than eight dimensions; empty tensors; sizes that are zero."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, b, f, f32, given, i, i64, net, one, weights

R9 = (1, 2, 1, 2, 1, 2, 1, 2, 2)


def constructs() -> Constructs:
    for op in ("Relu", "Neg", "Exp", "Identity", "Softplus", "Sign", "Round", "IsNaN", "Erf", "HardSwish"):
        yield one(f"scalar_{op.lower()}", op, f())
    yield one("scalar_add", "Add", f(), f())
    yield one("scalar_mul_vector", "Mul", f(), f(5))
    yield one("scalar_where", "Where", b(), f(), f(3))
    yield one("scalar_reshape", "Reshape", f(), i64(1, 1))
    yield one("scalar_unsqueeze", "Unsqueeze", f(), i64([0]))
    yield one("scalar_expand", "Expand", f(), i64(2, 3))
    yield one("scalar_cast", "Cast", f(), to=TensorProto.INT32)
    yield one("scalar_clip", "Clip", f(), f32(0), f32(1))
    yield one("scalar_concat_after_unsqueeze", "Concat", f(1), f(1), axis=0)
    yield one("scalar_gather", "Gather", f(5), i64(2))
    yield one("scalar_softmax_of_one", "Softmax", f(1), axis=0)
    yield one("scalar_reduce_sum", "ReduceSum", f(), keepdims=0)
    yield one("scalar_squeeze", "Squeeze", f(1, 1))
    yield one("scalar_output_mean", "ReduceMean", f(4, 5), keepdims=0)
    yield one("scalar_arg_max", "ArgMax", f(5), axis=0, keepdims=0)
    yield one("scalar_size", "Size", f("N", 3), sizes=[{"N": 2}, {"N": 4}])
    yield one("scalar_index_gather", "Gather", f(4, 3), i(high=4), axis=0)
    yield one("scalar_cumsum", "CumSum", f(1), np.int64(0))
    yield one("scalar_range", "Add", f(4), np.arange(4, dtype=np.float32))
    yield one("scalar_prelu", "PRelu", f(), f32(0.25))
    yield one("scalar_layer_norm", "LayerNormalization", f(4), weights(4))

    # vectors
    yield one("vector_matmul", "MatMul", f(4), weights(4, 3))
    yield one("vector_matmul_right", "MatMul", f(3, 4), weights(4))
    yield one("vector_dot", "MatMul", f(4), f(4))
    yield one("vector_batch_matmul", "MatMul", f(4), f(2, 4, 3))
    yield one("vector_softmax", "Softmax", f(5), axis=0)
    yield one("vector_softmax_11", "Softmax", f(5), opset=11, axis=0)
    yield one("vector_flatten", "Flatten", f(5), axis=0)
    yield one("vector_flatten_1", "Flatten", f(5), axis=1)
    yield one("vector_transpose", "Transpose", f(5))
    yield one("vector_reduce_max", "ReduceMax", f(5), i64([0]))
    yield one("vector_lp_norm", "LpNormalization", f(5), axis=0)
    yield one("vector_gather_nd", "GatherND", f(5), i64([2], [4]))
    yield one("vector_one_hot", "OneHot", i(5, high=4), i64(4), f32(0, 1))
    yield one("vector_pad_negative", "Pad", f(5), i64(-1, -2))
    yield one("vector_log_softmax", "LogSoftmax", f("N"), axis=0, sizes=[{"N": 3}, {"N": 6}])
    yield one("vector_cum_sum", "CumSum", f(5), np.int64(0))
    yield one("vector_einsum_dot", "Einsum", f(4), f(4), equation="i,i->")
    yield one("vector_trilu_of_rank_3", "Trilu", f(2, 3, 3), i64(1))

    # many dimensions
    for op in ("Relu", "Exp"):
        yield one(f"rank_9_{op.lower()}", op, f(*R9))
    yield one("rank_9_add", "Add", f(*R9), f(2))
    yield one("rank_9_transpose", "Transpose", f(*R9), perm=list(range(8, -1, -1)))
    yield one("rank_9_reduce", "ReduceSum", f(*R9), i64(1, 3))
    yield one("rank_9_softmax", "Softmax", f(*R9), axis=-1)
    yield one("rank_9_concat", "Concat", f(*R9), f(*R9), axis=1)
    yield one("rank_9_slice", "Slice", f(*R9), i64([0]), i64([1]), i64([8]))
    yield one("rank_9_input_reshaped", "Reshape", f(*R9), i64(4, 8))
    yield one("rank_9_output", "Reshape", f(4, 8), i64(*R9))

    def inside(n, perm=(0, 1, 3, 5, 7, 2, 4, 6, 8), shape=(1, 2, 2, 2, 2, 2, 2, 2, 2), back=(2, 8, 16)):
        y = n("Reshape", f(2, 8, 16), i64(*shape))
        return n("Relu", n("Reshape", n("Transpose", y, perm=list(perm)), i64(*back)))

    yield net("rank_9_shuffle_inside", inside)
    yield net("rank_10_shuffle_inside", lambda n: inside(
        n, (0, 9, 1, 8, 2, 7, 3, 6, 4, 5), (1, 1, 2, 2, 2, 2, 2, 2, 2, 2)))  # fmt: skip

    def windows(n):  # Swin's windows of a volume: (B, D, d, H, h, W, w, C) and one more
        y = n("Reshape", f("N", 4, 4, 4, 2), i64(-1, 2, 2, 2, 2, 2, 2, 2, 1))
        return n("Reshape", n("Transpose", y, perm=[0, 1, 3, 5, 2, 4, 6, 7, 8]), i64(-1, 8, 2))

    yield net("rank_9_windows", windows, sizes=[{"N": 1}, {"N": 2}])

    def broadcast(n):
        y = n("Unsqueeze", f(2, 3), i64(0, 1, 2, 3, 4, 5, 6))
        return n("Squeeze", n("Mul", y, f32(2).reshape([1] * 9)), i64(0, 1, 2, 3, 4, 5, 6))

    yield net("rank_9_broadcast", broadcast)

    def reduced(n):
        y = n("Reshape", f(4, 8, 16), i64(2, 2, 2, 2, 2, 2, 2, 2, 2))
        return n("ReduceMean", y, i64(1, 3, 5, 7, 8), keepdims=0)

    yield net("rank_9_reduce_inside", reduced)
    yield one("rank_8_transpose", "Transpose", f(*R9[:8]), perm=list(range(7, -1, -1)))
    yield one("rank_9_tile", "Tile", f(*R9), i64(1, 1, 2, 1, 1, 1, 1, 1, 1))
    yield one("rank_9_gather", "Gather", f(*R9), i64(1, 0), axis=8)
    yield one("rank_9_expand", "Expand", f(2, 1), i64(*R9[:8], 2))
    yield one("rank_7_reduce_five_axes", "ReduceMax", f(2, 2, 2, 2, 2, 2, 2), i64(0, 2, 3, 5, 6))

    # nothing in it
    yield one("empty_concat", "Concat", f(2, 3), given(np.zeros((2, 0), np.float32)), axis=1)
    yield one("empty_slice_concat", "Concat", f(2, 3), np.zeros((0, 3), np.float32), axis=0)

    def nothing(n):
        y = n("Slice", f(2, 5), i64([3]), i64([3]), i64([1]))
        return n("Concat", y, f(2, 2), axis=1)

    yield net("empty_slice", nothing)
    yield one("empty_reduce", "ReduceSum", given(np.zeros((2, 0), np.float32)), i64([1]))
    yield one("empty_sum_dynamic", "ReduceSum", f("N", 3), i64([0]), sizes=[{"N": 2}, {"N": 1}])
    yield one("pad_edge", "Pad", f(2, 5), i64(0, 2, 0, 1), mode="edge")
    yield one("pad_reflect", "Pad", f(1, 2, 5, 5), i64(0, 0, 2, 1, 0, 0, 1, 2), mode="reflect")
    yield one("pad_wrap", "Pad", f(1, 2, 5), i64(0, 0, 2, 0, 0, 1), mode="wrap", opset=19)
    yield one("pad_wrap_far", "Pad", f(1, 2, 3), i64(0, 0, 2, 0, 0, 3), mode="wrap", opset=19)
    yield one("pad_channels_edge", "Pad", f(1, 2, 5, 5), i64(0, 1, 0, 0, 0, 1, 0, 0), mode="edge")
    yield one("pad_axes", "Pad", f(2, 5, 4), i64(1, 2), f32(3), i64([1]))
    yield one("pad_computed_value", "Pad", f(2, 5), i64(0, 1, 0, 1), f())
    yield one("pad_computed", "Pad", f(2, 5), given(i64(0, 1, 0, 1)))
    yield one("pad_batch", "Pad", f(2, 3, 4), i64(1, 0, 0, 1, 0, 0))
    yield one("pad_int64", "Pad", i(2, 3), i64(0, 1, 0, 1), np.int64(7))
    yield one(
        "pad_wrap_dynamic",
        "Pad",
        f("N", 2, 5),
        i64(0, 0, 2, 0, 0, 1),
        mode="wrap",
        opset=19,
        sizes=[{"N": 1}, {"N": 2}],
    )
