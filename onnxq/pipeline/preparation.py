"""Whether the float model itself says that pictures are prepared otherwise than it was trained."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base.catalogue import Fact
from onnxq.base.errors import UserError
from onnxq.base.progress import LOG
from onnxq.base.reason import noted
from onnxq.data.first_norm import FirstNorm
from onnxq.data.otherwise import AS_FED, PicturesAs, otherwise
from onnxq.data.samples import Sample
from onnxq.data.survey import InputSurvey
from onnxq.data.warnings import SURER, DataWarning, PreparationLook, doubt
from onnxq.graph.model import Model
from onnxq.judge.comparable import as_tensor
from onnxq.run import ort
from onnxq.task.find import found_task, likely_scores
from onnxq.task.known import KnownTask
from onnxq.task.layout import Boxes, Layout, Peaks, PixelClasses
from onnxq.task.makers import is_probability
from onnxq.task.measures import SCORES
from onnxq.task.nothing import NothingFound
from onnxq.task.stated import StatedTask
from onnxq.task.sureness import Move, SurenessMeter, measurable, moved

MOST = 128
"""Samples that are run, at most."""

_ROUNDS = (4, 8, 16, 32, 64, MOST)  # samples that were run, after which some preparations are left behind
_LEFT = (6, 3, 3, 2, 1, 1)  # of them, beside what is fed
_SLOW = 0.2  # seconds of the processors: a model that takes more for a sample is not run
_LEAST = 8  # samples
_SEEN = 16  # samples that are enough for statistics of training, and to say that nothing is found
_BYTES = 1 << 28  # of the samples together

_TURNED = 3.0  # of another order alone; of channels: in 135 draws of six nets fed rightly it never said so
_CERTAIN = 3.5  # standard errors: of 32 samples and 10 preparations one in 150 runs seems so by chance
_CLEAR = 0.1  # nats
_NOTHING = 0.1  # nats: the answers tell nothing
_FAR_LESS = 0.6  # of what answers tell otherwise: of nets that are fed rightly they tell 0.73 at least
_GREATER, _POWERS = 1.2, (2, 4, 8, 16)  # times the values; powers of probabilities
_CLEARLY_LESS, _AS_MUCH = 0.9, 0.98  # likewise, where both are as clear as they tell most
_SHARPER = 4  # a power at which answers to other values are about as clear as each other
_ENOUGH = 2 / 3  # of what a sure model tells, where the difference is large, or of the order alone
_IN_PIECES = (
    0.5  # of what pictures tell: of nets fed rightly pieces tell 0.17 at most, of others 0.7 and more
)
_SCORES = 8  # numbers: fewer that nothing says to be scores may be angles or landmarks
_MANY = 20  # classes: samples of one of a few are usual

_OTHER = 0.15  # nats from training's values, and more than twice as far as another preparation
_FAR = 1.0  # nats: no usual preparation of pictures like those of training is as far off
_KNOWN = 0.25  # nats: no preparation that is further off is that of training


@dataclass(frozen=True, slots=True, eq=False)
class AsTrained:
    """The float model, and what it knows of its training.

    Attributes:
        proto: it.
        folder: where its external data are.
        layout: how its outputs are read; None where that is not known.
        scores: how they are read where they are scores of classes, or boxes as they seem to be, which nothing
            says; None likewise.
        norms: what it knows of its inputs from training, by their names.
        places: outputs that may be scores of many places, where it is not known how they are read.
    """

    proto: onnx.ModelProto
    folder: Path | None
    layout: Layout | None
    scores: Layout | None
    norms: Mapping[str, FirstNorm]
    places: tuple[str, ...] = ()

    @staticmethod
    def of(
        proto: onnx.ModelProto, model: Model, layout: Layout | None, norms: Mapping[str, FirstNorm]
    ) -> AsTrained:
        """That of a float model.

        Args:
            proto: it, as it is run.
            model: the same or what it was made of, with the folder of its external data.
            layout: how its outputs are read; None where that is not known.
            norms: what it knows of its inputs.
        """
        scores = None if layout else _suggested(model) or likely_scores(model)
        places = () if scores or (layout and not _is_of_rows(layout)) else likely_places(model)
        return AsTrained(proto, model.data_dir, layout, scores, norms, places)


def _is_of_rows(layout: Layout) -> bool:
    """Whether things are detected that are not measured where they move: peaks, what priors stand for."""
    return isinstance(layout, Peaks) or (isinstance(layout, Boxes) and layout.apart)


def _suggested(model: Model) -> Layout | None:
    """The layout of boxes that a model's graph suggests, and does not say: no answer hangs on it here."""
    outputs = [tensor.name for tensor in model.outputs]
    asked = found_task(model, outputs).ask
    try:
        layout = KnownTask.of(StatedTask.of(asked), model, outputs).layout if asked else None
        return layout if isinstance(layout, Boxes) and measurable(layout) else None
    except UserError:
        return None


