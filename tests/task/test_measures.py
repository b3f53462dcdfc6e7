"""The task's figures, against a plain reckoning."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import Box, found_again, mean_iou, suppressed

from onnxq.base.errors import UserError
from onnxq.judge.intervals import Interval
from onnxq.task import boxes
from onnxq.task.boxes import Detections
from onnxq.task.detections import detections
from onnxq.task.layout import Boxes, CandidateColumns, Classes, Image, MultiLabel, PixelClasses, Spans, Tokens
from onnxq.task.measures import counts
from onnxq.task.meter import TaskMeter

JOINED = Boxes(CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4))
"""Corners and scores in one output."""

corner = st.integers(0, 12)
some_boxes = st.lists(
    st.tuples(corner, corner, st.integers(0, 8), st.integers(0, 8), st.integers(0, 2)), max_size=14
)


def made(some: list[tuple[int, int, int, int, int]], seed: int) -> list[Box]:
    """Boxes with scores that are all different: which of two equal ones comes first is nobody's concern."""
    scores = np.random.default_rng(seed).permutation(np.linspace(0.06, 0.99, len(some)))
    return [
        Box((x, y, x + wide, y + high), float(score), label)
        for (x, y, wide, high, label), score in zip(some, scores, strict=True)
    ]


def arrays(some: list[Box]) -> Detections:
    return Detections(
        np.array([one.corners for one in some], np.float64).reshape(-1, 4),
        np.array([one.score for one in some]),
        np.array([one.label for one in some], int),
    )


def rows(some: list[Box], classes: int = 3) -> np.ndarray:
    """An output `[1, candidates, 4 + classes]` of boxes."""
    found = np.zeros((1, len(some), 4 + classes))
    for place, one in enumerate(some):
        found[0, place, :4] = one.corners
        found[0, place, 4 + one.label] = one.score
    return found


@settings(max_examples=150, deadline=None)
@given(some_boxes, st.integers(0, 9), st.sampled_from([0.0, 0.3, 0.45, 0.7]))
def test_of_boxes_that_overlap_the_greatest_score_is_left(some: list, seed: int, most: float) -> None:
    plain = made(some, seed)
    found = boxes.suppressed(arrays(plain), most)
    assert found.scores.tolist() == [one.score for one in suppressed(plain, most)]
    assert [tuple(one) for one in found.boxes.tolist()] == [one.corners for one in suppressed(plain, most)]


@settings(max_examples=150, deadline=None)
@given(some_boxes, some_boxes, st.integers(0, 9))
def test_detections_are_found_again_by_class_and_overlap(one: list, other: list, seed: int) -> None:
    wanted, given = made(one, seed), made(other, seed + 1)
    mine = suppressed(wanted, 0.45)
    theirs = suppressed(given, 0.45)
    of = counts(JOINED, {"y": rows(wanted)}, {"y": rows(given)}, {})
    for count, score in zip(of, (0.25, 0.05), strict=True):
        some, others = ([b for b in all_of if b.score > score] for all_of in (mine, theirs))
        again = found_again(some, others)
        assert count == (again, len(some), len(others) - again)


def test_what_is_equal_is_all_kept_and_what_has_another_class_is_not() -> None:
    some = [Box((0, 0, 4, 4), 0.9, 0), Box((8, 8, 12, 12), 0.5, 1), Box((0, 8, 4, 12), 0.1, 2)]
    other = [some[0]._replace(label=1), *some[1:]]
    assert counts(JOINED, {"y": rows(some)}, {"y": rows(some)}, {}) == [(2, 2, 0), (3, 3, 0)]
    assert counts(JOINED, {"y": rows(some)}, {"y": rows(other)}, {}) == [(1, 2, 1), (2, 3, 1)]
    assert counts(JOINED, {"y": rows(some)}, {"y": rows(some)[..., :4]}, {}) == [(0, 2, 0), (0, 3, 0)]
    nothing = {"y": np.full_like(rows(some), np.nan)}
    assert counts(JOINED, {"y": rows(some)}, nothing, {}) == [(0, 2, 0), (0, 3, 0)]


