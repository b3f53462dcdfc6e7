"""What is kept: by the outputs together, by each of them, and by how sure the gain is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from said import is_said

from onnxq.judge.about_mean import AboutMeanMeter, AboutMeanPart
from onnxq.judge.acceptance import Levels, OutputLowered, judged
from onnxq.judge.loss import Loss
from onnxq.judge.policies import BEST_OF_SEVERAL, FITTED, STEP
from onnxq.judge.sqnr import nsr_of


def losses(*levels: float) -> tuple[Loss, ...]:
    """Those of one output of these SQNRs, dB; no answers are known."""
    return tuple(Loss.of({"y": nsr_of(one)}, {"y": 1.0}, None) for one in levels)


def levels(of_all: float | None, *outputs: float, without: tuple[float, ...] = ()) -> Levels:
    named = {f"y{number}": level for number, level in enumerate(outputs)}
    about = AboutMeanPart.of(of_all, named, {}, 8)
    return Levels(about, None if of_all is None else losses(of_all)[0], losses(*without))


@pytest.mark.parametrize(
    ("before", "after", "kept", "why"),
    [
        (levels(20.0, 20.0), levels(21.0, 21.0), True, "it gains 1.00 dB"),
        (levels(20.0, 20.0), levels(19.0, 19.0), False, "it loses 1.00 dB"),
        (levels(20.0, 20.0), levels(20.005, 20.005), False, "it gains nothing"),
        (levels(20.0, 20.0, 30.0), levels(21.0, 21.0, 29.6), True, "it gains 1.00 dB"),
        (levels(20.0, 20.0, 22.0), levels(20.2, 20.2, 21.4), False, "output 'y1' loses 0.60 dB"),
        (levels(10.0, 10.0, 40.0), levels(15.0, 15.0, 39.0), True, "it gains 5.00 dB"),  # next to no noise
        (levels(20.0, 20.0, 30.0), levels(21.0, 21.0), False, "output 'y1' cannot be compared any more"),
        (levels(None), levels(20.0, 20.0), False, "no output could be compared"),
        (levels(20.0, 20.0), levels(None), False, "output 'y0' cannot be compared any more"),
    ],
)
def test_verdicts(before: Levels, after: Levels, kept: bool, why: str) -> None:
    found = judged(before, after, STEP)
    assert (found.kept, found.why) == (kept, why)


def test_the_margins_are_where_they_are_said_to_be() -> None:
    before = levels(20.0, 20.0, 20.0)
    for more, kept in ((-0.01, True), (0.01, False)):
        after = levels(20.1, 20.1, 20.0 - STEP.may_lose_db - more)
        assert judged(before, after, STEP).kept is kept
    off = 10**-2 - 10**-2.1  # by so much the noise of all outputs falls
    for share, kept in ((STEP.price - 0.01, True), (STEP.price + 0.01, False)):
        lowered = -10 * math.log10(10**-3 + share * off)
        assert judged(levels(20.0, 20.0, 30.0), levels(21.0, 21.0, lowered), STEP).kept is kept


def test_the_worst_output_is_named() -> None:
    found = judged(levels(20.0, 18.0, 30.0, 25.0), levels(21.0, 19.0, 29.7, 24.95), STEP)
    assert found.worst == OutputLowered("y1", pytest.approx(-0.3))
    loud = judged(levels(20.0, 18.0, 30.0, 70.0), levels(21.0, 19.0, 29.7, 60.0), STEP)
    assert loud.worst == OutputLowered("y1", pytest.approx(-0.3))  # of most noise, not of most dB
    assert judged(levels(20.0, 18.0), levels(21.0, 19.0), STEP).worst is None


def test_a_gain_of_the_best_of_several_that_may_be_chance_is_none() -> None:
    steady = (20.0,) * 8
    sure = judged(
        levels(20.0, 20.0, without=steady), levels(20.3, 20.3, without=(20.3,) * 8), BEST_OF_SEVERAL
    )
    spread = tuple(20.3 + off for off in (-0.6, 0.6) * 4)
    before, after = levels(20.0, 20.0, without=steady), levels(20.3, 20.3, without=spread)
    chance = judged(before, after, BEST_OF_SEVERAL)
    assert (sure.kept, chance.kept) == (True, False)
    assert judged(before, after, STEP).kept  # nothing was picked
    assert "may be chance" in chance.why


@pytest.mark.parametrize(
    ("gain", "kept", "clear"), [(-0.4, True, False), (-1.3, False, False), (-1.9, False, True)]
)
def test_what_many_rows_fitted_is_dropped_for_a_loss_that_is_shown(
    gain: float, kept: bool, clear: bool
) -> None:
    spread = tuple(20.0 + gain + off for off in (-0.1, 0.1, 0.3, -0.3) * 2)  # a standard error of 0.59 dB
    before, after = levels(20.0, 20.0, without=(20.0,) * 8), levels(20.0 + gain, 20.0 + gain, without=spread)
    found = judged(before, after, FITTED)
    assert (found.kept, found.clear, found.gain_db) == (kept, clear, pytest.approx(gain))
    assert not judged(before, after, STEP).kept


@pytest.mark.parametrize(
    ("gain", "output", "clear"), [(0.2, 0.2, True), (-0.2, -0.2, True), (0.2, -3.0, False), (0.2, 0.2, False)]
)
def test_what_can_matter_little_is_clear(gain: float, output: float, clear: bool) -> None:
    """Of an output that loses by itself a small error of all outputs says nothing."""
    off = 0.03 if clear or output < 0 else 0.3  # standard errors of 0.08 and 0.8 dB
    spread = tuple(20.0 + gain + off * one for one in (-1, 1) * 4)
    before = levels(20.0, 20.0, 20.0, without=(20.0,) * 8)
    found = judged(before, levels(20.0 + gain, 20.0 + gain, 20.0 + output, without=spread), STEP)
    assert found.clear is clear


@pytest.mark.parametrize(
    ("gain", "off", "kept", "clear"),
    [
        (-0.1, 0.11, False, True), (0.3, 0.11, False, True),  # a standard error of 0.29 dB
        (1.2, 0.11, False, False), (1.8, 0.11, True, False), (3.0, 0.11, True, True),
    ],
)  # fmt: skip
def test_it_is_clear_beside_what_it_costs(gain: float, off: float, kept: bool, clear: bool) -> None:
    """A gain that is surely less than the price, 1.5 dB, ends it; one near it asks for more samples."""
    priced = replace(STEP, least_db=1.5, cost="3 % of the bytes")
    spread = tuple(20.0 + gain + off * one for one in (-1, 1) * 4)
    before, after = (
        levels(20.0, 20.0, without=(20.0,) * 8),
        levels(20.0 + gain, 20.0 + gain, without=spread),
    )
    found = judged(before, after, priced)
    assert (found.kept, found.clear) == (kept, clear)
    assert is_said(found.why, "candidate.unworth", cost="3 % of the bytes") == (0 < gain < 1.5)


def test_levels_are_those_of_all_samples() -> None:
    rng = np.random.default_rng(0)
    whole, groups = AboutMeanMeter(["y"]), [AboutMeanMeter(["y"]) for _ in range(4)]
    for number in range(11):
        exact = rng.standard_normal(16)
        found = [[exact + 0.1 * rng.standard_normal(16)]]
        whole.add([exact], found)
        groups[number % 4].add([exact], found)
    levels = Levels.of(groups)
    assert levels.sqnr_db == pytest.approx(whole.result().sqnr_about_mean_db, abs=1e-9)
    assert len(levels.without) == 4
    assert Levels.of(groups[:1] + [AboutMeanMeter(["y"])] * 3).without == ()


@pytest.mark.parametrize(
    ("gains", "kept"),
    [
        ((0.5, 0.4, 0.6, 0.5, 0.4, 0.6, 0.5, -0.2), True),  # nearly all groups, each counted alike
        ((4.0, -1.0, 2.0, -1.0, -0.5, 0.3, -0.2, -0.4), False),
        ((0.5, 0.4, 0.6), False),  # too few tell nothing
        ((), False),
    ],
)
def test_a_gain_of_nearly_all_groups_is_none_by_chance(gains: tuple[float, ...], kept: bool) -> None:
    """Where a few samples make most of the noise, the standard error of all together says nothing else."""
    spread = tuple(20.2 + off for off in (-2.0, 2.0) * 4)
    before = replace(levels(20.0, 20.0, without=(20.0,) * 8), each=losses(*[25.0] * len(gains)))
    more = losses(*(25.0 + gain for gain in gains))
    after = replace(levels(20.2, 20.2, without=spread), each=more)
    assert judged(before, after, BEST_OF_SEVERAL).kept is kept
    lost = replace(after, loss=losses(19.9)[0])
    assert not judged(before, lost, BEST_OF_SEVERAL).kept  # all together have to be nearer in any case


def test_groups_have_levels_of_their_own() -> None:
    generator = np.random.default_rng(0)
    groups = []
    for noise in (0.1, 0.01, 0.001):
        group = AboutMeanMeter(["y"])
        for _ in range(4):
            exact = generator.standard_normal(50)
            group.add([exact], [[exact + noise * generator.standard_normal(50)]])
        groups.append(group)
    each = [one.db for one in Levels.of(groups).each]
    assert each == pytest.approx((18.75, 38.75, 58.75), abs=1.5)  # of 4 samples each, 3 vary
    assert Levels.of(groups[:2]).each == ()
