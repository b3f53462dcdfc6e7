"""How much of the float model's answers a sample's outputs keep, by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, Literal, NamedTuple

import numpy as np

from onnxq.base.errors import UserError
from onnxq.judge.comparable import as_tensor
from onnxq.task.boxes import NONE, Detections, matched
from onnxq.task.detections import LEAST, PictureCandidates, detections, in_pictures
from onnxq.task.layout import (
    Boxes,
    Classes,
    DenseMap,
    Layout,
    Lines,
    MultiLabel,
    Peaks,
    PixelClasses,
    Points,
    Selections,
    Spans,
    Tokens,
    Vectors,
)
from onnxq.task.margins import LOWEST, Moves, joined, lost, of_boxes, of_candidates, of_classes, of_mask
from onnxq.task.numbers import kept_of_map, moved_points
from onnxq.task.peaks import peaks, selections
from onnxq.task.vectors import vectors

FigureKind = Literal[
    "top1", "top5", "labels", "detections", "masks", "tokens", "spans", "starts", "ends", "selections",
    "neighbors", "cosines", "ranks", "objects", "distances", "lines", "characters", "depths", "flows",
    "images",
]  # fmt: skip

MEANS: frozenset[FigureKind] = frozenset({"masks", "cosines", "ranks", "distances", "depths", "flows"})
"""Those that are means of a number of 0 to 1 of each sample's things."""

SCORES = (0.25, LEAST)
"""The scores over which detections are counted: what is shown to people, and what a recall is made of."""

_SEVERAL = 5

_THERE = 0.5

_FEW_PIXELS = 1e-3
"""Of a picture: a class that covers less of it weighs less, as its overlap is a matter of few pixels."""

Named = Mapping[str, Any]
Feeds = Mapping[str, np.ndarray]


class Count(NamedTuple):
    """What is kept in one sample.

    Attributes:
        kept: how much of the float model's answers.
        whole: how many there are.
        new: answers that the float model does not give.
    """

    kept: float
    whole: float
    new: int = 0


class Agreed(NamedTuple):
    """What a candidate makes of the answers of a sample.

    Attributes:
        answers: how many are kept.
        moves: how far they are moved; None where that is not known.
    """

    answers: Count
    moves: Moves | None


_OF_MAPS: Mapping[str, FigureKind] = {"depth": "depths", "flow": "flows", "image": "images"}


def kinds(layout: Layout) -> tuple[tuple[FigureKind, float | None], ...]:
    """The figures of a layout, the one that goals are about first; of detections with the score."""
    match layout:
        case Classes():
            return ("top1", None), ("top5", None)
        case MultiLabel():
            return (("labels", None),)
        case Tokens():
            return (("tokens", None),)
        case Spans():
            return ("spans", None), ("starts", None), ("ends", None)
        case PixelClasses():
            return (("masks", None),)
        case Boxes() | Peaks():
            return tuple(("detections", score) for score in SCORES)
        case Selections():
            return (("selections", None),)
        case Vectors():
            return ("neighbors", None), ("cosines", None), ("ranks", None)
        case Points():
            return ("objects", None), ("distances", None)
        case Lines():
            return ("lines", None), ("characters", None)
        case DenseMap(what=what):
            return ((_OF_MAPS[what], None),)


def counts(layout: Layout, reference: Named, candidate: Named, feeds: Feeds) -> list[Count]:
    """What a sample keeps, for each of `kinds`.

    Args:
        layout: how outputs are read.
        reference: those of the float model, by name.
        candidate: the other's; what has another shape keeps nothing.
        feeds: what both were fed.

    Raises:
        UserError: the float model's outputs are not as the layout says.
    """
    match layout:
        case Classes():
            return _classes(layout, reference, candidate)
        case MultiLabel():
            return [_labels(layout, reference, candidate)]
        case Tokens():
            return _tokens(layout, reference, candidate, feeds)
        case Spans():
            return _spans(layout, reference, candidate, feeds)
        case PixelClasses():
            return _masks(layout, reference, candidate)
        case Boxes() | Peaks():
            return _boxes(layout, reference, candidate, feeds)
        case Selections():
            wanted, given = (_detected(layout, reference, one, feeds) for one in (reference, candidate))
            return [_kept(wanted, given, -np.inf)]
        case Vectors():
            return _vectors(layout, reference, candidate, feeds)
        case Points():
            return _points(layout, reference, candidate)
        case Lines():
            return _lines(layout, reference, candidate)
        case DenseMap():
            return _map(layout, reference, candidate)