def test_each_layout_of_one_box_gives_its_corners() -> None:
    """A box of 24 by 16 pixels around (36, 20), of class 1 with 0.8, in a picture of 64 by 32."""
    corners, centre = [24, 12, 48, 28], [36, 20, 24, 16]
    feeds = {"x": np.zeros((1, 3, 32, 64), np.float32)}
    grid, cells = Image("x", 2), 4 * 8 + 2 * 4
    cell = 2 * 8 + 4  # the third row of strides of 8, the fifth column: its corner is (32, 16)
    off = [36 / 8 - 4, 20 / 8 - 2, math.log(24 / 8), math.log(16 / 8)]
    sides = [
        (36 - 24) / 8,
        (20 - 12) / 8,
        (48 - 36) / 8,
        (28 - 20) / 8,
    ]  # from the middle of the cell, (36, 20)
    bins = np.full((4, 4), -60.0)
    for place, side in enumerate(sides):  # shares of two bins whose mean is the side
        low = math.floor(side)
        bins[place, low] = math.log(1 - (side - low)) if side - low < 1 else -60
        if side > low:
            bins[place, low + 1] = math.log(side - low)

    def cells_with(values: list[float] | np.ndarray, scores: list[float]) -> dict[str, np.ndarray]:
        found = np.zeros((1, cells, np.size(values))), np.zeros((1, cells, 2))
        found[0][0, cell], found[1][0, cell] = np.ravel(values), scores
        return {"b": found[0], "s": found[1]}

    there, label = CandidateColumns(("o",)), CandidateColumns(("l",))
    apart = Boxes(CandidateColumns(("b",)), CandidateColumns(("s",)))
    two = {"b": np.array([[corners]], float), "s": np.array([[[0.1, 0.8]]])}
    by_column = np.array([[[one] for one in (*centre, 0.1, 0.8)]], float)
    cases = [
        (apart, two),
        (replace(apart, form="yxyx"), {**two, "b": np.array([[[12, 24, 28, 48]]], float)}),
        (replace(apart, form="cxcywh"), {**two, "b": np.array([[centre]], float)}),
        (replace(JOINED, form="cxcywh", by_column=True), {"y": by_column}),
        (replace(apart, label=label), {**two, "s": np.array([[0.8]]), "l": np.array([[1]])}),
        (replace(apart, label=label),  # of one picture: no axis of the batch
         {"b": np.array([corners], float), "s": np.array([0.8]), "l": np.array([1])}),
        (replace(apart, background=0), {**two, "s": np.array([[[0.1, 0.1, 0.8]]])}),
        (replace(apart, background=-1), {**two, "s": np.array([[[0.1, 0.8, 0.1]]])}),
        (replace(apart, activation="sigmoid"), {**two, "s": np.array([[[-5.0, math.log(4)]]])}),
        (replace(apart, activation="softmax"), {**two, "s": np.log([[[0.2, 0.8]]])}),
        (replace(apart, objectness=there), {**two, "s": np.array([[[0.1, 1.0]]]), "o": np.array([[[0.8]]])}),
        (replace(apart, objectness=there, power=0.5),
         {**two, "s": np.array([[[0.1, 0.64]]]), "o": np.array([[[1.0]]])}),
        (replace(apart, form="offsets", strides=(8, 16), image=grid), cells_with(off, [0.1, 0.8])),
        (replace(apart, form="ltrb", strides=(8, 16), image=grid), cells_with(sides, [0.1, 0.8])),
        (replace(apart, form="ltrb", strides=(8, 16), image=grid), cells_with(bins, [0.1, 0.8])),
        (replace(apart, form="ltrb", strides=(8, 16), image=grid, centre=0.0),
         cells_with([1, 0.5, 2, 1.5], [0.1, 0.8])),
    ]  # fmt: skip
    for layout, values in cases:
        (found,) = detections(layout, values, feeds)
        assert np.allclose(found.boxes, [corners], rtol=1e-12, atol=1e-9), layout
        assert np.allclose(found.scores, [0.8], rtol=1e-12), layout
        assert found.classes.tolist() == [1], layout


