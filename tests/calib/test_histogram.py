"""Histograms: every value is in the bin that its definition says, however it was counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from stats_tools import brute_counts, codes, counted

from onnxq.calib.histogram import Histogram, HistogramCounter, Scratch

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = hnp.arrays(np.float32, st.integers(0, 40), elements=FINITE)


def count(*parts: np.ndarray, block: int = 1 << 16) -> Histogram:
    counter = HistogramCounter(block)
    for part in parts:
        counter.add(part)
    return counter.histogram()


def same(one: Histogram, other: Histogram) -> bool:
    return (one.zeros, one.first, one.counts.dtype, one.counts.tolist()) == (
        other.zeros, other.first, other.counts.dtype, other.counts.tolist(),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(VALUES, min_size=1, max_size=6), block=st.sampled_from([1, 3, 16, 1 << 16]))
def test_each_value_is_in_its_bin(parts: list[np.ndarray], block: int) -> None:
    everything = np.concatenate(parts)
    found = count(*parts, block=block)
    assert counted(found) == brute_counts(everything)
    assert found.total == len(everything)
    if len(found.counts):
        assert found.counts[0] > 0 < found.counts[-1]


@settings(max_examples=60, deadline=None)
@given(values=VALUES)
def test_edges_enclose_the_values(values: np.ndarray) -> None:
    found = count(values)
    edges = found.edges
    for magnitude in np.abs(values.astype(np.float64)):
        place = int(np.searchsorted(edges, magnitude, side="right")) - 1
        if place < 0:
            assert magnitude < 2.0**-136 or not len(found.counts)
        else:
            assert found.counts[place] > 0
            assert edges[place] <= magnitude < edges[place + 1]
    np.testing.assert_array_equal(found.centers, (edges[:-1] + edges[1:]) / 2)


@pytest.mark.parametrize("block", [1000, 1 << 16])
def test_every_bin(block: int) -> None:
    """Its least value, from great to small ones and back."""
    values = (np.arange(255 * 1024, dtype=np.uint32) << 13).view(np.float32)
    for order in (values, values[::-1], np.concatenate([values[50_000:], values[:50_000]])):
        found = count(*np.array_split(order, 7), block=block)
        assert (found.zeros, found.first, len(found.counts)) == (1, 1, len(values) - 1)
        assert (found.counts == 1).all()
    np.testing.assert_array_equal(found.edges[:-1], values[1:])


@pytest.mark.parametrize("magnitude", [2.0**-126, 1e-20, 1.0, 1.5, 1.999, 3e38])
def test_a_bin_is_as_narrow_as_it_says(magnitude: float) -> None:
    low, high = count(np.array([-magnitude], np.float32)).edges
    assert low <= np.float32(magnitude) < high
    assert low / 2048 < high - low <= low / 1024


def test_the_ends_of_what_float32_can_hold() -> None:
    least, tiny = np.float32(2.0**-149), np.float32(2.0**-136)
    found = count(np.array([0.0, -0.0, least, -tiny, np.finfo(np.float32).max], np.float32))
    assert (found.zeros, found.first, found.total) == (3, 1, 5)
    assert len(found.counts) == codes(np.array([np.finfo(np.float32).max]))[0] == 255 * 1024 - 1
    assert np.flatnonzero(found.counts).tolist() == [0, len(found.counts) - 1]


@settings(max_examples=20, deadline=None)
@given(parts=st.lists(VALUES, min_size=2, max_size=5), data=st.data())
def test_merged_in_any_order(parts: list[np.ndarray], data: st.DataObject) -> None:
    whole = count(*parts)
    pieces = [count(part) for part in data.draw(st.permutations(parts))]
    before = [counted(piece) for piece in pieces]
    waiting = list(pieces)
    while len(waiting) > 1:
        one = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        other = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        waiting.append(one.merge(other))
    assert same(waiting[0], whole)
    assert [counted(piece) for piece in pieces] == before


def test_it_goes_on_after_it_was_asked() -> None:
    values = np.random.default_rng(0).standard_normal((5, 1000)).astype(np.float32)
    counter = HistogramCounter(256)
    for done, row in enumerate(values, 1):
        counter.add(row[:7])
        counter.add(row[7:])
        assert counted(counter.histogram()) == brute_counts(values[:done])
    kept = counter.histogram()
    counter.add(values)
    assert counted(kept) == brute_counts(values)


def test_counters_share_their_memory() -> None:
    values = np.random.default_rng(0).standard_normal((2, 4000)).astype(np.float32)
    scratch = Scratch(512)
    counters = [HistogramCounter(512, scratch) for _ in values]
    for start in range(0, 4000, 300):
        for counter, row in zip(counters, values, strict=True):
            counter.add(row[start : start + 300])
    for counter, row in zip(counters, values, strict=True):
        assert counted(counter.histogram()) == brute_counts(row)


def test_views_of_any_layout() -> None:
    values = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    assert counted(count(values[::2, ::-3])) == brute_counts(values[::2, ::-3])
    assert counted(count(np.float32(2.5))) == brute_counts(np.array([2.5]))


def test_room_is_for_what_is_there() -> None:
    """There may be 10,000 counters."""
    counter = HistogramCounter()
    counter.add(np.linspace(1.1, 15, 1000, dtype=np.float32))
    counter.histogram()
    assert counter._counts.nbytes == 4 * 1024 * 8
    counter.add(np.array([0.3, 70], np.float32))
    counter.histogram()
    assert counter._counts.nbytes == 9 * 1024 * 8


@pytest.mark.parametrize(("scale", "offset"), [(1.0, -3.0), (-1.0, 2.5), (0.25, 0.0), (1.0, 0.0), (0.0, 0.0)])
def test_scaled_and_shifted(scale: float, offset: float) -> None:
    """As counted of the values themselves, but for what the width of a bin moves over an edge."""
    values = np.abs(np.random.default_rng(0).standard_normal(20_000)).astype(np.float32) * 3
    values[:100] = 0
    drawn = count(values).affine(scale, offset)
    exact = count((values * np.float32(scale) + np.float32(offset)).astype(np.float32))
    assert drawn.total == exact.total == len(values)
    top = 12.0
    assert np.abs(drawn.coarse(top, 64) - exact.coarse(top, 64)).max() <= 60
    if scale == 1 and not offset:
        assert counted(drawn) == counted(exact)
