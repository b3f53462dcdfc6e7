"""Statistics: sums that are exact, merges that give the same bits, refusals to merge."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_tools import content, counted

from onnxq.base.errors import UserError
from onnxq.calib.histogram import Histogram, HistogramCounter
from onnxq.calib.stats import ChannelStats, Stats, TensorStats, add_exact, exact, merge

FLOATS = st.floats(width=32)


def total_of(values: list[float]) -> int | None:
    total: list[int | None] = [0]
    for value in values:
        total = add_exact(total, exact(np.array([value], np.float32)))
    return total[0]


@given(values=st.lists(FLOATS, max_size=20), data=st.data())
def test_sums_are_exact(values: list[float], data: st.DataObject) -> None:
    total = total_of(values)
    assert total == total_of(data.draw(st.permutations(values)))
    if all(map(math.isfinite, values)):
        assert total is not None
        assert Fraction(total, 2**149) == sum(map(Fraction, values), Fraction(0))
    else:
        assert total is None


def stats_of(values: np.ndarray, index: int, step: int = 1, channels: bool = True) -> TensorStats:
    """Statistics of one sample, by numpy."""
    counter = HistogramCounter(64)
    counter.add(values[::step])
    total, squares = exact(np.array([values.sum(), np.square(values).sum()], np.float32))
    if not values.size:
        ends = np.array([np.inf, -np.inf], np.float32)
        return TensorStats(ends[:1], ends[1:], 0, 0, 0, step, counter.histogram())
    known = ChannelStats(1, values.min(0), values.max(0), tuple(exact(values.sum(0))), len(values))
    return TensorStats(
        np.array([values.min()]), np.array([values.max()]), values.size, total, squares, step,
        counter.histogram(), known if channels else None,
    )  # fmt: skip


def singles(count: int, seed: int = 0) -> list[Stats]:
    """Statistics of samples of a tensor with channels; some have no values, one overflows."""
    rng = np.random.default_rng(seed)
    parts = []
    for index in range(count):
        rows = int(rng.integers(0, 4))
        values = rng.standard_normal((rows, 3)).astype(np.float32) * np.float32(10.0 ** rng.integers(-3, 4))
        other = np.full((2, 3), 3e38 if index == 2 else index, np.float32)
        with np.errstate(over="ignore"):
            tensors = {"a": stats_of(values, index), "b": stats_of(other, index, channels=False)}
        parts.append(Stats(tensors, np.array([3 * index + 1], np.int64), 0.5))
    return parts


def test_of_all_samples() -> None:
    merged = merge(reversed(singles(9)))
    assert merged.indices.tolist() == [1 + 3 * i for i in range(9)]
    assert (merged.samples, merged.seconds) == (9, 4.5)
    a, b = merged.tensors["a"], merged.tensors["b"]
    assert b.lows.tolist() == [0, 1, float(np.float32(3e38)), 3, 4, 5, 6, 7, 8]
    assert (b.min, b.max, b.amax, b.size, b.total, b.mean, b.variance) == (
        0, b.lows[2], b.lows[2], 54, None, None, None,
    )  # fmt: skip
    assert a.channels is not None
    assert a.channels.count * 3 == a.size == sum(part.tensors["a"].size for part in singles(9))
    assert a.histogram is not None
    assert a.histogram.total == a.size


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 9), seed=st.integers(0, 5), data=st.data())
def test_any_partition_in_any_order(count: int, seed: int, data: st.DataObject) -> None:
    whole = content(merge(singles(count, seed)))
    waiting = data.draw(st.permutations(singles(count, seed)))
    while len(waiting) > 1:
        size = data.draw(st.integers(2, len(waiting)))
        waiting = data.draw(st.permutations([merge(waiting[:size]), *waiting[size:]]))
    assert content(waiting[0]) == whole


def test_moments() -> None:
    values = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32) + 2
    parts = [Stats({"a": stats_of(v, i)}, np.array([i])) for i, v in enumerate(np.split(values, 8))]
    found = merge(parts).tensors["a"]
    wide = values.astype(np.float64)
    assert found.mean == pytest.approx(wide.mean(), rel=1e-6)
    assert found.variance == pytest.approx(wide.var(), rel=1e-5)
    assert found.channels is not None
    np.testing.assert_allclose(found.channels.mean, wide.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(found.channels.low, values.min(0))
    np.testing.assert_array_equal(found.channels.high, values.max(0))
    np.testing.assert_array_equal(found.channels.amax, np.abs(values).max(0))


def test_a_constant_has_no_variance() -> None:
    values = np.full((7, 3), 0.1, np.float32)
    assert stats_of(values, 0).variance == pytest.approx(0, abs=1e-8)
    entry = stats_of(values, 0)
    assert replace(entry, squares=0).variance == 0.0


def test_ends_of_samples() -> None:
    lows, highs = np.array([-9, np.inf, 1, 2], np.float32), np.array([2, -np.inf, 1, 5], np.float32)
    entry = TensorStats(lows, highs, 4, 0, 0)
    assert (entry.min, entry.max, entry.amax) == (-9, 5, 9)
    assert entry.amaxes.tolist() == [9, 1, 5]
    assert entry.amaxes.dtype == np.float32


@pytest.mark.parametrize(("size", "error"), [(100, 0.0), (400, math.sqrt(0.75 / 100)), (10**9, 0.1)])
def test_sampling_error(size: int, error: float) -> None:
    empty = np.zeros(1, np.float32)
    entry = TensorStats(empty, empty, size, 0, 0, 4, Histogram(40, 9, np.array([60])))
    assert entry.sampling_error == pytest.approx(error, rel=1e-6)
    assert replace(entry, histogram=None).sampling_error == 0.0


class TestRefusals:
    def test_a_sample_in_two_parts(self) -> None:
        parts = singles(5)
        with pytest.raises(
            UserError, match=r"sample 4 is in two of the statistics \(2 samples are\)"
        ) as caught:
            merge([merge(parts[:3]), merge(parts[1:])])
        assert "--shard" in caught.value.hint

    def test_other_tensors(self) -> None:
        one, two, *_ = singles(2)
        less = replace(two, tensors={"a": two.tensors["a"]})
        for pair in ([one, less], [less, one]):
            with pytest.raises(UserError, match="different tensors: 'b' is in one"):
                merge(pair)

    @pytest.mark.parametrize("change", [{"histogram": None}, {"channels": None}])
    def test_other_rows(self, change) -> None:
        parts = [Stats({"a": stats_of(np.ones((2, 3), np.float32), i)}, np.array([i])) for i in range(3)]
        parts[2] = replace(parts[2], tensors={"a": replace(parts[2].tensors["a"], **change)})
        empty = Stats({"a": stats_of(np.ones((0, 3), np.float32), 9)}, np.array([9]))
        for some in (parts, parts[::-1], [empty, *parts]):
            with pytest.raises(UserError, match="tensor 'a' was counted otherwise"):
                merge(some)

    def test_other_channels(self) -> None:
        parts = [Stats({"a": stats_of(np.ones((2, n), np.float32), n)}, np.array([n])) for n in (3, 4)]
        with pytest.raises(UserError, match="3 channels in one sample and 4 in another"):
            merge(parts)

    def test_no_values(self) -> None:
        none = Stats({"a": stats_of(np.ones((0, 3), np.float32), 0)}, np.arange(1))
        assert none.without_values(["a", "z"]) == ("a",)
        some = Stats({"a": stats_of(np.ones((1, 3), np.float32), 1)}, np.arange(1, 2))
        assert not merge([none, some]).without_values(["a"])


def test_parts_are_left_as_they_were() -> None:
    parts = singles(4)
    merge(parts)
    for part, fresh in zip(parts, singles(4), strict=True):
        assert content(part) == content(fresh)
    one, other = (part.tensors["b"].histogram for part in parts[:2])
    assert one is not None
    assert other is not None
    assert counted(one) == {0: 6}
