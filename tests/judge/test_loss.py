"""The one figure by which candidates are compared: a sum of what is lost, and no mean of decibels."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from synthetic import heard, levels

from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import Gain, Levels
from onnxq.judge.loss import ENOUGH_DB, Loss
from onnxq.judge.sqnr import BEST_DB, nsr_of

ENOUGH = nsr_of(ENOUGH_DB)


def loss(*outputs: float, moved: float | None = None, weights: tuple[float, ...] = ()) -> Loss:
    """That of outputs of so many dB."""
    ratios = {f"y{place}": nsr_of(db) for place, db in enumerate(outputs)}
    return Loss.of(ratios, dict(zip(ratios, weights or (1.0,) * len(outputs), strict=True)), moved)


def gained(before: Loss, after: Loss) -> float:
    """As `Gain` has it."""
    return before.gained_db(after, beyond=not (before.is_enough and after.is_enough))


def test_of_one_output_it_is_its_sqnr_about_the_mean() -> None:
    random, meter = np.random.default_rng(0), AboutMeanMeter(["y"], 2)
    exact = random.standard_normal((20, 30)) + 50  # its mean is no signal
    given = exact + [[[0.1]], [[0.4]]] * random.standard_normal((2, 20, 30))
    for place, one in enumerate(exact):
        meter.add([one], [[given[0, place]], [given[1, place]]])
    power = np.sum((exact - exact.mean(0)) ** 2)
    for found, result, candidate in zip(meter.losses(), meter.results(), given, strict=True):
        assert found is not None
        assert found.db == pytest.approx(10 * np.log10(power / np.sum((exact - candidate) ** 2)), abs=1e-9)
        assert found.db == result.sqnr_about_mean_db
    assert loss(17.0).db == pytest.approx(17.0)
    assert gained(loss(17.0), loss(19.5)) == pytest.approx(2.5)


def test_a_rich_part_cannot_pay_for_a_lost_one() -> None:
    """A YOLO's boxes and scores: in the mean of decibels the first is better."""
    rich, even = loss(32.0, 1.6), loss(21.8, 10.5)
    assert (32.0 + 1.6) / 2 > (21.8 + 10.5) / 2
    assert even.db > rich.db + 8
    assert gained(rich, even) == -gained(even, rich) > 8


@pytest.mark.parametrize("better", [20.0, 29.0, 31.0, 60.0, BEST_DB])
def test_where_one_part_is_lost_no_other_one_makes_up_for_a_dB_of_it(better: float) -> None:
    assert gained(loss(10.0, better), loss(11.0, 20.0)) > 0


def test_beyond_enough_nothing_is_gained_unless_all_is_enough() -> None:
    assert gained(loss(31.0, 20.0), loss(60.0, 20.0)) == 0
    assert gained(loss(60.0, 27.0), loss(30.0, 28.0)) > 0.5  # though the sum of the ratios grows
    assert loss(60.0, 27.0).db > loss(30.0, 28.0).db
    assert gained(loss(30.0, 20.0), loss(29.0, 20.0)) < 0  # short of enough all counts
    assert gained(loss(60.0, 29.0), loss(31.0, 31.0)) > 0  # one of both is enough
    assert gained(loss(31.0, 31.0), loss(60.0, 31.0)) == pytest.approx(10 * math.log10(2), abs=0.01)
    assert gained(loss(31.0), loss(31.5)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("of", "enough"),
    [
        (loss(30.0), True), (loss(29.99), False), (loss(30.0, 200.0), True), (loss(200.0, 29.9), False),
        (loss(40.0, moved=ENOUGH), True), (loss(40.0, moved=1.01 * ENOUGH), False),
        (loss(29.9, moved=0.0), False), (loss(40.0, 40.0, moved=0.0), True),
        (loss(30.0, 31.0, 32.0, weights=(0.1, 7.0, 3.3)), True),
        (loss(30.0, 31.0, 29.9, weights=(0.1, 7.0, 3.3)), False),
    ],
)  # fmt: skip
def test_it_is_enough_where_each_part_and_the_answers_are(of: Loss, enough: bool) -> None:
    assert of.is_enough is enough


def test_weights_say_what_parts_count() -> None:
    found = loss(10.0, 20.0, weights=(1.0, 3.0))
    assert found.all == pytest.approx((0.1 + 3 * 0.01) / 4)
    assert loss(10.0, 20.0, weights=(2.0, 6.0)).all == pytest.approx(found.all)  # of all that there is
    first, second = (loss(10.0, 20.0, weights=w) for w in ((9.0, 1.0), (1.0, 9.0)))
    assert first.db < found.db < second.db
    rich, even = ((32.0, 1.6), (21.8, 10.5))
    assert gained(loss(*rich, weights=(1e6, 1.0)), loss(*even, weights=(1e6, 1.0))) < 0  # nobody wants scores
    assert Loss.of({"y": 0.1}, {"y": 2.0, "left out": 5.0}, None).all == pytest.approx(0.1)


