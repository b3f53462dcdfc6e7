"""Answers of more tasks: the float model keeps all of its own, and what is disturbed loses what it should."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.base.errors import UserError
from onnxq.task.counted import CountedTask, counted
from onnxq.task.detections import detections
from onnxq.task.found import TaskFound
from onnxq.task.known import KnownTask
from onnxq.task.layout import (
    Boxes,
    CandidateColumns,
    DenseMap,
    Image,
    Layout,
    Lines,
    Peaks,
    PixelClasses,
    Points,
    Selections,
    Vectors,
)
from onnxq.task.measures import agreed, counts, edits
from onnxq.task.meter import TaskMeter
from onnxq.task.peaks import peaks
from onnxq.task.sureness import measurable

RANDOM = np.random.default_rng(5)
PICTURE = {"x": np.zeros((1, 3, 64, 64), np.float32)}


def of(layout: Layout, wanted: dict[str, Any], given: dict[str, Any]) -> list[tuple[float, float, int]]:
    return [tuple(one) for one in counts(layout, wanted, given, PICTURE)]  # type: ignore[misc]


# -- peaks -------------------------------------------------------------------------------------

PEAKS = Peaks("s", "z", "o")


def scene(*things: tuple[int, int, float, float, float]) -> dict[str, np.ndarray]:
    """Maps of 16 by 16 cells: at a column and a row a score, and a width and a height in cells."""
    found = {
        "s": np.full((1, 1, 16, 16), 0.01),
        "z": np.zeros((1, 2, 16, 16)),
        "o": np.full((1, 2, 16, 16), 0.5),
    }
    for column, row, score, wide, high in things:
        found["s"][0, 0, row, column] = score
        found["s"][0, 0, row, column - 1] = 0.9 * score  # beside the peak
        found["z"][0, :, row, column] = wide, high
    return found


def test_a_peak_is_a_box_around_its_cell() -> None:
    values = scene((4, 8, 0.9, 3, 2))
    values["o"][0, :, 8, 4] = 0.25, 0.75
    (found,) = peaks(replace(PEAKS, size="direct"), values, values, 0.25)
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.9], [0])
    assert found.boxes.tolist() == [[4.25 - 1.5, 8.75 - 1, 4.25 + 1.5, 8.75 + 1]]
    logs = {
        **values,
        "z": np.log(np.maximum(values["z"], 1e-9)),
        "s": np.log(values["s"] / (1 - values["s"])),
    }
    (same,) = peaks(replace(PEAKS, size="exp", sigmoid=True), logs, logs, 0.25)
    assert np.allclose(same.boxes, found.boxes)
    turned = {**values, "z": values["z"][:, ::-1], "o": values["o"][:, ::-1]}
    (same,) = peaks(replace(PEAKS, size="direct", rows_first=True), turned, turned, 0.25)
    assert np.allclose(same.boxes, found.boxes)
    sides = {**values, "z": np.tile(values["z"] / 2, (1, 2, 1, 1))}
    (same,) = peaks(replace(PEAKS, size="direct"), sides, sides, 0.25)
    assert np.allclose(same.boxes, found.boxes)


def test_sizes_that_are_not_said_to_be_logarithms_tell_it() -> None:
    for logarithms, wide in ((True, math.log(6)), (False, 12.0), (True, -0.5)):
        values = scene((8, 8, 0.9, wide, wide))
        (found,) = peaks(PEAKS, values, values, 0.25)
        side = math.exp(wide) if logarithms else wide
        assert found.boxes[0, 2] - found.boxes[0, 0] == pytest.approx(side)


def test_peaks_are_kept_by_overlap_and_without_sizes_by_distance() -> None:
    wanted = scene((3, 3, 0.9, 9, 9), (11, 11, 0.8, 8, 8), (3, 12, 0.1, 8, 8))
    assert of(PEAKS, wanted, wanted) == [(2, 2, 0), (3, 3, 0)]
    small = scene((3, 3, 0.9, 4, 4), (11, 11, 0.8, 8, 8), (3, 12, 0.1, 8, 8))
    assert of(PEAKS, wanted, small) == [(1, 2, 1), (2, 3, 1)]
    assert of(PEAKS, wanted, {**wanted, "s": wanted["s"][..., :8]}) == [(0, 2, 0), (0, 3, 0)]
    bare = Peaks("s")
    near, far = scene((5, 3, 0.9, 1, 1), (11, 11, 0.8, 1, 1)), scene((6, 3, 0.9, 1, 1), (11, 11, 0.8, 1, 1))
    assert of(bare, wanted, near)[0] == (2, 2, 0)  # two cells aside
    assert of(bare, wanted, far)[0] == (1, 2, 1)
    faint = scene((3, 3, 0.24, 9, 9), (11, 11, 0.8, 8, 8))
    assert [one.answers for one in agreed(PEAKS, wanted, [wanted, faint], {})] == [(2, 2, 0), (1, 2, 0)]
    with pytest.raises(UserError, match="no maps of one size"):
        counts(PEAKS, {**wanted, "z": wanted["z"][..., :8]}, wanted, {})


# -- selections, priors, anchors ---------------------------------------------------------------


def test_selections_are_kept_by_their_numbers_or_by_the_boxes_that_they_name() -> None:
    rows = np.array([[0, 0, 5], [0, 1, 5], [0, 0, 7], [-1, -1, -1]])
    other = np.array([[0, 0, 5], [0, 1, 6], [0, 0, 7], [0, 0, 8]])
    assert of(Selections("i"), {"i": rows}, {"i": rows}) == [(3, 3, 0)]
    assert of(Selections("i"), {"i": rows}, {"i": other}) == [(2, 3, 2)]
    assert of(Selections("i"), {"i": rows}, {"i": rows[:0]}) == [(0, 3, 0)]
    boxes = np.array([[[10.0 * place, 0, 10 * place + 4, 4] for place in range(9)]])
    boxes[0, 6] = boxes[0, 5] + 0.2  # the box beside it is the same thing
    two = Selections("i", "b")
    assert of(two, {"i": rows, "b": boxes}, {"i": other, "b": boxes}) == [(3, 3, 1)]
    turned = boxes[..., [2, 3, 0, 1]]
    assert of(two, {"i": rows, "b": turned}, {"i": other, "b": boxes}) == [(3, 3, 1)]


PRIORS = Boxes(
    CandidateColumns(("b",)), CandidateColumns(("s",)), form="priors", apart=True, background=0, nms=None
)


def test_a_prior_is_kept_where_its_row_is() -> None:
    boxes = RANDOM.standard_normal((1, 40, 4))
    scores = np.tile([0.9, 0.05, 0.05], (1, 40, 1))
    scores[0, [3, 4, 20]] = [0.1, 0.8, 0.1]
    wanted = {"b": boxes, "s": scores}
    assert of(PRIORS, wanted, wanted)[0] == (3, 3, 0)
    moved, other, there = boxes.copy(), scores.copy(), scores.copy()
    moved[0, 3, 0] += 5  # half of a prior's width
    moved[0, 20, 0] += 1
    other[0, 4] = [0.1, 0.1, 0.8]
    there[0, [4, 5]] = there[0, [5, 4]]  # the row beside it says the same
    assert of(PRIORS, wanted, {"b": moved, "s": scores})[0] == (2, 3, 1)
    assert of(PRIORS, wanted, {"b": boxes, "s": other})[0] == (2, 3, 1)
    assert of(PRIORS, wanted, {"b": np.zeros_like(boxes), "s": there})[0][1:] == (3, 3 - of(
        PRIORS, wanted, {"b": np.zeros_like(boxes), "s": there})[0][0])  # fmt: skip
    assert not measurable(PRIORS)


def test_anchors_of_grids_give_their_corners() -> None:
    """A box of 24 by 12 pixels around (36, 20): the second anchor's, at strides of 16, cell (2, 1)."""
    sizes = ((10.0, 10.0), (20.0, 20.0), (30.0, 30.0), (12.0, 24.0))
    layout = Boxes(
        CandidateColumns(("a", "b"), 0, 4), CandidateColumns(("a", "b"), 4), form="anchored",
        strides=(8, 16), anchors=sizes, image=Image("x", 2),
    )  # fmt: skip
    outputs = {"a": np.zeros((1, 2, 8, 8, 6)), "b": np.zeros((1, 2, 4, 4, 6))}
    centre = ((36 / 16 - 2 + 0.5) / 2, (20 / 16 - 1 + 0.5) / 2)
    outputs["b"][0, 1, 1, 2] = [*centre, math.sqrt(24 / 12) / 2, math.sqrt(12 / 24) / 2, 0.1, 0.8]
    (found,) = detections(layout, outputs, PICTURE)
    assert np.allclose(found.boxes, [[24, 14, 48, 26]])
    assert (found.classes.tolist(), found.scores.tolist()) == ([1], [0.8])
    columns = {name: np.moveaxis(one, -1, 2).reshape(1, 12, *one.shape[2:4]) for name, one in outputs.items()}
    (same,) = detections(replace(layout, by_column=True), columns, PICTURE)
    assert np.allclose(same.boxes, found.boxes)
    flat = {name: one.reshape(1, -1, 6) for name, one in outputs.items()}
    assert np.allclose(detections(layout, flat, PICTURE)[0].boxes, found.boxes)
    logits = {
        name: np.log(np.maximum(one, 1e-9) / (1 - np.minimum(one, 0.999))) for name, one in outputs.items()
    }
    assert np.allclose(
        detections(replace(layout, activation="sigmoid"), logits, PICTURE)[0].boxes, found.boxes
    )
    outputs["b"][0, 1, 1, 2] = [0.25, 0.25, math.log(24 / 12), math.log(12 / 24), 0.1, 0.8]
    assert np.allclose(detections(replace(layout, form="darknet"), outputs, PICTURE)[0].boxes, found.boxes)


