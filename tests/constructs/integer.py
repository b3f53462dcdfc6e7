"""Arithmetic on whole numbers, bitwise operators and shifts."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, b, f, f32, i, i64, net, one

I32 = np.int32


def constructs() -> Constructs:
    big = 1 << 20
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        short = op.removeprefix("Bitwise").lower()
        for dtype in (np.int32, np.int64, np.uint8):
            low, high = (0, 256) if dtype == np.uint8 else (-big, big)
            x = i(3, 4, low=low, high=high, dtype=dtype)
            yield one(f"bitwise_{short}_{np.dtype(dtype).name}", op, x, dtype(0x5A))
        yield one(f"bitwise_{short}_two", op, i("N", 4, low=-big, high=big, dtype=I32), i(4, low=-big, high=big, dtype=I32),
                  sizes=[{"N": 2}, {"N": 3}])  # fmt: skip
    yield one("bitwise_and_power_mask", "BitwiseAnd", i(3, 4, low=-big, high=big), i64(255))
    for dtype in (np.int32, np.int64, np.uint8, np.int8):
        low, high = (0, 256) if dtype == np.uint8 else (-100, 100)
        yield one(
            f"bitwise_not_{np.dtype(dtype).name}", "BitwiseNot", i(3, 4, low=low, high=high, dtype=dtype)
        )
    for direction in ("LEFT", "RIGHT"):
        for dtype in (np.uint8, np.uint32, np.uint64):
            x = i(3, 4, high=200, dtype=dtype)
            yield one(
                f"shift_{direction.lower()}_{np.dtype(dtype).name}",
                "BitShift",
                x,
                dtype(3),
                direction=direction,
            )
        yield one(f"shift_{direction.lower()}_computed", "BitShift", i(3, 4, high=200, dtype=np.uint32),
                  i(3, 4, high=9, dtype=np.uint32), direction=direction)  # fmt: skip

    def nibbles(n):  # unpacking of 4-bit weights by shifts and masks
        packed = i(4, 6, high=256, dtype=np.uint8)
        packed = n("Identity", packed)
        low = n("BitwiseAnd", packed, np.uint8(15))
        high = n("BitShift", packed, np.uint8(4), direction="RIGHT")
        return n("Sub", n("Cast", n("Concat", low, high, axis=1), to=TensorProto.FLOAT), f32(8))

    yield net("unpack_nibbles", nibbles)

    def hashed(n):  # a multiplicative hash: int32 and wrap-around
        x = n("Mul", i(5, high=1000, dtype=I32), I32(40503))
        return n("Mod", n("BitwiseXor", x, I32(0x55)), I32(97))

    yield net("hash", hashed)

    def bool_and(n):
        return n(
            "BitwiseAnd", n("Cast", b(2, 3), to=TensorProto.INT32), n("Cast", b(2, 3), to=TensorProto.INT32)
        )

    yield net("bitwise_and_of_flags", bool_and)

    for dtype in (I32, np.int64):
        name = np.dtype(dtype).name
        x = i(3, 4, low=-50, high=50, dtype=dtype)
        yield one(f"matmul_{name}", "MatMul", x, i(4, 5, low=-50, high=50, dtype=dtype))
        yield one(
            f"matmul_{name}_large",
            "MatMul",
            i(3, 4, low=-9000, high=9000, dtype=dtype),
            i(4, 2, low=-99, high=99, dtype=dtype),
        )
        yield one(f"div_{name}", "Div", x, dtype(-7))
        yield one(f"mod_{name}", "Mod", x, dtype(7))
        yield one(f"mod_{name}_negative", "Mod", x, dtype(-7))
        yield one(f"fmod_{name}", "Mod", x, dtype(7), fmod=1)
        yield one(f"mod_{name}_large", "Mod", i(5, low=-(1 << 30), high=1 << 30, dtype=dtype), dtype(1009))
        yield one(f"pow_{name}", "Pow", i(3, 4, low=-9, high=9, dtype=dtype), dtype(3))
        yield one(f"pow_{name}_float_exponent", "Pow", i(3, 4, low=0, high=9, dtype=dtype), f32(2))
        yield one(f"abs_{name}", "Abs", x)
        yield one(f"neg_{name}", "Neg", x)
        yield one(f"sign_{name}", "Sign", x)
        yield one(f"clip_{name}", "Clip", x, dtype(-5), dtype(9))
        yield one(f"relu_{name}", "Relu", x)
        yield one(f"max_{name}", "Max", x, dtype(3), i(4, dtype=dtype))
        yield one(f"reduce_min_{name}", "ReduceMin", x, i64([1]))
        yield one(f"reduce_sum_{name}", "ReduceSum", x, i64([0]), keepdims=0)
        yield one(f"reduce_prod_{name}", "ReduceProd", i(3, 4, low=-5, high=5, dtype=dtype), i64([1]))
        yield one(f"reduce_l1_{name}", "ReduceL1", x, i64([1]))
        yield one(f"reduce_sum_square_{name}", "ReduceSumSquare", x, i64([1]))
        yield one(f"arg_max_{name}", "ArgMax", x, axis=1)
        yield one(f"cum_sum_{name}", "CumSum", x, np.int64(1))
        yield one(f"top_k_{name}", "TopK", i(3, 9, high=1000, dtype=dtype), i64([2]), outputs=2)
        yield one(f"where_{name}", "Where", b(3, 4), x, dtype(0))
        yield one(f"equal_{name}", "Equal", x, i(3, 4, low=-50, high=50, dtype=dtype))
        yield one(f"mean_of_{name}_as_float", "Cast", x, to=TensorProto.FLOAT)
        yield one(f"einsum_{name}", "Einsum", x, i(4, 2, low=-9, dtype=dtype), equation="ij,jk->ik")
    yield one("reduce_mean_int32", "ReduceMean", i(3, 4, low=-50, high=50, dtype=I32), i64([1]))
    yield one("reduce_max_int8", "ReduceMax", i(3, 4, low=-9, dtype=np.int8), i64([1]))
    yield one(
        "div_dynamic_divisor",
        "Div",
        i("N", low=-50, high=50),
        i("N", low=1, high=9),
        sizes=[{"N": 3}, {"N": 6}],
    )
    yield one("mod_computed", "Mod", i(5, low=-50, high=50, dtype=I32), i(5, low=1, high=9, dtype=I32))
    yield one("uint32_mod", "Mod", i(5, high=50, dtype=np.uint32), np.uint32(7))
    yield one("cum_prod", "CumProd", f(3, 5), np.int64(1), opset=26)
    yield one("cum_sum_reverse", "CumSum", f(3, 5), np.int64(1), reverse=1)
    yield one("cum_sum_exclusive", "CumSum", f("N", 5), np.int64(-1), exclusive=1, sizes=[{"N": 1}, {"N": 3}])
    yield one("cum_sum_computed_axis", "CumSum", f(3, 5), i(low=0, high=1))
    yield one("float_to_int_truncates", "Cast", f(3, 5, low=-9, high=9), to=TensorProto.INT32)
    yield one("int64_to_int32", "Cast", i(3, 5), to=TensorProto.INT32)
    yield one("prelu_int32", "PRelu", i(2, 3, low=-9, dtype=I32), I32([2]))
    yield one("sum_of_three_int32", "Add", i(2, 3, dtype=I32), i(1, 3, dtype=I32))