def test_answers_are_one_more_part_as_large_as_all_outputs_together() -> None:
    for outputs in ((20.0,), (20.0, 20.0, 20.0)):
        assert loss(*outputs, moved=0.0).all == loss(*outputs).all == pytest.approx(0.01)
        assert loss(*outputs, moved=0.05).all == pytest.approx(0.06)
    assert loss(20.0, 20.0, moved=0.3).all == pytest.approx(loss(20.0, 20.0, moved=0.2).all + 0.1)
    near, far = loss(25.0, moved=0.5), loss(15.0, moved=0.0)  # what moves no answer costs less
    assert gained(near, far) > 0
    assert gained(loss(10.0, moved=1e-4), loss(10.0, moved=0.0)) == 0  # they are enough as well
    assert gained(loss(40.0, moved=1e-4), loss(40.0, moved=0.0)) > 2


def test_a_candidate_that_is_not_finite_is_the_worst() -> None:
    infinite = [loss(-math.inf), loss(60.0, -math.inf), loss(60.0, moved=math.inf)]
    for one in infinite:
        assert (one.all, one.db, one.is_enough) == (math.inf, -BEST_DB, False)
        assert gained(one, loss(-90.0)) > 100
        assert gained(loss(-90.0), one) < -100
        assert all(gained(one, other) == 0 for other in infinite)


def test_more_noise_anywhere_is_never_nearer() -> None:
    """Also where some of it is beyond enough, or not finite; and what is gained is lost on the way back."""
    steps = (-math.inf, 5.0, 29.0, 30.0, 45.0, BEST_DB)
    every = [loss(*two, moved=moved) for *two, moved in itertools.product(steps, steps, (0.0, 1e-3, 0.4))]
    order = [*itertools.product(steps, steps, (0.0, -1e-3, -0.4))]
    for (place, first), (other, second) in itertools.product(enumerate(every), repeat=2):
        assert gained(first, second) == -gained(second, first)
        if all(after >= before for before, after in zip(order[place], order[other], strict=True)):
            assert gained(first, second) >= 0


def test_what_a_meter_says_is_that_of_its_parts() -> None:
    powers = np.array([[[0.5, 0.002, np.nan, 0.3]] * 6])
    names = ["a", "b", "shape", "unweighed"]
    (first, *more) = heard(powers, names, weights={"a": 1.0, "b": 4.0, "shape": 1.0, "unweighed": 0.0})
    (found,) = first.joined(more).losses()
    assert found is not None
    assert found.all == pytest.approx((0.5 + 4 * 0.002) / 5)
    (none,) = heard(powers[..., 2:3], groups=1)[0].losses()
    assert none is None


def test_some_of_the_candidates_keep_what_was_heard_of_them() -> None:
    powers = np.random.default_rng(0).random((4, 9, 2))
    whole = heard(powers, ["a", "b"], groups=1)[0]
    assert [one and one.all for one in whole.of([3, 1]).losses()] == [
        one and one.all for one in (whole.losses()[3], whole.losses()[1])
    ]
    assert whole.of([3, 1]).joined([whole.of([2, 0])]).samples == 18


# -- gains, of levels ------------------------------------------------------------------------------


def test_gains_are_of_losses_by_groups_of_samples() -> None:
    """Also what they vary by: without each group, and of each alone."""
    powers = 0.05 * np.random.default_rng(0).lognormal(0, 1, (2, 40, 2)) * [[[1.0]], [[0.5]]]
    meters = heard(powers, ["a", "b"], groups=8)
    before, after = Levels.of_each(meters)
    gain = Gain.of(before, after)
    assert before.loss is not None
    assert after.loss is not None
    assert gain.db == before.loss.gained_db(after.loss, beyond=True)
    without = []
    for place in range(8):
        first, *more = [one for other, one in enumerate(meters) if other != place]
        one, other = first.joined(more).losses()
        assert one is not None
        assert other is not None
        without.append(one.gained_db(other, beyond=True))
    error = math.sqrt(7 * np.var(without))
    assert gain.lead == pytest.approx(gain.db / error)
    assert [found.all for found in before.each] == pytest.approx([one.losses()[0].all for one in meters])  # type: ignore[union-attr]


def test_what_is_said_tells_the_outputs_where_these_are_not_all() -> None:
    plain = Gain.of(*levels({"y": 20.0}, {"y": 21.2}))
    assert plain.said == "1.20 dB"
    moved = Gain.of(*levels({"y": 20.0}, {"y": 19.9}, moved=[0.09, 0.0655]))
    assert moved.outputs_db == pytest.approx(-0.1)
    assert moved.said == f"{moved.db:.2f} dB (the outputs alone -0.10 dB)"
    assert moved.db > 1
    lost = Gain.of(*levels({"y": 19.9}, {"y": 20.0}, moved=[0.0655, 0.09]))
    assert lost.said == f"{moved.db:.2f} dB (the outputs alone +0.10 dB)"
    beyond = Gain.of(*levels({"a": 40.0, "b": 20.0}, {"a": 60.0, "b": 20.0}))
    assert beyond.said == "0.00 dB (the outputs alone +0.04 dB)"


def test_a_gain_of_answers_alone_is_one() -> None:
    """Of outputs that are as near the one that moves answers less is taken."""
    gain = Gain.of(*levels({"y": 20.0}, {"y": 20.0}, moved=[0.3, 0.1]))
    assert gain.outputs_db == pytest.approx(0.0, abs=1e-9)
    assert gain.db == pytest.approx(10 * math.log10(0.31 / 0.11), abs=1e-6)
    assert gain.lead > 100  # all samples say it
