"""Scales that float16 rounds too much."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._scales import is_half
from onnxq.formats import INT8

_FP16_LEAST = 2.0**-24
_FP16_COARSE = INT8.greatest * _FP16_LEAST
"""Where half of float16's spacing there, times 127 codes, is half a step."""


@check("fp16-scale", needs="pairs", severity="note")
def fp16_scales(subject: Subject) -> Iterator[Said]:
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
            wrong = 100 * _FP16_LEAST / 2 / float(small.min())
            yield Said(
                node.name, node.op,
                f"{_of_all(small.size, values.size, 'scale')} in float16 below {_FP16_COARSE:.2g}: the "
                f"least is {small.min():.2g}",
                "use float32 scales, with a Cast behind the DequantizeLinear", tensor=scale.name,
                consequence=f"float16 has few numbers there: the scale is rounded by up to {wrong:.2g} %, "
                "and large codes are off by half a step or more, unless they were made with that rounded one",
            )  # fmt: skip


def _of_all(count: int, of: int, what: str) -> str:
    return f"its {what} is" if of == 1 else f"{count} of its {of} {what}s are"
