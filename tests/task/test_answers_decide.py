"""What decides, decides by the user's answers, too: what loses them is refused, what keeps more is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.base import remarks
from onnxq.cli.pages.plan import _choice as choice_entries
from onnxq.cli.pages.repair import outcome
from onnxq.cli.screen import Page
from onnxq.documents.calibration import MethodChosen
from onnxq.judge.about_mean import AboutMeanGroups
from onnxq.judge.acceptance import Gain, Levels, Policy, judged
from onnxq.judge.answers import Answers, AnswersChange, over_samples
from onnxq.judge.intervals import Interval
from onnxq.judge.policies import BEST_OF_SEVERAL, FITTED, LOUD, STEP, THRESHOLD
from onnxq.options.step import Step, steps
from onnxq.page.ledger import _scales as scales_entries
from onnxq.pipeline.searches import loud, scales
from onnxq.quant.choice import Trial
from onnxq.repair import step_search
from onnxq.repair.ledger import RepairStep
from onnxq.repair.turn import Proposal, Turn
from onnxq.task.counted import CountedTask, counted
from onnxq.task.known import KnownTask
from onnxq.task.layout import Boxes, CandidateColumns, Classes

# Boxes of 0 to 1, made of small values, and scores, made of rare great ones, from one tensor into one output.
DETECTOR = """<ir_version: 8, opset_import: ["" : 17]>
    detector (float[1, 16, 6, 6] image) => (float[1, 6, 36] output)
    <int64[3] flat = {1, 16, 36}, int64[3] parts = {4, 2, 10}> {
        r = Relu (image)
        all = Conv (r, w, b)  rows = Reshape (all, flat)
        apart, logits, rest = Split <axis = 1> (rows, parts)
        boxes = Add (apart, cells)  scores = Sigmoid (logits)
        output = Concat <axis = 1> (boxes, scores) }"""
TASK = "detect:boxes=0:4,scores=4:,xyxy,BCN"
OBJECTS = 3

# Two classes of which one is first, by little, and others which are far behind and make the noise.
CLASSIFIER = """<ir_version: 8, opset_import: ["" : 17]>
    classifier (float[1, 16, 6, 6] near, float[1, 16, 6, 6] far) => (float[36, 18] OUTPUT)
    <int64[2] two = {2, 14}, int64[2] flat = {36, 18}> {
        r = Relu (near)  s = Relu (far)
        all = Conv (r, w1)  others = Conv (s, w2)
        first, rest = Split <axis = 1> (all, two)
        low = Sub (others, behind)
        every = Concat <axis = 1> (first, low)
        last = Transpose <perm = [0, 2, 3, 1]> (every)
        OUTPUT = Reshape (last, flat) }"""


def detector() -> onnx.ModelProto:
    rows, columns = np.mgrid[:6, :6] / 6
    weights = np.zeros((16, 16, 1, 1))
    weights[range(4), range(4)] = 2.0
    weights[4, 4] = weights[5, 5] = 0.1
    bias = np.array([-0.2, -0.2, 0.2, 0.2, -1.4, -1.4, *[0] * 10])
    cells = np.stack([columns, rows, columns + 0.2, rows + 0.2]).reshape(1, 4, 36) - 0.5
    return _with(DETECTOR, w=weights, b=bias, cells=cells)


def images(seed: int, count: int, objects: int = OBJECTS) -> list[dict[str, np.ndarray]]:
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        image = random.uniform(0.0, 0.2, (1, 16, 6, 6))
        image[:, 4:] = 0
        for cell in random.choice([0, 3, 18, 21], objects, replace=False):
            image[0, random.integers(4, 6), cell // 6, cell % 6] = random.uniform(9.8, 10.0)
        found.append({"image": image.astype(np.float32)})
    return found


def classifier(output: str) -> onnx.ModelProto:
    one, other = np.zeros((16, 16, 1, 1)), np.zeros((16, 16, 1, 1))
    one[0, 0] = one[1, 1] = 1.0
    other[:, 0, 0, 0] = np.random.default_rng(0).uniform(0.4, 1.4, 16)
    return _with(CLASSIFIER.replace("OUTPUT", output), w1=one, w2=other, behind=np.array(1.3))


def rows(seed: int, count: int) -> list[dict[str, np.ndarray]]:
    """What is wide is of no use; of what makes the noise there is one number a sample, so that it varies."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        near, far = random.uniform(0.4, 0.6, (1, 16, 6, 6)), np.zeros((1, 16, 6, 6))
        near[0, 2], far[0, 2], far[0, 0, 3, 3] = 4.0, 40.0, random.uniform(0.0, 0.5)
        found.append({"near": near.astype(np.float32), "far": far.astype(np.float32)})
    return found


