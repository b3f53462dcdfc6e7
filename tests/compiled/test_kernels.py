"""What kernels are for, by their names, types and nodes, as engines of TensorRT-RTX have them."""

from __future__ import annotations

import pytest

from onnxq.compiled.kernels import CONVERSIONS, Kernel, kernels_of
from onnxq.run.engine_log import EngineLayer, EngineTensor

OPERATORS = {
    "q": "QuantizeLinear", "dq": "DequantizeLinear", "conv": "Conv", "mm": "MatMul", "relu": "Relu",
    "cast": "Cast",
    "transpose": "Transpose", "norm": "LayerNormalization", "softmax": "Softmax", "pool": "GlobalAveragePool",
    "mean": "ReduceMean", "concat": "Concat",
}  # fmt: skip


def tensor(dtype: str, *shape: int, name: str = "t") -> EngineTensor:
    return EngineTensor(name, dtype, shape or (4, 8))


def layer(
    name: str,
    reads: list[EngineTensor],
    writes: list[EngineTensor],
    nodes: tuple[str, ...] = (),
    holds: list[EngineTensor] | None = None,
    kind: str = "kgen",
    precision: str | None = None,
) -> EngineLayer:
    full = f"__myl_{name}_myl0_1" if kind == "kgen" and not name.startswith("_") else name
    return EngineLayer(full, kind, precision, tuple(reads), tuple(holds or ()), tuple(writes), nodes, "")


def one(*layers: EngineLayer) -> Kernel:
    return kernels_of(layers, OPERATORS)[-1]


HALF, INT8, FLOAT = tensor("fp16"), tensor("int8"), tensor("fp32")


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (layer("MulMinMaxRounCast", [FLOAT], [INT8], ("q",)), "quantize"),
        (layer("MulCast", [HALF], [tensor("fp8")], ("q",)), "quantize"),
        (layer("Dyna", [HALF], [tensor("fp4"), tensor("fp8", 4, 1)]), "quantize"),
        (layer("MulMinMaxRounCastReshTran", [HALF], [INT8], ("q", "transpose")), "quantize"),
        (layer("CastMulMinMaxRounCastConc", [HALF], [INT8], ("q", "conv", "dq")), "quantize"),
        (layer("CastMulMulMinMaxRounCast", [INT8], [INT8], ("dq", "q")), "quantize"),  # to another scale
        (layer("CastMul", [INT8], [HALF], ("dq",)), "dequantize"),
        (layer("Cast", [FLOAT], [HALF], ("cast",)), "cast"),
        (layer("Cast", [tensor("uint8")], [HALF], ("cast",)), "cast"),  # an image, of no scale
        (layer("Move", [INT8], [INT8]), "reformat"),
        (layer("Tran", [INT8], [INT8], ("dq",)), "reformat"),
        (layer("ReshTran", [INT8], [INT8], ("transpose",)), "copy"),
        (layer("Conc", [HALF, HALF], [HALF], ("concat",)), "copy"),
        (layer("CastMulCast", [], [HALF], ("dq",), [INT8]), "weights"),
        (layer("Repl", [], [HALF]), "other"),  # fills memory
        (layer("MulAddReluMulMinMaxRounCast", [FLOAT], [INT8], ("conv", "relu", "q")), "pointwise"),
        (layer("CastMeanSubMulMeanAddSqrtDivMul", [HALF], [HALF], ("norm", "q")), "normalization"),
        (layer("MaxrSubExpSumDivMul", [HALF], [HALF], ("softmax",)), "normalization"),
        (layer("Mean", [HALF], [HALF], ("pool",)), "pooling"),
        (layer("TranMean", [HALF], [HALF], ("mean",)), "reduction"),
        (layer("x", [INT8], [INT8], ("dq",), kind="maxpool"), "pooling"),
        (layer("x", [], [], kind="wait"), "wait"),
        (layer("x", [], [], kind="signal"), "wait"),
        (layer("x", [], [tensor("int64", 1)], kind="memset"), "other"),
        (layer("Reformatting CopyNode", [FLOAT], [INT8], kind="Reformat"), "quantize"),
        (layer("Reformatting CopyNode", [HALF], [HALF], kind="Reformat"), "reformat"),
        (layer("c", [INT8], [HALF], ("conv",), kind="CaskDeconvolutionV2"), "deconvolution"),
        (layer("c", [INT8], [HALF], ("conv",), kind="CaskGemmConvolution"), "convolution"),
        (layer("c", [HALF], [HALF], ("relu",), kind="PointWiseV2"), "pointwise"),
        (layer("c", [HALF], [HALF], ("softmax",), kind="Myelin"), "normalization"),
        (layer("_gemm_mha_v2_myl0_5", [HALF] * 3, [HALF], ("mm", "softmax")), "attention"),
        (layer("FcAdd", [HALF], [HALF], ("mm",), [tensor("fp16", 8, 8)]), "matmul"),
        (layer("CorrMulAddRelu", [HALF], [HALF], ("conv",)), "convolution"),
        (layer("ReshMulSum", [HALF], [tensor("fp16", 1, 8)], ("mm",), [tensor("fp16", 4, 8)]), "matmul"),
    ],
    ids=lambda value: value.name if isinstance(value, EngineLayer) else value,
)
def test_what_a_kernel_is_for(found: EngineLayer, kind: str) -> None:
    kernel = one(found)
    assert kernel.kind == kind
    assert kernel.is_conversion == (kind in CONVERSIONS)


