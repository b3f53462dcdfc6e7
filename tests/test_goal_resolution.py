"""Goals that know what their samples resolve: gates, what is given away, the body, and what is fed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command import run
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.base.shown import decibels
from onnxq.data.samples import InputSpec
from onnxq.data.survey import Survey
from onnxq.documents.accuracy import GateMeasured, GoalPart
from onnxq.judge.intervals import Interval
from onnxq.judge.paired import Resolution, SampleScores
from onnxq.judge.policies import GIVEN_AWAY, SURE
from onnxq.pipeline.fed import Fed
from onnxq.pipeline.scoring import Score
from onnxq.run import ort

DIGITS = Path(__file__).parent.parent / "sample_models" / "digits"
MODEL = DIGITS / "digits.onnx"
TEST = np.load(DIGITS / "test.npz")
IMAGES, LABELS = TEST["image"][:, None], TEST["labels"]
CALIB = [{"image": image} for image in IMAGES[:128]]
COMMON: dict[str, Any] = {"compile": False, "prove": "never", "repair": "none", "method": "minmax"}
Callee = Callable[..., Any]


class Top1:
    """A score of digits: one number a sample, or their mean; of an image that is to be lost, or none."""

    def __init__(self, *, each: bool = True, factor: float = 1.0, count: int = 200) -> None:
        self.each, self.factor, self.count = each, np.float32(factor), count

    def __call__(self, model: Callee, part: str) -> Any:
        start = 128 if part == "choose" else 328
        place = slice(start, start + self.count)
        right = [
            100.0 * (next(iter(model({"image": image * self.factor}).values())).argmax() == label)
            for image, label in zip(IMAGES[place], LABELS[place], strict=True)
        ]
        return right if self.each else float(np.mean(right))


def goal_of(**options: Any) -> GoalPart:
    goal = onnxq.quantize(MODEL, CALIB, **{**COMMON, **options}).report.goal
    assert goal is not None
    return goal


def test_one_sample_is_the_least_that_scores_tell_apart() -> None:
    right = np.ones(600)
    exact, lost = SampleScores.of(100 * right), SampleScores.of(100 * np.where(np.arange(600) == 7, 0, right))
    assert exact.resolution(exact) == Resolution(pytest.approx(100 / 600), 600)  # type: ignore[arg-type]
    told = exact.resolution(lost)
    assert told is not None
    assert told.least == pytest.approx(SURE * 100 / 600, rel=1e-2)


def test_the_error_is_that_of_pairs() -> None:
    """What both models have in common is no error of their difference."""
    random = np.random.default_rng(0)
    common = 10 * random.standard_normal(400)
    one, other = SampleScores.of(common), SampleScores.of(common - 0.1 + 0.01 * random.standard_normal(400))
    told = one.resolution(other)
    assert told is not None
    assert told.least == pytest.approx(SURE * 0.01 / 20, rel=0.2)


@pytest.mark.parametrize(
    ("one", "other", "least"),
    [
        (100 * 523 / 600, 100 * 522 / 600, SURE * 100 / 600),  # one of 600, as a percentage
        (523 / 600, 519 / 600, SURE * 2 / 600),  # four: the error is at least two
        (523 / 600, 523 / 600, None),
        (0.5, 0.25, None),  # rounded numbers are shares of few
        (-0.13, -0.27, None),
        (float(np.sqrt(0.5)), float(np.sqrt(0.3)), None),
    ],
)
def test_two_numbers_tell_what_they_resolve_where_they_are_shares(
    one: float, other: float, least: float | None
) -> None:
    told = SampleScores(one).resolution(SampleScores(other))
    assert (told is None) == (least is None)
    if told is not None:
        assert told == Resolution(pytest.approx(least), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("measured", "goal", "least", "finest", "met", "undecided"),
    [
        (0.0, 0.1, 0.17, True, False, True),  # finer than one sample
        (0.0, 0.1, 0.17, False, True, False),  # one number tells too little to doubt it
        (0.17, 0.1, 0.27, True, False, True),
        (2.0, 0.1, 0.3, True, False, False),  # surely missed
        (-1.0, 0.1, 0.3, True, True, False),  # surely met
        (0.95, 1.0, 0.3, True, True, False),  # coarser than what is resolved
        (1.1, 1.0, 0.3, True, False, True),
        (1.1, 1.0, None, True, False, False),
    ],
)
def test_a_gate_is_met_missed_or_not_decidable(
    measured: float, goal: float, least: float | None, finest: bool, met: bool, undecided: bool
) -> None:
    told = None if least is None else Resolution(least, 600)
    gate = GateMeasured.judged("drop", "", "", goal, measured, resolution=told, finest=finest)
    assert (gate.met, gate.undecided) == (met, undecided)
    percent = GateMeasured.judged(
        "agreement", "", "", 100 - goal, 100 - measured, resolution=told, finest=finest
    )
    assert (percent.met, percent.undecided) == (met, undecided)


def test_a_goal_finer_than_one_sample_gives_nothing_away() -> None:
    goal = goal_of(eval=Top1(), max_drop=0.1)
    (gate,) = goal.gates
    assert not goal.met
    assert gate.undecided
    assert gate.samples == 200
    assert gate.resolution is not None
    assert gate.resolution >= 0.5
    assert "200 samples tell" in goal.missing[0]
    assert is_said(goal.missing[0], "goal.undecided")
    assert goal.search is None or goal.search.share_of_int8_macs <= GIVEN_AWAY


class Lost(Top1):
    """Of the images of each part the first `count` count as wrong in a model whose outputs differ at all."""

    def __init__(self, count: int, *, each: bool) -> None:
        super().__init__(each=True)
        self.lost, self.mean, self.float = count, not each, ort.load(MODEL)

    def __call__(self, model: Callee, part: str) -> Any:
        right = np.array(super().__call__(lambda feeds: {"y": self.float.run(feeds)[0]}, part))
        (given,) = model({"image": IMAGES[0]}).values()
        if np.abs(given - self.float.run({"image": IMAGES[0]})[0]).max() > 1e-3:
            right[np.flatnonzero(right)[: self.lost]] = 0
        return float(right.mean()) if self.mean else right


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize("lost", [1, 20])
def test_int8_is_given_away_where_that_gain_is_resolved(lost: int, each: bool) -> None:
    """Only all of int8 in float wins the images back: one of 200 is chance, twenty are not."""
    goal = goal_of(eval=Lost(lost, each=each), max_drop=0.4, body="fp32")
    assert goal.search is not None
    if lost == 1:
        assert goal.search.share_of_int8_macs <= GIVEN_AWAY
        assert not goal.met
        assert goal.gates[0].undecided
        assert is_said(goal.notes, "goal.not-resolved")
    else:
        assert goal.search.share_of_int8_macs > 0.9
        assert goal.gates[0].measured == 0


def test_where_nothing_is_known_that_is_said() -> None:
    def score(model: Callee) -> float:
        return -1.0

    goal = goal_of(eval=score, max_drop=0.1)
    assert goal.met
    assert any("return one score a sample" in note for note in goal.notes)
    assert not any("one score a sample" in note for note in goal_of(eval=Top1(), max_drop=20.0).notes)


@pytest.mark.parametrize("bad", [[], [[1.0]], ["a"], None, {"a": 1}, [1.0, float("nan")]])
def test_what_is_no_score_is_refused(bad: Any) -> None:
    with pytest.raises(UserError, match="returned"):
        Score.of(lambda model: bad)(lambda feeds: {}, "choose")


def test_a_goal_of_db_has_a_resolution_of_its_samples() -> None:
    plain = onnxq.quantize(MODEL, CALIB, **COMMON).report.about_mean
    assert plain is not None
    assert plain.sqnr_about_mean_db is not None
    goal = goal_of(min_sqnr=plain.sqnr_about_mean_db - 5)
    assert goal.met
    assert goal.gates[0].samples == 16
    assert 0 < (goal.gates[0].resolution or 0) < 6


def test_a_float32_body_is_tried_where_half_precision_is_in_the_way() -> None:
    goal = onnxq.quantize(MODEL, CALIB, **COMMON, min_sqnr=90.0).report
    assert goal.goal is not None
    assert goal.goal.met
    assert goal.body is not None
    assert (goal.body.type, goal.body.code) == ("fp32", "goal")
    assert any("float32 is nearer" in note for note in goal.goal.notes)
    asked = onnxq.quantize(MODEL, CALIB, **COMMON, min_sqnr=90.0, body="fp16").report  # the user's wish
    assert asked.goal is not None
    assert asked.body is not None
    assert (asked.body.type, asked.goal.met) == ("fp16", False)


def test_a_float32_body_is_not_taken_where_layers_do() -> None:
    report = onnxq.quantize(MODEL, CALIB, **COMMON, min_sqnr=40.0).report
    assert report.goal is not None
    assert report.goal.met
    assert report.body is not None
    assert report.body.type == "fp16"


@pytest.mark.parametrize("factor", [255.0, 1 / 255])
def test_a_function_that_feeds_other_values_is_named_before_all_figures(factor: float) -> None:
    goal = goal_of(eval=Top1(factor=factor), max_drop=0.1)
    (text,) = goal.mismatch
    assert "times as" in text
    assert "'image'" in text
    if not goal.met:
        assert goal.search is None
        assert is_said(goal.notes, "goal.mismatch")


def test_it_is_named_where_there_is_no_goal() -> None:
    (text,) = goal_of(eval=Top1(factor=255.0)).mismatch
    assert "times as large" in text


def test_a_function_that_feeds_what_calibrated_is_no_mismatch() -> None:
    assert goal_of(eval=Top1(), max_drop=20.0).mismatch == ()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda x: x, ""),
        (lambda x: 0.8 * x + 0.1, ""),  # pictures of less contrast
        (lambda x: 2 * x - 1, "pixels of another range"),
        (lambda x: (x - 0.45) / 0.22, "times as large"),
        (lambda x: x[:, ::-1], "channels in the other order"),
    ],
    ids=["alike", "dull", "-1..1", "imagenet", "bgr"],
)
def test_what_a_function_feeds_is_compared_by_what_black_white_and_the_channels_became(
    other: Callable[[np.ndarray], np.ndarray], expected: str
) -> None:
    random = np.random.default_rng(0)
    pictures = np.clip(
        random.normal(0.45, 0.25, (32, 3, 8, 8)) + np.reshape([0.08, 0, -0.08], (3, 1, 1)), 0, 1
    )
    specs = [InputSpec("x", np.dtype(np.float32), ("N", 3, 8, 8))]
    calibrated, fed = Survey(specs).inputs, Fed(specs)
    for place in range(16):
        calibrated[0].add("", pictures[place : place + 1].astype(np.float32))
        fed.add({"x": other(pictures[16 + place : 17 + place]).astype(np.float32)})
    told = fed.beside(calibrated, lambda *_: True)
    assert [expected in one for one in told] == [True] * bool(expected)


def _told(calibrating: np.ndarray, feeding: np.ndarray) -> tuple[str, ...]:
    specs = [InputSpec("x", np.dtype(np.float32), ("N", *calibrating.shape[1:]))]
    calibrated, fed = Survey(specs).inputs, Fed(specs)
    for one, other in zip(calibrating.astype(np.float32), feeding.astype(np.float32), strict=True):
        calibrated[0].add("", one[None])
        fed.add({"x": other[None]})
    return fed.beside(calibrated, lambda *_: True)


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_without_ends_of_their_own_have_no_other_range(channels: int) -> None:
    """Both sides are of one distribution, whose greatest value of a few samples is chance."""
    for seed in range(20):
        random, shape = np.random.default_rng(seed), (16, channels, 8, 8)
        for draw in (lambda: random.standard_t(4, shape), lambda: random.lognormal(1, 1.2, shape)):  # noqa: B023
            assert not [one for one in _told(draw(), draw()) if "another range" in one]


def test_scenes_of_another_tint_are_no_other_order_of_channels() -> None:
    random = np.random.default_rng(0)
    warm, cold = (
        np.clip(
            random.normal(0.45, 0.2, (16, 1, 16, 16))
            + random.normal(0, 0.03, (16, 3, 1, 1))
            + np.reshape([tint, 0, -tint], (3, 1, 1)),
            0, 1,
        )
        for tint in (0.03, -0.02)
    )  # fmt: skip
    assert _told(warm, cold) == ()


def test_an_interval_that_holds_nearly_all_levels_is_said_in_words() -> None:
    assert decibels(30.1, Interval(-71.0, 125.1)) == (
        "30.1 dB (these samples differ too much to tell that of others)"
    )
    assert decibels(95.0, Interval(62.0, 128.0)) == "95.0 dB (62.0 to 128.0)"  # near in any case
    assert decibels(30.1, Interval(21.0, 38.2)) == "30.1 dB (21.0 to 38.2)"


SCORE = """import numpy as np
data = np.load("test.npz")
def near(model, part):
    outputs = [model({"image": 255 * image[None]})["logits"] for image in data["image"][128:168]]
    known.append(outputs)
    return [-float(np.abs(a - b).max()) for a, b in zip(known[0], outputs)]
