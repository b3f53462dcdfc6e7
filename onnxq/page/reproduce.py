"""How to build and to reproduce: versions, hashes, commands, settings, times."""

from __future__ import annotations

import json
from dataclasses import dataclass

from onnxq.advice.asked import again
from onnxq.analysis.reports import number, part_of
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report


@dataclass(frozen=True, slots=True)
class ReproduceView:
    """The section.

    Attributes:
        facts: versions, hashes and settings: what each is, and its value.
        commands: the command line of the run, and those to go on with.
        files: what was written.
        phases: the steps, with seconds and their share of the longest.
    """

    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    files: tuple[str, ...]
    phases: tuple[tuple[str, str, float], ...]


def reproduce_view(report: Report) -> ReproduceView:
    """How a result came about."""
    spent = {name: number(took) or 0.0 for name, took in report.phases.items()}
    longest = max(spent.values(), default=0.0) or 1.0
    return ReproduceView(
        facts=tuple((label, value) for label, value in _facts(report) if value),
        commands=(*filter(None, [again(report)]), *report.commands),
        files=report.files,
        phases=tuple((name, f"{took:.2f} s", took / longest) for name, took in spent.items()),
    )


def _facts(report: Report) -> list[tuple[str, str]]:
    calibration, body = part_of(CalibrationPart, report.calibration), part_of(BodyPart, report.body)
    asked, place = part_of(RepairPart, report.repair).asked, calibration.data.place
    facts: dict[str, str | int | None] = {
        "onnxq": report.onnxq, "model": report.model, "result": report.output,
        "SHA-256 of the result": report.sha256, "target": report.target, "opset": report.opset,
        "IR version": report.ir_version, "compiler": report.engine.compiler,
        "device": report.device, "compute capability": report.engine.sm, "settings file": report.config,
        "plan file": part_of(PlanPart, report.plan).file, "seed": calibration.seed,
        "method": calibration.method, "statistics file": calibration.stats_file,
        "held out": calibration.held_out, "body": body.type, "the body because": body.because,
        "weight scales": body.scale_form,
        "repair asked for": asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False),
        "data": None if place is None else place.path,
    }  # fmt: skip
    return [(label, "" if value is None else str(value)) for label, value in facts.items()]
