"""What the report says of calibration: figures and histograms of tensors, scales of weights, and doubts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx

from onnxq.base.reason import code_of, noted
from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.stats import Stats, TensorStats
from onnxq.documents.calibration import DrawnHistogram, MethodChosen, RowsSampled, ScaleProfile
from onnxq.graph.channels import by_channel
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range


def method_named(method: str, choice: MethodChosen | None, ranges: Mapping[str, Range]) -> str:
    """What found the ranges: a method, or where no tensor uses it, what states or fixes them all.

    Args:
        method: the method where the outputs did not choose one.
        choice: what they chose, or None.
        ranges: the range of each measured tensor.
    """
    reasons = {entry.because for entry in ranges.values()}
    if reasons and not any(code_of(why) in ("method", "zeros", "chosen") for why in reasons):
        return reasons.pop() if len(reasons) == 1 else "stated or fixed"
    if choice is None:
        return method
    return f"{'search' if method.startswith('percentile') else 'auto'}: {choice.method}"


def alike(stats: Stats, ranges: Mapping[str, Range]) -> Iterator[str]:
    """What makes ranges doubtful: values that are all the same."""
    for name in ranges:
        entry = stats.tensors.get(name)
        if entry is not None and entry.amax == 0:
            yield noted("zero-tensor", tensor=name)
        elif entry is not None and entry.min == entry.max:
            yield noted("constant-tensor", tensor=name, value=entry.min)


_BINS = 64


def drawn(entry: TensorStats) -> DrawnHistogram | None:
    """The histogram of a tensor for a drawing; None where it was not counted, or all is zero."""
    top = entry.amax
    if entry.histogram is None or not 0 < top < math.inf:
        return None
    return DrawnHistogram(top, " ".join(map(str, entry.histogram.coarse(top, _BINS).tolist())))


_RANKS = 32
_WEIGHT_BINS = 32
_ROOM = 1 << 20  # weights that are taken at a time


def weight_scales(proto: onnx.ModelProto, plan: QuantPlan) -> dict[str, ScaleProfile]:
    """The scales of the weights of a written model, by weight; of those that stand in the file itself."""
    wanted = {f"{site.tensor}_scale": site for site in plan.sites if site.kind == "weight"}
    inside = {
        tensor.name: tensor
        for tensor in proto.graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    codes = {node.input[1]: node.input[0] for node in proto.graph.node if len(node.input) > 1}
    profiles = {}
    for name, site in wanted.items():
        tensor = inside.get(name)
        if tensor is None or not len(tensor.dims) or not tensor.dims[0]:
            continue
        scales = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        values = np.sort(scales, axis=None)
        ranks = np.unique(np.linspace(0, len(values) - 1, _RANKS).round().astype(int))
        text = " ".join(f"{value:.4g}" for value in values[ranks])
        held = inside.get(codes.get(name, ""))
        profile = ScaleProfile(len(values), text)
        if held is not None and site.axis is not None and scales.ndim == 1:
            profile = _with_histogram(profile, onnx.numpy_helper.to_array(held), scales, site.axis)
        profiles[site.tensor] = profile
    return profiles


def _with_histogram(profile: ScaleProfile, codes: np.ndarray, scales: np.ndarray, axis: int) -> ScaleProfile:
    """With what weights hold; `codes` are symmetric, and one of `scales` is for each index of `axis`."""
    lines = by_channel(codes, axis)
    if not codes.size or len(lines) != len(scales):
        return profile
    factors = scales[:, None].astype(np.float32)
    step = max(1, _ROOM // lines.shape[1])

    def magnitudes(place: int) -> np.ndarray:
        some = slice(place, place + step)
        return np.asarray(np.abs(lines[some].astype(np.float32)) * factors[some])

    tops = np.concatenate([magnitudes(place).max(1) for place in range(0, len(lines), step)])
    widest, top = int(tops.argmax()), float(tops.max())
    if not 0 < top < math.inf:
        return profile
    counter = HistogramCounter()
    for place in range(0, len(lines), step):
        counter.add(magnitudes(place))
    own = HistogramCounter()
    own.add(np.abs(lines[widest].astype(np.float32)) * factors[widest])
    all_of_it, channel = (
        " ".join(map(str, one.histogram().coarse(top, _WEIGHT_BINS).tolist())) for one in (counter, own)
    )
    return replace(profile, drawn=DrawnHistogram(top, all_of_it), widest=widest, of_widest=channel)


_TAIL = 1e-4  # the share above a percentile of 99.99


def rows_sampled(stats: Stats) -> RowsSampled:
    """How exact histograms of sampled rows are."""
    sampled = [entry for entry in stats.tensors.values() if entry.sampling_error > 0]
    worst = max((entry.sampling_error for entry in sampled), default=0.0)
    return RowsSampled(
        len(sampled),
        min((e.counted for e in sampled if e.histogram is not None), default=0),
        worst * math.sqrt(_TAIL) / _TAIL,
        noted("tail-error"),
    )