# -- vectors -----------------------------------------------------------------------------------


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / math.sqrt((one @ one) * (other @ other)))


def nearest(rows: np.ndarray, place: int) -> int:
    return max(
        (other for other in range(len(rows)) if other != place), key=lambda at: cosine(rows[place], rows[at])
    )


def test_vectors_have_neighbors_among_the_samples() -> None:
    rows = RANDOM.standard_normal((12, 32))
    rows[1], rows[3] = rows[0] + 0.1 * rows[2], rows[2] + 0.1 * rows[0]  # two pairs
    same, turned = TaskMeter(("y",), Vectors("y")), TaskMeter(("y",), Vectors("y"))
    for place, row in enumerate(rows):
        same.add([row[None]], [[3 * row[None]]])
        other = rows[4] + 0.01 * row if place == 0 else row  # it is near another one now
        turned.add([row[None]], [[other[None]]])
    assert [one.percent for one in same.figures] == pytest.approx([100, 100, 100])
    assert [one.kind for one in same.figures] == ["neighbors", "cosines", "ranks"]
    assert "12 vectors" in same.figure.said
    others = rows.copy()
    others[0] = rows[4] + 0.01 * rows[0]
    kept = sum(
        cosine(rows[place], rows[nearest(others, place)])
        >= cosine(rows[place], rows[nearest(rows, place)]) - 0.02
        for place in range(12)
    )
    assert (turned.figure.kept, turned.figure.whole) == (kept, 12)
    assert kept <= 9  # it, that of its pair, and the one that it went to
    assert turned.figures[1].kept == pytest.approx(11 + max(0, cosine(rows[0], others[0])))
    assert turned.scores.value == turned.figure.percent
    both = agreed(Vectors("y"), {"y": rows[:1]}, [{"y": 2 * rows[:1]}, {"y": -rows[:1]}], {})
    assert [one.answers for one in both] == [(1, 1, 0), (0, 1, 0)]