def test_candidates_of_a_cell_follow_each_other() -> None:
    """Two a cell of a grid of two by two: the sixth is the second one of the third cell, at (0, 8)."""
    layout = Boxes(
        CandidateColumns(("b",)), CandidateColumns(("s",)), form="ltrb", strides=(8,), image=Image("x", 2)
    )
    boxes, scores = np.full((1, 8, 4), 0.5), np.zeros((1, 8, 1))
    scores[0, 5] = 0.9
    (found,) = detections(layout, {"b": boxes, "s": scores}, {"x": np.zeros((1, 3, 16, 16))})
    assert found.boxes.tolist() == [[0, 8, 8, 16]]


def test_a_batch_is_several_pictures() -> None:
    some = rows([Box((0, 0, 4, 4), 0.9, 0), Box((8, 8, 12, 12), 0.5, 1)])
    both = np.concatenate([some, some[:, ::-1]])
    lost = both.copy()
    lost[1, 1] = 0
    assert counts(JOINED, {"y": both}, {"y": lost}, {})[0] == (3, 4, 0)


def test_classes_agree_by_the_greatest_and_among_five() -> None:
    random = np.random.default_rng(1)
    wanted, given = random.standard_normal((2, 40, 12))
    given += wanted
    top1 = sum(int(max(range(12), key=lambda c: w[c])) == int(max(range(12), key=lambda c: g[c]))
               for w, g in zip(wanted, given, strict=True))  # fmt: skip
    top5 = sum(
        int(max(range(12), key=lambda c: w[c])) in sorted(range(12), key=lambda c: -g[c])[:5]
        for w, g in zip(wanted, given, strict=True)
    )
    assert 0 < top1 < top5 < 40
    assert counts(Classes("y"), {"y": wanted}, {"y": given}, {}) == [(top1, 40, 0), (top5, 40, 0)]
    spread = {"y": wanted[..., None, None]}, {"y": given[..., None, None]}
    assert counts(Classes("y"), *spread, {})[0] == (top1, 40, 0)
    assert counts(Classes("y"), {"y": wanted}, {"y": given[:3]}, {})[0] == (0, 40, 0)
    with pytest.raises(UserError, match="no classes to compare"):
        counts(Classes("y"), {"y": wanted[:, :1]}, {"y": given[:, :1]}, {})


@pytest.mark.parametrize(("over", "shift"), [(0.5, 0.0), (0.0, 0.5)])
def test_labels_too_many_are_as_bad_as_labels_too_few(over: float, shift: float) -> None:
    exact, given = np.array([[0.9, 0.2, 0.6, 0.4]]), np.array([[0.8, 0.7, 0.3, 0.1]])
    (count,) = counts(MultiLabel("y", over), {"y": exact - shift}, {"y": given - shift}, {})
    assert count == (1, 3, 0)
    (count,) = counts(MultiLabel("y", over), {"y": exact - shift}, {"y": given[:, :2]}, {})
    assert count == (0, 2, 0)


def test_padding_is_left_out() -> None:
    random = np.random.default_rng(2)
    wanted, given = random.standard_normal((2, 2, 6, 9))
    given += 2 * wanted
    mask = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]])
    same = [
        int(wanted[b, t].argmax()) == int(given[b, t].argmax())
        for b in range(2)
        for t in range(6)
        if mask[b, t]
    ]
    found = counts(Tokens("y", "m"), {"y": wanted}, {"y": given}, {"m": mask})
    assert found == [(sum(same), 8, 0)]
    longer = np.concatenate([np.ones((2, 4), int), mask], 1)  # those of the past are in front
    assert counts(Tokens("y", "m"), {"y": wanted}, {"y": given}, {"m": longer}) == found
    assert counts(Tokens("y"), {"y": wanted}, {"y": given}, {"m": mask})[0].whole == 12


