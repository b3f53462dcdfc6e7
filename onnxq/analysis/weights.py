"""Weights of layers: what they hold, and what 8 bits make of them, by layer and by channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from onnxq.analysis.figures import Metric, divergence, histogram_of
from onnxq.analysis.octaves import Octaves, WhichChannels, octaves
from onnxq.base.catalogue import Fact
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted, say
from onnxq.base.shown import Shown, Words, count, model_name, number
from onnxq.formats import INT8, format_of
from onnxq.graph.channels import along, by_channel
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.pairs import NOTHING, Pair, pair_of
from onnxq.graph.shared import SharedWeight
from onnxq.graph.types import is_float, is_static
from onnxq.graph.view import Tensor, every_node
from onnxq.judge.sqnr import sqnr_db
from onnxq.quant.scales import quantize_weights

OUTLIER = 8.0
"""A channel is an outlier where its range is so many times the median of the other channels'."""

_ROWS = 10
_FOLDED = 0.5  # of the error at most, where a factor for each channel explains a difference


@dataclass(frozen=True, slots=True)
class WeightRow(DocumentPart):
    """The weights of a layer, or of one of its channels.

    Figures of a comparison are None where there is nothing to compare with.

    Attributes:
        layer: the node.
        op: its operator.
        weight: the tensor that the node reads.
        channel: which channel, from 0; None: all of them.
        axis: the axis of the weights along which channels are.
        dtype: the type as the file holds them: that of the codes where they are quantized.
        values: how many.
        min: the least.
        max: the greatest.
        mean: the mean.
        zeros: the share that is 0.
        nonfinite: how many are NaN or infinite; the other figures are of the others.
        state: "dead" where all are 0, "outlier" where the range is 8 times the median of the others, else "".
        over_median: max |w| over the median of that of the layer's other channels that are not dead; None
            where there are none; of a layer: the greatest.
        scale: the scale of the codes, which is their step where they are evenly spaced; of a layer: the
            greatest.
        codes: how many different codes occur; None where there are none.
        cosine: of the float and the quantized weights.
        sqnr_db: signal over error, dB; inf where there is no error.
        max_error: the greatest |difference|.
        max_steps: the same in steps, of the channel or block that holds the weight; None where the format's
            numbers are not evenly spaced.
        gain: a factor of the channel that lies between both (a fused BatchNormalization, or a wrong scale):
            the figures are of the float weights times it. None: there is none. Of a layer: None.
        dead: channels that are dead; None in a channel's row.
        outliers: channels that are outliers, likewise.
        histogram: of the magnitudes of the finite ones; of layers and of channels that are outliers, or all.
        mse: the mean of the squared differences.
        l1: the mean of the |differences|.
        kl: KL(float || quantized) of both histograms, nats; None in a channel's row.
        metric: what the user's own function says of both; None where there is none, and in a channel's row.
        histogram_after: of the quantized weights; None in a channel's row.
    """

    layer: str
    op: str
    weight: str
    channel: int | None
    axis: int
    dtype: str
    values: int
    min: float | None
    max: float | None
    mean: float | None
    zeros: float
    nonfinite: int
    state: str
    over_median: float | None
    scale: float | None
    codes: int | None
    cosine: float | None
    sqnr_db: float | None
    max_error: float | None
    max_steps: float | None
    gain: float | None
    dead: int | None
    outliers: int | None
    histogram: Octaves | None
    mse: float | None = None
    l1: float | None = None
    kl: float | None = None
    metric: float | None = None
    histogram_after: Octaves | None = None


