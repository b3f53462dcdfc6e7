"""What an engine moves, of layers whose bytes can be counted by hand, and of an engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import parser

from onnxq.compiled.traffic import Traffic, traffic
from onnxq.run import trt
from onnxq.run.engine_log import EngineLayer, EngineTensor


def tensor(name: str, dtype: str, *shape: int) -> EngineTensor:
    return EngineTensor(name, dtype, shape)


def layer(
    name: str, kind: str, inputs: tuple[EngineTensor, ...], outputs: tuple[EngineTensor, ...]
) -> EngineLayer:
    weights = (tensor("w", "int8", 1000, 1000),)
    return EngineLayer(name, kind, None, inputs, weights, outputs, (), "")


X = tensor("x", "int8", 10, 100)
P = tensor("p", "fp32", 10, 100)
Y = tensor("y", "int8", 10, 100)
PRODUCT = layer("c_myl0_0", "correlation", (X,), (P,))
ACT = layer("__myl_MulAddReluQuan_myl0_1", "kgen", (P,), (Y,))


def test_bytes_without_weights_and_merged() -> None:
    found = traffic((PRODUCT, ACT))
    assert found == Traffic(0.010, 0.002, 2, 1, dynamic=False)  # 1 + 4 and 4 + 1 kB; 1 + 1


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("int4", 500),
        ("fp4", 500),
        ("bool", 1000),
        ("fp8", 1000),
        ("fp16", 2000),
        ("bf16", 2000),
        ("int64", 8000),
    ],
)
def test_sizes_of_types(dtype: str, size: int) -> None:
    found = traffic([layer("k", "kgen", (tensor("a", dtype, 10, 100),), ())])
    assert found.moved_mb == size / 1e6


def test_an_odd_number_of_half_bytes() -> None:
    assert traffic([layer("k", "kgen", (tensor("a", "int4", 3),), ())]).moved_mb == 2 / 1e6


@pytest.mark.parametrize(
    "second",
    [
        replace(ACT, name="__myl_MulAddConc_myl0_1"),
        replace(ACT, name="__myl_MulMaxPool_myl0_1"),
        replace(ACT, outputs=(tensor("y", "int8", 10, 50),)),
        replace(ACT, kind="gemm"),
        replace(ACT, inputs=(P, P)),
        replace(ACT, inputs=()),
    ],
)
def test_what_is_not_merged(second: EngineLayer) -> None:
    found = traffic((PRODUCT, second))
    assert (found.moved_mb, found.kernels) == (found.merged_mb, found.merged_kernels)


def test_a_product_with_two_readers_and_two_products_with_one() -> None:
    other = replace(ACT, name="__myl_Mul_myl0_2", outputs=(replace(Y, name="z"),))
    assert traffic((PRODUCT, ACT, other)).merged_kernels == 3
    second = replace(PRODUCT, name="d_myl0_1", outputs=(replace(P, name="q"),))
    both = replace(ACT, inputs=(P, replace(P, name="q")))
    found = traffic((PRODUCT, second, both))
    assert (found.merged_kernels, found.merged_mb) == (2, 0.015 + 0.004 - 0.008)  # one of them is written


def test_streams_that_wait_are_no_kernels_and_dynamic_sizes_count_as_one() -> None:
    found = traffic([layer("w", "wait", (), ()), layer("k", "kgen", (tensor("a", "fp16", -1, 5),), ())])
    assert found == Traffic(1e-5, 1e-5, 1, 1, dynamic=True)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_of_an_engine(tmp_path: Path) -> None:
    """One kernel for two operators, which reads 64 KiB and writes as much."""
    onnx.save(
        parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[128, 128] x) =>
            (float[128, 128] y) { a = Relu (x)  y = Neg (a) }"""),
        tmp_path / "m.onnx",
    )
    engine = trt.compile_engine(tmp_path / "m.onnx")
    assert traffic(engine.layers) == Traffic(0.131072, 0.131072, 1, 1, dynamic=False)
