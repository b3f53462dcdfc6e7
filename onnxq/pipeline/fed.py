"""What the user's function feeds the model, beside what calibrated: a metric of another preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from onnxq.base.reason import noted, reason
from onnxq.base.shown import number
from onnxq.data.channel_order import has_pixels, is_centred, turned_beside
from onnxq.data.glance import LOOKED_AT
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.survey import InputSurvey, Moments, Survey
from onnxq.graph.types import is_float

_WIDER = 3.0  # times the standard deviation: other samples of the kind do not differ by so much
_SHIFTED = 2.0  # standard deviations between the means
_ENDS = 0.25  # of the wider range: black and white of photographs lie nearer
_PICTURES = 8  # at least, whose darkest and brightest pixels are black and white

KEPT = 128
"""Feeds of pictures that are kept, for the model to be asked of them."""

_BYTES = 1 << 26  # of them together


class Fed:
    """Looks at the first feeds of a function."""

    def __init__(self, inputs: Sequence[InputSpec]) -> None:
        self._inputs = Survey(inputs).inputs
        self._pictures = any(entry.layout is not None for entry in self._inputs)
        self._kept: list[Sample] = []
        self._feeds = self._bytes = 0

    def add(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Adds a feed, by input name."""
        if self._feeds < LOOKED_AT:
            self._feeds += 1
            for entry in self._inputs:
                if entry.spec.name in feeds:
                    entry.add("", feeds[entry.spec.name])
        for one in self._samples(feeds) if self._pictures else ():
            size = sum(array.nbytes for array in one.values())
            if len(self._kept) == KEPT or self._bytes + size > _BYTES:
                break
            self._bytes += size
            held = {name: array.copy() for name, array in one.items()}  # the function may write into it
            self._kept.append(Sample(len(self._kept), "what the function gives", held))

    def _samples(self, feeds: Mapping[str, np.ndarray]) -> Iterator[Mapping[str, np.ndarray]]:
        """The samples of a feed: one by one where it is a batch and the model takes any."""
        lengths = {array.shape[:1] for array in feeds.values()}
        free = all(entry.spec.shape and not isinstance(entry.spec.shape[0], int) for entry in self._inputs)
        if not free or len(lengths) != 1 or lengths == {()}:
            yield feeds
            return
        for place in range(*lengths.pop()):
            yield {name: array[place : place + 1] for name, array in feeds.items()}

    def beside(
        self, calibrating: Sequence[InputSurvey], turned: Callable[[InputSurvey, Sequence[Sample]], bool]
    ) -> tuple[str, ...]:
        """How each input differs from what it was fed where ranges were measured, for people.

        Args:
            calibrating: the same inputs there.
            turned: whether the model says that an input's channels are in the other order than there, of some
                feeds: their means alone may be those of other scenes, of the sea beside sunsets.
        """
        seen = {entry.spec.name: entry for entry in calibrating}
        pairs = [(entry, seen.get(entry.spec.name)) for entry in self._inputs]
        differ = (
            _differences(fed, there, lambda fed: turned(fed, self._kept))
            for fed, there in pairs
            if there is not None
        )
        return tuple(text for texts in differ for text in texts)


def _differences(
    fed: InputSurvey, there: InputSurvey, turned: Callable[[InputSurvey], bool]
) -> Iterator[str]:
    name = fed.spec.name
    if fed.channels is None or there.channels is None or not is_float(fed.spec.dtype):
        return
    if fed.layout:
        sizes, known = ({shape[1:] for shape in one.shapes} for one in (fed, there))
        if not sizes & known:
            some, other = ("x".join(map(str, min(one))) for one in (sizes, known))
            yield noted("fed-otherwise.sizes", input=name, fed=some, seen=other)
    how = _how(fed.channels, there.channels) or (
        reason("fed-range.pixels") if _other_ends(fed, there) else ""
    )
    if not how and (turned_beside(fed, there) or is_centred(there)) and turned(fed):
        yield noted("fed-otherwise.order", input=name)
    if how:
        given, measured = (
            f"{number(one.min)} to {number(one.max)} (mean {number(_mean(one.channels))})"
            for one in (fed, there)
        )
        yield noted("fed-otherwise", input=name, how=how, given=given, measured=measured)


def _how(fed: Moments, there: Moments) -> str:
    """In which way values are others; "" where they are alike."""
    (mean, std), (other, other_std) = fed.whole(), there.whole()
    times = std / other_std if std and other_std else 1.0
    if times >= _WIDER:
        return reason("fed-range.larger", times=times)
    if times <= 1 / _WIDER:
        return reason("fed-range.smaller", times=1 / times)
    return reason("fed-range.mean") if abs(mean - other) > _SHIFTED * max(std, other_std) else ""


def _other_ends(fed: InputSurvey, there: InputSurvey) -> bool:
    """Whether black or white of pictures became another value: of enough of them the ends are these."""
    ends = [
        (one.min, one.max) for one in (fed, there) if one.layout and sum(one.shapes.values()) >= _PICTURES
    ]
    if len(ends) < 2 or any(end is None for pair in ends for end in pair) or not has_pixels(fed, there):
        return False
    (low, high), (other_low, other_high) = np.array(ends, np.float64)
    apart = max(abs(low - other_low), abs(high - other_high))
    return bool(apart > _ENDS * max(high - low, other_high - other_low))


def _mean(moments: Moments | None) -> float | None:
    return None if moments is None else moments.whole()[0]
