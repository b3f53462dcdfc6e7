"""The end screen of `plan`: what the file says, and how it is obeyed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.base.reason import noted
from onnxq.cli.pages.body import body_section
from onnxq.cli.pages.data import calibration_data_section
from onnxq.cli.pages.deployment import deployment_section
from onnxq.cli.pages.plan import heads_entry, kept_float_section, layers_section, scales_section
from onnxq.cli.pages.repair import repair_section
from onnxq.cli.pages.size import files_section
from onnxq.cli.pages.words import counted
from onnxq.cli.screen import Page
from onnxq.documents.calibration import CalibrationPart

if TYPE_CHECKING:
    from onnxq.documents.report import PlanReport


def planned_page(report: PlanReport, again: Sequence[str]) -> Page:
    """What a run of `plan` wrote; `again`: the flags that `quantize` needs as well."""
    page = Page()
    plan, calibration = report.plan, report.calibration
    page.head(f"{report.model} -> {report.output}")
    page.section("Target", f"{report.target}, done in {report.seconds:.1f} s")
    page.sections("Settings", filter(None, [report.config]))
    deployment_section(page, report.deployment, report.deployments)
    layers_section(page, plan)
    if isinstance(calibration, CalibrationPart):
        calibration_data_section(page, calibration.data)
        scales_section(page, plan, calibration)
    else:
        sites = sum(site.kind == "activation" for site in plan.sites)
        how = noted("plan-ranges.file" if calibration.measured else "plan-ranges")
        page.section("Scales", f"{how}; {counted(sites, 'activation')}")
    for note in calibration.notes:
        page.entry(note, style="yellow")
    kept_float_section(page, plan.kept_float)
    heads_entry(page, plan.heads)
    repair_section(page, report.repair)
    body_section(page, report.body)
    files_section(page, report.files)
    page.section("Next", "edit it, then")
    command = ["onnxq", "quantize", str(report.model), "--plan", str(report.output), *again]
    page.code(shlex.join(command) + ("" if calibration.measured else " --calib DATA"))
    return page
