"""How far answers are moved, of what keeps them apart: few tell what moves them before one is lost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from onnxq.judge.about_mean import AboutMeanGroups
from onnxq.judge.acceptance import Gain, Levels, judged
from onnxq.judge.policies import STEP
from onnxq.task.boxes import Detections
from onnxq.task.counted import CountedTask
from onnxq.task.detections import PictureCandidates
from onnxq.task.layout import Boxes, CandidateColumns, Classes, Layout, PixelClasses, Spans, Tokens
from onnxq.task.margins import Moves, of_boxes, of_candidates, of_classes
from onnxq.task.measures import agreed

BOXES = Boxes(CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4))
SCORE = 0.25

Named = dict[str, np.ndarray]


def margins(layout: Layout, reference: Named, candidate: Named, feeds: Named | None = None) -> Moves:
    (found,) = agreed(layout, reference, [candidate], feeds or {})
    assert found.moves is not None
    return found.moves


def pictures(scores: Sequence[float]) -> Named:
    """Boxes beside each other, one candidate each, of one class."""
    rows = [[2 * place, 0.0, 2 * place + 1.0, 1.0, score] for place, score in enumerate(scores)]
    return {"y": np.array([rows])}


RANDOM = np.random.default_rng(0)
CASES: Mapping[str, tuple[Layout, Named, Named]] = {
    "classes": (Classes("y"), {"y": RANDOM.random((3, 7))}, {}),
    "classes of a picture": (Classes("y"), {"y": RANDOM.random((1, 7, 1, 1))}, {}),
    "spans": (
        Spans("s", "e", "mask"), {"s": RANDOM.random((2, 9)), "e": RANDOM.random((2, 9))},
        {"mask": np.arange(9)[None] < [[6], [9]]},
    ),
    "tokens": (
        Tokens("y", "mask"), {"y": RANDOM.random((2, 5, 11))}, {"mask": np.arange(5)[None] < [[3], [5]]},
    ),
    "pixel classes": (PixelClasses("y"), {"y": RANDOM.random((1, 4, 6, 5))}, {}),
    "boxes": (BOXES, pictures([0.9, 0.3, 0.12, 0.05]), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_float_model_moves_none_of_its_answers(case: str) -> None:
    layout, outputs, feeds = CASES[case]
    found = margins(layout, outputs, outputs, feeds)
    assert found.moved == 0
    assert found.apart > 0
    noisy = {name: value + 0.02 * RANDOM.standard_normal(value.shape) for name, value in outputs.items()}
    other = margins(layout, outputs, noisy, feeds)
    assert other.moved > 0
    assert other.apart == found.apart  # it is the float model's


@pytest.mark.parametrize("case", CASES)
def test_of_outputs_of_another_shape_all_are_lost(case: str) -> None:
    layout, outputs, feeds = CASES[case]
    other = {name: value[:, :-1] for name, value in outputs.items()}
    if case == "boxes":
        other = {"y": outputs["y"][..., :4]}
    (found,) = agreed(layout, outputs, [other], feeds)
    assert found.moves is not None
    assert found.moves.moved > found.moves.apart
    assert found.answers.kept < found.answers.whole


# -- the greatest of some scores -------------------------------------------------------------------

FIRST = np.array([[5.0, 3.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("scores", "moved"),
    [
        ([5.0, 3.0, 1.0, 0.0], 0.0),
        ([5.0, 5.0, 1.0, 0.0], 4.0),  # to where another one is as great: its whole margin
        ([3.0, 3.0, 1.0, 0.0], 4.0),
        ([4.0, 3.0, 1.0, 0.0], 1.0),
        ([5.0, 7.0, 1.0, 0.0], 16.0),  # it is lost by as much as it was kept
        ([5.0, 3.0, 5.0, 0.0], 4.0),  # whoever the other one is
        ([8.0, 6.0, 4.0, 3.0], 0.0),  # all alike
        ([5.0, 3.0, 2.9, -9.0], 0.0),  # those that are far behind
        ([5.0, np.nan, 1.0, 0.0], np.inf),
        ([-np.inf, 3.0, 1.0, 0.0], np.inf),
    ],
)
def test_a_class_is_moved_by_what_its_lead_changes(scores: list[float], moved: float) -> None:
    assert of_classes(FIRST, np.array([scores])) == (4.0, moved)


def test_margins_are_of_all_rows() -> None:
    rows = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 1.0]])
    assert of_classes(rows, rows[:, ::-1]) == (1 + 9, 4 + 36)
    assert of_classes(rows.astype(np.float16), rows.astype(np.float16)) == (10, 0)


def test_what_is_masked_for_good_is_no_other_answer() -> None:
    """A class at minus infinity is none that it could become; of one alone there is no margin."""
    rows = np.array([[2.0, 1.0, -np.inf], [2.0, -np.inf, -np.inf]])
    given = np.array([[2.0, 1.5, -np.inf], [0.0, -np.inf, -np.inf]])
    assert of_classes(rows, given) == (1.0, 0.25)


@pytest.mark.parametrize("case", ["spans", "tokens"])
def test_padding_does_not_count(case: str) -> None:
    layout, outputs, feeds = CASES[case]
    padding = ~feeds["mask"]
    other = {name: value.copy() for name, value in outputs.items()}
    for value in other.values():
        value[padding] += 9 * RANDOM.random(value[padding].shape)
    exact = margins(layout, outputs, outputs, feeds)
    assert margins(layout, outputs, other, feeds) == exact
    assert margins(layout, other, other, feeds) == exact
    assert margins(layout, outputs, other).moved > 0  # nobody says that it is padding


def test_both_ends_of_a_span_count() -> None:
    exact = {"s": FIRST, "e": FIRST + 1}
    tied = {"s": np.array([[5.0, 5.0, 1.0, 0.0]]), "e": FIRST}
    assert margins(Spans("s", "e"), exact, tied) == (8.0, 4.0)


def test_each_pixel_has_a_margin() -> None:
    exact = np.zeros((1, 2, 3, 3))
    exact[:, 1] = 2.0
    moved = exact.copy()
    moved[0, 0, 1, 1] = 2.0
    assert margins(PixelClasses("y"), {"y": exact}, {"y": moved}) == (9 * 4.0, 4.0)
    last = PixelClasses("y", axis=3)
    assert margins(last, *({"y": np.moveaxis(one, 1, 3)} for one in (exact, moved))) == (36.0, 4.0)


def test_a_mask_is_apart_from_the_value_over_which_it_is() -> None:
    value = np.array([[[[1.0, -1.0, 2.0]]]])
    assert margins(PixelClasses("y", over=0.0), {"y": value}, {"y": value + 1}) == (6.0, 3.0)
    assert margins(PixelClasses("y", over=1.0), {"y": value}, {"y": value + 1}) == (5.0, 3.0)


def test_masks_of_whole_numbers_have_no_margins() -> None:
    labels = np.array([[[[1, 0, 2]]]])
    (found,) = agreed(PixelClasses("y", axis=None), {"y": labels}, [{"y": labels + 1}], {})
    assert found.moves is None


# -- boxes -----------------------------------------------------------------------------------------


def logit(score: float) -> float:
    return math.log(score / (1 - score))


def margin(score: float) -> float:
    """That of a score, squared."""
    return (logit(score) - logit(SCORE)) ** 2


def some(*boxes: tuple[float, float, float, float, float]) -> list[Detections]:
    """Left, top, right, bottom and score of each, of one class: of one picture."""
    rows = np.array(boxes).reshape(-1, 5)
    return [Detections(rows[:, :4], rows[:, 4], np.zeros(len(rows), int))]


ONE = (0.0, 0.0, 1.0, 1.0)
WANTED = some((*ONE, 0.9))


def test_a_score_that_is_moved_to_the_threshold_is_moved_by_its_whole_margin() -> None:
    for score in (0.9, 0.5, 0.26):
        apart, moved = of_boxes(some((*ONE, score)), some((*ONE, SCORE)), SCORE)
        assert moved == pytest.approx(apart) == pytest.approx(margin(score))
    assert of_boxes(WANTED, some((*ONE, 0.8)), SCORE).moved == pytest.approx((logit(0.9) - logit(0.8)) ** 2)


def test_a_box_that_is_lost_is_moved_by_more() -> None:
    apart, moved = of_boxes(WANTED, some(), SCORE)
    assert apart == pytest.approx(margin(0.9))
    assert moved == pytest.approx((logit(0.9) - logit(SCORE) + 1) ** 2)  # its margin, and one logit beyond
    assert moved > 1.5 * apart
    unsure = of_boxes(some((*ONE, 0.15)), some(), SCORE)  # it was none before
    assert unsure.moved == pytest.approx(unsure.apart)
    assert of_boxes(WANTED, [], SCORE) == (apart, moved)  # what has another shape detects nothing
    gone = of_boxes(WANTED, some((7.0, 0.0, 8.0, 1.0, 0.05)), SCORE)
    assert gone == (apart, moved)  # another one, which nobody takes for a detection


def test_a_new_box_counts() -> None:
    found = of_boxes(some(), some((*ONE, 0.9)), SCORE)
    assert found.moved == pytest.approx((logit(SCORE) - logit(0.1) + 1) ** 2)
    assert found.apart == 0  # that is the float model's alone
    more = of_boxes(WANTED, some((*ONE, 0.9), (7.0, 0.0, 8.0, 1.0, 0.9)), SCORE)
    assert more.moved == pytest.approx(found.moved)
    assert of_boxes(some(), some((*ONE, SCORE - 0.01)), SCORE) == (0, 0)  # it is none yet


def test_a_box_that_is_moved_until_it_hardly_matches_is_moved_by_its_whole_margin() -> None:
    half = of_boxes(WANTED, some((0.0, 0.0, 1.0, 2.0, 0.9)), SCORE)  # 0.5 of both
    assert half.moved == pytest.approx(half.apart)
    little = of_boxes(WANTED, some((0.0, 0.0, 1.0, 1.1, 0.9)), SCORE)
    share = (1 - 1 / 1.1) / 0.5
    assert little.moved == pytest.approx(margin(0.9) * share**2)
    faint = some((*ONE, 0.15))  # where what is no detection lies is nobody's concern
    assert of_boxes(faint, some((0.0, 0.0, 1.0, 1.5, 0.15)), SCORE).moved == 0


def test_a_box_of_another_class_is_a_lost_and_a_new_one() -> None:
    other = [WANTED[0]._replace(classes=np.ones(1, int))]
    lost, new = of_boxes(WANTED, some(), SCORE), of_boxes(some(), WANTED, SCORE)
    assert of_boxes(WANTED, other, SCORE).moved == pytest.approx(lost.moved + new.moved)


def test_what_is_near_to_be_a_detection_counts() -> None:
    found = of_boxes(some((*ONE, 0.2)), some((*ONE, 0.24)), SCORE)
    assert found.apart == pytest.approx(margin(0.2))
    assert 0 < found.moved < found.apart
    assert of_boxes(some((*ONE, 0.09)), some((*ONE, 0.2)), SCORE) == (0, 0)  # too far from it


def test_pictures_of_a_batch_add_up() -> None:
    both = of_boxes(WANTED * 2, some((*ONE, 0.8)) + some(), SCORE)
    one, other = of_boxes(WANTED, some((*ONE, 0.8)), SCORE), of_boxes(WANTED, some(), SCORE)
    assert both == pytest.approx((one.apart + other.apart, one.moved + other.moved))


def test_a_share_moves_of_that_are_0_or_1_is_finite() -> None:
    found = of_boxes(some((*ONE, 1.0)), some((*ONE, 0.0)), SCORE)
    assert math.isfinite(found.moved)
    assert math.isfinite(found.apart)


@pytest.mark.parametrize("given", [some(), some((*ONE, 0.3)), some((*ONE, 0.9))])
@pytest.mark.parametrize("score", [0.26, 0.4, 0.99])
def test_false_detections_never_make_a_candidate_better(given: list[Detections], score: float) -> None:
    """Also of one that loses what there is."""

    def share(found: Moves) -> float:
        return found.moved / found.apart

    false = [(10.0 + 2 * place, 0.0, 11.0 + 2 * place, 1.0, score) for place in range(5)]
    (plain,) = given
    more = [Detections(*(np.concatenate(both) for both in zip(plain, some(*false)[0], strict=True)))]
    assert share(of_boxes(WANTED, more, SCORE)) > share(of_boxes(WANTED, given, SCORE))


def test_what_is_no_detection_counts_less_than_one_that_is_lost() -> None:
    """Of a detection among faint boxes: either these are elsewhere, and still none; or it is lost."""
    faint = [(10.0 + 2 * place, 0.0, 11.0 + 2 * place, 1.0, 0.2) for place in range(3)]
    moved = [(left + 0.4, top, right + 0.4, bottom, score) for left, top, right, bottom, score in faint]
    wanted = some((*ONE, 0.4), *faint)
    elsewhere, lost = (of_boxes(wanted, given, SCORE) for given in (some((*ONE, 0.4), *moved), some(*faint)))
    assert elsewhere.moved < lost.moved
    assert elsewhere.moved <= elsewhere.apart  # no answer is another one


# -- few answers -----------------------------------------------------------------------------------


def images(count: int = 8) -> list[np.ndarray]:
    """One object each, and a candidate that is nothing."""
    random, found = np.random.default_rng(0), []
    for _ in range(count):
        x = random.uniform(0, 4)
        found.append(np.array([[[x, 0.0, x + 2, 2.0, 0.9], [20 - x, 0.0, 22 - x, 2.0, 0.01]]]))
    return found


def of_images(*changed: np.ndarray, count: int = 8) -> list[Levels]:
    """PictureCandidates by what each adds to all outputs."""
    dealt = AboutMeanGroups(["y"], candidates=len(changed), counter=CountedTask(["y"], BOXES))
    for exact in images(count):
        dealt.add([exact], [[exact + one] for one in changed], {})
    return Levels.of_each(dealt.groups)


LOWERS = np.array([[[0.0, 0.0, 0.0, 0.0, -0.5], [0.0] * 5]])
ELSEWHERE = np.array([[[0.0] * 5, [0.0, 0.0, 0.0, 0.5, 0.0]]])


def test_of_few_answers_margins_tell_candidates_apart_that_keep_as_many() -> None:
    """Eight images of one object: both keep all eight, and their outputs have as much noise."""
    near, far = of_images(ELSEWHERE, LOWERS)
    assert near.answers is not None
    assert far.answers is not None
    assert near.answers.kept == far.answers.kept == (1.0,) * 8
    assert near.answers.new == far.answers.new == (0.0,) * 8
    assert near.sqnr_db == pytest.approx(far.sqnr_db)
    assert near.answers.moved_share == 0
    wanted = ((logit(0.9) - logit(0.4)) / (logit(0.9) - logit(SCORE))) ** 2
    assert far.answers.moved_share == pytest.approx(wanted)
    gain = Gain.of(far, near)
    assert gain.outputs_db == pytest.approx(0)
    assert gain.db > 1
    assert judged(far, near, STEP).kept
    assert not judged(near, far, STEP).kept
    assert "alone +0.00 dB)" in judged(far, near, STEP).why


def test_a_candidate_whose_answers_have_another_shape_is_no_better() -> None:
    """They are not to be moved: they are lost. What other outputs say is the same of both."""
    dealt = AboutMeanGroups(["y", "z"], candidates=2, counter=CountedTask(["y", "z"], Classes("y")))
    random = np.random.default_rng(0)
    for _ in range(8):
        y, z = random.standard_normal((1, 4)), random.standard_normal((1, 9))
        dealt.add([y, z], [[0.9 * y, z + 0.1], [y[:, :3], z + 0.1]], {})
    moved, lost = Levels.of_each(dealt.groups)
    assert [*moved.of_all.levels] == [*lost.of_all.levels] == ["z"]
    assert Gain.of(moved, lost).db <= 0


def test_answers_that_nobody_counts_decide_nothing() -> None:
    counts = AboutMeanGroups(["y"], candidates=2)
    for exact in images():
        counts.add([exact], [[exact + LOWERS], [exact + ELSEWHERE]], {})
    assert Gain.of(*Levels.of_each(counts.groups)).db == pytest.approx(0, abs=1e-9)


# -- candidates of one place, before any suppresses another ----------------------------------------


def candidates(*rows: tuple[float, ...], classes: int = 1) -> list[PictureCandidates]:
    """Of one picture: corners, and a score of each class."""
    boxes = np.array([row[:4] for row in rows]).reshape(-1, 4)
    scores = np.array([row[4:] for row in rows]).reshape(-1, classes)
    return [PictureCandidates(scores, scores.argmax(1), boxes.__getitem__)]


def test_each_candidate_of_an_object_tells() -> None:
    """After suppression the greatest alone is compared, and which one that is may be another one."""
    wanted = candidates((*ONE, 0.9), (*ONE, 0.8))
    turned = candidates((*ONE, 0.8), (*ONE, 0.9))
    found = of_candidates(wanted, turned, SCORE)
    assert found.apart == pytest.approx(margin(0.9) + margin(0.8))
    assert found.moved == pytest.approx(2 * (logit(0.9) - logit(0.8)) ** 2)
    assert of_candidates(wanted, wanted, SCORE) == (found.apart, 0)


def test_a_candidate_alone_is_moved_as_a_detection_is() -> None:
    for row in ((*ONE, 0.8), (0.0, 0.0, 1.0, 1.1, 0.9), (0.0, 0.0, 1.0, 2.0, 0.9), (*ONE, 0.2)):
        for score in (0.9, 0.15):
            mine = of_candidates(candidates((*ONE, score)), candidates(row), SCORE)
            assert mine == pytest.approx(of_boxes(some((*ONE, score)), some(row), SCORE))


def test_another_class_at_its_place_moves_a_candidate() -> None:
    wanted = candidates((*ONE, 0.9, 0.01), classes=2)
    other = of_candidates(wanted, candidates((*ONE, 0.01, 0.9), classes=2), SCORE)
    assert other.moved == of_candidates(wanted, candidates((*ONE, 0.01, 0.01), classes=2), SCORE).moved
    assert other.moved > 1.5 * other.apart


def test_what_was_nothing_and_is_detected_counts() -> None:
    wanted = candidates((*ONE, 0.9), (*ONE, 0.01))
    found = of_candidates(wanted, candidates((*ONE, 0.9), (*ONE, 0.9)), SCORE)
    assert found.moved == of_boxes(some(), some((*ONE, 0.9)), SCORE).moved
    assert of_candidates(wanted, candidates((*ONE, 0.9), (*ONE, SCORE)), SCORE).moved == 0


@pytest.mark.parametrize("given", [[], candidates((*ONE, 0.9), (*ONE, 0.9)), candidates((*ONE, np.nan))])
def test_of_other_candidates_or_of_none_all_are_lost(given: list[PictureCandidates]) -> None:
    found = of_candidates(candidates((*ONE, 0.9)), given, SCORE)
    assert 1.5 * found.apart < found.moved < math.inf
    assert found.apart == pytest.approx(margin(0.9))
