"""How to build and to reproduce: versions, hashes, commands, settings, times."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.analysis.reports import OpenedReport, names, number, text
from onnxq.page.advice import again


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


def reproduce_view(report: OpenedReport) -> ReproduceView:
    """How a result came about."""
    keys = {
        "onnxq": ("onnxq",), "model": ("model",), "result": ("output",), "SHA-256 of the result": ("sha256",),
        "target": ("target",), "opset": ("opset",), "IR version": ("ir_version",),
        "compiler": ("engine", "compiler"), "compute capability": ("engine", "sm"),
        "settings file": ("config",), "plan file": ("plan", "file"), "seed": ("calibration", "seed"),
        "method": ("calibration", "method"), "statistics file": ("calibration", "stats_file"),
        "held out": ("calibration", "held_out"),
        "body": ("body", "type"), "the body because": ("body", "because"),
        "weight scales": ("body", "scale_form"), "repair asked for": ("repair", "asked"),
        "data": ("calibration", "data", "place", "path"),
    }  # fmt: skip
    facts = [(label, text(report.at(*path))) for label, path in keys.items()]
    for name, shapes in report.part("profiles").items():
        if isinstance(shapes, list):
            told = [" × ".join(map(str, shape)) for shape in shapes if isinstance(shape, list)]
            facts.append((f"profile of {name}", " : ".join(told)))
    spent = {name: number(value) or 0.0 for name, value in report.part("phases").items()}
    longest = max(spent.values(), default=0.0) or 1.0
    return ReproduceView(
        facts=tuple((label, value) for label, value in facts if value),
        commands=(*filter(None, [again(report)]), *names(report.at("commands"))),
        files=names(report.at("files")),
        phases=tuple((name, f"{took:.2f} s", took / longest) for name, took in spent.items()),
    )