def test_an_answer_has_both_ends_where_the_float_models_are() -> None:
    start = np.eye(5)[[1, 2, 0]]
    end = np.eye(5)[[3, 2, 4]]
    other = end.copy()
    other[0] = np.eye(5)[2]
    mask = np.ones((3, 5), int)
    mask[2, 4] = 0
    layout = Spans("s", "e", "m")
    one, two = {"s": start, "e": end}, {"s": start[[0, 1, 1]], "e": other}
    assert counts(layout, one, two, {"m": mask}) == [(1, 3, 0), (2, 3, 0), (2, 3, 0)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=12, max_size=12))
def test_masks_overlap_by_class(pixels: list[tuple[int, int]]) -> None:
    wanted, given = ([pixel[side] for pixel in pixels] for side in (0, 1))
    scores = [np.moveaxis(np.eye(4)[np.reshape(one, (1, 3, 4))], -1, 1) for one in (wanted, given)]
    plain = mean_iou(wanted, given)
    (found,) = counts(PixelClasses("y"), {"y": scores[0]}, {"y": scores[1]}, {})
    assert found == (pytest.approx(plain, rel=1e-12), 1, 0)
    last = [np.moveaxis(one, 1, -1) for one in scores]
    assert counts(PixelClasses("y", 3), {"y": last[0]}, {"y": last[1]}, {})[0].kept == pytest.approx(
        plain, rel=1e-12
    )
    labels = [np.reshape(one, (1, 3, 4)) for one in (wanted, given)]
    assert counts(PixelClasses("y", None), {"y": labels[0]}, {"y": labels[1]}, {})[0].kept == pytest.approx(
        plain
    )


def test_a_mask_of_one_channel_is_what_is_over_a_half() -> None:
    wanted, given = np.array([[[[0.6, 0.4, 0.9]]]]), np.array([[[[0.6, 0.51, 0.9]]]])
    assert counts(PixelClasses("y", None, 0.5), {"y": wanted}, {"y": given}, {})[0].kept == pytest.approx(
        (2 / 3 + 0) / 2
    )


# -- over samples ------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "low"), [(3, None), (8, 67.56), (16, 80.64)])
def test_masks_that_are_all_the_same_have_an_interval(samples: int, low: float | None) -> None:
    """Without one a model that keeps every mask would never be sure of it."""
    meter = TaskMeter(("y",), PixelClasses("y", None, 0.5))
    for _ in range(samples):
        mask = [np.array([[[[0.6, 0.4, 0.9]]]])]
        meter.add(mask, [mask])
    figure = meter.figure
    assert figure.percent == 100
    assert (figure.interval is None) == (low is None)
    if figure.interval is not None:
        assert figure.interval.low == pytest.approx(low, abs=0.01)


def test_figures_add_up_over_samples() -> None:
    random, meter = np.random.default_rng(3), TaskMeter(("y",), JOINED)
    kept = whole = new = 0
    for place in range(8):
        some = [
            Box((x, y, x + 6, y + 6), float(score), 0)
            for x, y, score in zip(*random.integers(0, 40, (2, 9)), random.uniform(0.1, 1, 9), strict=True)
        ]
        other = some[place % 3 :]
        meter.add([rows(some)], [[rows(other)]])
        mine, theirs = ([b for b in suppressed(one, 0.45) if b.score > 0.25] for one in (some, other))
        again = found_again(mine, theirs)
        kept, whole, new = kept + again, whole + len(mine), new + len(theirs) - again
    figure, low = meter.figures
    assert (figure.kept, figure.whole, figure.new, figure.over, low.over) == (kept, whole, new, 0.25, 0.05)
    assert figure.percent == pytest.approx(100 * kept / whole, rel=1e-12)
    assert meter.scores.value == figure.percent
    assert meter.scores.each.mean() == pytest.approx(figure.percent, rel=1e-12)
    assert meter.scores.step == pytest.approx(100 / whole)
    assert figure.interval is not None
    assert figure.interval.low < figure.percent < figure.interval.high
    assert f"Of {whole} detections over 0.25, {kept} are kept" in figure.said


