"""What is doubtful about data: that they do not look as the model expects, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.base.shown import counted
from onnxq.data import channel_order
from onnxq.data.colour_space import is_yuv
from onnxq.data.images import Preparation
from onnxq.data.model_scaling import ModelScaling
from onnxq.data.presets import IMAGENET_MEAN, IMAGENET_STD
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
) -> list[DataWarning]:
    """What is doubtful about samples.

    Args:
        survey: what they look like.
        own: what the model does itself to its inputs.
        count: how many samples the data have; None where that is not known.
        batch: how many rows each of them has, a static batch size.
        bad: how many of those that were read cannot be used.
        few: whether it is told that they are few.
    """
    seen = [*_repeats(survey)]
    for entry in survey.numeric:
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


def _told_of(doubt: DataWarning, looked_at: int, count: int | None) -> DataWarning:
    """A doubt that says how many samples it was seen in, where these are not all."""
    if count is not None and looked_at >= count:
        return doubt
    of = "" if count is None else f" of {count}"
    return replace(doubt, text=f"{doubt.text} ({looked_at}{of} samples were looked at)")


# --- samples --------------------------------------------------------------------------------------


def _bad(bad: int) -> Iterator[DataWarning]:
    if bad:
        yield DataWarning(
            "bad-samples", None,
            f"{counted(bad, 'bad sample')}: to calibrate or to compare ends at the first one",
            "repair or remove them, or leave them out with --skip-bad",
        )  # fmt: skip


def _few(count: int | None, batch: int) -> Iterator[DataWarning]:
    if count is not None and count * batch < ENOUGH:
        yield DataWarning(
            "few-samples", None,
            f"{counted(count, 'sample')}{f' of {batch} rows' * (batch > 1)}: {ENOUGH} or more are wanted to "
            "calibrate",
            "give some hundreds that are typical of what the model is used on",
        )  # fmt: skip


def _repeats(survey: Survey) -> Iterator[DataWarning]:
    compared = [entry for entry in survey.numeric if entry.size > 1]
    if survey.samples > 1 and compared and max(entry.spread for entry in compared) <= _ALIKE:
        same = "equal" if survey.repeated == survey.samples - 1 else "equal but for 0.1 % of their variance"
        yield DataWarning(
            "alike", None,
            f"all {survey.samples} samples are {same}: they calibrate as one does",
            "give samples as varied as those that the model is used on",
        )  # fmt: skip
    elif survey.near and survey.nearly >= max(_FEW, _MOST * survey.samples) and survey.size >= _SMALL:
        again, first = survey.near
        yield DataWarning(
            "few-different", None,
            f"{survey.samples} samples, as different as {survey.samples - survey.nearly}: the others are "
            f"equal or nearly equal to one of these ({again} to {first}, ...)",
            "give samples as varied as those that the model is used on; copies tell nothing new, and make "
            "the accuracy look better than it is",
        )  # fmt: skip
    elif survey.repeated and survey.size >= _SMALL:
        pairs = ", ".join(f"{again} = {first}" for again, first in survey.repeats)
        more = ", ..." if survey.repeated > len(survey.repeats) else ""
        yield DataWarning(
            "duplicates", None,
            f"{survey.repeated} of {survey.samples} samples equal an earlier one: {pairs}{more}",
            "remove the copies; one among the samples that verify makes the accuracy look better than it is",
        )  # fmt: skip


def _constant(entry: InputSurvey, survey: Survey) -> Iterator[DataWarning]:
    """Floats that never vary; a constant integer (a type of tokens, a mask, a rate) is usual."""
    name, picture = entry.spec.name, entry.layout is not None
    if entry.size < 2 or not (picture or is_float(entry.spec.dtype)):
        return
    if entry.min == entry.max:
        yield DataWarning(
            "constant-input", name,
            f"input {name!r} is {entry.min:g} everywhere, in every sample",
            "check what wrote the data; if it is never anything else in use, all is well",
        )  # fmt: skip
    elif entry.constant and (picture or (len(survey.inputs) == 1 and entry.size >= _SMALL)):
        names = ", ".join(entry.constant_in) + ", ..." * (entry.constant > len(entry.constant_in))
        yield DataWarning(
            "constant-sample", name,
            f"in {entry.constant} of {survey.samples} samples all of input {name!r} is one "
            f"{'color' if picture else 'value'}: {names}",
            "look at them, and remove those that are blank by mistake",
        )  # fmt: skip


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
        yield DataWarning(
            "mixed-scales", entry.spec.name,
            f"input {entry.spec.name!r}: {place} of {len(sizes)} samples go up to {sizes[place - 1]:.3g} at "
            f"most, the others to {sizes[place]:.3g} at least: they are prepared in two ways?",
            "prepare all samples as in training; if the model really takes both, all is well",
        )  # fmt: skip


def _model_scaling(
    entry: InputSurvey, node: str, takes: str, low: float, high: float
) -> Iterator[DataWarning]:
    """Data that do not suit what the model does to them itself."""
    name, images = entry.spec.name, entry.preparation is not None
    fed = f"the model itself scales input {name!r} (node {node!r}), as for values of {takes}; it is fed "
    fed += f"{low:.4g} to {high:.4g}"
    arrays = f"give the arrays from {takes.replace('..', ' to ')}"
    if takes == "0..255" and high - low <= 8:
        do = "--preset raw feeds pixels from 0 to 255" if images else arrays
        flags = (_VALUES, ("--preset", "raw")) if images else ()
        yield DataWarning("normalized-twice", name, f"{fed}: normalized twice?", do, *flags)
    elif takes == "0..1" and low < -0.2:
        do = "leave mean and std out (--preset imagenet and tensorflow have them)" if images else arrays
        yield DataWarning(
            "normalized-twice", name, f"{fed}: normalized twice?", do, _VALUES if images else ()
        )
    elif takes == "0..1" and high > 8:
        do = "give --scale 1/255" if images else arrays
        text = f"{fed}: unnormalized?"
        if images:
            yield DataWarning("unnormalized", name, text, do, ("--scale", "--preset"), ("--scale", "1/255"))
        else:
            yield DataWarning("unnormalized", name, text, do)


def _of_mean(made: Preparation) -> str:
    """What the mean is of, beside what pixels are scaled to."""
    scale = "1/255" if math.isclose(255 * made.scale, 1, rel_tol=1e-6) else f"{made.scale:.4g}"
    if made.scale < 1 < max(made.mean):
        return (
            f"a mean of {max(made.mean):g} is of pixels from 0 to 255, and these are scaled by {scale} first"
        )
    return f"the mean is of values of another size than scale {scale} makes"


def _units(made: Preparation) -> Iterator[DataWarning]:
    """A mean and a std for pixels from 0 to 255 where there are values from 0 to 1, or the other way."""
    low, high = made.range
    fed = f"input {made.input!r} is fed {low:.4g} to {high:.4g}"
    one_sided, beyond = low > 0 or high < 0, max(-low, high) > 256 and made.scale >= 1
    if (one_sided or beyond) and max(made.std) < 1 < max(made.mean):
        mean, std = (
            ",".join(f"{one:.8g}" for one in some) for some in ([m / 255 for m in made.mean], made.std)
        )
        flags = ("--scale", "1/255", "--mean", mean, "--std", std)
        yield DataWarning(
            "units", made.input,
            f"{fed}: a mean of {max(made.mean):g} is of pixels from 0 to 255, and a std of "
            f"{max(made.std):g} of values from 0 to 1",
            f"give both of values from 0 to 1, {' '.join(flags)}",
            ("--preset", *flags[::2]), flags,
        )  # fmt: skip
    elif low > 0 and max(made.mean) < 0:
        mean = ",".join(f"{-one:.8g}" for one in made.mean)
        yield DataWarning(
            "units", made.input,
            f"{fed}, all above 0: a mean is subtracted, and of {made.mean[0]:g} that adds {-made.mean[0]:g}: "
            "its sign turned around?",
            f"give --mean {mean}", ("--mean",), ("--mean", mean),
        )  # fmt: skip
    elif one_sided:
        yield DataWarning(
            "units", made.input,
            f"{fed}, all on one side of 0: {_of_mean(made)}",
            "how was the model trained? a mean of pixels from 0 to 255 goes with --scale 1, of values from 0 "
            "to 1 with --scale 1/255",
            *((("--scale", "--preset"), ("--scale", "1")) if made.scale < 1 < max(made.mean) else ()),
        )  # fmt: skip
    elif beyond:
        yield DataWarning(
            "units", made.input,
            f"{fed}, more than pixels are: the std is of values of another size than "
            f"scale {made.scale:.4g} makes",
            "leave --scale out, or give --scale 1/255",
            ("--scale",), ("--scale", "1/255"),
        )  # fmt: skip


def _unnormalized(entry: InputSurvey, low: float, high: float) -> Iterator[DataWarning]:
    wide = entry.layout is not None or entry.size >= _SMALL
    resized = entry.layout is not None and high > 200  # pixels between pixels
    if wide and (entry.whole or resized) and low >= 0 and 50 < high <= 255:
        what = "whole numbers" if entry.whole else "values"
        yield DataWarning(
            "unnormalized", entry.spec.name,
            f"input {entry.spec.name!r} is fed {what} from {low:g} to {high:g}: unnormalized?",
            "prepare the arrays as in training (x / 255, say); if the model takes 0 to 255, all is well",
        )  # fmt: skip


def _twice(entry: InputSurvey, low: float, high: float) -> Iterator[DataWarning]:
    """Images that were prepared twice."""
    if entry.layout is None:
        return
    if low >= 0 and high <= 1.1 / 255:
        how = "divided by 255 twice?"
    elif high - low <= _FLAT:
        how = f"all of it within {high - low:.2g}: scaled twice?"
    elif _is_imagenet_twice(entry, low, high):
        how = "(x - mean) / std of ImageNet applied twice?"
    else:
        return
    name = entry.spec.name
    text = f"input {name!r} is fed {low:.3g} to {high:.3g}: {how}"
    yield DataWarning("normalized-twice", name, text, "prepare the arrays as in training, once")


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
        yield DataWarning(
            "noise", entry.spec.name,
            f"input {entry.spec.name!r}: neighbouring pixels are alike by {alike:.2f} (their correlation), "
            "where photographs have 0.9: noise?",
            "give samples of what the model is used on; what is measured on noise holds of noise",
        )  # fmt: skip


def _torn(entry: InputSurvey) -> Iterator[DataWarning]:
    """Pictures that were brought from one layout to the other by reshaping them."""
    if entry.preparation is None and len(entry.torn) >= 8 and np.quantile(entry.torn, 0.1) > _TORN:
        made = entry.layout or ""
        other = "NHWC" if made.endswith("W") else "NCHW"
        axes = "(0, 3, 1, 2)" if made.endswith("W") else "(0, 2, 3, 1)"
        yield DataWarning(
            "reshaped", entry.spec.name,
            f"input {entry.spec.name!r}: its numbers are pictures where they are read as {other}, and torn "
            f"ones as the model reads them, {made}: reshaped instead of transposed?",
            f"bring arrays of {other} to the model's layout with x.transpose{axes}, not with reshape",
        )  # fmt: skip


# --- order of the channels ------------------------------------------------------------------------


_PADDLE = "if the model is PaddleOCR's, change nothing: those are trained with the reverse order"


def _order(entry: InputSurvey) -> Iterator[DataWarning]:
    name, made = entry.spec.name, entry.preparation
    if made is not None:
        if channel_order.is_mean_reversed(made):
            other = "bgr" if made.color == "rgb" else "rgb"
            yield DataWarning(
                "channel-order", name,
                f"input {name!r} is fed {made.color}, with ImageNet's mean in the order of {other}",
                f"mean and std are in the order that is fed: reverse them, or give "
                f"--color {other}; {_PADDLE}",
            )  # fmt: skip
        return
    evidence = channel_order.reversed_in(entry)
    if evidence == "values":
        yield DataWarning(
            "channel-order", name,
            f"input {name!r}: the means of its channels are those of photographs in the order BGR",
            "if the model takes RGB, reverse the arrays' channels: x[:, ::-1] (NCHW) or x[..., ::-1] (NHWC)",
        )  # fmt: skip
    elif evidence == "mean":
        yield DataWarning(
            "channel-order", name,
            f"input {name!r}: its channels are as if ImageNet's mean was taken from them in reverse order",
            f"take it in the order of the channels: 0.485, 0.456, 0.406 are of red, green, blue; {_PADDLE}",
        )  # fmt: skip


def _yuv(entry: InputSurvey) -> Iterator[DataWarning]:
    """Arrays only: what is decoded of image files is RGB."""
    if entry.preparation is None and is_yuv(entry):
        yield DataWarning(
            "yuv", entry.spec.name,
            f"input {entry.spec.name!r}: its second and third channel vary little around the middle: YUV?",
            "if the model takes RGB, convert the arrays as for its training; if it takes YUV, all is well",
        )  # fmt: skip