@dataclass(frozen=True, slots=True)
class WeightLeft(DocumentPart):
    """A layer that has no row, or is compared with nothing.

    Attributes:
        layer: the node.
        op: its operator.
        why: why it has none.
    """

    layer: str
    op: str
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class WeightTable(Shown, DocumentPart):
    """What `onnxq statistics weights` finds.

    Attributes:
        kind: "weights".
        schema: 2.
        model: the model's file, "" for one in memory.
        against: the quantized model's, "" where there is none.
        compared: what float weights are compared with. "file": the quantized model. "grid": int8 with a
            scale for each channel that holds all of it. "": there is nothing to compare.
        rows: each layer, then its channels, in the order of the model.
        left: layers that are not among them, or compared with nothing.
        shared: the weights that several layers read.
    """

    kind: str
    schema: int
    model: str
    against: str
    compared: str
    rows: tuple[WeightRow, ...]
    left: tuple[WeightLeft, ...]
    shared: tuple[SharedWeight, ...] = ()

    def beside(self, file: str) -> Fact:
        """What weights are compared with, and how they are sorted: `says` and `sorted` of the screens."""
        return Fact(f"weights-against.{self.compared or 'nothing'}", values={"file": file})

    def words(self) -> Words:
        """What was compared with what, and the worst layers."""
        layers = sorted((row for row in self.rows if row.channel is None), key=order_of_badness)
        broken = sum(row.nonfinite > 0 for row in layers)
        alarms = [f"{count(broken, 'layer')} with NaN or infinities"] * bool(broken)
        facts = [
            self.beside(self.against).text("screens"),
            *(
                f"{count(total, f'{state} channel')}"
                for state, total in (
                    ("dead", sum(row.dead or 0 for row in layers)),
                    ("outlier", sum(row.outliers or 0 for row in layers)),
                )
                if total
            ),
            say("shared-weights", weights=count(len(self.shared), "weight")) if self.shared else "",
            f"{count(len(self.left), 'layer')} left out" if self.left else "",
        ]
        rows = [
            (
                row.layer, row.op, row.dtype, number(row.min), number(row.max), number(row.sqnr_db),
                number(row.max_steps),
            )
            for row in layers[:_ROWS]
        ]  # fmt: skip
        head = f"weights of {model_name(self.model)}: {count(len(layers), 'layer')}"
        titles = ("layer", "operator", "type", "min", "max", "SQNR dB", "steps")
        return Words(head, facts, titles, rows, alarms)


@dataclass(frozen=True, slots=True)
class HeldWeights:
    """Weights as a file holds them.

    Attributes:
        values: what the layer computes with, float32.
        codes: the codes in the same places; None where they are not quantized.
        steps: the scale of each, float32 of the same shape; None likewise.
        dtype: the type that is held.
    """

    values: np.ndarray
    codes: np.ndarray | None
    steps: np.ndarray | None
    dtype: str