def preparation_seen(
    model: AsTrained,
    inputs: Sequence[InputSurvey],
    samples: Iterable[Sample],
    count: int | None,
) -> PreparationLook:
    """What the float model says of how its pictures are prepared.

    Args:
        model: the float model.
        inputs: what its inputs were fed.
        samples: some samples; `MOST` at most are read.
        count: how many there are; None where that is not known.

    Returns:
        A fault here is logged, and costs the run nothing.
    """
    pictures = [entry for entry in inputs if entry.layout is not None]
    layout = model.layout or model.scores
    if model.places:
        layout = None
    if len(pictures) != 1 or not (measurable(layout) or model.places or pictures[0].spec.name in model.norms):
        return PreparationLook()
    try:
        coming = iter(samples)
        read = list(itertools.islice(coming, _LEAST))
        if len(read) < _LEAST or not otherwise(pictures[0]):
            return PreparationLook()
        most = _BYTES // max(1, sum(one.nbytes for one in read[0].feeds.values()))
        coming = itertools.chain(read, itertools.islice(coming, max(0, min(most, MOST) - _LEAST)))
        known = layout is not None and layout is model.layout
        look = _Look(replace(model, layout=layout), pictures[0], coming, count, known)
        found, name = look.doubt(), pictures[0].spec.name
        return PreparationLook(
            () if found is None else (found,), name if look.is_right else None,
            name if look.is_in_order else None,
        )  # fmt: skip
    except (ort.RunError, UserError, ValueError, IndexError) as error:
        LOG.info("%s", noted("preparation-look.unknown", error=error))
    except Exception as error:  # what nobody asked for never ends the run
        LOG.warning("%s", noted("preparation-look.fault", error=error))
    return PreparationLook()


