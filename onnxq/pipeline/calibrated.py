"""What the report says of calibration: figures and histograms of tensors, scales of weights, and doubts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from onnxq.base.reason import code_of
from onnxq.calib.stats import Stats, TensorStats
from onnxq.documents.calibration import DrawnHistogram, MethodChosen, RowsSampled, ScaleProfile
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
            yield f"tensor {name!r} is zero in every sample: its scale is not measured"
        elif entry is not None and entry.min == entry.max:
            yield f"tensor {name!r} is {entry.min:g} everywhere, in every sample"


_BINS = 64


def drawn(entry: TensorStats) -> DrawnHistogram | None:
    """The histogram of a tensor for a drawing; None where it was not counted, or all is zero."""
    top = entry.amax
    if entry.histogram is None or not 0 < top < math.inf:
        return None
    return DrawnHistogram(top, " ".join(map(str, entry.histogram.coarse(top, _BINS).tolist())))


_RANKS = 32


def weight_scales(proto: onnx.ModelProto, plan: QuantPlan) -> dict[str, ScaleProfile]:
    """The scales of the weights of a written model, by weight; of those that stand in the file itself."""
    wanted = {f"{site.tensor}_scale": site.tensor for site in plan.sites if site.kind == "weight"}
    profiles = {}
    for tensor in proto.graph.initializer:
        inside = tensor.data_location != onnx.TensorProto.EXTERNAL
        if tensor.name in wanted and inside and len(tensor.dims) and tensor.dims[0]:
            values = np.sort(onnx.numpy_helper.to_array(tensor).astype(np.float64), axis=None)
            ranks = np.unique(np.linspace(0, len(values) - 1, _RANKS).round().astype(int))
            text = " ".join(f"{value:.4g}" for value in values[ranks])
            profiles[wanted[tensor.name]] = ScaleProfile(len(values), text)
    return profiles


_TAIL = 1e-4  # the share above a percentile of 99.99


def rows_sampled(stats: Stats) -> RowsSampled:
    """How exact histograms of sampled rows are."""
    sampled = [entry for entry in stats.tensors.values() if entry.sampling_error > 0]
    worst = max((entry.sampling_error for entry in sampled), default=0.0)
    return RowsSampled(
        len(sampled),
        min((e.counted for e in sampled if e.histogram is not None), default=0),
        worst * math.sqrt(_TAIL) / _TAIL,
        "tail_error is the standard error, in proportion, of the share of values above the 99.99 percentile, "
        "if values were independent; minima and maxima are of all values",
    )