known = []
"""


def test_the_screen_says_a_mismatch_first(tmp_path: Path) -> None:
    (tmp_path / "test.npz").write_bytes((DIGITS / "test.npz").read_bytes())
    (output,) = ort.load(MODEL).outputs
    (tmp_path / "score.py").write_text(SCORE.replace("logits", output))
    np.savez(tmp_path / "data.npz", image=IMAGES[:128, 0])
    base = ("quantize", str(MODEL), "--calib", "data.npz", "--no-engine", "-o", "q.onnx")
    ran = run(tmp_path, *base, "--max-drop", "0", "--eval", "score.py:near")
    assert ran.code == 1, ran.err
    screen = " ".join(ran.out.split())
    assert "times as large" in screen
    assert screen.index("times as large") < screen.index("Accuracy")
    assert screen.index("times as large") < screen.index("Goal")


DETECTOR = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 3, 16, 16] image) => (float[1, 64, 4] boxes, float[1, 64, 1] scores)
    <int64[3] four = {1, 64, 4}, int64[3] one = {1, 64, 1}> {
        [stem] a = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (image, w1)
        r = Relu (a)
        [box] b = Conv (r, w2)  bt = Transpose <perm = [0, 2, 3, 1]> (b)  boxes = Reshape (bt, four)
        [score] s = Conv (r, w3)  st = Sigmoid (s)  sr = Transpose <perm = [0, 2, 3, 1]> (st)
        scores = Reshape (sr, one) }"""


