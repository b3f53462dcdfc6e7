"""Which rows of a table are wanted, and which do not meet thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from onnxq.base.errors import UserError, nearest, unknown_name
from onnxq.base.patterns import fits
from onnxq.documents.analysis import Figures

R = TypeVar("R")


def wanted_rows(
    rows: Iterable[R],
    names: Callable[[R], Sequence[str]],
    op: Callable[[R], str],
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
) -> list[R]:
    """The rows of which a name fits one of the patterns and the operator is one of those.

    Args:
        rows: all rows.
        names: the names that a row goes by.
        op: a row's operator.
        match: patterns (`*`, `?`, `[...]`); none: all names fit.
        ops: operators; none: all.

    Raises:
        UserError: no row has such an operator, or such a name.
    """
    kept = list(rows)
    operators = {op(row) for row in kept}
    for operator in ops:
        if operator not in operators:
            raise unknown_name("operator in the table named", operator, sorted(operators))
    kept = [row for row in kept if not ops or op(row) in ops]
    chosen = [row for row in kept if fits(names(row), match)]
    if match and kept and not chosen:
        hint = nearest(match[0], sorted({name for row in kept for name in names(row)}))
        raise UserError(f"no row fits {' or '.join(map(repr, match))}", hint=hint)
    return chosen


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted; nothing said wants all.

    Attributes:
        layers: globs, of which one has to fit one of a row's names.
        ops: operators, of which one has to be one of a row's; case does not matter.
    """

    layers: Sequence[str] = ()
    ops: Sequence[str] = ()

    def keeps(self, names: Sequence[str], ops: Sequence[str]) -> bool:
        """Whether a row is wanted."""
        if not fits(names, self.layers):
            return False
        chosen = {op.lower() for op in self.ops}
        return not chosen or not chosen.isdisjoint(op.lower() for op in ops)


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