def agreed(layout: Layout, reference: Named, candidates: Sequence[Named], feeds: Feeds) -> list[Agreed]:
    """What a sample keeps with each candidate, of the first of `kinds` that one tells; see `counts`."""
    if isinstance(layout, Boxes | Peaks):
        wanted = _detected(layout, reference, reference, feeds, LOWEST)
        given = [_detected(layout, reference, one, feeds, LOWEST) for one in candidates]
        kept = [_kept(wanted, one, SCORES[0]) for one in given]
        if isinstance(layout, Boxes) and layout.nms is not None:
            places, *others = (_places(layout, one, feeds) for one in (reference, *candidates))
            moves = [of_candidates(places, one, SCORES[0]) for one in others]
        else:
            moves = [of_boxes(wanted, one, SCORES[0]) for one in given]
        return [Agreed(*both) for both in zip(kept, moves, strict=True)]
    told = 1 if isinstance(layout, Vectors) else 0  # neighbors are in other samples
    return [
        Agreed(counts(layout, reference, one, feeds)[told], moves_of(layout, reference, one, feeds))
        for one in candidates
    ]


def moves_of(layout: Layout, reference: Named, candidate: Named, feeds: Feeds) -> Moves | None:
    """How far answers are moved that are the greatest of scores; None of other layouts."""
    match layout:
        case PixelClasses(over=float() as over) | MultiLabel(over=over):
            wanted, given = (as_tensor(one[layout.output]) for one in (reference, candidate))
            same = wanted.shape == given.shape
            return of_mask(wanted, given, over) if same else lost(of_mask(wanted, wanted, over))
        case Classes() | Lines() | Tokens() | Spans() | PixelClasses(axis=int()):
            return joined(_moves(layout, name, reference, candidate, feeds) for name in layout.outputs)
    return None


def _moves(layout: Layout, name: str, reference: Named, candidate: Named, feeds: Feeds) -> Moves:
    """How far the answers of one output are moved."""
    wanted, given = (as_tensor(one[name]) for one in (reference, candidate))
    same = wanted.shape == given.shape
    given = given if same else wanted
    match layout:
        case PixelClasses(axis=int() as axis):
            wanted, given = (np.moveaxis(one, axis, -1) for one in (wanted, given))
        case Tokens():
            fed = _fed(layout.mask, feeds, wanted.shape[:2])
            wanted, given = wanted[fed], given[fed]
        case Spans():
            wanted, given = map(in_rows, (wanted, given))
            fed = _fed(layout.mask, feeds, wanted.shape)
            wanted, given = (np.where(fed, one, -np.inf) for one in (wanted, given))
        case _:
            wanted, given = map(in_rows, (wanted, given))
    found = of_classes(wanted, given)
    return found if same else lost(found)


def _classes(layout: Classes, reference: Named, candidate: Named) -> list[Count]:
    """Top-1: the greatest entry is the float model's. Top-5: the float model's is among the five greatest."""
    wanted, given = (in_rows(as_tensor(one[layout.output])) for one in (reference, candidate))
    if wanted.ndim < 1 or wanted.shape[-1] < 2 or wanted.dtype.kind not in "fiu":
        raise UserError(
            f"output {layout.output!r} has no classes to compare: its shape is {list(wanted.shape)}",
            hint="name an output whose last axis is that of the classes",
        )
    best = wanted.argmax(-1)
    if given.shape != wanted.shape:
        return [Count(0, best.size)] * 2
    same = int((given.argmax(-1) == best).sum())
    if wanted.shape[-1] <= _SEVERAL:
        return [Count(same, best.size), Count(0, 0)]
    own = np.take_along_axis(given, best[..., None], -1)
    among = int(((given > own).sum(-1) < _SEVERAL).sum())
    return [Count(same, best.size), Count(among, best.size)]


def _labels(layout: MultiLabel, reference: Named, candidate: Named) -> Count:
    """Of the labels that either model gives those that both give: one too many is as bad as one too few."""
    wanted, given = (as_tensor(one[layout.output]) for one in (reference, candidate))
    mine = wanted > layout.over
    if given.shape != wanted.shape:
        return Count(0, int(mine.sum()))
    theirs = given > layout.over
    return Count(int((mine & theirs).sum()), int((mine | theirs).sum()))


def in_rows(value: np.ndarray) -> np.ndarray:
    """With the classes last: `[batch, classes, 1, 1]` are those of one row."""
    while value.ndim > 2 and value.shape[-1] == 1:
        value = value[..., 0]
    return value


