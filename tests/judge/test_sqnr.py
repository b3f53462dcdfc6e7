"""The one formula of decibels, and the one comparison of candidates, where figures are at their ends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from said import is_said

from onnxq.judge.acceptance import Gain, OutputLowered, Policy, lead
from onnxq.judge.sqnr import BEST_DB, Energy, cosine, is_constant, limited_db, nsr_of, power_db, sqnr_db


@pytest.mark.parametrize(
    ("signal", "noise", "level"),
    [
        (100.0, 1.0, 20.0),
        (1.0, 0.0, math.inf),
        (0.0, 0.0, math.inf),
        (0.0, 1.0, -math.inf),
        (1.0, math.inf, -math.inf),
        (1.0, math.nan, -math.inf),
        (math.nan, 1.0, -math.inf),
        (1e-300, 1e300, -math.inf),
    ],
)
def test_every_ratio_has_a_level(signal: float, noise: float, level: float) -> None:
    assert sqnr_db(signal, noise) == level


def test_limited_levels() -> None:
    ratios = np.array([0.01, 0.0, -1.0, 1e-30, math.inf, math.nan])
    wanted = [20.0, BEST_DB, BEST_DB, BEST_DB, -BEST_DB, -BEST_DB]
    assert limited_db(ratios).tolist() == wanted
    assert [limited_db(ratio) for ratio in ratios.tolist()] == wanted
    assert nsr_of(20.0) == pytest.approx(0.01)
    assert power_db(np.array([0.0, 10.0])).tolist() == [-math.inf, 10.0]


def test_what_is_not_finite_or_of_another_shape_is_as_far_as_can_be() -> None:
    wanted, energy = np.array([3.0, 4.0, np.inf]), Energy()
    energy.add(wanted, np.array([3.0, 4.5, 0.0]))
    assert (energy.signal, energy.noise, energy.amax) == (25.0, 0.25, 4.0)
    assert energy.sqnr_db == pytest.approx(20.0)
    energy.add(wanted, np.array([np.nan, 4.0, 0.0]))
    assert (energy.beyond, energy.sqnr_db) == (1, -math.inf)
    other = Energy()
    assert [values.size for values in other.add(wanted, wanted[:2])] == [0, 0]
    assert (other.mismatched, other.sqnr_db) == (1, -math.inf)


def test_cosines() -> None:
    assert cosine(25.0, 25.0, 25.0, 0.0) == 1.0
    assert cosine(1.0, 4.0, 0.0, 5.0) == 0.0
    assert cosine(0.0, 1.0, 0.0, 1.0) == 0.0
    assert math.isnan(cosine(1.0, 1.0, 1.0, math.inf))


@pytest.mark.parametrize(("off", "constant"), [(1e-7, True), (1e-5, False)])
def test_rounding_is_no_variation(off: float, constant: bool) -> None:
    values = np.array([1000.0, 1000.0 * (1 + off)])
    variation = float(np.square(values - values.mean()).sum())
    assert is_constant(variation, len(values), float(values.max())) is constant


def test_a_policy_asks_for_all_that_it_says() -> None:
    policy = Policy(least_db=1.0, sure=2.0, may_lose_db=0.5)
    lowered = OutputLowered("y", -0.6)
    assert policy.refusal(Gain(1.0, 3.0)) == ""
    assert is_said(policy.refusal(Gain(0.5, 3.0)), "candidate.unworth", gain="0.50 dB", cost="what it costs")
    assert is_said(policy.refusal(Gain(2.0, 2.0)), "candidate.chance", gain="2.00 dB", error="1.00")
    assert policy.refusal(Gain(2.0, 3.0, worst=lowered, price=0.1)) == "output 'y' loses 0.60 dB"
    assert replace(policy, price=0.1).refusal(Gain(2.0, 3.0, worst=lowered, price=0.1)) == ""
    assert policy.refusal(Gain(0.0, 3.0)) == "it gains nothing"
    assert Policy(least_db=-1.0).refusal(Gain(-1.0)) == ""
    assert Policy(least_db=-1.0).refusal(Gain(-1.1)) == "it loses 1.10 dB"


def test_leads() -> None:
    assert lead(np.array([1.0])) == 0.0
    assert lead(np.array([1.0, 1.0])) == math.inf
    assert lead(np.array([0.0, 0.0])) == 0.0
    assert lead(np.array([1.0, 3.0])) == pytest.approx(2.0)