def _with(text: str, **constants: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    for name, values in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), name))
    return model


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Quantizes with one step, which multiplies ranges, and gives what is said of it."""

    def quantized(
        model: onnx.ModelProto, data: Sequence[Mapping[str, Any]], times: Mapping[str, float], **options: Any
    ) -> RepairStep:
        def propose(turn: Turn) -> Proposal:
            amax = {name: factor * turn.draft.ranges[name].amax for name, factor in times.items()}
            return Proposal([turn.draft.with_amax(amax)])

        planted = {**steps(), "scale": Step("scale", propose)}
        monkeypatch.setattr(step_search, "steps", lambda: planted)
        report = onnxq.quantize(
            model, data, method="minmax", repair="scale", loud="int8", compile=False, body="fp32",
            layer_samples=0, **options,
        ).report  # fmt: skip
        assert report.repair is not None
        (step,) = report.repair.steps
        return step

    return quantized


def test_a_step_that_gains_decibels_and_loses_detections_is_refused(tried: Any) -> None:
    clipped = {"r": 0.25}
    step = tried(detector(), images(0, 64), clipped, task=TASK)
    assert step.verdict == "dropped"
    assert step.after_db - step.before_db > 2
    assert step.answers.shown == -1
    assert (step.answers.what, step.answers.whole % OBJECTS) == ("detections", 0)
    gain, lost = step.after_db - step.before_db, -step.answers.kept
    assert lost > 0.9 * step.answers.whole
    assert f" dB (the outputs alone +{gain:.2f} dB) and " in step.why
    assert f" {lost:g} of {step.answers.whole:g} detections" in step.why
    assert outcome(step).endswith(f"runs: {step.why}")
    unknown = tried(detector(), images(0, 64), clipped)  # the graph does not say what it is for
    assert (unknown.verdict, unknown.answers) == ("kept", None)
    assert unknown.after_db - unknown.before_db > 2


def test_a_step_that_keeps_more_is_taken_where_decibels_do_not_tell(tried: Any) -> None:
    finer = {"r": 1 / 7, "s": 1.1}
    step = tried(classifier("logits"), rows(0, 64), finer)
    loss = step.before_db - step.after_db
    assert 0 < loss < 1
    assert step.verdict == "kept"
    assert step.answers.shown == 1
    more, whole = step.answers.kept, step.answers.whole
    said = f"dB (the outputs alone -{loss:.2f} dB) and keeps {more:,g} more of {whole:,g} top-1 classes"
    assert step.why.startswith("it gains ")
    assert step.why.endswith(said)
    assert f"; {step.why};" in outcome(step)
    nearer = replace(step, after_db=step.before_db + 1, worst=None)
    assert outcome(nearer).endswith(f"; it keeps {more:,g} more of {whole:,g} top-1 classes")
    unknown = tried(classifier("y"), rows(0, 64), finer)
    assert (unknown.verdict, unknown.answers) == ("dropped", None)
    assert unknown.why == f"it loses {unknown.before_db - unknown.after_db:.2f} dB"


def test_the_method_that_loses_what_is_rarely_detected_is_not_chosen() -> None:
    """By decibels the best one clips what one picture in two has: one value of a thousand."""
    few = images(0, 160, objects=1)
    for one in few[1::2]:
        one["image"][:, 4:] = 0
    options: dict[str, Any] = {"repair": "none", "compile": False, "body": "fp32", "layer_samples": 0}
    found = {}
    for task in (TASK, None):
        report = onnxq.quantize(
            detector(), few, loud="int8", **options, **({"task": task} if task else {})
        ).report
        chosen = report.calibration.choice
        assert chosen is not None
        found[task] = chosen.method
        said = {trial.method: trial.answers for trial in chosen.trials}
        assert said["percentile 99.9"].startswith("loses ") == (task is not None)
    assert found[None] == "percentile 99.9"
    assert found[TASK] != "percentile 99.9"


def test_what_is_loud_is_named_by_the_answers_that_it_keeps_in_float() -> None:
    wide = images(0, 64)
    for one in wide:
        one["image"][0, 7] = 200  # of no use: next to nothing is left of what boxes are made of
    options: dict[str, Any] = {"method": "minmax", "repair": "none", "compile": False, "body": "fp32"}
    for task, said in (({"task": TASK}, True), ({}, False)):
        report = onnxq.quantize(detector(), wide, loud="auto", layer_samples=0, **options, **task).report
        assert report.plan.heads is not None
        (named,) = report.plan.heads.loud
        assert named.name in ("all", "r")
        if said:
            assert named.answers is not None
            assert named.answers.shown == 1
            assert f" it {named.answers.said}, +" in named.why
        else:
            assert named.answers is None
            assert " more of " not in named.why


def test_a_source_is_named_for_answers_though_decibels_gain_little() -> None:
    assert loud._matters(Gain(0.2, answers=change(9, 0)))
    assert not loud._matters(Gain(0.2, answers=change(3, 0)))
    assert not loud._matters(Gain(0.2))


@pytest.mark.parametrize(("gained", "lost", "clear"), [(0, 0, True), (1, 0, True), (0, 2, False)])
def test_what_seems_to_lose_answers_is_judged_by_more_samples(gained: int, lost: int, clear: bool) -> None:
    """A clear gain in dB, and answers of which too few change to show anything."""
    (near, far), count = levels([0.39, 0.3]), gained + lost + 20
    was = Answers("classes", (*[0.0] * gained, *[1.0] * (lost + 20)), (1.0,) * count, (0.0,) * count)
    now = replace(was, kept=(*[1.0] * gained, *[0.0] * lost, *[1.0] * 20))
    found = judged(replace(far, answers=was), replace(near, answers=now), STEP)
    assert (found.kept, found.clear) == (True, clear)


def change(gained: int, lost: int, same: int = 40) -> AnswersChange:
    """Of samples of one answer each."""
    before, after = (
        Answers(
            "classes",
            (*first, *second, *[1.0] * same),
            (1.0,) * (gained + lost + same),
            (0.0,) * (gained + lost + same),
        )
        for first, second in (([0.0] * gained, [1.0] * lost), ([1.0] * gained, [0.0] * lost))
    )
    found = AnswersChange.of(before, after)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("gained", "lost", "shown"), [(0, 9, -1), (9, 0, 1), (2, 12, -1), (0, 4, 0), (5, 9, 0), (0, 0, 0)]
)
def test_what_is_shown(gained: int, lost: int, shown: int) -> None:
    found = change(gained, lost)
    assert (found.shown, found.kept, found.whole) == (shown, gained - lost, gained + lost + 40)
    assert (found.interval is None) == (gained + lost < 4)


def test_a_change_that_is_rounding_is_not_shown() -> None:
    before, after = (Answers("masks", (0.9 + off,) * 50, (1.0,) * 50, (0.0,) * 50) for off in (0.0, 5e-4))
    found = AnswersChange.of(before, after)
    assert found is not None
    assert found.interval is not None
    assert found.interval.low > 0  # all of them change alike
    assert found.shown == 0


def test_what_was_counted_on_other_samples_is_not_compared() -> None:
    one, other = (Answers("classes", (1.0,) * 9, (whole,) * 9, (0.0,) * 9) for whole in (1.0, 2.0))
    assert AnswersChange.of(one, other) is None
    assert AnswersChange.of(one, None) is None
    assert over_samples([(one,), ()]) == ()  # a sample does not tell


def test_the_interval_of_changes_holds_and_tells() -> None:
    """By chance one side is shown in 2.5 % of cases at most, though a sample may change several answers."""
    random = np.random.default_rng(0)
    for several in (False, True):
        shown, count = 0, 600
        for _ in range(count):
            each = random.choice([-1, 0, 1], 64, p=[0.15, 0.7, 0.15]) * (
                random.poisson(1, 64) if several else 1
            )
            found = Interval.of_changes([float(one) for one in each])
            shown += found is not None and found.low > 0
        assert shown <= 0.025 * count + 2 * np.sqrt(0.025 * count)
    lost = [random.choice([-1.0, 0.0, 1.0], 64, p=[0.25, 0.73, 0.02]) for _ in range(100)]
    ends = [found.high for one in lost if (found := Interval.of_changes(one.tolist())) is not None]
    assert np.mean(np.array(ends) < 0) > 0.9


@pytest.mark.parametrize(
    ("policy", "gain", "why"),
    [
        (STEP, Gain(3.0, 9.0, answers=change(0, 9)), "it gains 3.00 dB and loses 9 of 49 classes"),
        (STEP, Gain(-3.0, -9.0, answers=change(0, 9)), "it loses 3.00 dB and 9 of 49 classes"),
        (STEP, Gain(0.0, answers=change(0, 9)), "it loses 9 of 49 classes"),
        (FITTED, Gain(-0.2, -1.0, answers=change(0, 9)), "it loses 0.20 dB and 9 of 49 classes"),
        (STEP, Gain(3.0, 9.0, answers=change(0, 3)), ""),  # not shown
        (STEP, Gain(-0.2, -1.0, answers=change(9, 0)), ""),
        (STEP, Gain(-0.2, -3.0, answers=change(9, 0)), "it loses 0.20 dB"),  # that is shown as well
        (BEST_OF_SEVERAL, Gain(0.2, 0.4, answers=change(9, 0)), ""),
        (BEST_OF_SEVERAL, Gain(0.2, 0.4), "a gain of 0.20 dB may be chance: the standard error is 0.50 dB"),
        (LOUD, Gain(2.0, 1.0, answers=change(9, 0)), ""),
        (LOUD, Gain(0.2, 1.0, answers=change(9, 0)), "a gain of 0.20 dB is not worth what it costs"),
        (THRESHOLD, Gain(0.2, 1.0, answers=change(9, 0)),
         "a gain of 0.20 dB may be chance: the standard error is 0.20 dB"),  # one of many
    ],
)  # fmt: skip
def test_policies(policy: Policy, gain: Gain, why: str) -> None:
    assert policy.refusal(gain) == why


def test_the_screen_and_the_page_tell_what_methods_do_to_answers() -> None:
    trials = Trial("mse", 20.0, 64), Trial("minmax", 21.0, 64, "loses 9 of 64 top-1 classes")
    chosen = MethodChosen("mse", "", 64, 20.0, (), (), trials, ())
    page = Page()
    choice_entries(page, chosen)
    lines = [line.text for line in page.lines]
    assert lines[1:] == ["minmax loses 9 of 64 top-1 classes"]
    notes = [entry.note for entry in scales_entries(chosen)]
    assert notes == ["on 64 samples", "on 64 samples; it loses 9 of 64 top-1 classes"]


LAYOUT = Boxes(CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4))


def picture(score: float, count: int = 3) -> np.ndarray:
    boxes = [[place, 0.0, place + 0.9, 1.0, score] for place in range(count)]
    return np.array([boxes], np.float32)


def levels(candidates: Sequence[float], samples: int = 24) -> list[Levels]:
    """Of pictures of three detections, by the scores of candidates."""
    random = np.random.default_rng(0)
    groups = AboutMeanGroups(["y"], candidates=len(candidates), counter=CountedTask(["y"], LAYOUT))
    for _ in range(samples):
        exact = picture(0.4) + random.normal(0, 0.02, (1, 3, 5)).astype(np.float32)
        groups.add([exact], [[exact - [0, 0, 0, 0, 0.4 - score]] for score in candidates], {})
    return Levels.of_each(groups.groups)


def test_levels_count_each_candidate_on_the_same_samples() -> None:
    near, low = levels([0.39, 0.15])
    assert near.answers is not None
    assert low.answers is not None
    assert (sum(near.answers.kept), sum(near.answers.whole), sum(low.answers.kept)) == (72, 72, 0)
    found = judged(low, near, STEP)
    assert (found.kept, found.answers) == (True, AnswersChange.of(low.answers, near.answers))
    assert found.answers is not None
    assert found.answers.said == "keeps 72 more of 72 detections"


def test_detections_that_the_float_model_has_not_count_against() -> None:
    counter = CountedTask(["y"], LAYOUT)
    ((one,), (two,)) = (counter([picture(0.4)], [[picture(0.4, count)]], {}) for count in (3, 5))
    assert (one.kept, one.new, two.kept, two.new, two.whole) == ((3,), (0,), (3,), (2,), (3,))
    samples = [(one,)] * 9, [(two,)] * 9
    found = AnswersChange.of(*(over_samples(some)[0] for some in samples))
    assert found is not None
    assert (found.shown, found.said) == (-1, "keeps as many of 27 detections, with 18 more new ones")


def test_answers_are_read_off_outputs_that_have_their_values() -> None:
    boxes, classes = KnownTask(LAYOUT), KnownTask(Classes("y"))
    assert counted(boxes, ["x", "y"]) is not None
    assert counted(boxes, ["y"], ordered=["y"]) is None  # a score is held against a number
    assert counted(classes, ["y"], ordered=["y"]) is not None  # the greatest is the same
    assert counted(classes, ["x"]) is None
    assert counted(KnownTask(), ["y"]) is None


def test_what_is_not_as_the_task_says_decides_nothing() -> None:
    counter = CountedTask(["y"], Classes("y"))
    with remarks.heard() as heard:
        assert counter([np.array("text")], [[np.array("text")]], {}) == ()
    assert "answers decide nothing" in "".join(heard)
    assert (
        counter([np.ones((1, 4))], [[np.ones((1, 4))]], {}) == ()
    )  # for good: pairs are of the same samples


def test_a_method_is_judged_by_samples_that_it_was_not_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of things that are rare, half of the samples choose with the ranges of the other half."""
    few, judged_by = images(0, 40, objects=1), dict[float, set[float]]()
    for place, one in enumerate(few):
        one["image"][:, 4:] *= 1 + place  # its greatest value is its own
    run_each = scales._Crossing.run_each

    def spy(self: Any, feeds: Any, settings: Any, outputs: Any = None) -> Any:
        minmax = settings[-1] if len(settings) == 2 else settings[0]
        judged = minmax.judging(self.half)
        judged_by.setdefault(float(feeds["image"].max()), set()).add(max(map(float, judged.values())))
        return run_each(self, feeds, settings, outputs)

    monkeypatch.setattr(scales._Crossing, "run_each", spy)
    options: dict[str, Any] = {"repair": "none", "compile": False, "body": "fp32", "layer_samples": 0}
    for task in (TASK, None):
        judged_by.clear()
        report = onnxq.quantize(detector(), few, **options, **({"task": task} if task else {})).report
        assert report.calibration.choice is not None
        ranges = set().union(*judged_by.values())
        assert (len(ranges) > 1) == (task is not None)
        assert (report.calibration.choice.samples > 16) == (task is not None)
        assert report.calibration.samples == 35  # an eighth verifies