def _tokens(layout: Tokens, reference: Named, candidate: Named, feeds: Feeds) -> list[Count]:
    wanted, given = (as_tensor(one[layout.output]) for one in (reference, candidate))
    if wanted.ndim != 3:
        raise _no(layout.output, wanted, "[batch, positions, words]")
    some = _fed(layout.mask, feeds, wanted.shape[:2])
    if given.shape != wanted.shape:
        return [Count(0, int(some.sum()))]
    return [Count(int(((wanted.argmax(-1) == given.argmax(-1)) & some).sum()), int(some.sum()))]


def _spans(layout: Spans, reference: Named, candidate: Named, feeds: Feeds) -> list[Count]:
    same = []
    for name in layout.outputs:
        wanted, given = (in_rows(as_tensor(one[name])) for one in (reference, candidate))
        if wanted.ndim != 2:
            raise _no(name, wanted, "[batch, positions]")
        some = _fed(layout.mask, feeds, wanted.shape)
        if given.shape == wanted.shape:
            best, other = (
                np.where(some, one.astype(np.float64), -np.inf).argmax(-1) for one in (wanted, given)
            )
            same.append(best == other)
        else:
            same.append(np.zeros(len(wanted), bool))
    start, end = same
    return [Count(int(one.sum()), len(one)) for one in (start & end, start, end)]


def _fed(mask: str | None, feeds: Feeds, shape: tuple[int, ...]) -> np.ndarray:
    """Where positions are no padding, bool `[batch, positions]`; with a past, the last ones are meant."""
    found = None if mask is None else feeds.get(mask)
    if found is None or found.ndim != 2 or len(found) != shape[0] or found.shape[1] < shape[1]:
        return np.ones(shape[:2], bool)
    return found[:, -shape[1] :].astype(bool)


def _masks(layout: PixelClasses, reference: Named, candidate: Named) -> list[Count]:
    """The mean of the IoU of each class that either has, and that of the samples' pictures."""
    wanted, given = (pixel_labels(layout, as_tensor(one[layout.output])) for one in (reference, candidate))
    if wanted.shape != given.shape:
        return [Count(0, len(wanted))]
    return [Count(sum(mean_iou(one, other) for one, other in zip(wanted, given, strict=True)), len(wanted))]


def pixel_labels(layout: PixelClasses, value: np.ndarray) -> np.ndarray:
    """The class of each pixel.

    Raises:
        UserError: the output is not as the layout says.
    """
    if layout.over is not None:
        return value > layout.over
    if layout.axis is None:
        return value
    if value.ndim <= layout.axis:
        raise _no(layout.output, value, "[batch, classes, height, width]")
    return np.asarray(value.argmax(layout.axis))


def mean_iou(wanted: np.ndarray, given: np.ndarray) -> float:
    """The mean over the classes of two label maps of the intersection over the union of each, 0 to 1.

    Classes of few pixels in both weigh less.
    """
    ious, weights = [], []
    for label in np.union1d(wanted, given):
        one, other = wanted == label, given == label
        either = np.count_nonzero(one | other)
        ious.append(np.count_nonzero(one & other) / either)
        weights.append(min(1.0, either / (_FEW_PIXELS * wanted.size)))
    return float(np.average(ious, weights=weights)) if ious else 1.0


def _boxes(layout: Boxes | Peaks, reference: Named, candidate: Named, feeds: Feeds) -> list[Count]:
    wanted, given = (_detected(layout, reference, one, feeds) for one in (reference, candidate))
    return [_kept(wanted, given, score) for score in SCORES]


def _detected(
    layout: Boxes | Peaks | Selections, reference: Named, values: Named, feeds: Feeds, least: float = LEAST
) -> list[Detections]:
    """What a model detects; nothing where it is not the float model and has outputs of another shape."""
    try:
        if isinstance(layout, Peaks):
            return peaks(layout, values, reference, least)
        if isinstance(layout, Selections):
            return selections(layout, values)
        return detections(layout, values, feeds, least)
    except (ValueError, IndexError) as error:
        if values is not reference:
            return []
        raise UserError(
            f"the outputs are not those of the layout of boxes: {error}", hint="state another one with --task"
        ) from error


def _places(layout: Boxes, values: Named, feeds: Feeds) -> list[PictureCandidates]:
    """What may be detected; nothing where the outputs have another shape than the layout says."""
    try:
        return in_pictures(layout, values, feeds)
    except (ValueError, IndexError):  # of the float model it is an error, which `_detected` tells
        return []


def _kept(wanted: Sequence[Detections], given: Sequence[Detections], score: float) -> Count:
    kept = whole = new = 0
    for one, other in zip_longest(wanted, given[: len(wanted)], fillvalue=NONE):
        mine, theirs = one.over(score), other.over(score)
        again = int((matched(mine, theirs) >= 0).sum())
        kept, whole, new = kept + again, whole + len(mine.scores), new + len(theirs.scores) - again
    return Count(kept, whole, new)


