"""Plan and body: which layers are int8, in which type the others compute, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.analysis.diff.rows import Judge
from onnxq.analysis.reports import OpenedReport, number, text


def plan(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """The layers with their formats and reasons, and where pairs stand."""
    for what, key in (
        ("int8 share of eligible work", "int8_share_of_eligible_macs"),
        ("int8 share of all work", "int8_share_of_all_macs"),
    ):
        judge.figure(what, *(number(r.at("plan", key)) for r in (a, b)), unit="points")
    one, other = (r.by("node", "plan", "layers") for r in (a, b))
    why = [r.by("node", "plan", "kept_float") for r in (a, b)]
    total = sum(number(layer.get("macs")) or 0 for layer in (*one.values(), *other.values())) / 2
    for node in dict.fromkeys([*one, *other]):
        x, y = (format_of(layers.get(node)) for layers in (one, other))
        if x == y:
            continue
        reason = next((text(k[node].get("because")) for k in reversed(why) if node in k), "")
        if x is None or y is None:
            judge.other(
                "layer", x, y, name=node, node=node, why=reason or "a layer of one of the models only"
            )
            continue
        if "float" not in (x, y):
            judge.other("format", x, y, name=node, node=node, why=reason)
            continue
        macs = number(other[node].get("macs"))
        share = None if macs is None or not total else macs / total
        judge.layer("format", x, y, share=share, gained=x == "float", node=node, why=reason)
    for node in [node for node in why[0] if node in why[1]]:
        reasons = [text(k[node].get("because")) for k in why]
        judge.other("reason to stay float", *reasons, name=node, node=node)
    _pairs(a, b, judge)


def _pairs(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    one, other = (
        {**r.by("tensor", "plan", "own_pairs_read"), **r.by("tensor", "plan", "sites")} for r in (a, b)
    )
    for tensor in dict.fromkeys([*one, *other]):
        sites = [found.get(tensor) for found in (one, other)]
        said = sites[1] or sites[0] or {}
        judge.other(
            "Q/DQ pair", *map(_pair, sites), name=tensor, node=reader(said), why=text(said.get("because"))
        )


def body(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """What is not int8: its type, and what of it stays float32."""
    for what, key in (
        ("type", "type"),
        ("type of inputs and outputs", "io"),
        ("form of weight scales", "scale_form"),
    ):
        judge.other(what, *(_cell(r.at("body", key)) for r in (a, b)))
    kinds = [r.at("body", "type") for r in (a, b)]
    if kinds[0] == kinds[1]:
        one, other = (r.by("node", "body", "float32") for r in (a, b))
        for node in dict.fromkeys([*one, *other]):
            said = other.get(node) or one[node]
            types = ("float32" if node in found else text(kinds[0]) for found in (one, other))
            judge.other("type", *types, name=node, node=node, why=text(said.get("because")))
    one, other = (r.by("tensor", "body", "post_scaled") for r in (a, b))
    for tensor in dict.fromkeys([*one, *other]):
        forms = ("behind the product" if tensor in found else "one a channel" for found in (one, other))
        judge.other("form of weight scales", *forms, name=tensor)


def reader(site: Mapping[str, Any]) -> str:
    """The first node that reads a pair."""
    found = site.get("readers")
    first = found[0] if isinstance(found, list) and found else {}
    return text(first.get("node")) if isinstance(first, Mapping) else ""


def format_of(layer: Mapping[str, Any] | None) -> str | None:
    """A layer's format; earlier reports say whether it is int8."""
    if layer is None:
        return None
    return text(layer.get("format")) or ("int8" if layer.get("int8") else "float")


def _pair(site: Mapping[str, Any] | None) -> str | None:
    if site is None:
        return None
    axis = site.get("axis")
    return "one scale" if axis is None else f"a scale for each channel of axis {axis}"


def _cell(value: Any) -> str | None:
    return None if value is None else text(value)