def weight_rows(
    model: Model,
    against: Model | None = None,
    *,
    channels: bool = True,
    histograms: WhichChannels = "worst",
    metric: Metric | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[str, list[WeightRow], list[WeightLeft]]:
    """The rows, what they are compared with, and what is left out.

    Args:
        model: the model.
        against: the quantized model, None for none. Layers are the same where their nodes' names are.
        channels: whether channels have rows.
        histograms: of which of them there are histograms: of outliers, or of all.
        metric: the user's own figure of a layer.
        progress: is told how many layers are done, and of how many.
    """
    others = {layer.node.name: layer for layer in _layers(against)} if against is not None else {}
    rows: list[WeightRow] = []
    left: list[WeightLeft] = []
    compared = "" if against is None else "file"
    layers = list(_layers(model))
    for done, layer in enumerate(layers):
        progress(done, len(layers))
        name, op = layer.node.name, layer.node.op
        held = held_weights(layer.weight)
        if held is None:
            left.append(WeightLeft(name, op, noted("weights-left.computed")))
            continue
        if not held.values.size:
            left.append(WeightLeft(name, op, noted("weights-left.empty")))
            continue
        other: HeldWeights | None = None
        if against is not None:
            other, why = _other(others.get(name), held)
            if why:
                left.append(WeightLeft(name, op, why))
        elif held.codes is None:
            other = _on_grid(held, layer.axis)
            compared = "grid"
        lines = _Rows(layer, held, other, metric, histograms)
        rows += map(lines.of, (None, *range(len(lines.values))) if channels else (None,))
    progress(len(layers), len(layers))
    return compared, rows, left


def held_weights(tensor: Tensor) -> HeldWeights | None:
    """What a file holds of constant weights, codes and steps where they are dequantized.

    Returns:
        None where they pass through what is not followed.
    """
    values = tensor.constant
    if values is not None:
        if not is_float(values.dtype):
            return None
        return HeldWeights(values.astype(np.float32), None, None, str(values.dtype))
    node = tensor.producer
    if node is None or node.domain:
        return None
    pair = pair_of(tensor, NOTHING)
    if pair is not None:
        return _dequantized(pair)
    source = node.inputs[0] if node.inputs else None
    held = None if source is None else held_weights(source)
    if held is None:
        return None
    if node.op in ("Identity", "Cast"):
        to = node.outputs[0].dtype
        if to is None or not is_float(to):
            return None
        return HeldWeights(held.values.astype(to).astype(np.float32), held.codes, held.steps, held.dtype)
    parts = [held.values, held.codes, held.steps]
    if node.op == "Transpose":
        axes = node.attr("perm") or list(range(held.values.ndim))[::-1]
        moved = [None if part is None else part.transpose(axes) for part in parts]
    elif node.op in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        shape = node.outputs[0].shape
        if not is_static(shape):
            return None
        moved = [None if part is None else part.reshape(shape) for part in parts]
    else:
        return None
    assert moved[0] is not None
    return HeldWeights(moved[0], moved[1], moved[2], held.dtype)


def _dequantized(pair: Pair) -> HeldWeights | None:
    codes = pair.codes.constant if pair.codes is not None else None
    if codes is None:
        return _quantized(pair)
    grid = pair.grid(codes.shape)
    if grid is None:
        return None
    steps, zeros = grid
    return HeldWeights((codes.astype(np.float32) - zeros) * steps, codes, steps, str(codes.dtype))


def _quantized(pair: Pair) -> HeldWeights | None:
    """Float weights that the file quantizes and dequantizes: what comes of it."""
    weights, maker = pair.source, pair.quantizer
    if weights is None or weights.constant is None or maker is None:
        return None
    of, values = Pair(maker), weights.constant.astype(np.float32)
    grid, format = pair.grid(values.shape), of.format
    again = of.grid(values.shape)
    if grid is None or again is None or format is None or format.dtype.kind not in "iu":
        return None
    steps, zeros = grid[0], again[1]
    codes = np.clip(np.rint(values / steps) + zeros, *format.ends)
    return HeldWeights((codes - zeros) * steps, codes.astype(format.dtype), steps, format.name)


def _on_grid(held: HeldWeights, axis: int) -> HeldWeights:
    """What symmetric int8 with one scale a channel makes of float weights."""
    sound = np.where(np.isfinite(held.values), held.values, np.float32(0))
    codes, scales = quantize_weights(sound, axis)
    steps = along(scales, axis, codes.ndim)
    return HeldWeights(INT8.values(codes, steps), codes, np.broadcast_to(steps, codes.shape), INT8.name)


def _other(layer: Layer | None, held: HeldWeights) -> tuple[HeldWeights | None, str]:
    if layer is None:
        return None, noted("weights-left.no-layer")
    other = held_weights(layer.weight)
    if other is None:
        return None, noted("weights-left.other-computed")
    if other.values.shape != held.values.shape:
        sizes = ["x".join(map(str, one.values.shape)) for one in (held, other)]
        return None, noted("weights-left.sizes", here=sizes[0], there=sizes[1])
    return other, ""


def _layers(model: Model) -> Iterator[Layer]:
    layers = (layer_of(node, quantized=True) for node in every_node(model))
    return (layer for layer in layers if layer is not None)


class _Rows:
    """What the rows of a layer are made of: its weights by channel, and those that they are compared with."""

    def __init__(
        self,
        layer: Layer,
        held: HeldWeights,
        other: HeldWeights | None,
        metric: Metric | None,
        histograms: WhichChannels,
    ) -> None:
        def lines(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else by_channel(values, layer.axis)

        self.layer, self.dtype, self.metric, self.histograms = layer, held.dtype, metric, histograms
        self.values = by_channel(held.values, layer.axis)
        self.finite = np.isfinite(self.values)
        sound = np.where(self.finite, self.values, np.float32(0))
        tops = np.abs(sound).max(1)
        self.over = _over_median(tops)
        self.dead = tops == 0
        self.outlier = ~self.dead & (self.over >= OUTLIER)
        coded = held if held.codes is not None else other
        self.codes, self.steps = (None, None) if coded is None else (lines(coded.codes), lines(coded.steps))
        self.even = coded is None or coded.codes is None or format_of(coded.codes.dtype).even
        self.gains: list[float | None] = [None] * len(self.values)
        self.reference, self.quantized = sound.astype(np.float64), None
        if other is not None:
            self.quantized = np.where(self.finite, by_channel(other.values, layer.axis), 0).astype(np.float64)
            self._scale_reference(self.quantized)

    def _scale_reference(self, quantized: np.ndarray) -> None:
        """Takes a factor for each channel, where there is one, out of what is compared."""
        width = np.ones_like(self.reference) if self.steps is None else self.steps
        if self.codes is not None and not self.even:  # the widest of the channel: what is fitted goes by it
            gaps = format_of(self.codes.dtype).gaps(self.codes.astype(np.float32))
            width = width * gaps.max(1, keepdims=True)
        for channel, reference in enumerate(self.reference):
            gain = self.gains[channel] = _gain(reference, quantized[channel], width[channel])
            reference *= 1.0 if gain is None else gain or 0.0

    def of(self, channel: int | None) -> WeightRow:
        """The row of a channel; of None that of the layer."""
        whole = channel is None
        place = slice(None) if channel is None else slice(channel, channel + 1)
        values, finite = self.values[place], self.finite[place]
        sound = values[finite]
        steps = None if self.steps is None else self.steps[place]
        figures = _Compared()
        if self.quantized is not None:
            figures = _compared(self.reference[place], self.quantized[place], steps if self.even else None)
        own, after, kl = None, None, None
        if whole and self.quantized is not None:
            after, kl = (
                octaves(self.quantized),
                divergence(*map(histogram_of, (self.reference, self.quantized))),
            )
            own = None if self.metric is None else self.metric(self.reference, self.quantized)
        ratios = self.over[place][~np.isnan(self.over[place])]
        state = "dead" if bool(self.dead[place].all()) else ""
        if not whole and self.outlier[place].any():
            state = "outlier"
        return WeightRow(
            layer=self.layer.node.name,
            op=self.layer.node.op,
            weight=self.layer.weight.name,
            channel=channel,
            axis=self.layer.axis,
            dtype=self.dtype,
            values=values.size,
            min=float(sound.min()) if sound.size else None,
            max=float(sound.max()) if sound.size else None,
            mean=float(sound.mean(dtype=np.float64)) if sound.size else None,
            zeros=float(np.count_nonzero(values == 0)) / values.size,
            nonfinite=int(np.count_nonzero(~finite)),
            state=state,
            over_median=float(ratios.max()) if len(ratios) else None,
            scale=None if steps is None else float(steps.max()),
            codes=None if self.codes is None else len(np.unique(self.codes[place])),
            cosine=figures.cosine,
            sqnr_db=figures.sqnr_db,
            max_error=figures.max_error,
            max_steps=figures.max_steps,
            gain=None if channel is None else self.gains[channel],
            dead=int(self.dead.sum()) if whole else None,
            outliers=int(self.outlier.sum()) if whole else None,
            histogram=octaves(sound) if whole or state == "outlier" or self.histograms == "all" else None,
            mse=figures.mse,
            l1=figures.l1,
            kl=kl,
            metric=own,
            histogram_after=after,
        )


def _over_median(tops: np.ndarray) -> np.ndarray:
    """Each range over the median of the others that are not 0; NaN where there are none, float64."""
    ratios = np.full(len(tops), np.nan)
    order = np.argsort(tops, kind="stable")
    order = order[tops[order] > 0]
    ranked = tops[order].astype(np.float64)
    count = len(ranked) - 1  # the others
    low, high = (count - 1) // 2, count // 2
    for place, index in enumerate(order if count > 0 else ()):
        # without the one at `place`, those behind it move up by one
        ratios[index] = tops[index] / ((ranked[low + (low >= place)] + ranked[high + (high >= place)]) / 2)
    return ratios


def _gain(one: np.ndarray, other: np.ndarray, steps: np.ndarray) -> float | None:
    """The factor that makes one channel the other, where it is no rounding that lies between them."""
    norm = float(one @ one)
    plain = float((np.abs(one - other) / steps).max())
    if not norm or plain <= 1.0:
        return None
    gain = float(one @ other) / norm
    rest = float((np.abs(one * gain - other) / steps).max())
    return gain if gain and rest <= _FOLDED * plain and rest <= 1.0 else None


@dataclass(frozen=True, slots=True)
class _Compared:
    cosine: float | None = None
    sqnr_db: float | None = None
    max_error: float | None = None
    max_steps: float | None = None
    mse: float | None = None
    l1: float | None = None


def _compared(one: np.ndarray, other: np.ndarray, steps: np.ndarray | None) -> _Compared:
    gap = np.abs(one - other)
    signal, noise, power = float(np.sum(one * one)), float(np.sum(gap * gap)), float(np.sum(other * other))
    cosine = None
    if signal and power:
        cosine = float(np.sum(one * other)) / (math.sqrt(signal) * math.sqrt(power))
    most = None if steps is None else float((gap / steps).max())
    level = sqnr_db(signal, noise)
    return _Compared(cosine, level, float(gap.max()), most, noise / gap.size, float(gap.mean()))


def order_of_badness(row: WeightRow) -> tuple[float, ...]:
    """Sorts rows of layers, the worst first."""
    steps = 0.0 if row.max_steps is None else row.max_steps
    return (
        -float(row.nonfinite > 0),
        -float(steps > 1.0) * steps,
        math.inf if row.sqnr_db is None else row.sqnr_db,
        -float(row.over_median or 0.0),
    )
