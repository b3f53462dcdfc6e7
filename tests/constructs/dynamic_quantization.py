"""Dynamic quantization and integer products, as onnxruntime's `quantize_dynamic` writes them."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, codes, f, f32, given, i, net, one, weights

U8, I8 = np.uint8, np.int8


def constructs() -> Constructs:
    yield one("quantize", "DynamicQuantizeLinear", f(3, 5), outputs=3, step=1)
    yield one(
        "quantize_dynamic", "DynamicQuantizeLinear", f("N", 5), outputs=3, step=1, sizes=[{"N": 2}, {"N": 4}]
    )
    yield one("quantize_positive", "DynamicQuantizeLinear", f(3, 5, low=1, high=9), outputs=3, step=1)
    yield one("quantize_negative", "DynamicQuantizeLinear", f(3, 5, low=-9, high=-1), outputs=3, step=1)
    yield one("quantize_zeros", "DynamicQuantizeLinear", given(np.zeros((2, 3), np.float32)), outputs=3)
    u, s = i(3, 7, high=256, dtype=U8), i(3, 7, low=-128, high=128, dtype=I8)
    yield one("matmul_integer", "MatMulInteger", u, codes(7, 4))
    yield one("matmul_integer_int8", "MatMulInteger", s, codes(7, 4))
    yield one("matmul_integer_zero_points", "MatMulInteger", u, codes(7, 4, dtype=U8), U8(120), U8(131))
    yield one(
        "matmul_integer_row_zero_points", "MatMulInteger", u, codes(7, 4), None, np.array([1, 0, -3, 9], I8)
    )
    yield one("matmul_integer_batch", "MatMulInteger", i(2, 3, 7, high=256, dtype=U8), codes(7, 4), U8(3))
    yield one("matmul_integer_two", "MatMulInteger", i("N", 3, 7, high=256, dtype=U8), i("N", 7, 2, high=256, dtype=U8),
              U8(128), U8(2), sizes=[{"N": 1}, {"N": 2}])  # fmt: skip
    yield one("matmul_integer_large_sum", "MatMulInteger", i(2, 600, high=256, dtype=U8), codes(600, 3))
    yield one("conv_integer", "ConvInteger", i(1, 2, 5, 5, high=256, dtype=U8), codes(3, 2, 3, 3, dtype=U8))
    yield one("conv_integer_zero_point", "ConvInteger", i(1, 2, 5, 5, high=256, dtype=U8), codes(3, 2, 3, 3, dtype=U8), U8(120),
              U8(5), pads=[1, 1, 1, 1])  # fmt: skip
    yield one("conv_integer_int8_weights", "ConvInteger", i("N", 2, 5, 5, high=256, dtype=U8), codes(3, 2, 3, 3), U8(9), I8(0),
              strides=[2, 2], sizes=[{"N": 1}, {"N": 2}])  # fmt: skip
    yield one(
        "conv_integer_group",
        "ConvInteger",
        i(1, 4, 5, 5, high=256, dtype=U8),
        codes(4, 1, 3, 3),
        U8(100),
        group=4,
    )

    def linear(n, dims=("N", 6)):  # quantize_dynamic of a linear layer
        q, scale, zero = n.several(3, "DynamicQuantizeLinear", f(*dims))
        y = n("MatMulInteger", q, codes(6, 4), zero, I8(0))
        y = n("Mul", n("Cast", y, to=TensorProto.FLOAT), n("Mul", scale, f32(0.01)))
        return n("Add", y, weights(4))

    yield net("linear", linear, step=0.02, sizes=[{"N": 2}, {"N": 5}])
    yield net("linear_static", lambda n: linear(n, (3, 6)), step=0.02)

    def linear_per_channel(n):
        q, scale, zero = n.several(3, "DynamicQuantizeLinear", f(3, 6))
        y = n("MatMulInteger", q, codes(6, 4), zero, np.zeros(4, I8))
        return n("Mul", n("Cast", y, to=TensorProto.FLOAT), n("Mul", scale, f32(0.01, 0.02, 0.03, 0.01)))

    yield net("linear_per_channel", linear_per_channel, step=0.06)

    def convolution(n):
        q, scale, zero = n.several(3, "DynamicQuantizeLinear", f(1, 2, 6, 6))
        y = n("ConvInteger", q, codes(3, 2, 3, 3), zero, I8(0), pads=[1, 1, 1, 1])
        y = n("Mul", n("Cast", y, to=TensorProto.FLOAT), n("Mul", scale, f32(0.01)))
        return n("Add", y, weights(1, 3, 1, 1))

    yield net("convolution", convolution, step=0.05)

    def two_layers(n):
        x = n("Relu", linear(n))
        q, scale, zero = n.several(3, "DynamicQuantizeLinear", x)
        y = n("MatMulInteger", q, codes(4, 3), zero, I8(0))
        return n("Mul", n("Cast", y, to=TensorProto.FLOAT), n("Mul", scale, f32(0.01)))

    yield net("two_layers", two_layers, step=0.1, sizes=[{"N": 2}, {"N": 3}])

    def attention(n):  # the product of two activations
        a, sa, za = n.several(3, "DynamicQuantizeLinear", f(2, 3, 6))
        c, sc, zc = n.several(3, "DynamicQuantizeLinear", f(2, 6, 3))
        y = n("MatMulInteger", a, c, za, zc)
        return n("Softmax", n("Mul", n("Cast", y, to=TensorProto.FLOAT), n("Mul", sa, sc)), axis=-1)

    yield net("attention_scores", attention, step=0.02)
    ms = dict(domain="com.microsoft")
    yield one(
        "dynamic_matmul",
        "DynamicQuantizeMatMul",
        f(3, 6),
        codes(6, 4),
        f32(0.01),
        I8(0),
        weights(4),
        step=0.02,
        **ms,
    )
    yield one("integer_to_float", "MatMulIntegerToFloat", i(3, 6, high=256, dtype=U8), codes(6, 4), f32(0.02), f32(0.01), U8(120),
              I8(0), weights(4), **ms)  # fmt: skip
    yield one("dynamic_lstm", "DynamicQuantizeLSTM", f(4, 1, 3), codes(1, 3, 20), codes(1, 5, 20), None, None, None, None, None,
              f32([0.01]), np.zeros(1, I8), f32([0.01]), np.zeros(1, I8), outputs=1, hidden_size=5, step=0.05,
              **ms)  # fmt: skip

    def by_hand(n):  # the range as torch writes it: ReduceMin, ReduceMax
        x = n("Relu", f("N", 6))
        scale = n("Div", n("Sub", n("ReduceMax", x, keepdims=0), n("ReduceMin", x, keepdims=0)), f32(255))
        q = n("QuantizeLinear", x, n("Max", scale, f32(1e-6)), U8(0))
        return n("Mul", n("Cast", q, to=TensorProto.FLOAT), scale)

    yield net("range_by_hand", by_hand, step=0.02, sizes=[{"N": 2}, {"N": 3}])

    def scale_computed(n):
        scale = n("ReduceMax", n("Abs", f(2, 5)), keepdims=0)
        scale = n("Div", scale, f32(127))
        return n("DequantizeLinear", n("QuantizeLinear", f(3, 4), scale, I8(0)), scale, I8(0))

    yield net("computed_scale", scale_computed, step=0.05)
    yield one("matmul_float_after_codes", "MatMul", f(3, 7), codes(7, 4).astype(np.float32))
