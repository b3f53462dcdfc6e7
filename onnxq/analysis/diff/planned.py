"""Plan and body: which layers are quantized, in which type the others compute, and why."""

from __future__ import annotations

from onnxq.analysis.diff.rows import Judge
from onnxq.analysis.reports import number, part_of
from onnxq.base.reason import noted
from onnxq.documents.body import BodyPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.quant.plan import OwnPair, Site


def plan(a: Report, b: Report, judge: Judge) -> None:
    """The layers with their formats and reasons, and where pairs stand."""
    plans = [part_of(PlanPart, report.plan) for report in (a, b)]
    eligible = [number(part.int8_share_of_eligible_macs) for part in plans]
    name = format_of_both(a, b)
    judge.figure(f"{name} share of eligible work", *eligible, unit="points")
    whole = [number(part.int8_share_of_all_macs) for part in plans]
    judge.figure(f"{name} share of all work", *whole, unit="points")
    one, other = ({layer.node: layer for layer in part.layers} for part in plans)
    why = [{kept.node: kept.because for kept in part.kept_float} for part in plans]
    total = sum(number(layer.macs) or 0 for layer in (*one.values(), *other.values())) / 2
    for node in dict.fromkeys([*one, *other]):
        x, y = (layers[node].format if node in layers else None for layers in (one, other))
        if x == y:
            continue
        reason = next((reasons[node] for reasons in reversed(why) if node in reasons), "")
        if x is None or y is None:
            judge.other("layer", x, y, name=node, node=node, why=reason or noted("two-reports.layer"))
            continue
        if "float" not in (x, y):
            judge.other("format", x, y, name=node, node=node, why=reason)
            continue
        macs = number(other[node].macs)
        share = None if macs is None or not total else macs / total
        judge.layer("format", x, y, share=share, gained=x == "float", node=node, why=reason)
    for node in [node for node in why[0] if node in why[1]]:
        judge.other("reason to stay float", why[0][node], why[1][node], name=node, node=node)
    _pairs(plans, judge)


def _pairs(plans: list[PlanPart], judge: Judge) -> None:
    one, other = map(_by_tensor, plans)
    for tensor in dict.fromkeys([*one, *other]):
        pairs = [by_tensor.get(tensor) for by_tensor in (one, other)]
        said = pairs[1] or pairs[0]
        if said is not None:
            why, node = said.because, reader(said)
            judge.other("Q/DQ pair", *map(_pair, pairs), name=tensor, node=node, why=why)


def _by_tensor(plan: PlanPart) -> dict[str, Site | OwnPair]:
    own: dict[str, Site | OwnPair] = {pair.tensor: pair for pair in plan.own_pairs_read}
    return own | {site.tensor: site for site in plan.sites}


def body(a: Report, b: Report, judge: Judge) -> None:
    """What is not quantized: its type, and what of it stays float32."""
    bodies = [part_of(BodyPart, report.body) for report in (a, b)]
    judge.other("type", *(part.type or None for part in bodies))
    judge.other("type of inputs and outputs", *(part.io or None for part in bodies))
    judge.other("form of weight scales", *(part.scale_form or None for part in bodies))
    if bodies[0].type == bodies[1].type:
        one, other = ({node.node: node.because for node in part.float32} for part in bodies)
        for node in dict.fromkeys([*one, *other]):
            types = ("float32" if node in nodes else bodies[0].type for nodes in (one, other))
            judge.other("type", *types, name=node, node=node, why=other.get(node, one.get(node, "")))
    for layer in dict.fromkeys([*bodies[0].post_scaled, *bodies[1].post_scaled]):
        forms = ("behind the product" if layer in part.post_scaled else "one a channel" for part in bodies)
        judge.other("form of weight scales", *forms, name=layer)


def format_of_both(a: Report, b: Report) -> str:
    """The number format of two runs, where it is one; else "quantized"."""
    return a.number_format if a.number_format == b.number_format else "quantized"


def reader(pair: Site | OwnPair) -> str:
    """The first node that reads a pair."""
    return pair.readers[0].node if pair.readers else ""


def _pair(pair: Site | OwnPair | None) -> str | None:
    if pair is None:
        return None
    axis = pair.axis if isinstance(pair, Site) else None
    return "one scale" if axis is None else f"a scale for each channel of axis {axis}"
