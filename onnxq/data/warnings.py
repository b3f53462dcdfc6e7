"""What is doubtful about data: that they do not look as the model expects, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.base.catalogue import Fact
from onnxq.base.plain import DocumentPart
from onnxq.base.shown import counted
from onnxq.data import channel_order
from onnxq.data.image_options import IMAGENET_MEAN, IMAGENET_STD
from onnxq.data.images import Preparation
from onnxq.data.model_scaling import ModelScaling
from onnxq.data.survey import InputSurvey, Survey
from onnxq.graph.types import is_float

ENOUGH = 32
"""Fewer samples than this do not show the ranges of a model."""

SURER = "the float model is surer of its answers"
"""What is said of another preparation that was measured to be better."""

_VALUES = ("--preset", "--scale", "--mean", "--std")
"""The flags that say which values pixels become."""

_SMALL = 64  # values: smaller samples are equal, whole or constant by chance
_FLAT = 4.01 / 255  # pictures from black to white that were scaled twice span as little
_ALIKE = 1e-3  # of the variance
_NEIGHBOURS = 0.5  # of noise that is resized it is up to 0.45, of half of all photographs 0.9 and more
_TORN = (
    1.2  # times less alike columns are: of photographs 0.01 to 0.55, of torn ones 1.8 and more, of 19 of 20
)
_FEW, _MOST = 4, 0.5  # samples that are copies, and which part of all
_APART, _SIDE = 16.0, 0.1  # times as large; of the samples, on either side


@dataclass(frozen=True, slots=True)
class DataWarning(DocumentPart):
    """Something that is likely a mistake, and may be right.

    Attributes:
        kind: a word for programs.
        input: the input; None where it is about whole samples.
        text: what was seen.
        hint: what to do.
        without: flags of the command line that are left out for it.
        more: flags, with their values, that are given for it.
    """

    kind: str
    input: str | None
    text: str
    hint: str
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


_Flags = tuple[Sequence[str], Sequence[str]]


def doubt(code: str, input: str | None = None, flags: _Flags = ((), ()), /, **values: object) -> DataWarning:
    """A doubt in the words of the catalogue.

    Args:
        code: a row of `base/catalogue/samples.toml`, behind a point a form of it; the row is its kind.
        input: the input; the texts name it `input`.
        flags: those that are left out for it, and those that are given.
        values: names and numbers of the texts.
    """
    fact = Fact(code, values={"input": input, **values})
    text, hint = fact.text("samples"), fact.text("samples", "do")
    return DataWarning(fact.row, input, text, hint, *map(tuple, flags))


@dataclass(frozen=True, slots=True)
class DataDoubts:
    """What is doubtful about data, as far as they were looked at.

    Attributes:
        doubts: each thing.
        looked_at: how many samples were looked at.
    """

    doubts: tuple[DataWarning, ...] = ()
    looked_at: int = 0


@dataclass(frozen=True, slots=True)
class PreparationLook:
    """What the float model says of how its pictures are prepared.

    Attributes:
        doubts: one at most.
        sure_of: the input of which it gives sure answers as it is fed, and no surer ones otherwise; None: it
            is not, or was not asked.
        in_order: the input of whose channels it tells the order, or that it is right; None likewise.
    """

    doubts: tuple[DataWarning, ...] = ()
    sure_of: str | None = None
    in_order: str | None = None

    def beside(self, others: Iterable[DataWarning]) -> list[DataWarning]:
        """These and other doubts, but for what answers show to be right, or tell themselves.

        A preparation that was measured to be better comes first.
        """
        told = {(one.kind, one.input) for one in self.doubts}
        told |= {("units", input) for kind, input in told if kind == "preparation"}
        told |= {("channel-order", self.in_order), ("unnormalized", self.sure_of)}
        told |= {("unnormalized", input) for kind, input in told if kind in ("preparation", "channel-order")}
        kept = [one for one in others if (one.kind, one.input) not in told]
        first = [one for one in self.doubts if one.kind != "unlike"]
        return [*first, *kept, *(one for one in self.doubts if one.kind == "unlike")]


def data_warnings(
    survey: Survey,
    own: Mapping[str, ModelScaling],
    *,
    count: int | None,
    batch: int,
    bad: int,
    few: bool = True,
    states: Collection[str] = (),
) -> list[DataWarning]:
    """What is doubtful about samples.

    Args:
        survey: what they look like.
        own: what the model does itself to its inputs.
        count: how many samples the data have; None where that is not known.
        batch: how many rows each of them has, a static batch size.
        bad: how many of those that were read cannot be used.
        few: whether it is told that they are few.
        states: inputs that recurrent layers begin with, which may be 0 everywhere.
    """
    seen = [*_repeats(survey)]
    for entry in survey.numeric:
        if entry.spec.name not in states or entry.min != entry.max or entry.min != 0:
            seen += _constant(entry, survey)
        if is_float(entry.spec.dtype):
            seen += _scaling(entry, own.get(entry.spec.name))
            seen += _mixed(entry)
            seen += _order(entry)
        seen += _yuv(entry)
        seen += _noise(entry)
        seen += _torn(entry)
    return [
        *_bad(bad),
        *_few(count if few else None, batch),
        *(_told_of(one, survey.samples, count) for one in seen),
    ]


def _told_of(seen: DataWarning, looked_at: int, count: int | None) -> DataWarning:
    """A doubt that says how many samples it was seen in, where these are not all."""
    if count is not None and looked_at >= count:
        return seen
    of = "" if count is None else f" of {count}"
    return replace(seen, text=f"{seen.text} ({looked_at}{of} samples were looked at)")


# --- samples --------------------------------------------------------------------------------------


def _bad(bad: int) -> Iterator[DataWarning]:
    if bad:
        yield doubt("bad-samples", bad=counted(bad, "bad sample"))


def _few(count: int | None, batch: int) -> Iterator[DataWarning]:
    if count is not None and count * batch < ENOUGH:
        code = "few-samples.of-rows" if batch > 1 else "few-samples"
        yield doubt(code, samples=counted(count, "sample"), rows=batch, enough=ENOUGH)


def _repeats(survey: Survey) -> Iterator[DataWarning]:
    compared = [entry for entry in survey.numeric if entry.size > 1]
    if survey.samples > 1 and compared and max(entry.spread for entry in compared) <= _ALIKE:
        code = "alike" if survey.repeated == survey.samples - 1 else "alike.nearly"
        yield doubt(code, samples=survey.samples)
    elif survey.near and survey.nearly >= max(_FEW, _MOST * survey.samples) and survey.size >= _SMALL:
        again, first = survey.near
        different = survey.samples - survey.nearly
        yield doubt("few-different", samples=survey.samples, different=different, again=again, first=first)
    elif survey.repeated and survey.size >= _SMALL:
        pairs = ", ".join(f"{again} = {first}" for again, first in survey.repeats)
        more = ", ..." if survey.repeated > len(survey.repeats) else ""
        yield doubt("duplicates", repeated=survey.repeated, samples=survey.samples, pairs=pairs + more)


def _constant(entry: InputSurvey, survey: Survey) -> Iterator[DataWarning]:
    """Floats that never vary; a constant integer (a type of tokens, a mask, a rate) is usual."""
    name, picture = entry.spec.name, entry.layout is not None
    if entry.size < 2 or not (picture or is_float(entry.spec.dtype)):
        return
    if entry.min == entry.max:
        yield doubt("constant-input", name, value=entry.min)
    elif entry.constant and (picture or (len(survey.inputs) == 1 and entry.size >= _SMALL)):
        names = ", ".join(entry.constant_in) + ", ..." * (entry.constant > len(entry.constant_in))
        code = "constant-sample.color" if picture else "constant-sample"
        yield doubt(code, name, constant=entry.constant, samples=survey.samples, names=names)


# --- scaling --------------------------------------------------------------------------------------


def _scaling(entry: InputSurvey, own: ModelScaling | None) -> Iterator[DataWarning]:
    if entry.min is None or entry.max is None or entry.min == entry.max:
        return
    takes = own.takes if own is not None else None
    if own is not None and takes is not None:
        yield from _model_scaling(entry, own.node, takes, entry.min, entry.max)
    elif entry.preparation is not None:
        yield from _units(entry.preparation)
    else:
        yield from _unnormalized(entry, entry.min, entry.max)
        yield from _twice(entry, entry.min, entry.max)


def _mixed(entry: InputSurvey) -> Iterator[DataWarning]:
    """Samples of two kinds: what the largest are divided by, the others were divided by once more, say."""
    if entry.preparation is not None or entry.size < _SMALL or len(entry.greatest) < 8:
        return
    sizes = np.sort(entry.greatest)
    side = max(2, round(_SIDE * len(sizes)))
    steps = sizes[side : len(sizes) - side + 1] / sizes[side - 1 : len(sizes) - side]
    place = side + int(np.argmax(steps))
    if steps.max() > _APART:
        low, high = sizes[place - 1], sizes[place]
        yield doubt("mixed-scales", entry.spec.name, some=place, samples=len(sizes), low=low, high=high)


def _model_scaling(
    entry: InputSurvey, node: str, takes: str, low: float, high: float
) -> Iterator[DataWarning]:
    """Data that do not suit what the model does to them itself."""
    images = entry.preparation is not None
    form = "images" if images else "arrays"
    code: str
    flags: _Flags = ((), ())
    if takes == "0..255" and high - low <= 8:
        code, flags = f"normalized-twice.of-bytes-{form}", (_VALUES, ("--preset", "raw"))
    elif takes == "0..1" and low < -0.2:
        code, flags = f"normalized-twice.of-units-{form}", (_VALUES, ())
    elif takes == "0..1" and high > 8:
        code, flags = f"unnormalized.by-model-{form}", (("--scale", "--preset"), ("--scale", "1/255"))
    else:
        return
    values = {"node": node, "takes": takes, "low": low, "high": high, "range": takes.replace("..", " to ")}
    yield doubt(code, entry.spec.name, flags if images else ((), ()), **values)


def _units(made: Preparation) -> Iterator[DataWarning]:
    """A mean and a std for pixels from 0 to 255 where there are values from 0 to 1, or the other way."""
    low, high = made.range
    mean, std = max(made.mean), max(made.std)
    scale = "1/255" if math.isclose(255 * made.scale, 1, rel_tol=1e-6) else f"{made.scale:.4g}"
    one_sided, beyond = low > 0 or high < 0, max(-low, high) > 256 and made.scale >= 1
    code: str
    flags: _Flags = ((), ())
    given = ""
    if (one_sided or beyond) and std < 1 < mean:
        means, stds = (
            ",".join(f"{one:.8g}" for one in some) for some in ([m / 255 for m in made.mean], made.std)
        )
        more = ("--scale", "1/255", "--mean", means, "--std", stds)
        code, flags, given = "units.apart", (("--preset", *more[::2]), more), " ".join(more)
    elif low > 0 and mean < 0:
        given = ",".join(f"{-one:.8g}" for one in made.mean)
        code, flags = "units.sign", (("--mean",), ("--mean", given))
    elif one_sided and made.scale < 1 < mean:
        code, flags = "units.scaled-first", (("--scale", "--preset"), ("--scale", "1"))
    elif one_sided:
        code = "units"
    elif beyond:
        code, flags = "units.beyond", (("--scale",), ("--scale", "1/255"))
    else:
        return
    values = {"low": low, "high": high, "mean": mean, "std": std, "scale": scale, "given": given}
    yield doubt(code, made.input, flags, first=made.mean[0], added=-made.mean[0], **values)


def _unnormalized(entry: InputSurvey, low: float, high: float) -> Iterator[DataWarning]:
    wide = entry.layout is not None or entry.size >= _SMALL
    resized = entry.layout is not None and high > 200  # pixels between pixels
    if wide and (entry.whole or resized) and low >= 0 and 50 < high <= 255:
        code = "unnormalized.whole" if entry.whole else "unnormalized"
        yield doubt(code, entry.spec.name, low=low, high=high)


def _twice(entry: InputSurvey, low: float, high: float) -> Iterator[DataWarning]:
    """Images that were prepared twice."""
    if entry.layout is None:
        return
    if low >= 0 and high <= 1.1 / 255:
        code = "normalized-twice"
    elif high - low <= _FLAT:
        code = "normalized-twice.flat"
    elif _is_imagenet_twice(entry, low, high):
        code = "normalized-twice.imagenet"
    else:
        return
    yield doubt(code, entry.spec.name, low=low, high=high, span=high - low)


def _is_imagenet_twice(entry: InputSurvey, low: float, high: float) -> bool:
    """Whether values lie where pixels come to that ImageNet's mean and std were applied to twice."""
    if entry.channels is None or len(entry.channels.mean) != 3:
        return False
    mean, std = np.array(IMAGENET_MEAN), np.array(IMAGENET_STD)
    lowest, highest = (1.01 * ((end - mean) / std - mean) / std for end in (0.0, 1.0))
    spans = entry.channels.std  # of photographs about 1 / std = 4.4
    fits = lowest.min() <= low < -5 and 3 < high <= highest.max()
    return bool(fits and spans.min() > 2.5 and spans.max() < 8)


