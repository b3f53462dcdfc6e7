"""Scales: their ratio, tensor by tensor, and which tensors share one."""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.analysis.diff.planned import reader
from onnxq.analysis.diff.rows import Judge
from onnxq.analysis.reports import OpenedReport, names, number, text

_FEW = 4


def scales(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """The scales of activations, and the groups that have one scale."""
    one, other = (r.part("calibration", "scales") for r in (a, b))
    origins = [r.part("calibration", "thresholds") for r in (a, b)]
    nodes: dict[str, str] = {}
    for report in (b, a):
        for site in report.entries("plan", "sites"):
            nodes.setdefault(text(site.get("tensor")), reader(site))
    for tensor in dict.fromkeys([*one, *other]):
        x, y = number(one.get(tensor)), number(other.get(tensor))
        why = _origin(tensor, origins)
        if x is None or y is None:
            judge.other("scale", x, y, name=tensor, node=nodes.get(tensor, ""), why=why)
        else:
            judge.ratio("scale", x, y, name=tensor, node=nodes.get(tensor, ""), why=why)
    _groups(a, b, judge)


def _origin(tensor: str, origins: list[Mapping[str, object]]) -> str:
    """Where the range is from, where both reports say it."""
    found = []
    for thresholds in origins:
        entry = thresholds.get(tensor)
        found.append(text(entry.get("because")) if isinstance(entry, Mapping) else "")
    if found[0] == found[1]:
        return found[1]
    return f"{found[1]}, was {found[0]}" if all(found) else ""


def _groups(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """Groups that fell apart, and those that were joined; of tensors that both plans have."""
    one, other = (_group_of(r) for r in (a, b))
    both = [tensor for tensor in one if tensor in other]
    for what, here, there in (("shares a scale", one, other), ("shares a scale now", other, one)):
        members: dict[int, list[str]] = {}
        for tensor in both:
            members.setdefault(here[tensor], []).append(tensor)
        for group in members.values():
            parts: dict[int, list[str]] = {}
            for tensor in group:
                parts.setdefault(there[tensor], []).append(tensor)
            if len(parts) > 1:
                whole, split = _listed([group]), _listed(list(parts.values()))
                judge.other(what, *((whole, split) if here is one else (split, whole)), name=group[0])


def _group_of(report: OpenedReport) -> dict[str, int]:
    """The group of each tensor."""
    return {
        tensor: number_of
        for number_of, group in enumerate(report.entries("plan", "groups"))
        for tensor in names(group.get("tensors"))
    }


def _listed(parts: list[list[str]]) -> str:
    return " | ".join(
        ", ".join(part[:_FEW]) + (f", +{len(part) - _FEW}" if len(part) > _FEW else "") for part in parts
    )
