"""The worst held-out sample, its outputs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.reports import number, objects, text
from onnxq.page.words import figure, level


@dataclass(frozen=True, slots=True)
class ValueLine:
    """A value in both.

    Attributes:
        index: its place.
        a: in float.
        b: in the other.
    """

    index: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class WorstOutput:
    """An output of the sample.

    Attributes:
        output: its name.
        argmax: where the greatest value is in both; "" of what is not one vector.
        same: whether that is the same place.
        values: those that differ most.
    """

    output: str
    argmax: str
    same: bool
    values: tuple[ValueLine, ...]


@dataclass(frozen=True, slots=True)
class WorstView:
    """The sample whose outputs are furthest off.

    Attributes:
        where: which sample it is.
        sqnr: its outputs together.
        outputs: each.
    """

    where: str
    sqnr: str
    outputs: tuple[WorstOutput, ...]


def worst_view(analysis: Mapping[str, Any] | None) -> WorstView | None:
    """The worst sample of an analysis; None where there is none."""
    worst = analysis.get("worst") if analysis is not None else None
    if not isinstance(worst, Mapping):
        return None
    outputs = objects(worst.get("outputs"))
    where = f"sample {text(worst.get('sample'))}"
    where += f", {text(worst.get('where'))}" if worst.get("where") else ""
    return WorstView(where, level(number(worst.get("sqnr_db"))), tuple(map(_output, outputs)))


def _output(one: Mapping[str, Any]) -> WorstOutput:
    argmax, shape = one.get("argmax"), one.get("shape")
    places = argmax if isinstance(argmax, list | tuple) and len(argmax) == 2 else ()
    if not isinstance(shape, list | tuple) or any(size != 1 for size in shape[:-1]):
        places = ()  # it holds no one answer
    values = objects(one.get("values"))
    return WorstOutput(
        output=text(one.get("output")),
        argmax=f"{places[0]} in float, {places[1]} here" if places else "",
        same=not places or places[0] == places[1],
        values=tuple(
            ValueLine(
                text(value.get("index")), figure(number(value.get("a"))), figure(number(value.get("b")))
            )
            for value in values
        ),
    )