def test_of_few_vectors_their_cosines_are_the_figure() -> None:
    meter = TaskMeter(("y",), Vectors("y"))
    for row in RANDOM.standard_normal((3, 8)):
        meter.add([row[None]], [[row[None]]])
    assert [one.kind for one in meter.figures] == ["cosines"]
    assert meter.scores.value == pytest.approx(100)


def test_a_neighbor_that_is_about_as_near_is_as_good() -> None:
    def kept(second: float) -> float:
        """Of four vectors: the first has neighbors of 0.9 and of this, and the other model swaps them."""
        first, near = np.eye(4)[0], np.array([0.9, math.sqrt(1 - 0.81), 0, 0])
        less = np.array([second, 0, math.sqrt(1 - second**2), 0])
        meter = TaskMeter(("y",), Vectors("y"))
        for one, other in ((first, first), (near, less), (less, near), (np.eye(4)[3], np.eye(4)[3])):
            meter.add([one[None]], [[other[None]]])
        return meter.figure.kept

    assert kept(0.89) == 4
    assert kept(0.85) == 3


def test_vectors_of_tokens_are_pooled_without_padding() -> None:
    tokens = RANDOM.standard_normal((2, 5, 8))
    other, mask = tokens.copy(), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    other[0, 3:] = 9  # padding
    layout = Vectors("y", mask="m")
    feeds = {"m": mask}
    assert counts(layout, {"y": tokens}, {"y": other}, feeds)[1].kept == pytest.approx(2)
    assert counts(layout, {"y": tokens}, {"y": other}, {})[1].kept < 1.9
    other[:, 1:] = 9
    assert counts(replace(layout, pool="first"), {"y": tokens}, {"y": other}, feeds)[1].kept == pytest.approx(
        2
    )


