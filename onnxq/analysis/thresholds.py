"""Thresholds of figures, and what does not meet them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnxq.base.errors import UserError, unknown_name
from onnxq.documents.analysis import Figures

AT_LEAST = {"cosine": "cosine", "sqnr": "sqnr_db", "sqnr_about_mean": "sqnr_about_mean_db"}
AT_MOST = {name: name for name in ("mse", "l1", "kl", "max_abs", "max_steps", "rms_steps", "metric")}
_ALONE = "isolated."


def checked(thresholds: Mapping[str, float], has_metric: bool) -> dict[str, float]:
    """Thresholds by figure, of `isolated.` figures as well.

    Raises:
        UserError: there is no such figure, or a value is no number.
    """
    figures = [*AT_LEAST, *AT_MOST]
    limits = {}
    for name, value in thresholds.items():
        figure = name.removeprefix(_ALONE)
        if figure not in figures:
            raise unknown_name("figure", name, [*figures, *(_ALONE + one for one in figures)])
        if figure == "metric" and not has_metric:
            raise UserError(
                "a threshold of metric is given, and no metric", hint="give --metric FILE.py:FUNCTION"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise UserError(f"the threshold of {name} is {value!r}", hint="give a number, as in sqnr=20")
        limits[name] = float(value)
    return limits


def missed(bounds: Mapping[str, float], accumulated: Figures, isolated: Figures | None) -> tuple[str, ...]:
    """The thresholds that a row does not meet; what a figure does not say meets none and misses none."""
    misses = []
    for name, bound in bounds.items():
        figures = isolated if name.startswith(_ALONE) else accumulated
        figure = name.removeprefix(_ALONE)
        value = None if figures is None else getattr(figures, {**AT_LEAST, **AT_MOST}[figure])
        if value is None:
            continue
        if figure in AT_LEAST and not value >= bound:
            misses.append(f"{name} {value:.4g} < {bound:g}")
        if figure in AT_MOST and not value <= bound:
            misses.append(f"{name} {value:.4g} > {bound:g}")
    return tuple(misses)
