"""QLinear operators, and the asymmetric, uint8 and per-channel pairs of other tools."""

from __future__ import annotations

from typing import Any

import numpy as np

from .build import Constructs, codes, f, f32, i, net, one, weights

U8, I8 = np.uint8, np.int8
MS = {"com.microsoft": 1}


def constructs() -> Constructs:
    s = 0.05
    for name, xd, wd, xz, wz, yz in (
        ("uint8_uint8", U8, U8, 128, 120, 100), ("uint8_int8", U8, I8, 128, 0, 128), ("int8_int8", I8, I8, 0, 0, 0),
        ("int8_shifted", I8, I8, -5, 0, 7),
    ):  # fmt: skip
        limits = np.iinfo(xd)
        x = i(1, 3, 6, 6, low=limits.min, high=limits.max + 1, dtype=xd)
        yield one(f"conv_{name}", "QLinearConv", x, f32(0.02), xd(xz), codes(4, 3, 3, 3, dtype=wd), f32(0.01), wd(wz),
                  f32(0.03), xd(yz), pads=[1, 1, 1, 1], step=1)  # fmt: skip
        a = i(2, 5, low=limits.min, high=limits.max + 1, dtype=xd)
        yield one(f"matmul_{name}", "QLinearMatMul", a, f32(0.02), xd(xz), codes(5, 4, dtype=wd), f32(0.01), wd(wz),
                  f32(0.02), xd(yz), step=1)  # fmt: skip
    x = i("N", 3, 6, 6, high=256, dtype=U8)
    yield one("conv_bias", "QLinearConv", x, f32(0.02), U8(128), codes(4, 3, 3, 3), f32(0.01), I8(0), f32(0.03), U8(128),
              np.array([100, -300, 20, 0], np.int32), step=1, sizes=[{"N": 1}, {"N": 2}])  # fmt: skip
    yield one("conv_per_channel", "QLinearConv", i(1, 3, 6, 6, high=256, dtype=U8), f32(0.02), U8(128), codes(4, 3, 3, 3),
              f32(0.01, 0.02, 0.005, 0.01), np.zeros(4, I8), f32(0.03), U8(128), strides=[2, 2], step=1)  # fmt: skip
    yield one("conv_depthwise", "QLinearConv", i(1, 4, 6, 6, high=256, dtype=U8), f32(0.02), U8(10), codes(4, 1, 3, 3),
              f32([0.01]), np.zeros(1, I8), f32(0.03), U8(0), group=4, step=1)  # fmt: skip
    yield one("conv_1d", "QLinearConv", i(1, 3, 9, high=256, dtype=U8), f32(0.02), U8(128), codes(4, 3, 3), f32(0.01),
              I8(0), f32(0.03), U8(128), step=1)  # fmt: skip
    yield one("matmul_two_activations", "QLinearMatMul", i(2, 3, 5, high=256, dtype=U8), f32(0.02), U8(128),
              i(2, 5, 4, high=256, dtype=U8), f32(0.01), U8(130), f32(0.02), U8(120), step=1)  # fmt: skip
    for op, extra in (("QLinearAdd", 0), ("QLinearMul", 0)):
        for dtype, z in ((U8, 120), (I8, 3)):
            limits = np.iinfo(dtype)
            y: Any = i(2, 5, low=limits.min, high=limits.max + 1, dtype=dtype)
            yield one(f"{op[7:].lower()}_{np.dtype(dtype).name}", op, y, f32(0.02), dtype(z),
                      i(2, 5, low=limits.min, high=limits.max + 1, dtype=dtype), f32(0.03), dtype(z + extra), f32(0.05),
                      dtype(z), domain="com.microsoft", step=1)  # fmt: skip
    u = i(1, 2, 4, 4, high=256, dtype=U8)
    yield one(
        "sigmoid",
        "QLinearSigmoid",
        u,
        f32(0.03),
        U8(128),
        f32(1 / 256),
        U8(0),
        domain="com.microsoft",
        step=1,
    )
    yield one("leaky_relu", "QLinearLeakyRelu", u, f32(0.03), U8(128), f32(0.02), U8(100), alpha=0.1, step=1,
              domain="com.microsoft")  # fmt: skip
    yield one("global_average", "QLinearGlobalAveragePool", u, f32(0.03), U8(128), f32(0.02), U8(100), step=1,
              domain="com.microsoft", channels_last=0)  # fmt: skip
    yield one("average_pool", "QLinearAveragePool", u, f32(0.03), U8(128), f32(0.02), U8(100), step=1,
              domain="com.microsoft", kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip
    yield one("concat", "QLinearConcat", f32(0.05), U8(128), u, f32(0.03), U8(120), i(1, 3, 4, 4, high=256, dtype=U8),
              f32(0.04), U8(100), axis=1, step=1, domain="com.microsoft")  # fmt: skip
    yield net(
        "softmax",
        lambda n: n("QLinearSoftmax", i(2, 6, high=256, dtype=U8), f32(0.03), U8(128), f32(1 / 256), U8(0), axis=-1, opset=13,
                    domain="com.microsoft"), domains=MS, step=1,
    )  # fmt: skip
    yield one("gemm", "QGemm", i(2, 5, high=256, dtype=U8), f32(0.02), U8(128), codes(5, 4), f32(0.01), I8(0),
              np.array([9, -9, 100, 0], np.int32), f32(0.02), U8(128), step=1, domain="com.microsoft")  # fmt: skip
    yield one("gemm_float_output", "QGemm", i(2, 5, high=256, dtype=U8), f32(0.02), U8(128), codes(4, 5), f32(0.01), I8(0),
              None, transB=1, domain="com.microsoft")  # fmt: skip

    def whole(n):  # a model of QOperator format
        y = n("QuantizeLinear", f("N", 3, 8, 8), f32(0.02), U8(114))
        y = n("QLinearConv", y, f32(0.02), U8(114), codes(8, 3, 3, 3), f32(0.01), I8(0), f32(0.03), U8(0),
              np.zeros(8, np.int32), pads=[1, 1, 1, 1])  # fmt: skip
        y = n("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
        z = n("QLinearConv", y, f32(0.03), U8(0), codes(8, 8, 1, 1), f32(0.01), I8(0), f32(0.03), U8(128))
        y = n(
            "QLinearAdd",
            y,
            f32(0.03),
            U8(0),
            z,
            f32(0.03),
            U8(128),
            f32(0.04),
            U8(110),
            domain="com.microsoft",
        )
        y = n(
            "QLinearGlobalAveragePool",
            y,
            f32(0.04),
            U8(110),
            f32(0.02),
            U8(120),
            domain="com.microsoft",
            channels_last=0,
        )
        y = n("Flatten", y)
        y = n("QLinearMatMul", y, f32(0.02), U8(120), codes(8, 5), f32(0.01), I8(0), f32(0.02), U8(128))
        return n("DequantizeLinear", y, f32(0.02), U8(128))

    yield net("whole_model", whole, domains=MS, step=0.04, sizes=[{"N": 1}, {"N": 2}])

    # pairs of other tools
    def pair(n, x, scale, zero, **more):
        return n("DequantizeLinear", n("QuantizeLinear", x, scale, zero, **more), scale, zero, **more)

    for name, zero in (("uint8_shifted", U8(120)), ("uint8_zero", U8(0)), ("uint8_middle", U8(128)), ("int8_shifted", I8(-7)),
                       ("int8_lowest", I8(-128)), ("uint16", np.uint16(30000)), ("int16", np.int16(0)),
                       ("int16_shifted", np.int16(77))):  # fmt: skip
        opset = 21 if "16" in name else 18
        yield net(
            f"pair_{name}",
            lambda n, zero=zero: n("Relu", pair(n, f(2, 5), f32(s), zero)),
            opset=opset,
            step=s,
        )

        def convolution(n, zero=zero):
            x = pair(n, f("N", 3, 6, 6), f32(s), zero)
            w = n("DequantizeLinear", codes(4, 3, 3, 3), f32(0.01), I8(0))
            return pair(n, n("Conv", x, w), f32(s), zero)

        yield net(f"conv_pair_{name}", convolution, opset=opset, step=2 * s, sizes=[{"N": 1}, {"N": 2}])
    yield net(
        "pair_no_zero_point",
        lambda n: n("DequantizeLinear", n("QuantizeLinear", f(2, 5), f32(s)), f32(s)),
        step=s,
    )
    yield net(
        "pair_per_channel_shifted",
        lambda n: pair(n, f(2, 3, 4), f32(s, 0.1, 0.02), np.array([3, 100, 250], U8), axis=1), step=0.1,
    )  # fmt: skip
    yield net(
        "pair_half", lambda n: pair(n, f(2, 5, dtype=np.float16), np.float16(s), U8(100)), opset=19, step=s
    )

    def weights_uint8(n):
        w = n("DequantizeLinear", codes(5, 4, dtype=U8), f32(0.01), U8(133))
        return n("MatMul", pair(n, f(2, 5), f32(s), U8(128)), w)

    yield net("matmul_weights_uint8", weights_uint8, step=2 * s)

    def weights_per_channel_shifted(n):
        w = n(
            "DequantizeLinear", codes(5, 4), f32(0.01, 0.02, 0.01, 0.03), np.array([1, -2, 3, 0], I8), axis=1
        )
        return n("MatMul", f(2, 5), w)

    yield net("matmul_weights_shifted_channels", weights_per_channel_shifted)

    def tflite(n):  # int8 with zero points, per-channel weights, int32 bias, as TFLite's converter writes
        x = pair(n, f(1, 3, 8, 8), f32(0.0078), I8(-1))
        w = n("DequantizeLinear", codes(4, 3, 3, 3), f32(0.01, 0.02, 0.01, 0.005), np.zeros(4, I8), axis=0)
        bias = n("DequantizeLinear", np.array([10, -500, 20, 3], np.int32), f32(7.8e-5, 1.56e-4, 7.8e-5, 3.9e-5),
                 np.zeros(4, np.int32), axis=0)  # fmt: skip
        y = pair(n, n("Clip", n("Conv", x, w, bias), f32(0), f32(6)), f32(0.0235), I8(-128))
        return pair(n, n("AveragePool", y, kernel_shape=[2, 2]), f32(0.0235), I8(-128))

    yield net("tflite_int8", tflite, step=0.047)

    def input_codes(n):  # a model whose input and output are codes
        y = n("DequantizeLinear", i(1, 3, 6, 6, high=256, dtype=U8), f32(0.0078), U8(128))
        return n("QuantizeLinear", n("Conv", y, weights(4, 3, 3, 3)), f32(0.03), U8(120))

    yield net("codes_in_and_out", input_codes, step=1)

    def quantize_only(n):
        return n("QuantizeLinear", f(2, 5), f32(s), U8(120))

    yield net("quantize_output_uint8", quantize_only, step=1)
    yield net("quantize_output_int8", lambda n: n("QuantizeLinear", f(2, 5), f32(s), I8(0)), step=1)
    yield net(
        "dequantize_input_int8",
        lambda n: n("DequantizeLinear", i(2, 5, low=-128, high=128, dtype=I8), f32(s), I8(0)),
    )
    yield net(
        "dequantize_int32",
        lambda n: n("DequantizeLinear", i(2, 5, low=-999, high=999, dtype=np.int32), f32(s)),
    )
    yield net("negative_scale", lambda n: n("DequantizeLinear", codes(2, 5), f32(-s), I8(0)) and n(
        "Add", f(2, 5), n.nodes[-1].output[0]))  # fmt: skip

    def four_bits(n):
        w = n("DequantizeLinear", n("Cast", codes(8, 4), to=3), f32(0.1, 0.2, 0.1, 0.05), axis=1)
        return n("MatMul", f(2, 8), w)

    yield net("weights_cast_to_int8", four_bits, opset=21)

    def blocks(n):
        w = n("DequantizeLinear", codes(8, 4), np.abs(weights(2, 4)) + f32(0.01), axis=0, block_size=4)
        return n("MatMul", f(2, 8), w)

    yield net("weights_in_blocks", blocks, opset=21)
    zeros = np.zeros(3, I8)
    for name, scales in (("zero", f32(0.05, 0, 0.02)), ("negative", f32(0.05, -0.01, 0.02))):
        yield net(
            f"{name}_scale_weights",
            lambda n, scales=scales: n(
                "MatMul", f(2, 5), n("DequantizeLinear", codes(5, 3), scales, zeros, axis=1)
            ),
        )
        yield net(
            f"{name}_scale_convolution",
            lambda n, scales=scales: n(
                "Conv", f("N", 2, 5, 5), n("DequantizeLinear", codes(3, 2, 3, 3), scales, zeros, axis=0)
            ),
            sizes=[{"N": 1}, {"N": 2}],
        )
