"""Choosing scales by the outputs' noise, which a table gives here instead of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from said import is_said
from synthetic import heard

from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.stats import TensorStats
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.answers import AnswerCounter, Answers
from onnxq.options.config import LayerRule
from onnxq.quant.choice import Choice, choose
from onnxq.quant.plan import Edge, QuantPlan, ScaleGroup, Site
from onnxq.quant.ranges import Range, Ranges, Scales
from onnxq.quant.thresholds import Method

MINMAX, MSE = Method("minmax"), Method("mse")
WIDE, HALF, TENTH = (Method("percentile", p) for p in (90.0, 50.0, 10.0))


def stats(values: Sequence[float] = range(1, 1001)) -> TensorStats:
    """Of some values, the last one the greatest; by default the percentile p is at 10 p."""
    array, counter = np.array(values, np.float32), HistogramCounter()
    counter.add(array)
    return TensorStats(array[:1], array[-1:], len(array), None, None, histogram=counter.histogram())


def ranges_of(count: int, **more: Any) -> Ranges:
    """Of so many tensors of one distribution, each with a scale of its own."""
    names = [f"t{i}" for i in range(count)]
    plan = QuantPlan(
        sites=tuple(
            Site(name, "activation", (Edge(f"n{i}", 0),), None, i, "") for i, name in enumerate(names)
        ),
        groups=tuple(ScaleGroup(i, (name,), (name,), ()) for i, name in enumerate(names)),
    )
    return Ranges(plan, dict.fromkeys(names, stats()), **more)


@dataclass
class Table:
    """Noise that grows with the distance of each threshold from an ideal one.

    Attributes:
        ideal: the best threshold of each group.
        spread: of the noise over samples, where group 0 is ideal, dB.
        together: how much noise is added where groups 0 and 1 both are ideal.
        noise: the noise-to-signal ratio where all are: 20 dB, which is short of enough.
        calls: how many candidates and samples each call had.
    """

    ideal: Mapping[int, float]
    spread: float = 0.0
    together: float = 0.0
    noise: float = 1e-2
    calls: list[tuple[int, int]] = field(default_factory=list)

    def __call__(
        self, samples: Iterable[Any], settings: Sequence[Mapping[int, np.float32]]
    ) -> list[AboutMeanMeter]:
        numbers = [int(one["x"]) for one in samples]
        self.calls.append((len(settings), len(numbers)))
        ratios = np.array([[self.ratio(one, n) for n in numbers] for one in settings])
        return heard(ratios[..., None], numbers=numbers, counter=self.counter(settings))

    def ratio(self, scales: Mapping[int, np.float32], number: int) -> float:
        """The noise-to-signal ratio of a sample."""
        off = {group: abs(np.log2(float(scales[group]) * 127 / best)) for group, best in self.ideal.items()}
        distance = sum(off.values()) + (self.together if off.get(0, 1) + off.get(1, 1) < 0.2 else 0)
        spread = self.spread * _either(number) * (off.get(0, 1) < 0.1)
        return self.noise * (1 + float(distance)) * 10 ** float(spread / 10)

    def counter(self, settings: Sequence[Mapping[int, np.float32]]) -> AnswerCounter | None:
        """What counts answers."""
        return None


def _either(number: int) -> int:
    """1 or -1, each of half of 16 samples: groups of samples have some of both."""
    block, place = divmod(number, 16)
    return 1 if np.random.default_rng(block).permutation(16)[place] % 2 else -1


def given(count: int) -> Callable[[], list[dict[str, np.ndarray]]]:
    return lambda: [{"x": np.array(i)} for i in range(count)]


def test_the_method_of_the_least_noise() -> None:
    table = Table({0: 500.0})
    found = choose(ranges_of(1), [MINMAX, TENTH, HALF, WIDE], given(40), table, prior=MINMAX, refine=False)
    assert found.method == HALF
    assert found.ranges["t0"].because == "percentile 50"
    assert found.ranges["t0"].amax == pytest.approx(500, rel=2**-9)
    # half a step off is 1.8 dB: all others are hopeless after 16 samples; the prior stays
    assert table.calls == [(4, 16), (2, 24)]
    assert [(t.method, t.samples) for t in found.trials] == [
        ("percentile 50", 40), ("minmax", 40), ("percentile 90", 16), ("percentile 10", 16)
    ]  # fmt: skip
    assert found.sqnr_db == found.trials[0].sqnr_db == pytest.approx(20, abs=0.05)
    assert (found.samples, found.why, found.refined) == (40, "", [])


def test_methods_within_a_decibel_stay() -> None:
    table = Table({0: 950.0})
    found = choose(ranges_of(1), [WIDE, TENTH, MINMAX], given(20), table, prior=WIDE, refine=False)
    assert table.calls == [(3, 16), (2, 4)]
    assert [(t.method, t.samples) for t in found.trials] == [
        ("minmax", 20), ("percentile 90", 20), ("percentile 10", 16)
    ]  # fmt: skip
    assert found.method == MINMAX


@pytest.mark.parametrize(
    ("spread", "samples", "method"), [(3.0, 64, HALF), (5.0, 100, HALF), (5.62, 64, MINMAX)]
)
def test_what_may_be_chance_is_not_chosen(spread: float, samples: int, method: Method) -> None:
    """All have less noise in the mean: by 5 standard errors, by nearly 2, by a sixth of one and 0.09 dB.

    Errors are of decibels without each group of samples, no more of noise by sample: so spreads are others.
    """
    table = Table({0: 500.0}, spread=spread)
    found = choose(ranges_of(1), [HALF, MINMAX], given(100), table, prior=MINMAX, refine=False)
    assert found.method == method
    assert found.trials[0].method == str(method)
    assert found.samples == samples
    levels = {t.method: t.sqnr_db for t in found.trials}
    assert levels["percentile 50"] > levels["minmax"]


@dataclass
class Answered(Table):
    """Beside that, one answer a sample, which is kept where the threshold of group 0 is one of some."""

    keeping: Sequence[float] = ()

    def counter(self, settings: Sequence[Mapping[int, np.float32]]) -> AnswerCounter | None:
        def counted(exact: Any, given: Any, feeds: Any) -> list[Answers]:
            kept = []
            for scales in settings:
                amax = float(scales[0]) * 127
                kept.append(float(any(abs(amax - one) < 0.02 * one for one in self.keeping)))
            return [Answers("classes", (one,), (1.0,), (0.0,)) for one in kept]

        return counted


def test_a_method_that_loses_answers_is_not_chosen() -> None:
    """Half the greatest is nearest by far; a 1 dB behind that the next one keeps what the prior does."""
    methods = [MINMAX, HALF, Method("percentile", 60.0)]
    for keeping, method in (
        ((1000.0, 500.0, 600.0), HALF),
        ((1000.0, 600.0), methods[2]),
        ((1000.0,), MINMAX),
    ):
        table = Answered({0: 500.0}, keeping=keeping)
        found = choose(ranges_of(1), methods, given(40), table, prior=MINMAX, refine=False)
        assert found.method == method
        said = {trial.method: trial.answers for trial in found.trials}
        lost = "" if method == HALF else "loses 40 of 40 classes"
        assert (said["percentile 50"], said["minmax"]) == (lost, "")


def test_a_method_that_keeps_more_is_chosen_where_its_gain_may_be_chance() -> None:
    for keeping, method, said in (((), MINMAX, ""), ((500.0,), HALF, "keeps 64 more of 64 classes")):
        table = Answered({0: 500.0}, spread=5.62, keeping=keeping)
        found = choose(ranges_of(1), [HALF, MINMAX], given(100), table, prior=MINMAX, refine=False)
        assert found.method == method
        assert {trial.method: trial.answers for trial in found.trials} == {
            "percentile 50": said,
            "minmax": "",
        }


def test_a_threshold_that_loses_answers_is_not_taken() -> None:
    for keeping, tensors in (((1000.0, 500.0), [("t0",), ("t1",)]), ((1000.0,), [("t1",)])):
        table = Answered(all_but(t0=500.0, t1=100.0), keeping=keeping)
        assert [entry.tensors for entry in refined(table).refined] == tensors


def test_what_is_behind_by_chance_is_tried_further() -> None:
    """2 dB behind after 16 samples, by 1.95 standard errors."""
    table = Table({0: 500.0}, spread=8.0)
    found = choose(ranges_of(1), [HALF, MINMAX], given(48), table, prior=MINMAX, refine=False)
    assert table.calls[:2] == [(2, 16), (2, 32)]
    assert found.trials[0].sqnr_db > found.trials[1].sqnr_db + 2


def test_methods_with_the_same_scales_are_tried_once() -> None:
    table = Table({0: 500.0})
    methods = [MINMAX, Method("percentile", 99.5), HALF, Method("percentile", 50.3)]
    found = choose(ranges_of(1), methods, given(16), table, prior=MINMAX, refine=False)
    assert [t.method for t in found.trials] == ["percentile 50", "minmax"]


def test_methods_that_differ_in_one_tensor_only_are_both_tried() -> None:
    ranges = ranges_of(2, layers={"t0": LayerRule(amax=700.0)})
    found = choose(ranges, [MINMAX, HALF], given(16), Table({0: 500.0}), prior=MINMAX, refine=False)
    assert len(found.trials) == 2


def test_the_prior_is_tried_whatever_its_parameters() -> None:
    prior = Method("percentile", 99.97)
    found = choose(ranges_of(1), [WIDE, HALF], given(16), Table({0: 950.0}), prior=prior, refine=False)
    assert {t.method for t in found.trials} == {"percentile 99.97", "percentile 90", "percentile 50"}
    assert found.method == prior  # as good as 90


def test_a_prior_whose_outputs_are_not_finite_loses() -> None:
    class Infinite(Table):
        def ratio(self, scales: Mapping[int, np.float32], number: int) -> float:
            first = scales[0] * 127 > 990 and not number  # min-max
            return np.inf if first else super().ratio(scales, number)

    table = Infinite({0: 500.0})
    found = choose(ranges_of(1), [MINMAX, WIDE, HALF], given(32), table, prior=MINMAX, refine=False)
    assert found.method == HALF


@pytest.mark.parametrize("every", [2, 1])
def test_what_differs_in_shape_for_a_variant_is_compared_for_none(every: int) -> None:
    """So many samples have no output to compare while single tensors are tried; it must not look better."""

    class Shaped(Table):
        def ratio(self, scales: Mapping[int, np.float32], number: int) -> float:
            first, second = (scales[group] * 127 < 990 for group in (0, 1))
            other = first and not second and number % every == 0
            return np.nan if other else super().ratio(scales, number)

    found = choose(ranges_of(20), [MINMAX, HALF], given(64), Shaped(all_but(t0=500.0)), prior=MINMAX)
    assert found.refined == []
    assert (found.method, found.samples) == (MINMAX, 64)


@pytest.mark.parametrize("place", [3, 20, 70])
def test_a_method_whose_outputs_differ_in_shape_in_a_sample_leaves_the_prior(place: int) -> None:
    class Shaped(Table):
        def ratio(self, scales: Mapping[int, np.float32], number: int) -> float:
            other = number == place and scales[0] * 127 < 990
            return np.nan if other else super().ratio(scales, number)

    table = Shaped({0: 500.0}, spread=5.0)
    found = choose(ranges_of(1), [MINMAX, HALF], given(80), table, prior=MINMAX)
    assert (found.method, found.sqnr_db, found.refined) == (MINMAX, None, [])
    assert "no output could" in found.why


@pytest.mark.parametrize("methods", [[WIDE, HALF], [HALF, WIDE]])
@pytest.mark.parametrize("noise", [4e-4, 1e-4])
def test_of_methods_that_are_near_enough_the_nearest_is_chosen(methods: list[Method], noise: float) -> None:
    """Whether the prior is, with 34.8 dB, or is not, with 28.8 dB, so that they count as 30 dB beside it."""
    table = Table({0: 500.0}, noise=noise)
    found = choose(ranges_of(1), methods, given(16), table, prior=TENTH, refine=False)
    assert found.method == HALF


@pytest.mark.parametrize("noise", [1e-2, 0.0])
def test_methods_that_make_no_difference_leave_the_prior(noise: float) -> None:
    """Also where quantization changes no output."""
    table = Table({}, noise=noise)
    found = choose(ranges_of(1), [MINMAX, HALF, WIDE], given(40), table, prior=WIDE, refine=False)
    assert found.method == WIDE


def test_nothing_can_be_compared() -> None:
    def measure(samples: Iterable[Any], settings: Sequence[Any]) -> list[AboutMeanMeter]:
        return heard(np.full((len(settings), len(list(samples)), 1), np.nan))

    found = choose(ranges_of(2), [MINMAX, HALF], given(20), measure, prior=WIDE)
    assert (found.method, found.sqnr_db, found.trials) == (WIDE, None, [])
    assert "no output could" in found.why
    assert found.ranges["t1"].because == "percentile 90"


# -- refinement ------------------------------------------------------------------------------------


def refined(table: Table, ranges: Ranges | None = None, count: int = 32) -> Choice:
    """All tensors but t0 and t1 are best at 1000, minmax; these two where the table says."""
    methods = [MINMAX, TENTH, HALF]
    return choose(ranges or ranges_of(20), methods, given(count), table, prior=MINMAX)


def all_but(**others: float) -> dict[int, float]:
    return {i: others.get(f"t{i}", 1000.0) for i in range(20)}


def test_the_worst_tensors_get_other_thresholds() -> None:
    """All are equally bad by themselves, so that the first two, a tenth, are tried."""
    table = Table(all_but(t0=500.0, t1=100.0, t2=500.0))
    found = refined(table)
    assert found.method == MINMAX
    assert [(entry.tensors, entry.before, entry.method) for entry in found.refined] == [
        (("t0",), 1000.0, "percentile 50"), (("t1",), 1000.0, "percentile 10")
    ]  # fmt: skip
    assert [entry.after for entry in found.refined] == pytest.approx([500, 100], rel=2**-9)
    amax = {name: entry.amax for name, entry in found.ranges.items()}
    assert amax == {**dict.fromkeys(amax, 1000.0), **{e.tensors[0]: e.after for e in found.refined}}
    assert is_said(found.ranges["t0"].because, "chosen", method="percentile 50")
    # 1 + 1 + 3.32 + 1 octaves off before, 1 + 1 octaves after
    assert found.trials[0].sqnr_db == pytest.approx(20 - 10 * np.log10(6.32), abs=0.02)
    assert found.sqnr_db == pytest.approx(20 - 10 * np.log10(2), abs=0.05)
    # one at a time, it is 6.32 to 5.32 and to 3
    gains = [entry.gain_db for entry in found.refined]
    assert gains == pytest.approx([10 * np.log10(6.32 / 5.32), 10 * np.log10(6.32 / 3)], abs=0.05)
    assert found.refined[1].tensors == ("t1",)


def test_the_worst_are_those_of_the_least_sqnr() -> None:
    """Of two tensors, most values are far below the greatest; for another one minmax is best."""
    ranges = ranges_of(20)
    skewed, peaked = stats([1] * 9000 + [500] * 10 + [1000]), stats([200] * 9000 + [1000])
    ranges = replace(ranges, tensors={**ranges.tensors, "t5": peaked, "t7": skewed, "t13": skewed})
    methods = [MINMAX, Method("percentile", 99.95)]
    found = choose(ranges, methods, given(32), Table(all_but(t7=500.0, t13=500.0)), prior=MINMAX)
    assert found.method == MINMAX
    assert [entry.tensors for entry in found.refined] == [("t7",), ("t13",)]


def test_too_few_samples_tell_nothing_of_single_tensors() -> None:
    table = Table(all_but(t0=500.0))
    assert refined(table, count=31).refined == []
    assert len(refined(Table(all_but(t0=500.0)), count=32).refined) == 1


def test_a_gain_within_its_error_is_none() -> None:
    """Of 32 samples it is 3.1, 2.2 and 1 standard errors; what is below 1 after 16 is tried no further.

    In decibels without each group of samples a spread makes more of an error than it made by samples.
    """
    for spread, last, taken in ((3.2, (2, 32), True), (3.8, (2, 16), False), (5.0, (5, 16), False)):
        table = Table(all_but(t0=500.0), spread=spread)
        assert bool(refined(table).refined) == taken
        assert table.calls[-1] == last


def test_what_is_better_alone_but_not_together_is_taken_alone() -> None:
    found = refined(Table(all_but(t0=500.0, t1=100.0), together=50.0))
    assert [entry.tensors for entry in found.refined] == [("t1",)]


@pytest.mark.parametrize("layers", [True, False])
def test_what_the_user_says_is_not_touched(layers: bool) -> None:
    more: dict[str, Any] = {"stated": {"t0": Range(1000.0, "cache")}}
    if layers:
        more = {"layers": {"t0": LayerRule(amax=1000.0)}}
    found = refined(Table(all_but(t0=500.0, t2=500.0)), ranges_of(20, **more))
    assert [entry.tensors for entry in found.refined] == [("t2",)]


# -- halves of the samples that judge each other's ranges ------------------------------------------


def test_a_sample_is_judged_by_the_ranges_of_the_other_half() -> None:
    whole = ranges_of(1)
    halves = tuple(replace(whole, tensors={"t0": stats(range(1, end + 1))}) for end in (400, 800))
    ranges = replace(whole, halves=halves)
    seen: list[Any] = []

    def measure(samples: Iterable[Any], settings: Sequence[Any]) -> list[AboutMeanMeter]:
        seen.extend(settings)
        return Table({0: 500.0})(samples, settings)

    choose(ranges, [MINMAX, HALF], given(16), measure, prior=MINMAX, refine=False)
    first = seen[0]
    assert isinstance(first, Scales)
    amax = [float(one[0]) * 127 for one in (first, first.judging(None), first.judging(0), first.judging(1))]
    assert amax == pytest.approx([1000, 1000, 800, 400])  # those of the half that it is not in


def test_without_halves_all_judge_the_same_scales() -> None:
    found = Scales({0: np.float32(1)})
    assert found.judging(0) is found.judging(None) is found