class _Look:
    """Runs the float model on what is fed, and on what would be fed otherwise.

    Attributes:
        is_sure: whether the model is sure of its answers as it is fed, and no surer otherwise.
        is_right: whether it is sure, or finds something, and with no other values more.
        is_in_order: whether its answers tell the order of the channels, or that it is right.
    """

    def __init__(
        self, model: AsTrained, seen: InputSurvey, samples: Iterator[Sample], count: int | None, known: bool
    ) -> None:
        """Of some of so many samples, read as they are needed.

        `count`: how many there are; None where that is not known. `known`: whether it is known how the
        outputs are read; else they may be no scores, and only what is far surer counts.
        """
        self._model, self._seen, self._coming = model, seen, samples
        self._read: list[Sample] = []
        self._name, self._layout = seen.spec.name, seen.layout or ""
        self._outputs = tuple(info.name for info in model.proto.graph.output)
        self._count, self._known = count, known
        self.is_sure = self.is_right = self.is_in_order = False
        self._of_objects: dict[PicturesAs, bool] = {}

    def doubt(self) -> DataWarning | None:
        """What is doubtful about the preparation; None for nothing."""
        candidates = otherwise(self._seen)
        norm = self._model.norms.get(self._name)
        excluded = unlike = None
        if norm is not None:
            candidates, excluded, unlike = self._by_norm(norm, candidates)
        if measurable(self._model.layout) or self._model.places:
            best = self._surest(candidates, excluded)
            self.is_right = self.is_right and excluded is None
            self.is_sure = self.is_sure and excluded is None
            if best is not None or self._known:
                return best or (None if self.is_sure else unlike)
        if excluded is not None and candidates:
            return excluded.doubt(self._name, candidates[0])
        return None if self.is_sure else unlike or self._nothing()

    # -- statistics of training ----------------------------------------------------------------

    def _by_norm(
        self, norm: FirstNorm, candidates: Sequence[PicturesAs]
    ) -> tuple[list[PicturesAs], _Excluded | None, DataWarning | None]:
        """The candidates that statistics of training leave; why what is fed is none of them, or none is."""
        session = ort.load(norm.part)
        samples = self._first(_LEAST)
        compared = {
            one: norm.compared([session.run({self._name: self._fed(one, sample)})[0] for sample in samples])
            for one in (AS_FED, *candidates)
        }
        nearest = min(compared.values(), key=lambda one: float(one.distances[-1]))
        if not nearest.distances[-1] <= _KNOWN or not nearest.is_trained:
            return list(candidates), None, self._far(norm, float(nearest.distances[-1]), len(samples))
        distances = {one: found.distances for one, found in compared.items()}
        least = np.min(list(distances.values()), 0)
        bound = np.maximum(2 * least, least + _OTHER)
        left = [one for one in candidates if distances[one][-1] <= bound[-1]]
        left.sort(key=lambda one: (one.reverses, float(distances[one][-1])))
        if left and (distances[AS_FED] > bound).all():
            images = self._images(len(samples))
            why = _Excluded(norm.node, float(distances[AS_FED][-1]), float(least[-1]), images)
            return left, why, None
        return left, None, None

    def _first(self, count: int) -> list[Sample]:
        """So many samples, or all that there are."""
        self._read += itertools.islice(self._coming, max(0, count - len(self._read)))
        return self._read[:count]

    def _images(self, looked_at: int) -> str:
        """How many images were looked at, in words: "8 of 64 images"."""
        of = "" if self._count is None or looked_at >= self._count else f" of {self._count}"
        return f"{looked_at}{of} images"

    def _far(self, norm: FirstNorm, least: float, count: int) -> DataWarning | None:
        """That no preparation makes what the model kept of its training."""
        if least < _FAR:
            return None
        values = {"images": self._images(count), "node": norm.node, "off": _nats(least), "usual": _KNOWN}
        return doubt("unlike.statistics", self._name, **values)

    def _nothing(self) -> DataWarning | None:
        """That the model finds nothing in any image."""
        if not self._model.places:
            return None
        session = ort.load(self._model.proto, data_dir=self._model.folder)
        nothing = NothingFound(self._model.places)
        for place in range(MOST):
            if len(samples := self._first(place + 1)) <= place:
                break
            start = time.process_time()
            outputs = session.run(samples[place].feeds)
            is_slow = 0 < place < _LEAST and time.process_time() - start > _SLOW
            if is_slow or not nothing.add(dict(zip(self._outputs, outputs, strict=True))):
                return None
        if nothing.images < _SEEN:
            return None
        names = ", ".join(map(repr, self._model.places[:2])) + ", ..." * (len(self._model.places) > 2)
        images = self._images(nothing.images)
        return doubt("unlike.nothing", self._name, images=images, score=SCORES[0], outputs=names)

    # -- sureness ------------------------------------------------------------------------------

    def _surest(self, candidates: Sequence[PicturesAs], excluded: _Excluded | None) -> DataWarning | None:
        """What is told of the candidate with which the model is clearly surer than as it is fed.

        Other values are looked at in the order of channels that is fed, and in the other one where they seem
        better.
        """
        session = ort.load(self._model.proto, data_dir=self._model.folder)
        fed, meters = self._meter(), dict[PicturesAs, SurenessMeter]()
        left, later = _in_turn(candidates)
        plain = {turned: one for one, turned in later.items()}
        for until, most in zip(_ROUNDS, _LEFT, strict=True):
            run, samples = fed.samples, self._first(until)
            for place, sample in enumerate(samples[run:]):
                taken = self._add(fed, session, AS_FED, sample)
                slow = not run + place and taken > _SLOW
                if slow and self._add(self._meter(), session, AS_FED, sample) > _SLOW:
                    LOG.info("%s", noted("preparation-look.slow", seconds=taken))
                    return None if excluded is None else excluded.doubt(self._name, candidates[0])
            if len(samples) >= _SEEN and not fed.is_of_boxes and self._tell_nothing(fed, meters):
                return self._unlike(fed)
            self._run(session, left, meters, samples)
            if self._tell_nothing(fed, meters):
                if len(samples) == until < _SEEN:
                    continue  # the first images may have nothing in them
                if excluded is None or not fed.is_of_boxes:  # whose training shows in no answer
                    return self._unlike(fed)
            gains = {one: _Gain.of(one, meters[one], fed) for one in left}
            if excluded is None:
                left = [one for one in left if gains[one].may_be_clear]
            if until > _ROUNDS[0]:
                twins = [later.pop(one) for one in left if one in later]
                self._run(session, twins, meters, samples)
                left += twins
                gains |= {one: _Gain.of(one, meters[one], fed) for one in twins}
            if until == _LEAST:  # before what is found anywhere takes the places of the others
                left = [
                    one
                    for one in left
                    if not _is_greater(one) or self._is_of_objects(one, meters[one], session)
                ]
            left.sort(key=lambda one: -_mean(meters[one]))
            left = [one for place, one in enumerate(left) if place < most or _is_of_order(one, fed)]
            if (not left and fed.samples >= _LEAST) or len(samples) < until:
                break
        best = left[0] if left else None
        for turned in [one for one in left if _is_of_order(one, fed) and excluded is None]:
            gain = _Gain.of(turned, meters[turned], fed)
            if (
                gain.is_clear
                and best is not None
                and not _Gain.of(best, meters[best], meters[turned]).is_clear
            ):
                best = turned  # values that are no better are left as they are fed
        if best in plain:  # and so is the order
            self._run(session, [plain[best]], meters, self._first(meters[best].samples))
            if not _Gain.of(best, meters[best], meters[plain[best]]).is_clear:
                best = plain[best]
        if best is not None and fed.is_of_boxes:  # with no mean it may be as sure as with Caffe's
            same = [one for one in candidates if one.reverses == best.reverses]
            simpler = next(one for one in same if _contrast(one) == _contrast(best))
            self._run(session, [simpler], meters, self._first(meters[best].samples))
            if simpler is not best and not _Gain.of(best, meters[best], meters[simpler]).is_clear:
                best = simpler
        told = None if best is None else self._told(best, meters[best], fed, excluded)
        if told is not None and best is not None and not self._is_of_objects(best, meters[best], session):
            told = None
        self.is_in_order = told is not None
        if told is None and fed.samples >= _LEAST:
            self._right(fed, meters, session)
        return told

    def _right(
        self, fed: SurenessMeter, meters: Mapping[PicturesAs, SurenessMeter], session: ort.Session
    ) -> None:
        """Notes what the answers show to be right as it is fed."""
        gains = {one: float((found.each - fed.each[: found.samples]).mean()) for one, found in meters.items()}
        self.is_sure = _mean(fed) >= fed.sure
        most = max((gain for one, gain in gains.items() if one.factor is not None), default=0.0)
        finds = fed.is_of_boxes and _mean(fed) > 0 >= most
        self.is_right = (self.is_sure or finds) and self._is_of_objects(AS_FED, fed, session)
        turned = [gain for one, gain in gains.items() if one.reverses and one.factor is None]
        self.is_in_order = self.is_right and bool(turned) and max(turned) <= 0

    def _run(
        self, session: ort.Session, candidates: Sequence[PicturesAs],
        meters: dict[PicturesAs, SurenessMeter], samples: Sequence[Sample],
    ) -> None:  # fmt: skip
        """Runs candidates on those of the samples on which they were not run before."""
        for one in candidates:
            meter = meters.setdefault(one, self._meter())
            for sample in samples[meter.samples :]:
                self._add(meter, session, one, sample)

    @staticmethod
    def _tell_nothing(fed: SurenessMeter, meters: Mapping[PicturesAs, SurenessMeter]) -> bool:
        """Whether the answers tell nothing, however the pictures are prepared."""
        return not _contradicts(fed) and all(_mean(one) < _NOTHING for one in (fed, *meters.values()))

    def _meter(self) -> SurenessMeter:
        if self._model.layout is None:
            return PlacesMeter(self._model.places, self._outputs)
        return SurenessMeter(self._model.layout, self._outputs)

    def _told(
        self, best: PicturesAs, meter: SurenessMeter, fed: SurenessMeter, excluded: _Excluded | None
    ) -> DataWarning | None:
        gain, count = _Gain.of(best, meter, fed), len(fed.each)
        if excluded is not None and _mean(meter) >= _mean(fed):
            return excluded.doubt(self._name, best)
        if not gain.is_clear or not self._is_enough(best, meter, fed) or not _is_steadier(meter, fed):
            return None
        boxes, layout = meter.is_of_boxes, self._model.layout
        unsure = "" if self._known or (boxes and not layout) else "if-boxes" if boxes else "if-scores"
        less = more = 0.0
        if isinstance(meter, PlacesMeter):
            form = "places"
            high, low = (one.detected / one.samples for one in (meter, fed))
        elif _contradicts(fed):
            form, high, low = "again", meter.detected / meter.samples, fed.detected / count
        elif boxes:
            form = "boxes"
            high, low = (np.expm1(max(0.0, _mean(one))) for one in (meter, fed))
        else:
            form = "order" if _is_of_order(best, meter) else "classes"
            high, low = (max(0.0, _mean(one)) / np.log(2) for one in (meter, fed))
            if form == "order":
                less, more = (float(np.exp(one.excluded.mean())) for one in (meter, fed))
        values = {"surer": SURER, "what": best.what, "high": high, "low": low, "less": less, "more": more}
        told = doubt(
            f"preparation.{form}", self._name, (best.flags[::2], best.flags), hint=best.hint, score=FOUND,
            images=self._images(count), unsure=Fact("preparation").text("samples", unsure), **values,
        )  # fmt: skip
        is_order = best.reverses and best.factor is None
        return replace(told, kind="channel-order") if is_order else told

    def _is_of_objects(self, one: PicturesAs, meter: SurenessMeter, session: ort.Session) -> bool:
        """Whether what is found is in whole pictures only: other values make some nets find it anywhere."""
        if not meter.is_of_boxes:
            return True
        if one not in self._of_objects:
            pieces = self._meter()
            for sample in self._first(min(meter.samples, _SEEN)):
                self._add(pieces, session, one, sample, in_pieces=True)
            whole = float(meter.each[: pieces.samples].mean())
            self._of_objects[one] = _mean(pieces) <= _IN_PIECES * whole
        return self._of_objects[one]

    def _is_enough(self, best: PicturesAs, meter: SurenessMeter, fed: SurenessMeter) -> bool:
        """Whether the model is sure enough of its answers for a candidate to be told."""
        if not meter.is_of_classes:
            return _mean(meter) >= meter.sure or (_is_barren(fed) and _mean(meter) > 0)
        told = max(_mean(fed), 0.0) / max(_mean(meter), _NOTHING)
        clear = _clearest(fed) / max(_clearest(meter), _NOTHING) if _is_greater(best) else 0.0
        plain = _is_of_order(best, meter) or (told <= _FAR_LESS and clear <= _CLEARLY_LESS)
        if not self._known and (not plain or meter.classes < _SCORES):
            return False
        return clear < _AS_MUCH and _mean(meter) >= (_ENOUGH if plain else 1.0) * meter.sure

    def _unlike(self, fed: SurenessMeter) -> DataWarning | None:
        """What is told where the model finds nothing, or always the same, whatever the preparation."""
        count = len(fed.each)
        if count < _SEEN or 0 < fed.classes <= _MANY or fed.detected or not self._known:
            return None
        return doubt("unlike.boxes" if fed.is_of_boxes else "unlike", self._name, images=self._images(count))

    # -- runs ----------------------------------------------------------------------------------

    def _fed(self, candidate: PicturesAs, sample: Sample) -> np.ndarray:
        return candidate.of(sample.feeds[self._name], self._layout)

    def _add(
        self, meter: SurenessMeter, session: ort.Session, candidate: PicturesAs, sample: Sample,
        *, in_pieces: bool = False,
    ) -> float:  # fmt: skip
        """Runs a sample as it is and moved; returns the seconds of the processors for a run."""
        pictures, sides = self._fed(candidate, sample), (self._layout.index("H"), self._layout.index("W"))
        pictures = scrambled(pictures, *sides) if in_pieces else pictures
        there, move = moved(pictures, *sides)
        feeds, again = ({**sample.feeds, self._name: one} for one in (pictures, there))
        start = time.process_time()
        outputs = session.run(feeds), session.run(again)
        taken = (time.process_time() - start) / 2
        meter.add(*outputs, feeds, move)
        return taken