def test_where_the_float_model_answers_nothing_there_is_no_figure() -> None:
    meter = TaskMeter(("y",), JOINED)
    for _ in range(5):
        meter.add([rows([])], [[rows([Box((0, 0, 4, 4), 0.9, 0)])]])
    assert (meter.figure.percent, meter.figure.new, meter.figure.interval) == (None, 5, None)
    assert "nothing to compare" in meter.figure.said


def test_a_row_a_sample_is_a_share_and_rows_that_are_alike_count_as_one() -> None:
    same = [1, 0, 1, 1, 1, 0, 1, 1, 1, 1]
    once = Interval.of_ratio(same, [1] * 10)
    plain = Interval.of_share(0.8, 10)
    assert once is not None and plain is not None  # noqa: PT018
    assert (once.low, once.high) == pytest.approx((plain.low, plain.high), rel=1e-9)
    alike = Interval.of_ratio([50 * one for one in same], [50] * 10)
    assert alike is not None
    assert (alike.low, alike.high) == pytest.approx((plain.low, plain.high), rel=1e-9)
    apart = Interval.of_ratio([40] * 9 + [39], [50] * 10)  # they spread less than chance would
    least = Interval.of_share(399 / 500, 500)
    assert apart is not None and least is not None  # noqa: PT018
    assert apart.low == pytest.approx(least.low, rel=1e-9)
    between = Interval.of_ratio([2, 8] * 5, [10] * 10)  # 0.3 off the mean each
    student = np.interp(1 / 9, [1 / 10, 1 / 6], [2.228, 2.447])
    trials = 10 + (0.25 / (0.3**2 / 10) - 10) * (1.96 / student) ** 2
    wilson = Interval.of_share(0.5, trials)
    assert between is not None and wilson is not None  # noqa: PT018
    assert (between.low, between.high) == pytest.approx((wilson.low, wilson.high), rel=1e-6)
    assert Interval.of_ratio([1, 1, 1], [1, 1, 1]) is None
    assert Interval.of_ratio([0, 0, 0, 0, 1], [0, 0, 0, 0, 1]) is None


@pytest.mark.parametrize("alike", [0.0, 0.1])
def test_intervals_of_ratios_hold_the_true_share(alike: float) -> None:
    """In 92 of 100 draws at least, of 24 samples of some detections each, which may be alike."""
    random, true, held = np.random.default_rng(4), 0.9, 0
    for _ in range(300):
        wholes = random.poisson(8, 24)
        share = (
            random.beta(true * (1 - alike) / alike, (1 - true) * (1 - alike) / alike, 24) if alike else true
        )
        found = Interval.of_ratio(random.binomial(wholes, share).tolist(), wholes.tolist())
        assert found is not None
        held += found.low <= true <= found.high
    assert held >= 0.92 * 300


def test_the_interval_of_a_mean() -> None:
    values = [0.9, 0.8, 1.0, 0.7, 0.95]
    found = Interval.of_mean(values, 0, 1)
    deviation = math.sqrt(sum((v - 0.87) ** 2 for v in values) / 4)
    assert found is not None
    assert found.low == pytest.approx(0.87 - 2.776 * deviation / math.sqrt(5), rel=1e-9)
    assert found.high == 1.0
    assert Interval.of_mean([0.9] * 5, 0, 1) is None
    assert Interval.of_mean([0.9, 0.8, 0.7], 0, 1) is None


@pytest.mark.parametrize(("columns", "said"), [(1, "1 column, none of 0:4"), (4, "4 columns, none of 4:")])
def test_columns_that_are_not_there_are_said(columns: int, said: str) -> None:
    values = {"y": np.zeros((1, 5, columns))}
    with pytest.raises(UserError, match=f"output 'y' has {said}"):
        counts(JOINED, values, values, {})
