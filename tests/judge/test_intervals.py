"""Where figures lie with other samples: how often intervals hold, and when there is none."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from onnxq.judge import about_mean
from onnxq.judge.about_mean import AboutMeanGroups, AboutMeanMeter, AboutMeanPart, without_each
from onnxq.judge.acceptance import Levels
from onnxq.judge.intervals import GROUPS, Interval
from onnxq.judge.sqnr import limited_db
from onnxq.run.compare import OutputComparison
from onnxq.task.layout import Classes
from onnxq.task.meter import TaskMeter

DRAWS = 400
Loudness = Callable[[np.random.Generator, int], np.ndarray]


def even(random: np.random.Generator, count: int) -> np.ndarray:
    return np.ones(count)


def rare(random: np.random.Generator, count: int) -> np.ndarray:
    """Noise powers as a net's whose values are clipped in some samples: a few make most of it."""
    return random.lognormal(0.0, 1.0, count)


def rarer(random: np.random.Generator, count: int) -> np.ndarray:
    """Likewise as a detector's, most samples of which show nothing."""
    return random.lognormal(0.0, 1.5, count)


def judged(noise: np.ndarray, signal: np.ndarray) -> tuple[float, Interval | None]:
    """The level of samples of these powers, and its interval, as the meters have them."""
    groups = min(len(noise), GROUPS)
    of = np.arange(len(noise)) % groups
    without = [limited_db(float(noise[of != g].sum() / signal[of != g].sum())) for g in range(groups)]
    level = limited_db(float(noise.sum() / signal.sum()))
    return level, Interval.of_level(level, without)


@pytest.mark.parametrize(("loudness", "width"), [(even, 40), (rare, 40), (rarer, 70)])
@pytest.mark.parametrize("count", [6, 8, 16, 64, 128])
def test_an_interval_holds_the_truth_in_95_of_100_cases(loudness: Loudness, width: int, count: int) -> None:
    random = np.random.default_rng(count)
    truth = limited_db(0.01 * float(loudness(random, 1_000_000).mean()))
    held, widths, below = 0, [], 0
    for _ in range(DRAWS):
        noise = 0.01 * loudness(random, count) * random.chisquare(10, count) / 10
        signal = random.chisquare(10, count) / 10
        level, interval = judged(noise, signal)
        assert interval is not None
        assert interval.low < level < interval.high
        held += interval.low <= truth <= interval.high
        below += truth < interval.low
        widths.append(interval.high - interval.low)
    assert 0.91 <= held / DRAWS <= 0.995
    assert below / DRAWS <= 0.07  # said too good
    assert np.median(widths) < width / math.sqrt(count)


def test_a_group_that_makes_most_of_the_noise_widens_it_downwards() -> None:
    signal, noise = np.ones(16), np.full(16, 0.01)
    noise[::2] = 0.011
    _, alike = judged(noise, signal)
    noise[3] = 0.3
    level, apart = judged(noise, signal)
    assert alike is not None
    assert apart is not None
    assert alike.high - alike.low < 1.5
    assert level - apart.low > apart.high - level + 1.5


def test_few_samples_and_such_as_do_not_differ_tell_no_interval() -> None:
    assert Interval.of_level(20.0, [20.0, 21.0, 19.0]) is None
    assert Interval.of_level(20.0, [20.0, 21.0, 19.0, 20.0]) is not None
    assert Interval.of_level(20.0, [20.0] * 8) is None
    assert Interval.of_level(None, [20.0, 21.0, 19.0, 20.0]) is None
    assert Interval.of_level(math.inf, [20.0, 21.0, 19.0, 20.0]) is None
    assert Interval.of_level(20.0, [20.0, 21.0, math.inf, 20.0]) is None
    assert Interval.of_share(1.0, 3) is None
    assert Interval.of_share(None, 64) is None


@pytest.mark.parametrize(
    ("share", "trials", "low", "high"),
    [(0.9, 10, 0.5958, 0.9821), (1.0, 16, 0.8064, 1.0), (0.0, 4, 0.0, 0.4899), (0.5, 100, 0.4038, 0.5962)],
)
def test_a_share_has_the_interval_of_wilson(share: float, trials: int, low: float, high: float) -> None:
    found = Interval.of_share(share, trials)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def meters(count: int, size: int = 6) -> tuple[AboutMeanGroups, list[AboutMeanMeter], AboutMeanMeter]:
    """The same samples of two outputs: dealt to groups, each alone, and all together."""
    random = np.random.default_rng(count)
    dealt, each, together = AboutMeanGroups(["a", "b"]), list[AboutMeanMeter](), AboutMeanMeter(["a", "b"])
    for _ in range(count):
        exact = [random.standard_normal((1, size)) + 3, random.standard_normal((1, 2))]
        given = [value + level * random.standard_normal(value.shape)
                 for value, level in zip(exact, (0.1, 0.01), strict=True)]  # fmt: skip
        each.append(AboutMeanMeter(["a", "b"]))
        for meter in (dealt, each[-1], together):
            meter.add(exact, [given])
    return dealt, each, together


