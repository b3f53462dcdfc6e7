"""Operators of com.microsoft, as onnxruntime's optimizers and optimum write them."""

from __future__ import annotations

import functools

import numpy as np

from .build import Constructs, codes, f, f32, given, i, net, weights
from .build import one as plain_one

DOMAIN = "com.microsoft"
one = functools.partial(plain_one, domain=DOMAIN)
N = [{"N": 1}, {"N": 3}]


def constructs() -> Constructs:
    x = f("N", 4, 8)
    yield one("gelu", "Gelu", x, sizes=N)
    yield one("fast_gelu", "FastGelu", x, weights(8), sizes=N)
    yield one("fast_gelu_no_bias", "FastGelu", x, sizes=N)
    yield one("bias_gelu", "BiasGelu", x, weights(8), sizes=N)
    yield one("quick_gelu", "QuickGelu", x, alpha=1.702, sizes=N)
    yield one("fused_matmul", "FusedMatMul", f(2, 4, 3), f(2, 5, 3), transB=1, alpha=0.5)
    yield one("fused_matmul_trans_a", "FusedMatMul", f(2, 3, 4), weights(3, 5), transA=1)
    yield one("fused_matmul_trans_batch", "FusedMatMul", f(3, 2, 4), f(2, 4, 5), transBatchA=1)
    yield one("fused_gemm", "FusedGemm", f(3, 4), weights(4, 5), weights(5), activation="Relu", alpha=0.5)
    yield one(
        "fused_conv",
        "FusedConv",
        f("N", 2, 5, 5),
        weights(3, 2, 3, 3),
        weights(3),
        activation="Relu",
        sizes=N,
    )
    yield one("fused_conv_leaky", "FusedConv", f(1, 2, 5, 5), weights(3, 2, 3, 3), weights(3), activation="LeakyRelu",
              activation_params=[0.1])  # fmt: skip
    yield one("fused_conv_clip", "FusedConv", f(1, 2, 5, 5), weights(3, 2, 3, 3), weights(3), activation="Clip",
              activation_params=[0.0, 6.0])  # fmt: skip
    yield one(
        "fused_conv_sum",
        "FusedConv",
        f(1, 2, 5, 5),
        weights(3, 2, 3, 3),
        weights(3),
        f(1, 3, 3, 3),
        activation="Relu",
    )
    yield one("skip_layer_norm", "SkipLayerNormalization", x, x, weights(8), weights(8), weights(8), sizes=N)
    yield one(
        "skip_layer_norm_sum", "SkipLayerNormalization", x, x, weights(8), weights(8), outputs=4, sizes=N
    )
    yield one("skip_simplified", "SkipSimplifiedLayerNormalization", x, x, weights(8), sizes=N, epsilon=1e-5)
    yield net(
        "simplified_layer_norm",
        lambda n: n("SimplifiedLayerNormalization", f("N", 4, 8), weights(8), axis=-1),
        sizes=N,
    )
    yield one("embed_layer_norm", "EmbedLayerNormalization", i("N", 4, high=9, dtype=np.int32), i("N", 4, high=2, dtype=np.int32),
              weights(9, 8), weights(5, 8), weights(2, 8), weights(8), weights(8), sizes=N, outputs=2)  # fmt: skip
    yield one("attention", "Attention", x, weights(8, 24), weights(24), num_heads=2, sizes=N)
    yield one(
        "attention_mask",
        "Attention",
        f(2, 4, 8),
        weights(8, 24),
        weights(24),
        given(np.array([4, 2], np.int32)),
        num_heads=2,
    )
    yield one(
        "attention_causal",
        "Attention",
        f(2, 4, 8),
        weights(8, 24),
        weights(24),
        num_heads=2,
        unidirectional=1,
    )
    yield one("multi_head", "MultiHeadAttention", x, x, x, num_heads=2, sizes=N)
    yield one("multi_head_bias", "MultiHeadAttention", x, x, x, weights(24), num_heads=2, sizes=N)
    yield one(
        "rotary",
        "RotaryEmbedding",
        f(2, 3, 4, 8),
        given(np.arange(4)[None].repeat(2, 0)),
        weights(6, 4),
        weights(6, 4, seed=1),
    )
    yield one(
        "rotary_offset",
        "RotaryEmbedding",
        f(2, 4, 24),
        np.array([1]),
        weights(6, 4),
        weights(6, 4, seed=1),
        num_heads=3,
    )
    yield one("rotary_interleaved", "RotaryEmbedding", f(2, 3, 4, 8), np.array([0]), weights(6, 4), weights(6, 4, seed=1),
              interleaved=1)  # fmt: skip
    yield one("grouped_query", "GroupQueryAttention", f(1, 3, 16), f(1, 3, 8), f(1, 3, 8), f(1, 1, 0, 8), f(1, 1, 0, 8),
              given(np.array([2], np.int32)), given(np.array(3, np.int32)), outputs=3, num_heads=2, kv_num_heads=1)  # fmt: skip
    yield one("trilu", "Trilu", f(4, 4), upper=1)
    yield one("inverse_batch", "Inverse", given(weights(3, 2, 2) + 2 * np.eye(2, dtype=np.float32)))
    yield one("unique", "Unique", given(f32(3, 1, 3, 2)), outputs=3)
    yield one("expand_dims", "ExpandDims", f(2, 3), np.array(1, np.int32))
    yield one("gather_nd", "GatherND", f(3, 4), given(np.array([[0, 1], [2, 3]])))
    yield one(
        "crop_and_resize", "CropAndResize", f(1, 2, 6, 6), f32([0.1, 0.1, 0.8, 0.9], [0, 0, 1, 1]), np.array([0, 0], np.int32),
        np.array([3, 3], np.int32),
    )  # fmt: skip
    yield one("pad", "Pad", f(2, 3), np.array([0, 1, 0, 1]), f32(0.5))
    yield one("tokens", "NGramRepeatBlock", i(1, 4, high=5), f(1, 5), ngram_size=2)
    yield one(
        "nhwc_max_pool",
        "NhwcMaxPool",
        i(1, 4, 4, 2, low=-9, dtype=np.int8),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    yield one("matmul_nbits", "MatMulNBits", f(2, 32), codes(4, 1, 16, dtype=np.uint8), np.abs(weights(4, 1)) + f32(0.01), K=32, N=4, bits=4,
              block_size=32)  # fmt: skip
    yield one("matmul_nbits_zero_points", "MatMulNBits", f("N", 32), codes(4, 2, 8, dtype=np.uint8), np.abs(weights(8)) + f32(0.01),
              codes(4, 1, dtype=np.uint8), K=32, N=4, bits=4, block_size=16, sizes=N)  # fmt: skip
    yield one("matmul_8_bits", "MatMulNBits", f(2, 32), codes(4, 1, 32, dtype=np.uint8), np.abs(weights(4, 1)) + f32(0.01), K=32, N=4, bits=8,
              block_size=32)  # fmt: skip
    yield one("gather_block_quantized", "GatherBlockQuantized", codes(6, 16, dtype=np.uint8), i(3, high=6), np.abs(weights(6, 2)) + f32(0.01),
              gather_axis=0, quantize_axis=1, block_size=16, bits=4)  # fmt: skip
    yield one("quantize_linear", "QuantizeLinear", f(2, 5), f32(0.05), np.uint8(120), step=1)
    yield one(
        "dequantize_linear", "DequantizeLinear", i(2, 5, high=256, dtype=np.uint8), f32(0.05), np.uint8(120)
    )
    yield one("quantize_linear_16", "QuantizeLinear", f(2, 5), f32(0.001), np.uint16(30000), step=1)

    def pair16(n):
        q = n("QuantizeLinear", f(2, 5), f32(0.001), np.int16(0), domain=DOMAIN)
        return n("DequantizeLinear", q, f32(0.001), np.int16(0), domain=DOMAIN)

    yield net("pair_int16", pair16, domains={DOMAIN: 1}, step=0.001)

    def bert(n):  # an optimized encoder layer
        x = n("Relu", f("N", 4, 8))
        y = n("Attention", x, weights(8, 24), weights(24), num_heads=2, domain=DOMAIN)
        y = n("SkipLayerNormalization", y, x, weights(8), weights(8), weights(8), domain=DOMAIN)
        z = n(
            "MatMul",
            n("BiasGelu", n("MatMul", y, weights(8, 16)), weights(16), domain=DOMAIN),
            weights(16, 8),
        )
        return n("SkipLayerNormalization", z, y, weights(8), weights(8), weights(8), domain=DOMAIN)

    yield net("bert_layer", bert, domains={DOMAIN: 1}, sizes=N)
    yield net(
        "image_scaler", lambda n: n("ImageScaler", f(1, 3, 4, 4), bias=[0.1, 0.2, 0.3], scale=2.0), opset=9
    )
    yield net("affine", lambda n: n("Affine", f(2, 3), alpha=2.0, beta=0.5), opset=9)
    yield net("scaled_tanh", lambda n: n("ScaledTanh", f(2, 3), alpha=2.0, beta=0.5), opset=9)
    yield net("parametric_softplus", lambda n: n("ParametricSoftplus", f(2, 3), alpha=2.0, beta=0.5), opset=9)
    yield net("crop", lambda n: n("Crop", f(1, 2, 6, 6), border=[1, 1, 2, 1]), opset=9)
    yield net("thresholded_relu_1", lambda n: n("ThresholdedRelu", f(2, 3), alpha=0.5), opset=9)
    yield one("cdist", "CDist", f(3, 4), f(5, 4), metric="sqeuclidean")
    yield one("cdist_euclidean", "CDist", f(3, 4), f(5, 4), metric="euclidean")
    yield one(
        "masked_max_pool",
        "MaxpoolWithMask",
        f(1, 1, 4, 4),
        i(1, 1, 4, 4, low=1, high=2, dtype=np.int32),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    yield one(
        "conv_transpose_dynamic_pads", "ConvTransposeWithDynamicPads", f(1, 2, 4, 4), weights(2, 3, 3, 3), np.array([1, 1, 1, 1]),
        strides=[2, 2])  # fmt: skip
