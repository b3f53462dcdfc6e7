"""The page: all sections of a report in one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxq.advice.advise import advise
from onnxq.analysis.reports import OpenedReport, number
from onnxq.base.escapes import escaped
from onnxq.base.shown import capitalized, shorten
from onnxq.documents.advice import Advice
from onnxq.documents.analysis import Analysis
from onnxq.page.depth import DepthView, depth_view
from onnxq.page.kernels import kernels_of
from onnxq.page.layers import LayersView, layers_view
from onnxq.page.ledger import LedgerView, ledger_view
from onnxq.page.samples import SheetView, sheets_of
from onnxq.page.sections import (
    ChecksView,
    NextStep,
    PicturesView,
    ReproduceView,
    RunDiffView,
    SizesView,
    WorstView,
    checks_view,
    next_steps,
    pictures_of,
    reproduce_view,
    run_diff_view,
    sizes_view,
    worst_view,
)
from onnxq.page.surgery import SurgeryView, surgery_view
from onnxq.page.verdict import VerdictView, verdict_view
from onnxq.page.words import cell, decimal, figure, file_name, fragment, size, tail, visible

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_HARMFUL = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


@dataclass(frozen=True, slots=True)
class ReportPage:
    """All that the page shows; a section that is None is left out.

    Attributes:
        title: the model's file.
        subtitle: what it was made of, and for what.
        advice: whether to ship it, and why.
        verdict: the figures.
        pictured: outputs that are pictures.
        sheets: what the data looked like.
        next: what to do next.
        run_diff: another run beside it.
        ledger: the ledger of noise.
        layers: the layers.
        depth: errors, memory and kernels along the network.
        sizes: what sizes it was decided for.
        surgery: what was changed.
        checks: what checks found.
        worst: the worst sample.
        reproduce: how it came about.
    """

    title: str
    subtitle: str
    advice: Advice
    verdict: VerdictView
    pictured: tuple[PicturesView, ...]
    sheets: tuple[SheetView, ...]
    next: tuple[NextStep, ...]
    run_diff: RunDiffView | None
    ledger: LedgerView | None
    layers: LayersView | None
    depth: DepthView | None
    sizes: SizesView | None
    surgery: SurgeryView | None
    checks: ChecksView | None
    worst: WorstView | None
    reproduce: ReproduceView


def page_of(
    report: OpenedReport,
    *,
    analysis: Analysis | None = None,
    compare: OpenedReport | None = None,
) -> ReportPage:
    """The page of a report.

    Args:
        report: the report, of this version of onnxq or an earlier one: what it lacks is left out.
        analysis: what `onnxq analyze --json` printed; None: what the report has of it.
        compare: the report of another run, or None.
    """
    document = report.document
    kernels = kernels_of(document.engine)
    errors = document.layer_errors if analysis is None else analysis
    layers = layers_view(document, errors, kernels)
    rows = layers.layers if layers is not None else ()
    suspicious = tuple(f"{row.name}: {'; '.join(row.causes)}" for row in rows if row.causes)
    advice = advise(document)
    model, output = document.model or "", document.output or ""
    made = [
        f"from {file_name(model)}" if model else "",
        f"for {document.target}",
        f"by onnxq {document.onnxq}",
    ]
    return ReportPage(
        title=file_name(output or model) or "model",
        subtitle=", ".join(part for part in made if part),
        advice=advice,
        verdict=verdict_view(document),
        pictured=pictures_of(document.output_pictures),
        sheets=sheets_of(document.pictures),
        next=next_steps(report, advice, analysed=layers is not None and layers.analysed),
        run_diff=run_diff_view(compare, report) if compare is not None else None,
        ledger=ledger_view(document),
        layers=layers,
        depth=depth_view(document, errors, kernels),
        sizes=sizes_view(document),
        surgery=surgery_view(document),
        checks=checks_view(document, suspicious),
        worst=worst_view(errors),
        reproduce=reproduce_view(document),
    )


def html_of(page: ReportPage) -> str:
    """The page as HTML: autoescaped, with the data of the layers as JSON that holds no markup."""
    from markupsafe import Markup

    script = (_TEMPLATES / "page.js").read_text("utf-8")
    text: str = (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            style=Markup((_TEMPLATES / "page.css").read_text("utf-8")),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
            data=Markup(inert_json(page.layers.packed)) if page.layers is not None else None,
        )
    )
    return text


@functools.cache
def _environment() -> Environment:
    """The templates; jinja2 is imported when the first page is made."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
        ),
    )
    for word in (capitalized, shorten, tail, number, figure, decimal, size, cell, fragment):
        environment.filters[word.__name__] = word
    return environment


def inert_json(value: Any) -> str:
    """JSON that can stand in a script element: no markup and nothing that acts, whatever names hold."""
    plain = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return escaped(plain).translate(_HARMFUL)