@pytest.mark.parametrize("count", [1, 3, 4, 40])
def test_groups_say_what_all_samples_say(count: int) -> None:
    dealt, _, together = meters(count)
    found, wanted = dealt.result(), together.result()
    assert found.levels == pytest.approx(wanted.levels, abs=1e-9)
    assert found.sqnr_about_mean_db == pytest.approx(wanted.sqnr_about_mean_db, abs=1e-9)
    assert (found.samples, found.worst_output) == (count, "a")
    intervals = (found.interval, found.worst_interval, *(one.interval for one in found.outputs))
    assert all((one is None) == (count < 4) for one in intervals)


def test_each_output_has_its_own_interval() -> None:
    dealt, each, _ = meters(12)
    found: AboutMeanPart = dealt.result()
    loud, quiet = found.outputs
    assert loud.interval is not None
    assert quiet.interval is not None
    assert loud.interval.high < quiet.interval.low
    assert found.worst_interval == loud.interval
    without = [one.result().levels["a"] for one in without_each(each)]
    assert loud.interval == Interval.of_level(loud.sqnr_about_mean_db, without)
    judged_by = Levels.of(each)  # repair's, of the same groups: of outputs alone its loss is that figure
    assert found.interval == Interval.of_level(judged_by.sqnr_db, [one.db for one in judged_by.without])


def test_large_outputs_are_dealt_to_fewer_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about_mean, "_REMEMBERED", 10)
    dealt, each, _ = meters(16)
    groups = [one.joined([other]) for one, other in zip(each[:8], each[8:], strict=True)]
    without = [float(one.result().sqnr_about_mean_db or 0) for one in without_each(groups)]
    found = dealt.result()
    assert found.interval == Interval.of_level(found.sqnr_about_mean_db, without)


def test_a_meter_goes_on_after_it_was_asked() -> None:
    dealt, *_ = meters(8)
    before = dealt.result()
    dealt.add([np.ones((1, 6)), np.ones((1, 2))], [[np.zeros((1, 6)), np.zeros((1, 2))]])
    assert dealt.result().samples == before.samples + 1
    assert dealt.result().interval != before.interval


def test_an_output_beside_the_reference_has_intervals() -> None:
    random, comparison = np.random.default_rng(0), OutputComparison("y")
    for _ in range(40):
        exact = random.standard_normal((1, 10)).astype(np.float32)
        comparison.add(exact, exact + 0.3 * random.standard_normal((1, 10)).astype(np.float32))
    found = comparison.result()
    assert found.sqnr_db is not None
    assert found.sqnr_interval is not None
    assert found.sqnr_interval.low < found.sqnr_db < found.sqnr_interval.high < found.sqnr_interval.low + 3
    assert found.top1_interval == Interval.of_share(found.top1, 40)


def test_of_equal_outputs_and_of_integers_there_is_none() -> None:
    same, whole = OutputComparison("y"), OutputComparison("k")
    for place in range(8):
        same.add(np.full((1, 3), place, np.float32), np.full((1, 3), place, np.float32))
        whole.add(np.array([place]), np.array([place + place % 2]))
    assert same.result().sqnr_interval is None
    assert same.result().top1_interval == Interval.of_share(1.0, 8)
    assert (whole.result().sqnr_interval, whole.result().top1_interval) == (None, None)


def test_rows_of_a_sample_that_are_alike_are_one_trial() -> None:
    """As many trials as samples where all rows of one agree or none does; at most as many as rows."""
    alike, apart = TaskMeter(["y"], Classes("y")), TaskMeter(["y"], Classes("y"))
    for place in range(10):
        exact, other = np.tile([1.0, 0, 0, 0], (50, 1)), np.tile([0.0, 1, 0, 0], (50, 1))
        alike.add([exact], [[exact if place else other]])
        apart.add([exact], [[np.where(np.arange(50)[:, None] < 5 + place % 2, other, exact)]])
    share, rows = Interval.of_share(0.9, 10), Interval.of_share(apart.scores.value / 100, 500)
    assert share is not None
    assert rows is not None
    for meter, expected in ((alike, share), (apart, rows)):
        found = meter.figure.interval
        assert found is not None
        assert (found.low, found.high) == pytest.approx((100 * expected.low, 100 * expected.high), rel=1e-9)


def test_masked_classes_are_to_agree_and_the_others_are_judged() -> None:
    random = np.random.default_rng(0)
    meter, plain = AboutMeanMeter(["y"], 3), AboutMeanMeter(["y"])
    for _ in range(8):
        exact = random.standard_normal((1, 6)).astype(np.float32)
        near = exact + np.float32(0.01)
        plain.add([exact[:, :4]], [[near[:, :4]]])
        exact[:, 4:] = -np.inf
        agrees, lacks, adds = near.copy(), near.copy(), near.copy()
        agrees[:, 4:] = lacks[:, 4] = adds[:, 3:] = -np.inf
        meter.add([exact], [[agrees], [lacks], [adds]])
    agrees, lacks, adds = meter.results()
    assert agrees.left_out == ()
    assert agrees.sqnr_about_mean_db == pytest.approx(plain.result().sqnr_about_mean_db, abs=1e-6)
    assert lacks.sqnr_about_mean_db == adds.sqnr_about_mean_db == -200.0
