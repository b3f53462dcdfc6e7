"""Samples that verify do nothing else; those that choose calibrate as well, unless others did before."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onnxq.base.errors import UserError
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.sources import Source, open_source
from onnxq.data.split import CHOOSING, HELD_OUT, VERIFYING, Split, split

X = InputSpec("x", np.dtype(np.float32), ("N", 1))
KINDS = pytest.mark.parametrize("stream", [False, True])
CHOOSE = pytest.mark.parametrize("choose", [False, True])


def source(count: int, stream: bool = False, bad: Collection[int] = ()) -> Source:
    items = [{"x": np.full((1, 1), np.nan if i in bad else i, np.float32)} for i in range(count)]
    return open_source(iter(items) if stream else items, [X], skip_bad=bool(bad))


def indices(samples) -> list[int]:
    """Of samples, which are those that were given."""
    found: list[Sample] = list(samples)
    assert all(sample.feeds["x"] == sample.index for sample in found)
    return [sample.index for sample in found]


def parts_of(parts: Split, *, given: bool = False) -> tuple[list[int], list[int], list[int]]:
    """Those that calibrate and do not choose, those that choose, and those that verify.

    Those that choose calibrate as well, all or none of them; what verifies does nothing else.
    """
    calibrating = indices(parts.calibration())
    chosen, held = indices(parts.choice()), indices(parts.held_out())
    assert given or {*chosen} <= {*calibrating} or {*chosen}.isdisjoint(calibrating)
    assert {*held}.isdisjoint({*calibrating, *chosen}) != parts.shared
    assert len(calibrating) == len({*calibrating})
    return [i for i in calibrating if i not in chosen], chosen, held


def values_of(parts: Split) -> list[set[float]]:
    """The values of the samples that calibrate and no more, that choose, that confirm, and that verify."""
    apart = [*map(list, (parts.choice(), parts.confirmation(), parts.held_out()))]
    chosen = {sample.index for sample in apart[0]}
    apart.insert(0, [sample for sample in parts.calibration() if sample.index not in chosen])
    return [{float(sample.feeds["x"][0, 0]) for sample in part} for part in apart]


@KINDS
@CHOOSE
@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 9, 63, 64, 255, 700])
def test_three_parts(count: int, choose: bool, stream: bool) -> None:
    parts = split(source(count, stream), 512, 0, choose=choose)
    used, chosen, held = parts_of(parts)
    assert used
    assert held
    assert not parts.shared
    everything = used + chosen + held
    assert len(everything) == len(set(everything))
    assert not stream or len(everything) == min(count, 512 + len(held))
    if stream:
        last = max(used + chosen)  # it is read no further than needed
        end = count if len(used + chosen) < 512 else last + 1
        assert held == list(range(0, end, 8))[:HELD_OUT]
        assert chosen == (list(range(4, end, 8))[:CHOOSING] if choose else [])
    else:
        least = min(HELD_OUT, max(1, count // 8))
        assert len(chosen) == (min(CHOOSING, count // 4) if choose else 0)
        left = count - least - len(chosen) - len(used)
        assert len(held) == min(least + min(left, len(used)), VERIFYING)
        both = len(used) + len(chosen)  # they calibrate, where that is no more than are asked for
        assert parts.used == (both if both <= 512 else len(used))
    assert (parts.chosen_with, parts.held) == (len(chosen), len(held))


@KINDS
@pytest.mark.parametrize("samples", [512, 20])
@pytest.mark.parametrize("count", [1, 2, 4, 8, 15, 16, 20, 64, 255, 700, 1200])
def test_those_that_confirm_change_nothing_of_the_others(count: int, samples: int, stream: bool) -> None:
    """They do nothing else; where there are no idle ones, they are half of those that choose."""
    plain = parts_of(split(source(count, stream), samples, 0, choose=True))
    parts = split(source(count, stream), samples, 0, choose=True, confirm=True)
    used, chosen, held = parts_of(parts)
    assert (used, chosen) == plain[:2]
    least = min(HELD_OUT, max(1, count // 8))
    assert stream or (set(held) <= set(plain[2]) and len(held) >= least)
    proposing, confirming = indices(parts.proposal()), indices(parts.confirmation())
    assert parts.confirming == set(confirming)
    assert parts.proposing_with == len(proposing)
    assert set(confirming).isdisjoint({*used, *held, *proposing}) or count == 1
    if not stream and count - len({*used, *chosen}) - least >= max(2, least):
        assert len(confirming) == max(2, least)
        assert proposing == chosen
    else:
        assert sorted(proposing + confirming) == sorted(chosen)
        assert len(confirming) == (len(chosen) // 2 if len(chosen) >= 4 else 0)


@CHOOSE
def test_of_an_iterator_what_is_not_kept_calibrates(choose: bool) -> None:
    """Also of their places, after so many."""
    used, chosen, held = parts_of(split(source(1200, True), 10_000, 0, choose=choose))
    assert sorted(used + chosen + held) == list(range(1200))
    assert held == list(range(0, 512, 8))
    assert chosen == (list(range(4, 1024, 8)) if choose else [])


@pytest.mark.parametrize("count", [2, 9, 40, 600])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_order_of_the_data_changes_nothing(count: int, batch: int) -> None:
    """Who does what, and in which order they are read."""
    values = np.arange(count, dtype=np.float32)

    def parts(order: np.ndarray, seed: int = 0) -> list[list[list[float]]]:
        items = [{"x": np.full((1, 1), value)} for value in order]
        spec = InputSpec("x", np.dtype(np.float32), (batch if batch > 1 else "N", 1))
        found = split(open_source(items, [spec]), count // 2, seed, choose=True, confirm=True)
        each = (found.calibration(), found.choice(), found.proposal(), found.confirmation(), found.held_out())
        return [[sample.feeds["x"].ravel().tolist() for sample in part] for part in each]

    expected = parts(values)
    for seed in range(5):
        assert parts(np.random.default_rng(seed).permutation(values)) == expected
    assert count < 40 or parts(values, seed=1) != expected


def test_samples_of_the_same_content_are_in_one_part() -> None:
    items = [{"x": np.full((1, 1), index // 3, np.float32)} for index in range(60)]
    found = split(open_source(items, [X]), 20, 0, choose=True, confirm=True)
    held = values_of(found)
    assert all(held)
    assert sum(map(len, held)) == len(set.union(*held))


def test_samples_that_begin_alike_are_told_apart() -> None:
    """Of long samples only the first values are hashed, unless several have the same."""
    rows = np.zeros((9, 1, 1 << 15), np.float32)
    rows[:, 0, -1] = [0, 1, 2, 3, 4, 5, 6, 7, 7]
    spec = InputSpec("x", np.dtype(np.float32), ("N", 1 << 15))
    keys = open_source([{"x": row} for row in rows], [spec]).order.keys
    assert len(set(keys)) == 8
    assert keys[7] == keys[8]


def test_a_sample_more_leaves_the_others_in_their_order() -> None:
    few, more = source(30).order.shuffled(0), source(31).order.shuffled(0)
    assert [index for index in more if index < 30] == few


@KINDS
@CHOOSE
def test_one_sample_does_all(choose: bool, stream: bool) -> None:
    parts = split(source(1, stream), 512, 0, choose=choose)
    used, chosen, held = indices(parts.calibration()), indices(parts.choice()), indices(parts.held_out())
    assert (used, held, parts.shared) == ([0], [0], True)
    assert chosen in ([], [0])


def test_seed() -> None:
    one, again, other = (parts_of(split(source(100), 50, seed, choose=True)) for seed in (1, 1, 2))
    assert one == again
    for a, b in zip(one, other, strict=True):
        assert a != b
        assert len(a) == len(b)


@CHOOSE
def test_at_most_so_many(choose: bool) -> None:
    used, chosen, held = parts_of(split(source(100), 10, 0, choose=choose))
    assert (len(used), len(chosen), len(held)) == (10, 25 if choose else 0, 12 + 10)
    used, chosen, held = parts_of(split(source(100, True), 10, 0, choose=choose))
    assert (used, chosen) == (([1, 2, 3, 5, 6, 7, 9, 10, 11], [4]) if choose else (used, []))
    assert sorted(used + chosen) == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert held == [0, 8]


def test_what_is_left_over_verifies() -> None:
    """All of it, up to so many; it is of no other part, nor of the contents of one."""
    _, chosen, held = parts_of(split(source(700), 300, 0, choose=True))
    least = parts_of(split(source(700), 700, 0, choose=True))
    assert set(least[2]) < set(held)
    assert least[1] == chosen
    assert len(held) == VERIFYING
    twice = [{"x": np.full((1, 1), index // 2, np.float32)} for index in range(400)]
    parts = split(open_source(twice, [X]), 100, 0, choose=True, confirm=True)
    values = values_of(parts)
    assert len(set.union(*values)) == sum(map(len, values))
    assert len(values[3]) > HELD_OUT // 2


def test_an_iterator_is_read_no_further_than_needed() -> None:
    taken = []

    def items():
        for i in range(100):
            taken.append(i)
            yield {"x": np.full((1, 1), i, np.float32)}

    parts_of(split(open_source(items(), [X]), 3, 0))
    assert taken == [0, 1, 2, 3]


@KINDS
@pytest.mark.parametrize("samples", [0, -1])
def test_nothing_asked_for(samples: int, stream: bool) -> None:
    with pytest.raises(UserError, match="were asked for"):
        split(source(4, stream), samples, 0)


class TestSeen:
    """Samples that calibrated before verify nothing, and choose only what they would have."""

    @settings(max_examples=200, deadline=None)
    @given(
        count=st.integers(2, 60),
        data=st.data(),
        choose=st.booleans(),
        seed=st.integers(0, 3),
        same=st.booleans(),
    )
    def test_others_verify(
        self, count: int, data: st.DataObject, choose: bool, seed: int, same: bool
    ) -> None:
        """And choose, unless all that would have chosen were seen, and none that would have verified."""
        _, would_choose, would_verify = parts_of(split(source(count), 512, seed, choose=choose))
        seen = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
        if same:
            seen = (seen | {*would_choose}) - {*would_verify} or {*would_choose}
        if not seen:
            return
        parts = split(source(count), 512, seed, choose=choose, seen=frozenset(seen))
        used, chosen, held = parts_of(parts, given=True)
        assert {*indices(parts.calibration())} == seen
        assert {*used} == seen - {*chosen}
        assert held
        assert not set(chosen) & set(held)
        others = set(range(count)) - seen
        assert parts.shared == (not others)
        left = len(others) or len(seen)
        least = min(max(1, count // 8), left)
        if {*would_choose} <= seen and seen.isdisjoint(would_verify):
            assert chosen == would_choose
            assert {*would_verify} <= {*held} <= others
            idle = left - least
        else:
            assert not same
            assert {*chosen, *held} <= (others or seen)
            assert len(chosen) == (min(count // 4, left - least) if choose else 0)
            idle = left - least - len(chosen) if others else 0
        assert len(held) == least + min(idle, len(seen))

    def test_fewer_others_than_verify_choose_nothing(self) -> None:
        parts = split(source(25), 512, 0, choose=True, seen=frozenset(range(23)))
        _, chosen, held = parts_of(parts, given=True)
        assert (chosen, sorted(held)) == ([], [23, 24])

    @CHOOSE
    @pytest.mark.parametrize("count", [2, 9, 100])
    def test_those_of_a_pass_before_give_the_same_parts(self, count: int, choose: bool) -> None:
        """Scales are chosen from a file of statistics as they are without one, of either kind of pass."""
        first = split(source(count), 512, 3, choose=choose)
        for passed in (first, split(source(count), 512, 3)):
            again = split(source(count), 512, 3, choose=choose, seen=frozenset(passed.calibrating))
            assert again.calibrating == first.calibrating
            assert parts_of(again) == parts_of(first)

    @pytest.mark.parametrize("count", [4, 9, 100])
    def test_those_that_chose_nothing_in_a_pass_before_choose(self, count: int) -> None:
        """Where others calibrated only, the same choose and verify, and do nothing else."""
        first = parts_of(split(source(count), 512, 3, choose=True))
        again = split(source(count), 512, 3, choose=True, seen=frozenset(first[0]))
        assert parts_of(again, given=True) == first
        assert {*again.calibrating} == {*first[0]}
        assert first[1]

    def test_of_an_iterator(self) -> None:
        with pytest.raises(UserError, match="which of its samples calibrated before is not known"):
            split(source(9, True), 512, 0, seen=frozenset([3]))


class TestBadSamples:
    @settings(max_examples=100, deadline=None)
    @given(
        count=st.integers(2, 40),
        bad=st.sets(st.integers(0, 39), min_size=1),
        choose=st.booleans(),
        stream=st.booleans(),
        seed=st.integers(0, 3),
    )
    @example(count=5, bad={0, 1, 2}, choose=True, stream=True, seed=0)
    def test_two_good_ones_do(self, count: int, bad: set[int], choose: bool, stream: bool, seed: int) -> None:
        good = set(range(count)) - bad
        if not good:
            return
        parts = split(source(count, stream, bad), 512, seed, choose=choose)
        used, chosen, held = parts_of(parts)
        assert used or chosen
        assert held
        assert set(used + chosen + held) <= good
        assert not set(chosen) & set(held)
        assert parts.shared == bool(set(used) & set(held))
        if parts.shared:
            assert not stream or len(good) == 1

    def test_every_one_of_an_iterator(self) -> None:
        parts = split(source(4, True, bad=range(4)), 512, 0)
        with pytest.raises(UserError, match="no good sample"):
            list(parts.calibration())


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_of_a_short_iterator_those_that_calibrate_can_be_had_again(count: int) -> None:
    parts = split(source(count, True), 512, 0, choose=True)
    used, chosen, _ = parts_of(parts)
    assert chosen == []
    assert indices(parts.calibration()) == used


@pytest.mark.parametrize("count", [10, 16, 64, 255])
def test_halves_are_all_that_calibrate(count: int) -> None:
    parts = split(source(count), 512, 0, choose=True)
    one, other = parts.halves
    assert {*one}.isdisjoint(other)
    assert sorted((*one, *other)) == sorted(parts.calibrating)
    assert abs(len(one) - len(other)) <= 1


def test_samples_of_the_same_content_are_in_one_half() -> None:
    twice = [{"x": np.full((1, 1), place // 2, np.float32)} for place in range(40)]
    for half in split(open_source(twice, [X]), 512, 0, choose=True).halves:
        assert all({index, index ^ 1} <= {*half} for index in half)


def test_there_are_no_halves_of_few_of_bad_ones_or_of_an_iterator() -> None:
    for one in (source(8), source(64, stream=True), source(64, bad=[3])):
        assert split(one, 512, 0, choose=True).halves == ()
