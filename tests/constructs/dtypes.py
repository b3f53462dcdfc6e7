"""Element types that the target has no arithmetic for, under operators that only move values and under others."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, b, f, f32, i, i64, net, one, weights

U8, I8, U16, I16, U32, U64, F64 = np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.uint64, np.float64


def constructs() -> Constructs:
    x8 = i(2, 3, 4, high=256, dtype=U8)
    # what moves values
    yield one("uint8_transpose", "Transpose", x8, perm=[1, 0, 2])
    yield one("uint8_reshape", "Reshape", x8, i64(6, 4))
    yield one("uint8_slice", "Slice", x8, i64([0]), i64([3]), i64([2]), i64([2]))
    yield one("uint8_concat", "Concat", x8, i(2, 1, 4, high=256, dtype=U8), axis=1)
    yield one("uint8_gather", "Gather", x8, i(3, high=4), axis=2)
    yield one("uint8_gather_constant", "Gather", x8, i64(3, 0), axis=-1)
    yield one("uint8_pad", "Pad", x8, i64(0, 1, 0, 0, 0, 2), np.uint8(7))
    yield one("uint8_tile", "Tile", i(1, 3, high=256, dtype=U8), i64(2, 2))
    yield one("uint8_expand", "Expand", i(1, 3, high=256, dtype=U8), i64(4, 3))
    yield one("uint8_split", "Split", x8, outputs=2, axis=0, num_outputs=2)
    yield one("uint8_identity", "Identity", x8)
    yield one("uint8_flatten", "Flatten", x8)
    yield one("uint8_depth_to_space", "DepthToSpace", i(1, 4, 2, 3, high=256, dtype=U8), blocksize=2)
    yield one("uint8_dynamic_transpose", "Transpose", i("N", 3, high=256, dtype=U8), perm=[1, 0],
              sizes=[{"N": 2}, {"N": 5}])  # fmt: skip
    yield one("uint8_where", "Where", b(2, 3), i(2, 3, high=256, dtype=U8), np.uint8(9))
    # what compares or computes
    yield one("uint8_equal", "Equal", x8, np.uint8(3))
    yield one("uint8_greater", "Greater", x8, np.uint8(200))
    yield one("uint8_max", "Max", x8, np.uint8(100))
    yield one("uint8_min", "Min", x8, i(4, high=256, dtype=U8))
    yield one("uint8_clip", "Clip", x8, np.uint8(50), np.uint8(200))
    yield one("uint8_argmax", "ArgMax", i(2, 9, high=256, dtype=U8), axis=1, keepdims=0)
    yield one("uint8_reduce_max", "ReduceMax", x8, i64([1]))
    yield one(
        "uint8_max_pool", "MaxPool", i(1, 2, 6, 6, high=256, dtype=U8), kernel_shape=[2, 2], strides=[2, 2]
    )
    yield one("uint8_mod", "Mod", x8, np.uint8(7))
    yield one("uint8_resize_nearest", "Resize", i(1, 2, 3, 3, high=256, dtype=U8), None, f32(1, 1, 2, 2),
              mode="nearest")  # fmt: skip
    yield one("uint8_to_int32", "Cast", x8, to=TensorProto.INT32)
    yield one("uint8_to_float", "Cast", x8, to=TensorProto.FLOAT)
    yield one("uint8_to_bool", "Cast", x8, to=TensorProto.BOOL)
    yield one("float_to_uint8", "Cast", f(2, 3, low=0, high=255), to=TensorProto.UINT8)
    yield one("int64_to_uint8", "Cast", i(2, 3, high=256), to=TensorProto.UINT8)
    yield one("bool_to_uint8", "Cast", b(2, 3), to=TensorProto.UINT8)
    yield one("uint8_constant_lookup", "Gather", np.arange(256, dtype=U8)[::-1].copy(), i(4, 5, high=256))

    def camera(n):  # an image of bytes, channels last, normalized inside the model
        image = n(
            "Transpose", n("Cast", i(1, 8, 8, 3, high=256, dtype=U8), to=TensorProto.FLOAT), perm=[0, 3, 1, 2]
        )
        return n("Conv", n("Div", image, f32(255)), weights(4, 3, 3, 3))

    yield net("uint8_image_float_first", camera)

    def camera_moves_first(n):
        image = n("Transpose", i(1, 8, 8, 3, high=256, dtype=U8), perm=[0, 3, 1, 2])
        return n("Conv", n("Div", n("Cast", image, to=TensorProto.FLOAT), f32(255)), weights(4, 3, 3, 3))

    yield net("uint8_image_moved_first", camera_moves_first)

    def mask(n):  # a mask of bytes as an output
        return n("Cast", n("Greater", f(2, 4, 4), f32(0)), to=TensorProto.UINT8)

    yield net("uint8_mask_output", mask)

    def swap(n):  # BGR to RGB on bytes
        parts = n.several(3, "Split", i(1, 4, 4, 3, high=256, dtype=U8), i64(1, 1, 1), axis=3)
        return n("Cast", n("Concat", *reversed(parts), axis=3), to=TensorProto.FLOAT)

    yield net("uint8_swap_channels", swap)

    # the other integers
    for name, dtype, op, other in (
        ("int8_add", I8, "Add", 3), ("uint8_add", U8, "Add", 200), ("uint8_mul", U8, "Mul", 3),
        ("uint8_sub", U8, "Sub", 100), ("uint8_div", U8, "Div", 3), ("int8_mul", I8, "Mul", 3),
        ("uint32_add", U32, "Add", 7), ("uint32_mul", U32, "Mul", 7), ("uint32_div", U32, "Div", 3),
        ("uint64_add", U64, "Add", 7), ("uint64_sub", U64, "Sub", 0),
    ):  # fmt: skip
        low, high = (-20, 20) if np.iinfo(dtype).min < 0 else (0, 60)
        yield one(name, op, i(2, 5, low=low, high=high, dtype=dtype), dtype(other))
    for dtype in (I8, I16, U16, U32, U64):
        name = np.dtype(dtype).name
        low = -100 if np.iinfo(dtype).min < 0 else 0
        yield one(f"{name}_to_float", "Cast", i(2, 3, low=low, high=100, dtype=dtype), to=TensorProto.FLOAT)
        yield one(f"float_to_{name}", "Cast", f(2, 3, low=low, high=100), to=
                  getattr(TensorProto, name.upper()))  # fmt: skip
        yield one(f"{name}_transpose", "Transpose", i(2, 3, low=low, high=100, dtype=dtype), perm=[1, 0])
    yield one("int8_concat", "Concat", i(2, 3, low=-9, dtype=I8), i(2, 3, low=-9, dtype=I8), axis=0)
    yield one("int8_max", "Max", i(2, 3, low=-9, dtype=I8), np.int8(0))
    yield one("int8_greater", "Greater", i(2, 3, low=-9, dtype=I8), np.int8(0))
    yield one("int8_abs", "Abs", i(2, 3, low=-9, dtype=I8))
    yield one("int16_abs", "Abs", i(2, 3, low=-9, dtype=I16))
    yield one("int16_equal", "Equal", i(2, 3, low=-9, dtype=I16), np.int16(1))
    yield one("int16_gather", "Gather", i(4, 3, low=-9, dtype=I16), i64(1, 3))
    yield one("uint16_slice", "Slice", i(4, 3, dtype=U16), i64([1]), i64([3]), i64([0]))
    yield one("uint32_greater", "Greater", i(4, 3, dtype=U32), np.uint32(4))
    yield one("uint64_equal", "Equal", i(4, 3, dtype=U64), np.uint64(4))
    yield one("int8_where", "Where", b(4, 3), i(4, 3, low=-9, dtype=I8), np.int8(1))

    # double
    yield one("double_add", "Add", f(2, 3, dtype=F64), np.float64(1.5))
    yield one("double_matmul", "MatMul", f(2, 3, dtype=F64), weights(3, 4, dtype=F64))
    yield one("double_softmax", "Softmax", f(2, 5, dtype=F64))
    yield one("double_reduce_mean", "ReduceMean", f(2, 5, dtype=F64), i64([1]))
    yield one("double_transpose", "Transpose", f(2, 5, dtype=F64), perm=[1, 0])
    yield one("double_exp", "Exp", f(2, 5, dtype=F64))
    yield one("double_where", "Where", b(2, 5), f(2, 5, dtype=F64), np.float64(0))
    yield one("double_to_float", "Cast", f(2, 5, dtype=F64), to=TensorProto.FLOAT)
    yield one("float_to_double", "Cast", f(2, 5), to=TensorProto.DOUBLE)

    def through_double(n):  # numpy's default type inside a float model
        wide = n("Cast", f("N", 4), to=TensorProto.DOUBLE)
        return n("Cast", n("Div", n("Mul", wide, np.float64(2.5)), np.float64(3)), to=TensorProto.FLOAT)

    yield net("double_inside", through_double, sizes=[{"N": 2}, {"N": 3}])

    # bool
    yield one("bool_concat", "Concat", b(2, 3), b(2, 3), axis=1)
    yield one("bool_slice", "Slice", b(2, 5), i64([1]), i64([4]), i64([1]))
    yield one("bool_pad", "Pad", b(2, 3), i64(0, 1, 0, 1), np.array(True))
    yield one("bool_gather", "Gather", b(5, 3), i64(4, 0))
    yield one("bool_transpose", "Transpose", b(2, 3), perm=[1, 0])
    yield one("bool_equal", "Equal", b(2, 3), b(2, 3))
    yield one("bool_xor", "Xor", b(2, 3), b(3))
    yield one("bool_tile", "Tile", b(2, 3), i64(2, 1))
    yield one("bool_expand", "Expand", b(2, 1), i64(2, 3))
    yield one("bool_reduce_max", "ReduceMax", b(2, 3), i64([1]), opset=20)
    yield one("bool_reduce_min", "ReduceMin", b(2, 3), i64([0]), opset=20)
    yield one("bool_gather_nd", "GatherND", b(3, 4), i64([0, 1], [2, 3]))
    yield one("bool_scatter_elements", "ScatterElements", b(2, 3), i64([[1, 0, 1]]), np.ones((1, 3), bool))
    yield one("bool_split", "Split", b(2, 4), i64(1, 3), outputs=2, axis=1)
    yield one("bool_flip", "Slice", b(2, 5), i64([-1]), i64([-99]), i64([1]), i64([-1]))
    yield one("bool_depth_to_space", "Reshape", b(2, 4), i64(4, 2))
    yield one("bool_gather_elements", "GatherElements", b(3, 3), i(3, 3, high=3), axis=1)
    yield one("bool_trilu", "Trilu", b(4, 4), upper=0)
    yield one("bool_cast_like", "CastLike", b(4, 4), f32(1))
    yield one("bool_compress_to_int64", "Cast", b(3, 2), to=TensorProto.INT64)

    # half and bfloat16
    yield one("half_to_uint8", "Cast", f(2, 3, low=0, high=99, dtype=np.float16), to=TensorProto.UINT8)

    def bfloat16(n):
        return n("Cast", n("Cast", f(3, 4), to=TensorProto.BFLOAT16), to=TensorProto.FLOAT)

    yield net("bfloat16_rounding", bfloat16)

    def float8(n):
        return n("Cast", n("Cast", f(3, 4), to=TensorProto.FLOAT8E4M3FN), to=TensorProto.FLOAT)

    yield net("float8_rounding", float8, opset=19)

    def float8_wide(n):
        return n("Cast", n("Cast", f(3, 4), to=TensorProto.FLOAT8E5M2), to=TensorProto.FLOAT)

    yield net("float8e5m2_rounding", float8_wide, opset=19)
    yield one("is_nan_half", "IsNaN", f(3, 4, dtype=np.float16))
    yield one("is_inf_double", "IsInf", f(3, 4, dtype=F64))
    yield one("mod_float", "Mod", f(3, 4), f32(0.7), fmod=1)
    yield one("mod_int8", "Mod", i(3, 4, low=-9, dtype=I8), np.int8(4))
    yield one("sign_int8", "Sign", i(3, 4, low=-9, dtype=I8))
    yield one("sign_uint8", "Sign", i(3, 4, dtype=U8))
    yield one("range_double", "Add", f(5, dtype=F64), np.arange(5, dtype=F64))
    yield one("shape_of_uint8", "Shape", i("N", 3, dtype=U8), sizes=[{"N": 2}, {"N": 4}])
