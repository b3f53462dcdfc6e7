"""Scales that float16 rounds too much."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._scales import is_half
from onnxq.formats import INT8

_FP16_LEAST = 2.0**-24
_FP16_COARSE = INT8.greatest * _FP16_LEAST
"""Where half of float16's spacing there, times 127 codes, is half a step."""


@check("fp16-scale", needs="pairs", severity="note")
def fp16_scales(subject: Subject) -> Iterator[Fact]:
    """Float16 scales so small that they are rounded by more than half a step of the largest code.

    A pair quantizes with the same rounded scale, so that it is about constants of codes.
    """
    for pair in subject.pairs.dequantizing:
        node, codes, scale, values = pair.node, pair.codes, pair.scale, pair.scales
        if codes is None or not codes.is_constant or values is None or not is_half(pair):
            continue
        assert scale is not None
        small = values[(values > 0) & (values < _FP16_COARSE)]
        if small.size:
            code = "fp16-scale" if values.size == 1 else "fp16-scale.several"
            yield Fact(
                code, (node.name, node.op, scale.name),
                {
                    "count": small.size, "scales": values.size, "coarse": _FP16_COARSE, "least": small.min(),
                    "wrong": 100 * _FP16_LEAST / 2 / float(small.min()),
                },
            )  # fmt: skip