def _noise(entry: InputSurvey) -> Iterator[DataWarning]:
    """Pictures whose pixels have nothing to do with their neighbours."""
    pictures = entry.preparation is not None or (entry.channels is not None and len(entry.channels.mean) == 3)
    if pictures and entry.alike and (alike := float(np.median(entry.alike))) < _NEIGHBOURS:
        yield doubt("noise", entry.spec.name, alike=alike)


def _torn(entry: InputSurvey) -> Iterator[DataWarning]:
    """Pictures that were brought from one layout to the other by reshaping them."""
    if entry.preparation is None and len(entry.torn) >= 8 and np.quantile(entry.torn, 0.1) > _TORN:
        made = entry.layout or ""
        other = "NHWC" if made.endswith("W") else "NCHW"
        axes = "(0, 3, 1, 2)" if made.endswith("W") else "(0, 2, 3, 1)"
        yield doubt("reshaped", entry.spec.name, other=other, layout=made, axes=axes)


# --- order of the channels ------------------------------------------------------------------------


def _order(entry: InputSurvey) -> Iterator[DataWarning]:
    name, made = entry.spec.name, entry.preparation
    if made is not None:
        if channel_order.is_mean_reversed(made):
            other = "bgr" if made.color == "rgb" else "rgb"
            yield doubt("channel-order", name, color=made.color, other=other)
        return
    evidence = channel_order.reversed_in(entry)
    if evidence == "values":
        yield doubt("channel-order.values", name)
    elif evidence == "mean":
        yield doubt("channel-order.mean", name)