def _in_turn(
    candidates: Sequence[PicturesAs],
) -> tuple[list[PicturesAs], dict[PicturesAs, PicturesAs]]:
    """The candidates to begin with, and by some of these the same with the channels turned around."""
    values = {one.factor.tobytes(): one for one in candidates if one.factor is not None and not one.reverses}
    later = {}
    for one in candidates:
        plain = values.get(one.factor.tobytes()) if one.reverses and one.factor is not None else None
        if plain is not None:
            later[plain] = one
    return [one for one in candidates if one not in later.values()], later


def _contrast(one: PicturesAs) -> bytes:
    """What tells values of one contrast, whatever mean is taken from them."""
    return b"" if one.factor is None else one.factor.tobytes()


def _is_of_order(one: PicturesAs, meter: SurenessMeter) -> bool:
    """Whether classes are asked for pictures of the same values, channels or axes in the other order."""
    return (one.reverses or one.swaps) and one.factor is None and meter.is_of_classes


def _is_steadier(meter: SurenessMeter, fed: SurenessMeter) -> bool:
    """Whether a picture and the moved one get the same answer more often than as fed.

    Samples of few classes have few answers, and any other preparation may have more of them: these tell
    more apart, but change when a picture is moved. Probabilities count as they are, or sharpened, as greater
    values make them; of pixels both do. One answer to everything says nothing for what is fed.
    """
    if meter.is_of_boxes or _mean(fed) < _NOTHING:
        return True
    more = [meter.again(power) > fed.again(power) for power in (1, _SHARPER)]
    return any(more) if meter.is_of_classes else all(more)


