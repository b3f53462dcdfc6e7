"""How sure a model is: of outputs that are known."""

from __future__ import annotations

import numpy as np
import pytest

from onnxq.task.layout import Boxes, CandidateColumns, Classes, PixelClasses, Spans
from onnxq.task.sureness import Move, SurenessMeter, measurable, moved

MOVE = Move(1 / 32, 1 / 32, (64, 64))


def of_classes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The measure of rows of scores, `[pictures, classes]`."""
    meter = SurenessMeter(Classes("y"), ("y",))
    for one, other in zip(first, second, strict=True):
        meter.add([one[None]], [other[None]], {}, MOVE)
    return meter.each


ROWS = np.eye(8)[np.arange(16) % 8]


def test_of_classes_it_is_what_an_answer_tells() -> None:
    np.testing.assert_allclose(of_classes(ROWS, ROWS), np.log(8), atol=0.05)
    np.testing.assert_allclose(of_classes(50 * ROWS, 50 * ROWS), np.log(8), atol=0.05)  # logits


def test_one_answer_for_all_tells_nothing() -> None:
    np.testing.assert_allclose(of_classes(ROWS[:1].repeat(16, 0), ROWS[:1].repeat(16, 0)), 0, atol=1e-6)


def test_answers_that_are_lost_count_against_it() -> None:
    lost = of_classes(ROWS, np.roll(ROWS, 1, 0))
    assert lost.mean() < -2
    unsure = np.full_like(ROWS, 1 / 8)
    np.testing.assert_allclose(of_classes(ROWS, unsure), 0, atol=1e-6)


def test_classes_that_are_excluded_are_those_of_low_probability() -> None:
    """Of logits and of the probabilities that they make alike; both pictures, the moved one too, count."""
    logits = np.array([[4.0, 0, 0, 0], [8.0, 0, 0, 0]])
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for values in (logits, shares):
        meter = SurenessMeter(Classes("y"), ("y",))
        meter.add([values], [values[::-1]], {}, MOVE)
        np.testing.assert_allclose(meter.excluded, [-np.log(shares).mean()] * 2)
        assert meter.sharpened(1) == pytest.approx(float(meter.each.mean()))


def test_sharpened_answers_are_those_to_greater_values() -> None:
    random = np.random.default_rng(1)
    first, second = (random.normal(0, 1, (16, 8)) for _ in range(2))
    meter = SurenessMeter(Classes("y"), ("y",))
    meter.add([first], [second], {}, MOVE)
    assert meter.sharpened(4) == pytest.approx(float(of_classes(4 * first, 4 * second).mean()))


def test_of_masks_places_move_along() -> None:
    random = np.random.default_rng(0)
    meter, still = (SurenessMeter(PixelClasses("y"), ("y",)) for _ in range(2))
    for _ in range(8):
        labels = random.integers(0, 4, (64, 64))
        there = labels[np.maximum(np.arange(64) - 2, 0)][:, np.maximum(np.arange(64) - 2, 0)]
        one, other = (np.moveaxis(np.eye(4)[some], -1, 0)[None] for some in (labels, there))
        meter.add([one], [other], {}, MOVE)
        still.add([one], [one], {}, MOVE)
    assert meter.each.mean() > 1
    assert abs(still.each.mean()) < 0.2


BOXES = Boxes(CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4, 5))


@pytest.mark.parametrize("unit", [1.0, 1 / 64])
def test_of_boxes_it_is_what_is_found_again(unit: float) -> None:
    box = np.array([[[10 * unit, 10 * unit, 16 * unit, 16 * unit, 0.9], [40, 40, 60, 60, 0.1]]])
    box[0, 1, :4] *= unit
    there = box.copy()
    there[..., :4] += 2 * unit
    meter = SurenessMeter(BOXES, ("y",))
    meter.add([box], [there], {}, MOVE)
    gone = there.copy()
    gone[..., :4] += 20 * unit
    meter.add([box], [gone], {}, MOVE)
    meter.add([box * 0], [box * 0], {}, MOVE)
    np.testing.assert_allclose(meter.each, [np.log1p(0.81), -np.log1p(0.81), 0])
    assert meter.is_of_boxes


def test_pictures_are_moved_a_little() -> None:
    picture = np.arange(64 * 96.0).reshape(1, 1, 64, 96)
    there, move = moved(picture, 2, 3)
    assert move == Move(2 / 64, 3 / 96, (64, 96))
    assert np.array_equal(there[:, :, 2:, 3:], picture[:, :, :-2, :-3])
    assert there.shape == picture.shape
    assert np.array_equal(there[:, :, 0, 3:], picture[:, :, 0, :-3])


def test_what_has_a_measure() -> None:
    assert measurable(Classes("y"))
    assert measurable(BOXES)
    assert not measurable(PixelClasses("y", over=0.5))
    assert not measurable(Spans("a", "b"))
    assert not measurable(None)