def suppressed(boxes: np.ndarray, scores: np.ndarray, least: float = 0.4) -> list[int]:
    """Greedy non-maximum suppression of centre, size."""
    kept: list[int] = []
    for place in np.argsort(-scores):
        near = [np.abs(boxes[place, :2] - boxes[other, :2]).max() < 1.0 for other in kept]
        if scores[place] > least and not any(near):
            kept.append(int(place))
    return kept


def test_a_detectors_metric_decodes_by_output_name() -> None:
    """The function gets boxes and scores by name, and does its own decoding and suppression."""
    model, random = onnx.parser.parse_model(DETECTOR), np.random.default_rng(0)
    for name, shape in {"w1": (16, 3, 3, 3), "w2": (4, 16, 1, 1), "w3": (1, 16, 1, 1)}.items():
        values = random.standard_normal(shape).astype(np.float32) / 3
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    images = random.standard_normal((96, 1, 3, 16, 16)).astype(np.float32)
    reference = ort.load(model)
    assert set(reference.outputs) == {"boxes", "scores"}
    named: set[str] = set()

    def kept_boxes(model: Callee, part: str) -> np.ndarray:
        shares = []
        for image in images[:40] if part == "choose" else images[40:80]:
            outputs = model({"image": image})
            named.update(outputs)
            truth = dict(zip(reference.outputs, reference.run({"image": image}), strict=True))
            wanted = set(suppressed(truth["boxes"][0], truth["scores"][0, :, 0]))
            given = set(suppressed(outputs["boxes"][0], outputs["scores"][0, :, 0]))
            shares.append(len(wanted & given) / max(1, len(wanted | given)))
        return 100 * np.array(shares)

    result = onnxq.quantize(
        model, [{"image": one} for one in images], **COMMON, eval=kept_boxes, max_drop=30.0
    )
    goal = result.report.goal
    assert goal is not None
    assert named == {"boxes", "scores"}
    assert goal.met
    assert goal.scores is not None
    assert goal.scores.floating == 100
    assert goal.gates[0].samples == 40


def test_a_score_without_a_goal_is_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def score(model):\n    return 41.25\n")
    np.savez(tmp_path / "data.npz", image=IMAGES[:64, 0])
    base = ("quantize", str(MODEL), "--calib", "data.npz", "--no-engine", "-o", "q.onnx")
    ran = run(tmp_path, *base, "--eval", "score.py:score")
    assert ran.code == 0, ran.err
    assert "Score score.py:score: float 41.25, int8 41.25" in " ".join(ran.out.split())