def _is_greater(one: PicturesAs) -> bool:
    """Whether values are greater, which make the answers of a net without normalization clearer."""
    return one.factor is not None and float(np.abs(one.factor).mean()) > _GREATER


def _clearest(meter: SurenessMeter) -> float:
    """What answers tell where they are made as clear as they tell most: of that their size is no part."""
    return max(_mean(meter), *(meter.sharpened(power) for power in _POWERS))


@dataclass(frozen=True, slots=True)
class _Gain:
    """By how much a model is surer of its answers than as it is fed, in nats.

    Attributes:
        mean: that of the pictures.
        error: its standard error.
        count: of how many pictures.
        certain: how many standard errors are none of chance.
    """

    mean: float
    error: float
    count: int
    certain: float

    @staticmethod
    def of(one: PicturesAs, meter: SurenessMeter, fed: SurenessMeter) -> _Gain:
        """That of the same pictures; of the other order of channels how far they exclude classes, too."""
        each, certain = meter.each - fed.each, _CERTAIN
        if _is_of_order(one, meter):
            each, certain = each + meter.excluded - fed.excluded, _TURNED
        return _Gain(float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each)), len(each), certain)

    @property
    def may_be_clear(self) -> bool:
        """Whether it may be none of chance with more pictures: of few an answer tells little at most."""
        if self.count < 2 * _ROUNDS[0]:
            return self.mean > -self.error
        return self.mean > -self.error * (self.count < _SEEN) and self.mean + 2 * self.error >= _CLEAR

    @property
    def is_clear(self) -> bool:
        """Whether it is none of chance."""
        return self.mean >= max(_CLEAR, self.certain * self.error)


