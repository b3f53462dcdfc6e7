"""The user's own figure of two tensors: a function, or a file that holds it."""

from __future__ import annotations

import os

import numpy as np

from onnxq.analysis.figures import Metric
from onnxq.base.errors import UserError
from onnxq.base.user_code import CodeForm, load_function

_METRIC = CodeForm(
    "metric script", "def distance(a, b): ...; return a number (a, b: float64 arrays of one shape)",
    "FILE.py:FUNCTION",
)  # fmt: skip


def own_metric(metric: str | os.PathLike[str] | Metric | None) -> Metric | None:
    """The user's own figure; what it returns is checked."""
    if metric is None:
        return None
    if not isinstance(metric, str | os.PathLike) and not callable(metric):
        raise UserError(f"the metric is {metric!r}", hint=f"give a function, or {_METRIC.path_form}")
    function = load_function(metric, _METRIC) if isinstance(metric, str | os.PathLike) else None
    call = function.call if function is not None else metric
    name = str(function) if function is not None else getattr(metric, "__name__", "the metric")

    def measured(a: np.ndarray, b: np.ndarray) -> float:
        if function is not None:
            with function.running():
                value = function.call(a, b)
        else:
            value = call(a, b)  # type: ignore[operator]
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{name} returned {type(value).__name__}, not a number", hint=f"the form is {_METRIC.form}"
            ) from error

    return measured