def _yuv(entry: InputSurvey) -> Iterator[DataWarning]:
    """Arrays only: what is decoded of image files is RGB."""
    if entry.preparation is None and is_yuv(entry):
        yield doubt("yuv", entry.spec.name)


_MIDDLE = 0.04  # of the range: how far the mean of U and V over many images may be from its middle
_SPREAD = 0.5  # U and V of photographs vary far less than Y does; R, G and B vary alike
_SAMPLES = 4  # at least


def is_yuv(entry: InputSurvey) -> bool:
    """Whether the first channel of images varies, and the others stay near the middle of the range.

    In YUV (BT.601, BT.709) a gray pixel has U = V = 128 of 255, so that over photographs the means of both
    are there, and their deviations are small beside that of Y. Known of images from 0 to 255 and from 0 to 1,
    in the order Y, U, V.
    """
    if entry.channels is None or entry.layout is None or len(entry.channels.mean) != 3:
        return False
    if entry.min is None or entry.max is None or entry.min < 0 or sum(entry.shapes.values()) < _SAMPLES:
        return False
    if entry.max <= 1.001:
        full = 1.0
    elif 50 < entry.max <= 255.5:
        full = 255.0
    else:
        return False
    mean, std = entry.channels.mean / full, entry.channels.std / full
    near = np.abs(mean[1:] - 128 / 255) < _MIDDLE
    return bool(near.all() and (std[1:] > 0).all() and (std[1:] < _SPREAD * std[0]).all())
