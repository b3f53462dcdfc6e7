"""Operators with a function body: attention, rotary embedding, normalizations, losses; and those of training."""

from __future__ import annotations

import numpy as np

from .build import Constructs, f, f32, given, half, i, i64, net, one, weights

N = [{"N": 1}, {"N": 3}]


def constructs() -> Constructs:
    q, k, v = f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8)
    yield one("attention", "Attention", q, k, v, opset=23)
    yield one("attention_causal", "Attention", q, k, v, is_causal=1, opset=23)
    yield one("attention_bias", "Attention", q, k, v, f(4, 6), opset=23)
    mask = np.tril(np.ones((4, 6), bool), 2)
    yield one("attention_bool_mask", "Attention", q, k, v, given(mask), opset=23)
    yield one("attention_scale", "Attention", q, k, v, scale=0.25, softcap=2.0, opset=23)
    yield one("attention_groups", "Attention", f(2, 6, 4, 8), k, v, opset=23)
    yield one(
        "attention_3d",
        "Attention",
        f(2, 4, 24),
        f(2, 6, 24),
        f(2, 6, 24),
        q_num_heads=3,
        kv_num_heads=3,
        opset=23,
    )
    yield one("attention_dynamic", "Attention", f("N", 3, "S", 8), f("N", 3, "S", 8), f("N", 3, "S", 8), opset=23,
              sizes=[{"N": 1, "S": 4}, {"N": 2, "S": 7}])  # fmt: skip
    yield one("attention_past", "Attention", f(1, 2, 1, 8), f(1, 2, 1, 8), f(1, 2, 1, 8), None, f(1, 2, 5, 8), f(1, 2, 5, 8),
              outputs=3, opset=23)  # fmt: skip
    yield one("attention_half", "Attention", half(q), half(k), half(v), opset=23)
    yield one("attention_scores_output", "Attention", q, k, v, outputs=4, qk_matmul_output_mode=3, opset=23)
    yield one("attention_24", "Attention", q, k, v, is_causal=1, opset=24)

    def block(n):
        x = n("Relu", f("N", 5, 12))
        parts = [n("MatMul", x, weights(12, 12, seed=s)) for s in range(3)]
        y = n("Attention", *parts, q_num_heads=3, kv_num_heads=3, is_causal=1)
        return n("RMSNormalization", n("Add", x, y), weights(12), axis=-1)

    yield net("attention_block", block, opset=23, sizes=N)
    cos, sin = f(2, 5, 4, low=-1, high=1), f(2, 5, 4, low=-1, high=1)
    yield one("rotary", "RotaryEmbedding", f(2, 3, 5, 8), cos, sin, opset=23)
    yield one("rotary_interleaved", "RotaryEmbedding", f(2, 3, 5, 8), cos, sin, interleaved=1, opset=23)
    yield one(
        "rotary_positions",
        "RotaryEmbedding",
        f(2, 3, 5, 8),
        weights(10, 4),
        weights(10, 4, seed=1),
        i(2, 5, high=10),
        opset=23,
    )
    yield one("rotary_3d", "RotaryEmbedding", f(2, 5, 24), cos, sin, num_heads=3, opset=23)
    yield one(
        "rotary_part",
        "RotaryEmbedding",
        f(2, 3, 5, 8),
        f(2, 5, 2),
        f(2, 5, 2),
        rotary_embedding_dim=4,
        opset=23,
    )
    yield one("rotary_dynamic", "RotaryEmbedding", f("N", 3, "S", 8), f("N", "S", 4), f("N", "S", 4), opset=23,
              sizes=[{"N": 1, "S": 4}, {"N": 2, "S": 3}])  # fmt: skip
    yield one("rms", "RMSNormalization", f(2, 5, 8), weights(8), opset=23)
    yield one(
        "rms_axis", "RMSNormalization", f("N", 5, 8), weights(5, 8), axis=1, epsilon=1e-3, opset=23, sizes=N
    )
    yield one(
        "rms_half", "RMSNormalization", f(2, 8, dtype=np.float16), weights(8, dtype=np.float16), opset=23
    )
    yield one("rms_computed_scale", "RMSNormalization", f(2, 5, 8), f(8), opset=23)
    yield one("layer", "LayerNormalization", f(2, 5, 8), weights(8), weights(8))
    yield one("layer_axis", "LayerNormalization", f(2, 5, 8), weights(5, 8), axis=1)
    yield one("layer_statistics", "LayerNormalization", f(2, 5, 8), weights(8), weights(8), outputs=3)
    yield one("layer_computed_scale", "LayerNormalization", f(2, 5, 8), f(8), f(8))
    yield one("layer_double", "LayerNormalization", f(2, 8, dtype=np.float64), weights(8, dtype=np.float64))
    yield one("group_18", "GroupNormalization", f(2, 6, 4, 4), weights(3), weights(3), num_groups=3, opset=18)
    yield one(
        "group_21",
        "GroupNormalization",
        f("N", 6, 4, 4),
        weights(6),
        weights(6),
        num_groups=3,
        opset=21,
        sizes=N,
    )
    yield one("group_1d", "GroupNormalization", f(2, 6, 9), weights(6), weights(6), num_groups=2, opset=21)
    yield one(
        "group_3d", "GroupNormalization", f(1, 4, 3, 3, 3), weights(4), weights(4), num_groups=4, opset=21
    )
    yield one("group_rank_2", "GroupNormalization", f(3, 6), weights(6), weights(6), num_groups=2, opset=21)
    yield one("instance", "InstanceNormalization", f("N", 3, 4, 4), weights(3), weights(3), sizes=N)
    yield one("instance_1d", "InstanceNormalization", f(2, 3, 9), weights(3), weights(3))
    yield one("instance_computed", "InstanceNormalization", f(2, 3, 9), f(3), f(3))
    yield one("mean_variance", "MeanVarianceNormalization", f(2, 3, 4, 4))
    yield one("mean_variance_axes", "MeanVarianceNormalization", f(2, 3, 4), axes=[1, 2])
    for p in (1, 2):
        yield one(f"lp_{p}", "LpNormalization", f(3, 5), p=p, axis=-1)
        yield one(f"lp_{p}_axis_0", "LpNormalization", f(3, 5), p=p, axis=0)
    yield one("lrn", "LRN", f(1, 7, 4, 4), size=3, alpha=0.01, beta=0.6, bias=1.5)
    var = np.abs(weights(3)) + f32(0.5)
    yield one("batch_norm", "BatchNormalization", f(2, 3, 4, 4), weights(3), weights(3), weights(3), var)
    yield one(
        "batch_norm_rank_2", "BatchNormalization", f("N", 3), weights(3), weights(3), weights(3), var, sizes=N
    )
    yield one(
        "batch_norm_computed", "BatchNormalization", f(2, 3, 4), f(3), f(3), f(3), f(3, low=0.5, high=2)
    )
    yield one("batch_norm_training", "BatchNormalization", f(4, 3, 4, 4), weights(3), weights(3), weights(3), var, outputs=3,
              training_mode=1)  # fmt: skip
    yield one("batch_norm_training_one_output", "BatchNormalization", f("N", 3, 4, 4), weights(3), weights(3), weights(3), var,
              training_mode=1, outputs=3, sizes=N)  # fmt: skip
    yield one("batch_norm_half", "BatchNormalization", f(2, 3, 4, dtype=np.float16), *[weights(3, dtype=np.float16)] * 3,
              var.astype(np.float16))  # fmt: skip
    yield one("dropout", "Dropout", f(3, 4), outputs=2)
    yield one("dropout_zero_training", "Dropout", f(3, 4), f32(0), np.array(True), outputs=2)
    yield one("dropout_training", "Dropout", f(3, 4), f32(0.5), np.array(True), random=True)
    yield one("dropout_mask_only", "Dropout", f("N", 4), outputs=2, sizes=N)
    yield one("dropout_7", "Dropout", f(3, 4), opset=9, ratio=0.3)
    yield one("dropout_input_mode", "Dropout", f(3, 4), f32(0.5), given(np.array(False)), outputs=1)
    # losses
    labels = i(4, high=5)
    for reduction in ("none", "mean", "sum"):
        yield one(
            f"cross_entropy_{reduction}", "SoftmaxCrossEntropyLoss", f(4, 5), labels, reduction=reduction
        )
        yield one(f"nll_{reduction}", "NegativeLogLikelihoodLoss", f(4, 5), labels, reduction=reduction)
    yield one(
        "cross_entropy_weights", "SoftmaxCrossEntropyLoss", f(4, 5), labels, np.abs(weights(5)) + f32(0.1)
    )
    yield one("cross_entropy_log_output", "SoftmaxCrossEntropyLoss", f(4, 5), labels, outputs=2)
    yield one(
        "cross_entropy_ignore", "SoftmaxCrossEntropyLoss", f(4, 5), labels, ignore_index=2, reduction="none"
    )
    yield one("cross_entropy_map", "SoftmaxCrossEntropyLoss", f("N", 5, 3, 3), i("N", 3, 3, high=5), sizes=N)
    yield one(
        "nll_map",
        "NegativeLogLikelihoodLoss",
        f(2, 5, 3),
        i(2, 3, high=5),
        np.abs(weights(5)),
        ignore_index=1,
    )
    # activations and others with bodies
    for op, opset, more in (
        ("Celu", 12, {"alpha": 0.7}), ("Mish", 18, {}), ("HardSwish", 14, {}), ("Gelu", 20, {}), ("Gelu", 20, {"approximate": "tanh"}),
        ("Shrink", 9, {"lambd": 0.5, "bias": 0.2}), ("ThresholdedRelu", 10, {"alpha": 0.3}), ("Softsign", 7, {}), ("Selu", 6, {}),
        ("Swish", 24, {}), ("Swish", 24, {"alpha": 1.5}), ("Hardmax", 13, {"axis": 1}), ("Hardmax", 11, {"axis": 1}), ("LogSoftmax", 13, {"axis": 0}),
        ("Softmax", 11, {"axis": 1}), ("HardSigmoid", 6, {"alpha": 0.3, "beta": 0.4}), ("Elu", 6, {"alpha": 0.5}),
    ):  # fmt: skip
        text = "_".join([op.lower(), str(opset), *map(str, more.values())])
        yield one(text, op, f(2, 3, 4), opset=opset, **more)
    yield one("shrink_half", "Shrink", f(2, 5, dtype=np.float16), lambd=0.5)
    yield one("hardmax_dynamic", "Hardmax", f("N", 5), sizes=N)
    yield one("hardmax_last_int_tie", "Hardmax", given(f32([1, 3, 3, 0], [2, 2, 2, 2])), axis=-1)
    for op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd"):
        yield one(f"{op.lower()}", op, f(2, 3, 4, low=0.1, high=2), i64(1, -1), keepdims=0)
        yield one(f"{op.lower()}_all", op, f(2, 3, low=0.1, high=2))
    yield one("reduce_mean_no_axes_noop", "ReduceMean", f(2, 3), noop_with_empty_axes=1)
    yield one("reduce_sum_computed_axes", "ReduceSum", f(2, 3), given(i64([1])))
    yield one("reduce_mean_scalar", "ReduceMean", f(2, 3), keepdims=0)
    yield one("center_crop_pad", "CenterCropPad", f(6, 5), i64(4, 7))
    yield one("center_crop_pad_axes", "CenterCropPad", f(2, 6, 5), i64(3), axes=[1])
    yield one("center_crop_pad_dynamic", "CenterCropPad", f("N", 6, 5), i64(4, 8), axes=[1, 2], sizes=N)
    yield one("mean_of_three", "Mean", f(2, 3), f(3), f(2, 1))
