"""What is said of two engines of made-up kernels: what each is made of, and layers."""

from __future__ import annotations

import itertools

import pytest

from onnxq.compiled.kernels import Kernel, tensor_bytes
from onnxq.compiled.traffic import merged
from onnxq.compiled.verdict import judge
from onnxq.run.engine_log import EngineTensor


def tensor(name: str, size: int, dtype: str = "int8") -> EngineTensor:
    return EngineTensor(name, dtype, (1, size))


def kernel(
    name: str,
    reads: list[EngineTensor],
    writes: list[EngineTensor],
    *,
    macs: int = 0,
    precision: str = "fp16",
    weights: int = 0,
    nodes: tuple[str, ...] = (),
    operations: tuple[str, ...] = (),
) -> Kernel:
    constants = (tensor("", weights),) if weights else ()
    return Kernel(
        name=name,
        kind="convolution" if macs else "quantize" if name.startswith("quantize") else "pointwise",
        compiler_kind="correlation" if macs else "kgen",
        operations=operations,
        precision=precision,
        nodes=nodes,
        inputs=tuple(reads),
        constants=constants,
        outputs=tuple(writes),
        macs=macs,
        bytes_read=sum(map(tensor_bytes, reads)),
        bytes_written=sum(map(tensor_bytes, writes)),
        bytes_weights=weights,
    )


# --- merged ---------------------------------------------------------------------------------------


def test_what_follows_a_product_is_done_at_its_end() -> None:
    x, y = tensor("x", 64), EngineTensor("y", "fp32", (1, 64))
    product = kernel("conv", [x], [y], macs=4096, precision="int8", weights=64, nodes=("conv",))
    rest = kernel(
        "rest", [y, tensor("r", 64)], [tensor("z", 64)], nodes=("relu",), operations=("Mul", "Relu")
    )
    (one,) = merged([product, rest])
    assert [t.name for t in one.inputs] == ["x", "r"]
    assert [t.name for t in one.outputs] == ["z"]
    assert (one.moved, one.macs, one.precision, one.nodes) == (192, 4096, "int8", ("conv", "relu"))


@pytest.mark.parametrize("why", ["read twice", "another size", "a pool"])
def test_what_does_not_follow_stays_and_the_product_is_half(why: str) -> None:
    y = EngineTensor("y", "fp32", (1, 64))
    product = kernel("conv", [tensor("x", 64)], [y], macs=4096, precision="int8")
    out = tensor("z", 16 if why == "another size" else 64)
    rest = [kernel("rest", [y], [out], operations=("Mul", "Pool") if why == "a pool" else ("Mul",))]
    if why == "read twice":
        rest.append(kernel("more", [y], [tensor("w", 64)], operations=("Mul",)))
    found = merged([product, *rest])
    assert [one.name for one in found] == ["conv", *(one.name for one in rest)]
    assert found[0].bytes_written == 128
    assert found[1].bytes_read == 128


# --- verdicts -------------------------------------------------------------------------------------


def engines(macs: int, quantizing: int) -> tuple[list[Kernel], list[Kernel]]:
    """One product in float16, and the same in int8 behind so many quantize kernels."""
    x, y = EngineTensor("x", "fp16", (1, 10**6)), EngineTensor("y", "fp16", (1, 10**6))
    half = [kernel("conv", [x], [y], macs=macs, weights=2000, nodes=("conv",))]
    given = [x, *(tensor(f"q{place}", 10**6) for place in range(quantizing))]
    codes = [
        kernel(f"quantize{place}", [one], [other], precision="int8")
        for place, (one, other) in enumerate(itertools.pairwise(given))
    ]
    last = given[-1] if codes else tensor("q", 10**6)
    product = kernel("conv", [last], [y], macs=macs, precision="int8", weights=1000, nodes=("conv",))
    return half, [*codes, product]


def test_conversions_count_with_the_layer_that_reads_them() -> None:
    good = judge(*engines(10**12, 0), "merged", layers=["conv"], nodes=["conv"])
    assert good.merged is not None
    assert (good.reason, good.kind, good.schema) == ("", "verdict", 2)
    assert good.merged.fp16.macs == {"fp16": 10**12}
    assert good.merged.int8.macs == {"int8": 10**12}
    (layer,) = good.layers
    assert (layer.fp16_mb, layer.int8_mb) == (pytest.approx(4.002), pytest.approx(3.001))
    bad = judge(*engines(10**8, 80), "merged", layers=["conv"], nodes=["conv"])
    assert bad.merged is not None
    assert (bad.merged.int8.kernels, bad.merged.int8.conversions) == (81, 80)
    (layer,) = bad.layers
    assert (layer.layers, layer.kernels_fp16, layer.kernels_int8) == (("conv",), 1, 81)
    whole = bad.merged.int8
    assert layer.int8_mb == pytest.approx(whole.moved_mb + whole.weights_mb)


def test_layers_that_move_most_more_come_first() -> None:
    a, b, c = (EngineTensor(name, "fp16", (1, 1000)) for name in "abc")
    wide = EngineTensor("b", "fp32", (1, 1000))
    half = [kernel("one", [a], [b], macs=5, nodes=("one",)), kernel("two", [b], [c], macs=5, nodes=("two",))]
    codes = [
        kernel("one", [tensor("a", 1000)], [wide], macs=5, precision="int8", nodes=("one",)),
        kernel("two", [wide], [c], macs=5, precision="int8", nodes=("two",)),
    ]
    found = judge(half, codes, "built", layers=["one", "two"], nodes=["one", "two"]).layers
    assert [(one.layers[0], round(1e3 * (one.int8_mb - one.fp16_mb))) for one in found] == [
        ("two", 2), ("one", 1),
    ]  # fmt: skip


def test_layers_that_share_a_kernel_in_one_engine_are_judged_together() -> None:
    a, b, c = (EngineTensor(name, "fp16", (1, 1000)) for name in "abc")
    half = [kernel("k", [a], [c], macs=10, nodes=("one", "two"))]
    codes = [
        kernel("k1", [a], [b], macs=5, precision="int8", nodes=("one",)),
        kernel("k2", [b], [c], macs=5, precision="int8", nodes=("two",)),
    ]
    (both,) = judge(half, codes, "built", layers=["one", "two"], nodes=["one", "two"]).layers
    assert (both.layers, both.kernels_fp16, both.kernels_int8) == (("one", "two"), 1, 2)
