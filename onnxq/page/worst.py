"""The worst held-out sample, its outputs side by side."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.analysis.reports import number
from onnxq.documents.analysis import Analysis, OutputBeside, ValueBeside
from onnxq.documents.layer_errors import LayerErrors
from onnxq.page.words import level


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
    values: tuple[ValueBeside, ...]


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


def worst_view(analysis: Analysis | LayerErrors | None) -> WorstView | None:
    """The worst sample of an analysis; None where there is none."""
    worst = analysis.worst if analysis is not None else None
    if worst is None:
        return None
    where = f"sample {worst.sample}" + (f", {worst.where}" if worst.where else "")
    return WorstView(where, level(number(worst.sqnr_db)), tuple(map(_output, worst.outputs)))


def _output(one: OutputBeside) -> WorstOutput:
    ours, theirs = one.argmax
    one_class = None not in one.argmax and one.shape is not None and all(size == 1 for size in one.shape[:-1])
    return WorstOutput(
        output=one.output,
        argmax=f"{ours} in float, {theirs} here" if one_class else "",  # else it holds no one answer
        same=not one_class or ours == theirs,
        values=one.values,
    )