def _vectors(layout: Vectors, reference: Named, candidate: Named, feeds: Feeds) -> list[Count]:
    """The cosines of a sample's vectors; neighbors and ranks are told by all samples (`Gallery`)."""
    wanted, given = (vectors(layout, one, feeds) for one in (reference, candidate))
    near = (wanted * given).sum(1) if wanted.shape == given.shape else np.zeros(len(wanted))
    return [Count(0, 0), Count(float(np.maximum(near, 0).sum()), len(wanted)), Count(0, 0)]


def _points(layout: Points, reference: Named, candidate: Named) -> list[Count]:
    wanted, given = (as_tensor(one[layout.output]) for one in (reference, candidate))
    if wanted.shape != given.shape:
        return [Count(0, len(wanted)), Count(len(wanted), len(wanted))]
    off = moved_points(layout, wanted, given)
    some = off[_are_there(layout, reference, len(off)) & ~np.isnan(off)]
    near = Count(int((some <= layout.within / 100).sum()), len(some))
    return [near, Count(float(np.minimum(some, 1).sum()), len(some))]


def _are_there(layout: Points, reference: Named, count: int) -> np.ndarray:
    """Which of a batch the float model says are there."""
    if layout.there is None:
        return np.ones(count, bool)
    there = as_tensor(reference[layout.there])
    if there.size != count:
        raise _no(layout.there, there, f"{count} numbers, whether a thing is there")
    return np.asarray(there.reshape(-1) > _THERE)


def _lines(layout: Lines, reference: Named, candidate: Named) -> list[Count]:
    wanted, given = (greatest(layout, one) for one in (reference, candidate))
    sizes = [as_tensor(one[layout.output]).shape[-1] for one in (reference, candidate)]
    blank = blank_of(layout, wanted, sizes[0] - 1)
    ours, theirs = texts(wanted, blank), texts(given, blank) if sizes[0] == sizes[1] else []
    some = [pair for pair in zip_longest(ours, theirs[: len(ours)], fillvalue=()) if pair[0]]
    new = sum(not one and bool(other) for one, other in zip(ours, theirs, strict=False))
    same = sum(max(0, len(one) - edits(one, other)) for one, other in some)
    lines = Count(sum(one == other for one, other in some), len(some), new)
    return [lines, Count(same, sum(len(one) for one, _ in some))]


def _map(layout: DenseMap, reference: Named, candidate: Named) -> list[Count]:
    wanted, given = (as_tensor(one[layout.output]) for one in (reference, candidate))
    if wanted.shape != given.shape:
        return [Count(0, len(wanted))]
    kept = kept_of_map(layout, wanted, given)
    return [Count(float(kept.sum()), len(kept))]


def _no(output: str, value: np.ndarray, wanted: str) -> UserError:
    return UserError(
        f"output {output!r} has the shape {list(value.shape)}, and is to be {wanted}",
        hint="state another layout with --task: onnxq help layout",
    )


# Text that is read off positions: the greatest of each, repeats and blanks left out (greedy CTC).


def greatest(layout: Lines, values: Mapping[str, Any]) -> np.ndarray:
    """The character of each position, `[batch, positions]`; that of no character is -1 where it is known.

    Raises:
        UserError: the output is none of positions.
    """
    value = as_tensor(values[layout.output])
    if value.ndim != 3:
        raise UserError(
            f"output {layout.output!r} has the shape {list(value.shape)}, and is to be "
            "[batch, positions, characters]",
            hint="state another layout with --task: onnxq help layout",
        )
    found = value.argmax(-1)
    found = np.where(found == value.shape[-1] - 1, -1, found)  # the last is -1
    return np.asarray(found.T if layout.positions_first else found)


def blank_of(layout: Lines, characters: np.ndarray, last: int) -> int:
    """The number of no character, as `greatest` counts.

    Args:
        layout: which may say it.
        characters: the float model's.
        last: the number of the last character.
    """
    if layout.blank is not None:
        return -1 if layout.blank in (-1, last) else layout.blank
    return -1 if np.count_nonzero(characters == -1) > np.count_nonzero(characters == 0) else 0


def texts(characters: np.ndarray, blank: int) -> list[tuple[int, ...]]:
    """The characters of each line."""
    return [tuple(one for one, _ in groupby(row) if one != blank) for row in characters.tolist()]


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """How many characters are put in, left out or changed between two texts (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for place, wanted in enumerate(one):
        before, row[0] = row[0], place + 1
        for at, given in enumerate(other):
            before, row[at + 1] = row[at + 1], min(row[at + 1] + 1, row[at] + 1, before + (wanted != given))
    return row[-1]
