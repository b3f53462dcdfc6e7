"""Calibration methods: from a tensor's statistics to the magnitude that the largest code stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnxq.base.errors import UserError, unknown_name
from onnxq.calib.stats import TensorStats
from onnxq.formats import INT8, NumberFormat
from onnxq.options.method import CalibrationMethod, Parameter, methods, names, parameters
from onnxq.options.parameters import NamedMethod

NAMES = names()
"""Methods by name."""


@dataclass(frozen=True, slots=True)
class Method(NamedMethod):
    """How a threshold is chosen: the name of a method, one of `NAMES`, and the parameters of all.

    Raises:
        UserError: there is no such method, or a parameter is out of its range.
    """

    def __post_init__(self) -> None:
        if self.name not in methods():
            raise unknown_name("calibration method", self.name, NAMES)
        for name, owner in parameters().items():
            if owner.parameter is not None:
                owner.parameter.check(getattr(self, name))

    @property
    def kind(self) -> CalibrationMethod:
        """The method."""
        return methods()[self.name]

    @property
    def arguments(self) -> tuple[float, ...]:
        """Its own parameter; none where it has none."""
        said = self.kind.parameter
        return () if said is None else (getattr(self, said.name),)

    def asking(self, format: NumberFormat) -> dict[str, NumberFormat]:
        """The format by keyword, where the method asks for it.

        Raises:
            UserError: the method is not for this format.
        """
        if self.kind.format == "even" and not format.even:
            raise UserError(
                f"method {self.name} is for evenly spaced numbers, and those of {format.name} are not",
                hint="take method mse",
            )
        return {"format": format} if self.kind.format == "any" else {}

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{value:.12g}" for value in self.arguments)])


def automatic(formats: Sequence[NumberFormat], samples: int) -> tuple[Method, ...]:
    """The methods that `auto` tries: those of one candidate before those of several.

    Args:
        formats: what values are quantized to.
        samples: how many calibrated.
    """
    even = all(one.even for one in formats)
    tried = [one for one in methods().values() if one.auto and (even or one.format != "even")]
    candidates = [_each(one, _tried(one.parameter, samples)) for one in tried]
    return tuple(one for several in sorted(candidates, key=lambda each: len(each) > 1) for one in several)


def searched() -> tuple[Method, ...]:
    """The methods whose parameter can be searched for, with each value that the search tries."""
    candidates = [_each(one, one.parameter.search) for one in parameters().values() if one.parameter]
    return tuple(one for several in candidates if len(several) > 1 for one in several)


def _tried(parameter: Parameter | None, samples: int) -> Sequence[float]:
    """The values of a parameter that `auto` tries."""
    if parameter is None:
        return ()
    return parameter.auto(samples) if callable(parameter.auto) else parameter.auto


def _each(kind: CalibrationMethod, values: Sequence[float]) -> tuple[Method, ...]:
    """A method with each value of its parameter; by default where there are none."""
    if kind.parameter is None or not values:
        return (Method(kind.name),)
    changes: list[dict[str, Any]] = [{kind.parameter.name: value} for value in values]
    return tuple(Method(kind.name, **change) for change in changes)


def needs_histogram(method: Method) -> bool:
    """Whether a method asks for more than the ranges of samples."""
    return method.kind.histogram


def threshold(stats: TensorStats, method: Method, format: NumberFormat = INT8) -> float:
    """The magnitude that the largest code stands for; greater ones saturate.

    Args:
        stats: of the tensor.
        method: the method.
        format: what the values are quantized to.

    Returns:
        The threshold, at most `stats.amax`; 0 where the tensor is always zero or never had a
        value. `stats.amax` where a method's own answer is 0 (more zeros than the percentile), or
        where only zeros were counted.

    Raises:
        UserError: the method needs a histogram, and the statistics have none; or it is not for this format.
    """
    return bounded_by(stats, answer(stats, method, format))


def answer(stats: TensorStats, method: Method, format: NumberFormat) -> float:
    """What a method itself says, whatever it is; 0 where the tensor never had a value. See `threshold`."""
    kind, asked = method.kind, method.asking(format)
    if kind.histogram and stats.histogram is None:
        raise UserError(
            f"method {method.name} needs histograms, and the statistics were taken without them",
            hint="take them again: onnxq calibrate MODEL --calib DATA",
        )
    if not stats.size:
        return 0.0
    if kind.histogram and stats.histogram is not None and not len(stats.histogram.counts):
        return stats.amax
    return float(kind.threshold(stats, *method.arguments, **asked))


def bounded_by(stats: TensorStats, answer: float) -> float:
    """The threshold that a method's answer is."""
    if not stats.size:
        return 0.0
    return min(answer, stats.amax) if answer > 0 else stats.amax


def is_zero(stats: TensorStats, answer: float) -> bool:
    """Whether a method's answer is 0 although the tensor is not, so that its greatest magnitude is taken.

    So it is where a tensor has more zeros than a percentile.
    """
    return bool(stats.size) and stats.amax > 0 and not answer > 0
