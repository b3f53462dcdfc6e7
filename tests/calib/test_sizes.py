"""Samples of several sizes in one calibration: rows by each sample's own size, the same bits in any order."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from said import is_said
from stats_tools import activations, brute_counts, content, counted, file_of

from onnxq.base.errors import UserError
from onnxq.calib.collect import Counting, Request, Watch, collect
from onnxq.calib.histogram import Histogram
from onnxq.calib.probes import Rows, rows_of
from onnxq.calib.stats import Stats, TensorStats, merge
from onnxq.calib.stats_file import read, write
from onnxq.data.samples import Sample

NET = """<ir_version: 8, opset_import: ["" : OPSET]>
    net (float[1, 3, H, W] x) => (float[1, 6, I, J] y, float[1, 6] p) {
        [first] c = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
        [second] y = Relu (c)
        [third] m = ReduceMean <axes = [2, 3], keepdims = 0> (y)
        [last] p = Neg (m) }"""
TENSORS = ["x", "c", "y", "p"]
SIZES = ((20, 28), (64, 48), (33, 90), (64, 48), (20, 28), (20, 28), (33, 90), (12, 300))
SAMPLED = 600  # values of a tensor


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxq.calib.probes.SAMPLED", SAMPLED)


def net(opset: int = 17) -> onnx.ModelProto:
    model = parser.parse_model(NET.replace("OPSET", str(opset)))
    w = np.random.default_rng(0).standard_normal((6, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return model


def samples(sizes=SIZES) -> list[Sample]:
    rng = np.random.default_rng(1)
    feeds = [
        (rng.standard_normal((1, 3, *size)) * (i + 1)).astype(np.float32) for i, size in enumerate(sizes)
    ]
    return [Sample(i, f"calib/{i}.npy", {"x": x}) for i, x in enumerate(feeds)]


def taken(given: list[Sample], counting: Counting = "sampled", model: onnx.ModelProto | None = None) -> Stats:
    """Statistics of these samples, among the eight of all shards."""
    request = Request(TENSORS, counting, {"y": 1}, samples=len(SIZES), first=samples()[0])
    return collect(net() if model is None else model, request, given)


def weighted(values: list[np.ndarray]) -> tuple[int, Counter[int], int]:
    """By brute force: the least step, how often each bin counts, the sum of the squares of the weights."""
    rows = [rows_of(v.shape, len(SIZES)) for v in values]
    least = min(one.step for one in rows)
    bins: Counter[int] = Counter()
    squares = 0
    for index, (v, one) in enumerate(zip(values, rows, strict=True)):
        cut = [slice(None)] * v.ndim
        cut[one.axis] = slice(Rows.start(one.step, index), None, one.step)
        found = brute_counts(v[tuple(cut)])
        weight = one.step // least
        bins.update({code: count * weight for code, count in found.items()})
        squares += sum(found.values()) * weight**2
    return least, bins, squares


@pytest.mark.parametrize("opset", [10, 12, 13, 17])
def test_rows_are_counted_by_the_size_of_each_sample(opset: int) -> None:
    model = net(opset)
    found = taken(samples(), model=model)
    steps = set()
    for name, values in activations(model, TENSORS, samples()).items():
        entry = found.tensors[name]
        assert entry.histogram is not None
        least, bins, squares = weighted(values)
        assert entry.step == least
        assert counted(entry.histogram) == dict(bins)
        assert (entry.spread or entry.histogram.total) == squares
        assert entry.counted == entry.histogram.total**2 // squares
        assert entry.lows.tolist() == [v.min() for v in values]
        assert entry.highs.tolist() == [v.max() for v in values]
        assert entry.size == sum(v.size for v in values)
        steps |= {rows_of(v.shape, len(SIZES)).step for v in values}
    assert len(steps) >= 4  # the samples do differ


def test_all_values_where_all_are_asked_for() -> None:
    found = taken(samples(), "exact")
    for name, values in activations(net(), TENSORS, samples()).items():
        entry = found.tensors[name]
        assert entry.histogram is not None
        assert counted(entry.histogram) == brute_counts(np.concatenate([v.ravel() for v in values]))
        assert (entry.step, entry.spread, entry.sampling_error) == (1, None, 0)


@pytest.mark.parametrize("counting", ["none", "sampled", "exact"])
def test_any_order_and_any_shards_are_the_same_bits(counting: Counting) -> None:
    given = samples()
    whole = content(taken(given, counting))
    assert content(taken(given[::-1], counting)) == whole
    for owners in ("01201201", "00111111", "01111110", "01234567"):
        shards = [[s for s, o in zip(given, owners, strict=True) if o == n] for n in sorted(set(owners))]
        parts = [taken(shard, counting) for shard in shards]
        assert content(merge(parts[::-1])) == whole
        assert content(merge([merge(parts[:2]), *parts[2:]])) == whole


def test_sums_of_large_tensors_do_not_depend_on_the_first_sample() -> None:
    """A tensor is summed by lines where it is large in the sample, whatever came before."""
    given = samples(((20, 28), (1024, 700), (20, 28)))
    whole = taken(given)
    assert content(merge([taken([s]) for s in given])) == content(whole)
    values = np.concatenate([s.feeds["x"].ravel() for s in given]).astype(np.float64)
    total, squares = whole.tensors["x"].total, whole.tensors["x"].squares
    assert total is not None
    assert squares is not None
    assert abs(total / 2**149 - values.sum()) <= 2e-6 * np.abs(values).sum()
    assert abs(squares / 2**149 - np.square(values).sum()) <= 2e-6 * np.square(values).sum()


def test_a_share_of_values_is_estimated_without_bias() -> None:
    """Small samples, of which more rows are counted, have no more say than their values have."""
    small = [np.zeros((1, 3, 8, 8), np.float32)] * 4
    large = [np.ones((1, 3, 32, 32), np.float32)] * 4
    given = [Sample(i, str(i), {"x": x}) for i, x in enumerate([*small, *large])]
    entry = collect(net(), Request(["x"], "sampled", samples=8), given).tensors["x"]
    assert entry.histogram is not None
    share = Fraction(entry.histogram.zeros, entry.histogram.total)
    assert share == Fraction(8**2, 8**2 + 32**2)
    assert 0 < entry.sampling_error < 1


def test_the_first_size_alone_is_counted_as_ever() -> None:
    given = [s for s in samples() if s.feeds["x"].shape[2:] == SIZES[0]]
    entry = taken(given).tensors["x"]
    assert entry.step == rows_of((1, 3, *SIZES[0]), len(SIZES)).step
    assert entry.spread is None


def test_the_file_holds_it(tmp_path) -> None:
    stats = taken(samples())
    write(file_of(stats), tmp_path / "s.npz")
    assert content(read(tmp_path / "s.npz").stats) == content(stats)
    assert stats.tensors["x"].spread is not None


def test_sizes_that_depend_on_values() -> None:
    """The inputs are of one size, what is computed of them is not."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[M] y) <float zero = {0.0}> {
            more = Greater (x, zero)  y = Compress <axis = 0> (x, more) }"""
    )
    rng = np.random.default_rng(0)
    given = [
        Sample(i, str(i), {"x": (rng.standard_normal(4096) + shift).astype(np.float32)})
        for i, shift in enumerate((-3, 3, 0, -9, 3, -3))
    ]
    request = Request(["y"], "sampled", samples=6, first=given[0])
    whole = collect(model, request, given)
    assert content(collect(model, request, given[::-1])) == content(whole)
    assert content(merge([collect(model, request, [s]) for s in given])) == content(whole)
    assert whole.tensors["y"].spread is not None


def test_a_model_that_takes_one_size_only() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 3, H, W] x) => (float[1, 2] y) { f = Flatten (x)  [head] y = MatMul (f, w) }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3 * 8 * 8, 2), np.float32), "w"))
    given = samples(((8, 8), (9, 8), (8, 8)))
    with pytest.raises(UserError, match=r"does not run on calib/1\.npy") as caught:
        collect(model, Request(["f"], "sampled", samples=3), given)
    assert is_said(caught.value.hint, "sample-at-fault.others", first="x 1x3x8x8", these="x 1x3x9x8")
    skipped: list[int] = []
    watch = Watch(skip=lambda sample, error: skipped.append(sample.index))
    assert collect(model, Request(["f"], "sampled", samples=3), given, watch=watch).indices.tolist() == [0, 2]
    assert skipped == [1]


def test_counts_of_nothing() -> None:
    ends = np.zeros(1, np.float32)
    empty, one = (TensorStats(ends, ends, 0, 0, 0, step, Histogram()) for step in (8, 2))
    full = TensorStats(ends, ends, 3, 0, 0, 4, Histogram(3))
    parts = [Stats({"t": entry}, np.array([i])) for i, entry in enumerate((empty, one, full))]
    for order in (parts, parts[::-1], [parts[1], parts[2], parts[0]]):
        entry = merge(order).tensors["t"]
        assert entry.histogram is not None
        assert (entry.step, entry.histogram.total, entry.spread) == (4, 3, None)