# -- points, lines, maps -----------------------------------------------------------------------


def test_points_are_kept_by_their_mean_distance_as_a_part_of_the_thing() -> None:
    square = np.array([[[0.0, 0], [3, 0], [3, 4], [0, 4]]])  # whose diagonal is 5
    for by, kept in ((0.1, 1), (0.2, 0)):
        off = square + np.array([by, 0])
        near, distance = of(Points("y"), {"y": square}, {"y": off})
        assert near == (kept, 1, 0)
        assert distance == (pytest.approx(by / 5), 1, 0)
        row = {"y": square.reshape(1, 8)}, {"y": off.reshape(1, 8)}
        assert of(Points("y"), *row) == [near, distance]
    assert of(Points("y", within=5), {"y": square}, {"y": square + np.array([0.2, 0])})[0] == (1, 1, 0)
    assert of(Points("y"), {"y": np.ones((1, 8))}, {"y": np.zeros((1, 8))})[0] == (0, 0, 0)  # of no size
    two = {"y": np.concatenate([square, square]), "p": np.array([[0.9], [0.2]])}  # one is not there
    off = {"y": np.concatenate([square, square + 1]), "p": np.array([[0.1], [0.9]])}
    assert of(Points("y", there="p"), two, off)[0] == (1, 1, 0)
    assert of(Points("y"), two, off)[0] == (1, 2, 0)
    with pytest.raises(UserError, match="points of 3 numbers"):
        counts(Points("y", 3), {"y": np.zeros((1, 8))}, {"y": np.zeros((1, 8))}, {})


def line(*characters: int, count: int = 6) -> np.ndarray:
    return np.eye(count)[list(characters)][None]