def test_what_only_scales_a_product_of_codes() -> None:
    made = tensor("fp32", name="made")
    product = layer("p", [INT8], [made], ("mm", "dq"), kind="gemm", precision="int8")
    scaled = layer("MulMulMinMaxRounCast", [made], [INT8], ("mm", "dq", "q"))
    assert one(product, scaled).kind == "rescale"
    assert one(product, layer("MulMinMaxRounCast", [made], [INT8], ("q",))).kind == "quantize"
    floats = layer("p", [HALF], [made], ("mm",), kind="gemm", precision="fp16")
    assert one(floats, layer("Mul", [made], [HALF], ("mm",))).kind != "rescale"


def test_kernels_without_the_model() -> None:
    """Names and types tell most; what runs nodes that nobody knows is not called a conversion."""
    (quantize, moves, unknown) = kernels_of(
        [
            layer("MulMinMaxRounCast", [FLOAT], [INT8], ("n",)),
            layer("Move", [HALF], [HALF]),
            layer("MulDiv", [HALF], [HALF], ("n",)),
        ]
    )
    assert (quantize.kind, moves.kind, unknown.kind) == ("quantize", "reformat", "pointwise")


def test_bytes_and_multiply_accumulates() -> None:
    inputs, held = [tensor("int8", 1, 16, 8, 8)], [tensor("int4", 32, 4, 3, 3), tensor("fp32", 1, 32, 1, 1)]
    found = one(layer("c", inputs, [tensor("fp16", 1, 32, 8, 8)], ("conv",), held, kind="correlation"))
    assert (found.bytes_read, found.bytes_written, found.bytes_weights) == (1024, 4096, 576 + 128)
    assert (found.macs, found.moved) == (32 * 64 * 36, 5120)
    heads = [
        tensor("fp16", 4, 64, 32),
        tensor("fp16", 4, 32, 48),
        tensor("fp16", 64, 48),
        tensor("fp16", 4, 48, 16),
    ]
    mha = one(layer("_gemm_mha_v2_myl0_5", heads, [tensor("fp16", 4, 64, 16)]))
    assert mha.macs == 4 * 64 * 48 * (32 + 16)
    masked = one(layer("_gemm_mha_v2_myl0_5", [heads[2], *heads[:2], heads[3]], [tensor("fp16", 4, 64, 16)]))
    assert masked.macs == mha.macs
    summed = one(
        layer(
            "ReshMulSum", [HALF], [tensor("fp16", 3, 8)], ("mm",), [tensor("fp16", 4, 8), tensor("fp16", 8)]
        )
    )
    assert summed.macs == 3 * 4 * 8


def test_an_unknown_type_costs_its_own_bytes_alone() -> None:
    found = one(layer("Move", [tensor("unknown: FP6", 8)], [tensor("fp16", 8)]))
    assert (found.bytes_read, found.bytes_written) == (0, 16)


def test_what_is_empty_takes_nothing() -> None:
    """Windows that are larger than their map leave tensors without values."""
    empty = tensor("fp16", 1, 32, 0, 0)
    held = [tensor("fp16", 32, 16, 3, 3)]
    found = one(layer("c", [tensor("fp16", 1, 16, 1, 1)], [empty], ("conv",), held, kind="correlation"))
    assert (found.macs, found.bytes_written) == (0, 0)
    summed = layer("MulSum", [empty], [tensor("fp16", 4)], ("mm",), [tensor("fp16", 4, 8, 0)])
    assert one(summed).macs == 0


def test_weights_that_two_kernels_make() -> None:
    """What reads nothing but weights that were made makes weights too."""
    codes = tensor("fp8", name="codes")
    kinds = [
        kernel.kind
        for kernel in kernels_of(
            [
                layer("Dyna", [], [codes], (), [HALF]),
                layer("TranCastMul", [codes], [HALF], ("dq",)),
                layer("CastMul", [tensor("fp8", name="x")], [HALF], ("dq",)),
            ],
            OPERATORS,
        )
    ]
    assert kinds == ["weights", "weights", "dequantize"]
