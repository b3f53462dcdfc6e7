"""Scales: their ratio, tensor by tensor, and which tensors share one."""

from __future__ import annotations

from onnxq.analysis.diff.planned import reader
from onnxq.analysis.diff.rows import Judge
from onnxq.analysis.reports import number, part_of
from onnxq.base.grouped import grouped
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report

_FEW = 4


def scales(a: Report, b: Report, judge: Judge) -> None:
    """The scales of activations, and the groups that have one scale."""
    parts = [part_of(CalibrationPart, report.calibration) for report in (a, b)]
    plans = [part_of(PlanPart, report.plan) for report in (a, b)]
    nodes: dict[str, str] = {}
    for plan in reversed(plans):
        for site in plan.sites:
            nodes.setdefault(site.tensor, reader(site))
    one, other = (part.scales for part in parts)
    for tensor in dict.fromkeys([*one, *other]):
        x, y = number(one.get(tensor)), number(other.get(tensor))
        why = _origin(tensor, parts)
        if x is None or y is None:
            judge.other("scale", x, y, name=tensor, node=nodes.get(tensor, ""), why=why)
        else:
            judge.ratio("scale", x, y, name=tensor, node=nodes.get(tensor, ""), why=why)
    _weights(parts, judge)
    _groups(plans, judge)


def _weights(parts: list[CalibrationPart], judge: Judge) -> None:
    """What `[[layer]]` makes of weights; one that it says nothing of has what their magnitudes give."""
    one, other = (part.weights for part in parts)
    for weight in dict.fromkeys([*one, *other]):
        x, y = one.get(weight), other.get(weight)
        said = y or x
        assert said is not None
        before, after = (number(said.whole_db if end is None else end.db) for end in (x, y))
        why = said.because if y is not None else f"without {said.because}"
        judge.figure("SQNR of weights", before, after, unit="dB", name=weight, node=said.node, why=why)


def _origin(tensor: str, parts: list[CalibrationPart]) -> str:
    """Where the range is from, where both reports say it."""
    ends = [part.thresholds.get(tensor) for part in parts]
    origins = ["" if end is None else end.because for end in ends]
    if origins[0] == origins[1]:
        return origins[1]
    return f"{origins[1]}, was {origins[0]}" if all(origins) else ""


def _groups(plans: list[PlanPart], judge: Judge) -> None:
    """Groups that fell apart, and those that were joined; of tensors that both plans have."""
    one, other = map(_group_of, plans)
    both = [tensor for tensor in one if tensor in other]
    for what, here, there in (("shares a scale", one, other), ("shares a scale now", other, one)):
        for group in grouped((here[tensor], tensor) for tensor in both).values():
            parts = grouped((there[tensor], tensor) for tensor in group)
            if len(parts) > 1:
                whole, split = _listed([group]), _listed(list(parts.values()))
                judge.other(what, *((whole, split) if here is one else (split, whole)), name=group[0])


def _group_of(plan: PlanPart) -> dict[str, int]:
    """The group of each tensor."""
    return {tensor: place for place, group in enumerate(plan.groups) for tensor in group.tensors}


def _listed(parts: list[list[str]]) -> str:
    return " | ".join(
        ", ".join(part[:_FEW]) + (f", +{len(part) - _FEW}" if len(part) > _FEW else "") for part in parts
    )
