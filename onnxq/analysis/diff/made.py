"""Files and settings: what was written, by which version, with which method and which data."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from onnxq.analysis.diff.rows import Judge
from onnxq.analysis.reports import OpenedReport, names, number, text

_SETTINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("version of onnxq", ("onnxq",)),
    ("schema", ("schema",)),
    ("model", ("model",)),
    ("target", ("target",)),
    ("opset", ("opset",)),
    ("configuration", ("config",)),
    ("plan", ("plan", "file")),
    ("method", ("calibration", "method")),
    ("samples that calibrated", ("calibration", "samples")),
    ("seed", ("calibration", "seed")),
    ("counting", ("calibration", "counting")),
    ("samples held out", ("calibration", "held_out")),
    ("data", ("calibration", "data", "lines")),
    ("images", ("calibration", "data", "images")),
    ("statistics from", ("calibration", "stats_file")),
    ("run as float32", ("calibration", "in_float32")),
    ("repair", ("repair", "asked")),
    ("assumptions", ("assumptions",)),
    ("changes of the interface", ("interface_changes",)),
)


def settings(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """Versions, options and data."""
    for what, keys in _SETTINGS:
        judge.other(what, *(_cell(r.at(*keys)) for r in (a, b)))
    counts = (
        max((number(e.get("samples")) or 0 for e in r.entries("accuracy")), default=None) for r in (a, b)
    )
    judge.count("samples that verified", *counts)


def files(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """The model's file: its size, whether it is the same, what is beside it."""
    judge.figure("size", *(number(r.at("size", "after")) for r in (a, b)), unit="%", better=-1)
    judge.figure(
        "size of the original", *(number(r.at("size", "before")) for r in (a, b)), unit="%", better=0
    )
    judge.count("nodes", *(number(r.at("nodes")) for r in (a, b)))
    hashes = [text(r.at("sha256")) for r in (a, b)]
    if all(hashes):
        judge.other("SHA-256", *(digest[:12] for digest in hashes))
    kinds = (", ".join(sorted({_kind(name) for name in names(r.at("files"))})) or None for r in (a, b))
    judge.other("kinds of files", *kinds)


def _kind(name: str) -> str:
    """What kind of file it is, by the end of its name."""
    path = PurePath(name)
    return "report" if path.name.endswith(".report.json") else path.suffix


def _cell(value: Any) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, bool | int | float) else text(value)
