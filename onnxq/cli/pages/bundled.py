"""What `onnxq bundle` and `onnxq decide` show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.base.reason import say
from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.inspection.bundling import Bundle
    from onnxq.inspection.deciding import BundleDecision
    from onnxq.inspection.measured_bundle import LayerTimes

_SHOWN = 5
"""Layers that lose most, and as many that gain most."""


def bundled_page(found: Bundle) -> Page:
    """What is measured, how near each is, and what comes next."""
    page = Page()
    on = f" on {found.device}" if found.device else ""
    page.head(f"{found.model} -> {found.folder}, for {found.target}{on}")
    page.sections("Measured", found.answer)
    page.sections("Candidates", (f"{one.name}: {one.what}; {one.near}" for one in found.candidates))
    page.sections("Left out", (f"{name}: {why}" for name, why in found.left_out.items()))
    page.section("Next", found.following)
    return page


def decided_page(found: BundleDecision, *, full: bool) -> Page:
    """The answer in its lines, the candidates, and the layers that lose and gain most; `full`: all."""
    page, words = Page(), found.words()
    for line in found.answer[:3]:
        page.head(line)
    page.section("Measured", words.head)
    page.sections("Careful", found.answer[3:], "yellow")
    page.section("Candidates", "")
    page.table(words.columns, words.rows)
    losing = [one for one in found.layers if one.lost > 0]
    gaining = [one for one in found.layers if one.lost < 0][::-1]
    most = None if full else _SHOWN
    page.sections("Layers", map(_layer, [*losing[:most], *gaining[:most]]))
    page.sections("Plan", [found.plan] * bool(found.plan))
    page.section("Next", found.following)
    return page


def _layer(times: LayerTimes) -> str:
    (base, first), (chosen, last) = times.ms.items()
    name = say("decision.converting")
    if times.nodes:
        name, more = f"{times.nodes[0]} ({times.op})", len(times.nodes) - 1
        name = say("decision.layers", first=name, more=more) if more else name
    return say("decision.times", layers=name, base=first, other=last, one=base, chosen=chosen)