def test_lines_are_read_without_repeats_and_blanks() -> None:
    wanted = {"y": line(0, 1, 1, 0, 1, 2, 0, 0, 3)}  # 1, 1, 2, 3
    same = {"y": line(1, 1, 0, 0, 1, 2, 2, 3, 0)}
    lost = {"y": line(0, 1, 1, 1, 1, 2, 0, 0, 3)}  # 1, 2, 3
    assert of(Lines("y"), wanted, wanted) == [(1, 1, 0), (4, 4, 0)]
    assert of(Lines("y"), wanted, same) == [(1, 1, 0), (4, 4, 0)]
    assert of(Lines("y"), wanted, lost) == [(0, 1, 0), (3, 4, 0)]
    last = {"y": wanted["y"][..., [1, 2, 3, 4, 5, 0]]}, {"y": lost["y"][..., [1, 2, 3, 4, 5, 0]]}
    for blank in (None, -1, 5):
        assert of(Lines("y", blank=blank), *last) == [(0, 1, 0), (3, 4, 0)]
    turned = {"y": wanted["y"].swapaxes(0, 1)}, {"y": lost["y"].swapaxes(0, 1)}
    assert of(Lines("y", positions_first=True), *turned) == [(0, 1, 0), (3, 4, 0)]
    empty = {"y": line(*[0] * 9)}
    assert of(Lines("y"), empty, wanted) == [(0, 0, 1), (0, 0, 0)]
    assert of(Lines("y"), wanted, empty) == [(0, 1, 0), (0, 4, 0)]
    assert of(Lines("y"), wanted, {"y": line(1, 2)}) == [(0, 1, 0), (2, 4, 0)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_edits_are_as_few_as_can_be(one: list[int], other: list[int]) -> None:
    def plain(a: list[int], b: list[int]) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(plain(a[1:], b) + 1, plain(a, b[1:]) + 1, plain(a[1:], b[1:]) + (a[0] != b[0]))

    assert edits(one, other) == plain(one, other)


def test_depth_is_kept_where_it_is_about_as_far() -> None:
    wanted = np.linspace(1, 10, 100).reshape(1, 1, 10, 10)
    layout = DenseMap("y", "depth")
    assert of(layout, {"y": wanted}, {"y": wanted}) == [(1, 1, 0)]
    assert of(layout, {"y": wanted}, {"y": 1.24 * wanted}) == [(1, 1, 0)]
    far = wanted.copy()
    far[0, 0, :3] *= 1.5
    assert of(layout, {"y": wanted}, {"y": far}) == [(pytest.approx(0.7), 1, 0)]
    assert of(layout, {"y": wanted[:, 0]}, {"y": far[:, 0]}) == [(pytest.approx(0.7), 1, 0)]
    zeros = wanted - 1
    assert of(layout, {"y": zeros}, {"y": zeros + 0.1}) == [(1, 1, 0)]  # near 0 a ratio says nothing
    assert of(layout, {"y": -wanted}, {"y": -1.2 * wanted}) == [(1, 1, 0)]
    assert of(layout, {"y": wanted}, {"y": np.full_like(wanted, np.nan)}) == [(0, 1, 0)]


def test_flow_is_kept_within_three_pixels_or_a_twentieth() -> None:
    wanted = np.zeros((1, 2, 10, 10))
    wanted[0, 0, :5] = 100
    for by, share in ((2.9, 1), (4.9, 0.5), (5.1, 0)):
        given = wanted + np.array([by, 0]).reshape(1, 2, 1, 1)
        assert of(DenseMap("y", "flow"), {"y": wanted}, {"y": given}) == [(share, 1, 0)]
    with pytest.raises(UserError, match="2, height, width"):
        counts(DenseMap("y", "flow"), {"y": wanted[:, :1]}, {"y": wanted[:, :1]}, {})


@pytest.mark.parametrize("white", [1, 255])
def test_a_picture_is_kept_from_35_db_on(white: float) -> None:
    wanted = white * RANDOM.uniform(0, 1, (2, 3, 32, 32))
    for level, kept in ((34.5, 1), (35.5, 2)):
        given = wanted.copy()
        given[0] += white * 10 ** (-level / 20) * RANDOM.choice([-1, 1], wanted[0].shape)
        assert of(DenseMap("y", "image"), {"y": wanted}, {"y": given}) == [(kept, 2, 0)]


def test_a_class_of_few_pixels_weighs_less() -> None:
    """One of four pixels of 40,000 is lost: its IoU is 0, and it is a tenth of what a class weighs."""
    wanted = np.zeros((1, 200, 200), int)
    wanted[0, 100:] = 1
    wanted[0, :2, :2] = 2
    given = np.where(wanted == 2, 0, wanted)
    (found,) = of(PixelClasses("y", None), {"y": wanted}, {"y": given})
    assert found[0] == pytest.approx(((20000 - 4) / 20000 + 1) / 2.1, rel=1e-9)


# -- what decides, what has another shape ------------------------------------------------------

OUTPUTS: dict[str, tuple[Layout, dict[str, np.ndarray]]] = {
    "peaks": (PEAKS, scene((3, 3, 0.9, 9, 9))),
    "selections": (Selections("y"), {"y": np.array([[0, 0, 1]])}),
    "vectors": (Vectors("y"), {"y": np.ones((1, 8))}),
    "points": (Points("y"), {"y": np.arange(8.0)[None]}),
    "lines": (Lines("y"), {"y": line(1, 2)}),
    "depth": (DenseMap("y", "depth"), {"y": np.ones((1, 1, 4, 4))}),
    "flow": (DenseMap("y", "flow"), {"y": np.ones((1, 2, 4, 4))}),
    "image": (DenseMap("y", "image"), {"y": np.ones((1, 3, 4, 4))}),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_has_another_shape_or_no_numbers_keeps_nothing(name: str) -> None:
    layout, values = OUTPUTS[name]
    whole = agreed(layout, values, [values], {})[0].answers.whole
    shorter = {one: value[..., :-1] for one, value in values.items()}
    broken = {
        one: np.full(value.shape, np.nan) if value.dtype.kind == "f" else -value
        for one, value in values.items()
    }
    with np.errstate(invalid="ignore"):
        for other in (shorter, broken) if name != "lines" else (shorter,):
            (found,) = agreed(layout, values, [other], {})
            assert found.answers == (0, whole, 0), other
    assert whole == 1


@pytest.mark.parametrize("name", OUTPUTS)
def test_candidates_are_compared_by_them(name: str) -> None:
    layout, values = OUTPUTS[name]
    known = KnownTask(layout, TaskFound(name), True)
    counter = counted(known, list(values))
    assert isinstance(counter, CountedTask)
    outputs = list(values.values())
    (one, _) = counter(outputs, [outputs, outputs], {})
    assert (one.kept, one.whole, one.new) == (pytest.approx((1,)), (1,), (0,))
    heard = counted(known, list(values), frozenset(layout.outputs))  # in front of their Softmax
    assert (heard is None) == (name != "lines")