@dataclass(frozen=True, slots=True)
class _Excluded:
    """That what is fed is not what the model was trained on, by the statistics that it kept.

    Attributes:
        node: the BatchNormalization that has them.
        fed: how far off is what is fed, nats.
        least: how far off is the nearest preparation.
        images: of how many images, in words.
    """

    node: str
    fed: float
    least: float
    images: str

    def doubt(self, name: str, best: PicturesAs) -> DataWarning:
        """What is told."""
        values = {"node": self.node, "off": _nats(self.least), "fed": _nats(self.fed), "images": self.images}
        flags = best.flags[::2], best.flags
        return doubt("preparation", name, flags, what=best.what, hint=best.hint, **values)


def _nats(distance: float) -> str:
    return f"{distance:.2f} nats" if distance < 100 else "over 100 nats"


def _contradicts(meter: SurenessMeter) -> bool:
    """Whether most of what is found is not found again: what is right finds nothing, or finds it again."""
    return meter.is_of_boxes and _mean(meter) <= -meter.sure


def _is_barren(meter: SurenessMeter) -> bool:
    """Whether nothing is found in many pictures, or most of what is is not found again."""
    return _contradicts(meter) or (meter.is_of_boxes and not meter.detected and len(meter.each) >= _SEEN)


def _mean(meter: SurenessMeter) -> float:
    return float(meter.each.mean())


