"""What is said of two engines: times of made-up kernels, ratios, ranges, and layers."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxq.base.errors import UserError
from onnxq.compiled.gpus import Gpu, gpus, gpus_named, read_gpus
from onnxq.compiled.kernels import Kernel, tensor_bytes
from onnxq.compiled.merged import merged
from onnxq.compiled.roofline import Constants, work_of
from onnxq.compiled.verdict import CONSTANTS, Form, judge
from onnxq.run.engine_log import EngineTensor

GPU = Gpu("g", "G", 89, fp16_tops=100.0, int8_tops=200.0, bandwidth_gbs=100.0, cache_mb=1.0, sources=())
PLAIN = Constants(start_us=2.0, memory=0.5, cache=4.0, fp16=0.5, int8=0.25)
MB = 2**20


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


# --- GPUs -----------------------------------------------------------------------------------------


def test_every_gpu_is_plausible_and_has_its_sources() -> None:
    assert {"t4", "a10", "l4", "rtx-4090", "agx-orin", "orin-nano"} <= {gpu.name for gpu in gpus()}
    for gpu in gpus():
        assert gpu.int8_tops == pytest.approx(2 * gpu.fp16_tops), gpu
        assert gpu.sources, gpu
        assert all(url.startswith("https://") for url in gpu.sources), gpu
        assert 50 < gpu.bandwidth_gbs < 10000, gpu
        assert 0 < gpu.cache_mb < 200, gpu


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text("[a\n")
    with pytest.raises(UserError, match="not TOML"):
        read_gpus(tmp_path / "g.toml")


# --- times ----------------------------------------------------------------------------------------


def seconds(kernels: list[Kernel], gpu: Gpu = GPU, constants: Constants = PLAIN) -> list[float]:
    return [work.seconds(gpu, constants) for work in work_of(kernels, gpu.cache_mb)]


def test_a_kernel_takes_its_start_and_the_longer_of_its_bytes_and_its_products() -> None:
    x, y = tensor("x", 30 * MB), tensor("y", 20 * MB)  # nothing of it stays in the cache
    moving = 50 * MB / (100e9 * 0.5)
    assert seconds([kernel("a", [x], [y])]) == [pytest.approx(2e-6 + moving, rel=1e-12)]
    for precision, rate in (("fp16", 50e12), ("int8", 50e12), ("fp32", 25e12)):
        (found,) = seconds([kernel("a", [x], [y], macs=10**12, precision=precision)])
        assert found == pytest.approx(2e-6 + 2e12 / rate, rel=1e-12), precision


def test_what_the_cache_holds_is_faster_on_both_sides() -> None:
    small = [
        kernel("a", [tensor("x", 100_000)], [tensor("y", 100_000)]),
        kernel("b", [tensor("y", 100_000)], [tensor("z", 100_000)]),
    ]
    (first, second) = work_of(small, 1.0)
    assert (first.memory, first.cached) == (0, 200_000)  # x: it was there the last time
    assert (second.memory, second.cached) == (100_000, 100_000)  # nobody reads z
    large = [
        kernel("a", [tensor("x", 100_000)], [tensor("y", 100_000)]),
        kernel("b", [tensor("w", 3 * MB)], [tensor("v", 3 * MB)]),
        kernel("c", [tensor("y", 100_000)], [tensor("z", 100_000)]),
    ]
    assert [work.cached for work in work_of(large, 1.0)] == [0, 0, 0]
    assert [work.cached for work in work_of(large, 64.0)] == [200_000, 3 * MB, 100_000]


def test_weights_stay_in_the_cache_where_the_whole_engine_fits() -> None:
    one = [kernel("a", [tensor("x", 1000)], [tensor("y", 1000)], weights=500_000)]
    assert work_of(one, 1.0)[0].cached == 501_000
    assert work_of(one, 0.25)[0].cached == 0.25 * MB - 2000  # what the last bytes of x and y have left of it


@given(
    sizes=st.lists(st.integers(1, 10**7), min_size=2, max_size=8),
    weights=st.integers(0, 10**7),
    macs=st.integers(0, 10**10),
)
def test_bytes_are_in_one_place_and_more_cache_is_never_slower(
    sizes: list[int], weights: int, macs: int
) -> None:
    tensors = [tensor(f"t{place}", size) for place, size in enumerate(sizes)]
    kernels = [
        kernel(f"k{place}", [one], [other], weights=weights, macs=macs)
        for place, (one, other) in enumerate(itertools.pairwise(tensors))
    ]
    before = math.inf
    for cache in (0.0, 0.5, 4.0, 1000.0):
        works = work_of(kernels, cache)
        for one, work in zip(kernels, works, strict=True):
            assert work.memory >= -1e-6
            assert work.cached >= 0
            assert work.memory + work.cached == pytest.approx(one.moved + one.bytes_weights)
        total = sum(work.seconds(GPU, PLAIN) for work in works)
        assert total <= before * (1 + 1e-12)
        before = total


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


def test_int8_is_faster_where_products_count_and_slower_where_conversions_do() -> None:
    good = judge(*engines(10**12, 0), "merged", layers=["conv"], nodes=["conv"])
    assert good.merged is not None
    assert good.built is not None
    assert (good.reason, good.kind, good.schema) == ("", "verdict", 1)
    assert 1.3 < good.merged.low <= good.merged.ratio <= good.merged.high <= 2.01
    assert good.merged.fp16.macs == {"fp16": 10**12}
    assert good.merged.int8.macs == {"int8": 10**12}
    bad = judge(*engines(10**8, 80), "merged", layers=["conv"], nodes=["conv"])
    assert bad.merged is not None
    assert bad.merged.high < 1
    assert (bad.merged.int8.kernels, bad.merged.int8.conversions) == (81, 80)
    (layer,) = bad.layers  # the conversions are counted with the layer that reads them
    assert (layer.layers, layer.kernels_fp16, layer.kernels_int8) == (("conv",), 1, 81)
    assert layer.share == pytest.approx(1)
    assert layer.ratio == pytest.approx(bad.merged.ratio)


def test_layers_that_share_a_kernel_in_one_engine_are_judged_together() -> None:
    a, b, c = (EngineTensor(name, "fp16", (1, 1000)) for name in "abc")
    half = [kernel("k", [a], [c], macs=10, nodes=("one", "two"))]
    codes = [
        kernel("k1", [a], [b], macs=5, precision="int8", nodes=("one",)),
        kernel("k2", [b], [c], macs=5, precision="int8", nodes=("two",)),
    ]
    (both,) = judge(half, codes, "built", layers=["one", "two"], nodes=["one", "two"]).layers
    assert (both.layers, both.kernels_fp16, both.kernels_int8) == (("one", "two"), 1, 2)


def test_each_gpu_has_its_own_ratio_and_the_whole_their_mean() -> None:
    fast = Gpu("f", "F", 89, 1.0, 2.0, 1e6, 1.0, ())  # bound by products
    slow = Gpu("s", "S", 89, 1e6, 2e6, 1.0, 0.0, ())  # bound by bytes
    x, y = EngineTensor("x", "fp16", (1, 10**6)), EngineTensor("y", "fp16", (1, 10**6))
    half = [kernel("c", [x], [y], macs=10**12)]
    codes = [kernel("c", [EngineTensor("q", "fp32", (1, 10**6))], [y], macs=10**12, precision="int8")]
    found = judge(half, codes, "built", over=[fast, slow]).built
    assert found is not None
    assert [one.gpu for one in found.gpus] == ["F", "S"]
    assert [one.ratio for one in found.gpus] == [found.high, found.low]
    assert found.high > 1 > found.low
    assert found.low == pytest.approx(4 / 6, rel=1e-3)  # 2 + 2 bytes an element against 4 + 2
    assert found.ratio == pytest.approx(math.sqrt(found.low * found.high))


def test_the_constants_are_possible() -> None:
    assert 0 < CONSTANTS.memory <= 1
    assert 0 < CONSTANTS.fp16 <= 1
    assert 0 < CONSTANTS.int8 <= 1
    assert CONSTANTS.cache >= 1
    assert 0 < CONSTANTS.start_us < 20


@pytest.mark.parametrize(
    ("form", "said"), [("merged", "no better than a constant"), ("built", "nothing checks")]
)
def test_it_says_how_far_the_estimate_may_be_trusted(form: Form, said: str) -> None:
    assert said in judge((), (), form).assumptions[-1]


def test_its_error_is_that_of_the_published_pairs() -> None:
    """As the table of the documentation has them, all networks weighing the same."""
    page = (Path(__file__).parents[2] / "docs" / "verdict.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(.*\| ([\d.]+) \| ([\d.]+) \|$", page.split("Not fitted:")[0], re.M)
    assert len(rows) == 53
    gain = np.log([float(row[1]) for row in rows])
    nets = np.array([row[0] for row in rows])
    weight = np.array([1 / (nets == net).sum() for net in nets])
    others = [np.average(gain[nets != net], weights=weight[nets != net]) for net in nets]
    found = [np.log([float(row[2]) for row in rows]), others]
    estimate, constant = (np.sqrt(np.average((one - gain) ** 2, weights=weight)) for one in found)
    assert constant < estimate
    for text in (page, judge((), (), "merged").assumptions[-1]):
        assert f"{estimate:.3f}" in text
        assert f"{constant:.3f}" in text


def test_one_gpu_may_be_asked_for() -> None:
    assert [gpu.name for gpu in gpus_named("l4")] == ["l4"]
    assert gpus_named(None) == gpus()
    with pytest.raises(UserError, match="no GPU 'l5'"):
        gpus_named("l5")
