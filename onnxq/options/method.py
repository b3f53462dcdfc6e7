"""What a calibration method is, and which there are: a file of `onnxq/methods/` each, or one of the user's.

The user's are named by the environment variable ONNXQ_METHODS: files, or folders of them, whose Python is
run. Of what a file says the flag, the keyword, the key of `onnxq.toml` and their help are made, so that files
are read wherever options are: they import what takes long inside of functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from onnxq.base.errors import UserError
from onnxq.base.registry import of_package_and_user
from onnxq.base.user_code import CodeForm

VARIABLE = "ONNXQ_METHODS"
_LAST = 100
_FORM = CodeForm("calibration method", "@method() def NAME(stats): ...", f"{VARIABLE}=FILE.py")


@dataclass(frozen=True, slots=True)
class Parameter:
    """The number that a method leaves to its user, above 0.

    Attributes:
        name: of the keyword, the key and, with hyphens, the flag.
        default: what it is where nobody says.
        most: what it is at most.
        help: one line.
        metavar: what stands for it in the help.
        words: what messages call it; empty: its name.
        hint: what its values mean, for whoever gives another one.
        auto: the values that `auto` tries, or what says them by the number of samples; none: the default.
        search: the values that `search` tries; none: it is not searched for.
    """

    name: str
    default: float
    most: float
    help: str
    metavar: str = "X"
    words: str = ""
    hint: str = ""
    auto: Sequence[float] | Callable[[int], Sequence[float]] = ()
    search: Sequence[float] = ()

    def check(self, value: float) -> None:
        """Refuses a value that is out of bounds.

        Raises:
            UserError: it is.
        """
        if not 0 < value <= self.most:
            message = f"{self.words or self.name} {value} is not above 0 and at most {self.most:g}"
            raise UserError(message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class CalibrationMethod:
    """A way from the statistics of a tensor to the magnitude that the largest code stands for.

    Attributes:
        name: what the user calls it.
        threshold: the magnitude, of an `onnxq.calib.stats.TensorStats` that has values, and of the parameter
            where there is one. No more than the greatest magnitude counts; that is taken for 0, too.
        parameter: its parameter, None for none.
        histogram: whether it asks for more than the ranges of samples; then the histogram is not empty.
        auto: whether `auto` tries it.
        weights: its magnitudes for the channels of weights, float32 [channels] or []: of the weights, the
            channels' axis (None: all are one), the greatest magnitudes, and the parameter where there is one.
            None: it is for activations only.
        format: "any": both functions are told what values are quantized to, by the keyword `format`, an
            `onnxq.formats.NumberFormat`; "even": it is for evenly spaced numbers only; "": neither.
        place: where it stands among the others; those of one place by name.
        ours: whether it came with onnxq.
    """

    name: str
    threshold: Callable[..., float]
    parameter: Parameter | None = None
    histogram: bool = False
    auto: bool = False
    weights: Callable[..., Any] | None = None
    format: Literal["any", "even", ""] = ""
    place: int = _LAST
    ours: bool = False


def method(**said: Any) -> Callable[[Callable[..., float]], CalibrationMethod]:
    """Makes a function a method of its name; `said`: what `CalibrationMethod` says beside that."""
    return lambda threshold: CalibrationMethod(threshold.__name__, threshold, **said)


@functools.cache
def methods() -> Mapping[str, CalibrationMethod]:
    """All methods by name, in their order.

    Raises:
        UserError: a file of the user's cannot be used.
    """
    return of_package_and_user(
        "onnxq.methods", CalibrationMethod, VARIABLE, _FORM, "method", ("auto",), _refuse_parameter
    )


@functools.cache
def names() -> tuple[str, ...]:
    """The names of all methods."""
    return tuple(methods())


@functools.cache
def parameters() -> Mapping[str, CalibrationMethod]:
    """The method of each parameter, by the parameter's name.

    Those of histograms are first and the user's last: the order is that of arguments by position, too.
    """
    found = [one for one in methods().values() if one.parameter is not None]
    found.sort(key=lambda one: (not one.ours, not one.histogram))
    return {one.parameter.name: one for one in found if one.parameter is not None}


def searched() -> tuple[str, ...]:
    """The methods whose parameter can be searched for."""
    return tuple(one.name for one in parameters().values() if one.parameter and one.parameter.search)


def _refuse_parameter(path: Path, new: CalibrationMethod, known: Mapping[str, CalibrationMethod]) -> None:
    """Refuses a parameter of another method's name."""
    named = {one.parameter.name for one in known.values() if one.parameter is not None}
    if new.parameter is not None and new.parameter.name in named:
        message = f"{str(path)!r} has a parameter {new.parameter.name!r}, and another method has one"
        raise UserError(message, hint="rename yours")