FOUND = 0.5
"""A score over which something is found at a place."""

_PLACES = 100  # of an image: fewer are classes, or points of a face
_ONE = 0.01  # how far the sum of probabilities is from 1
_MAP = 4  # axes: others are rows, a place each
_PIECES = 16  # a side: what is detected is mostly larger, and gone when they are mixed


def likely_places(model: Model) -> tuple[str, ...]:
    """The outputs that may be scores of many places, in rows or maps: those a Sigmoid or a Softmax makes."""
    return tuple(one.name for one in model.outputs if one.rank in (2, 3, 4) and is_probability(one))


class PlacesMeter(SurenessMeter):
    """Measures one preparation by the places of a picture with a score over 0.5, as of boxes.

    Of classes that sum to 1 the one that is first most often in the picture does not count.
    """

    def __init__(self, places: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__(PixelClasses(places[0], None, FOUND), outputs)
        self._places = places

    @property
    def is_of_boxes(self) -> bool:
        """That places are measured as detections are."""
        return True

    def add(self, seen: list[Any], again: list[Any], feeds: Mapping[str, np.ndarray], move: Move) -> None:
        """Adds the outputs for a sample, and those for it when it is moved."""
        one, other = (self._count(dict(zip(self._outputs, some, strict=True))) for some in (seen, again))
        self.samples += 1
        self.detected += one
        self._found.append(2 * min(one, other) - (one + other) / 2)

    def _count(self, outputs: Mapping[str, Any]) -> int:
        values = [as_tensor(outputs[name]) for name in self._places]
        if sum((one if one.ndim == _MAP else one[..., 0]).size for one in values) < _PLACES:
            return 0
        return sum(_found(one.reshape(-1, one.shape[-1]).astype(np.float64)) for one in values)


def _found(rows: np.ndarray) -> int:
    if rows.shape[1] > 1 and np.abs(rows.sum(1) - 1).max() < _ONE:
        rows = np.delete(rows, np.bincount(rows.argmax(1)).argmax(), 1)
    return int((rows > FOUND).sum())


def scrambled(pictures: np.ndarray, height: int, width: int) -> np.ndarray:
    """Pictures in 16 by 16 pieces, mixed and upside down: the same values and edges, and no objects."""
    random, axes = np.random.default_rng(0), (height, width)
    made = np.moveaxis(np.flip(pictures, axes), axes, (0, 1)).copy()
    high, wide = (size // _PIECES for size in made.shape[:2])
    whole = made[: high * _PIECES, : wide * _PIECES]
    pieces = whole.reshape(_PIECES, high, _PIECES, wide, *made.shape[2:]).swapaxes(1, 2)
    mixed = random.permutation(pieces.reshape(-1, *pieces.shape[2:])).reshape(pieces.shape)
    whole[:] = mixed.swapaxes(1, 2).reshape(whole.shape)
    return np.ascontiguousarray(np.moveaxis(made, (0, 1), axes))
