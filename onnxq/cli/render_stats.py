"""The page of `onnxq calibrate`: what was measured, and how surely."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxq.calib.collect import SAMPLED
from onnxq.calib.stats import TensorStats
from onnxq.calib.stats_file import StatsFile
from onnxq.cli.render import counted, data_section, size_text
from onnxq.cli.screen import Page, shorten

_FEW = 8


def statistics_page(path: Path, file: StatsFile) -> Page:
    """What was written, and the tensors with the widest range in proportion to their spread."""
    page = Page()
    stats, origin = file.stats, file.origin
    others = origin.samples - stats.samples - len(file.skipped)
    text = counted(stats.samples, "sample")
    text += f" of {origin.samples}" if stats.samples < origin.samples else ""
    page.section("Samples", text, "yellow" if others > 0 else "")
    for where, why in file.skipped[:_FEW]:
        page.entry(f"left out as bad: {why if where in why else f'{where}: {why}'}", style="yellow")
    if len(file.skipped) > _FEW:
        page.entry(f"+{len(file.skipped) - _FEW} more", style="yellow")
    data_section(page, {"lines": file.lines, "images": origin.images, "notes": []})
    kinds = {
        "none": "ranges only",
        "exact": "histograms of all values",
        "sampled": f"histograms of {SAMPLED / 1e6:g} M values or more of a tensor (all, where it has fewer)",
    }
    page.section("Tensors", f"{len(stats.tensors)}, {kinds[origin.counting]}")
    for name, entry in list(stats.tensors.items())[:_FEW]:
        page.entry(f"{shorten(name)}: {entry.min:.4g} to {entry.max:.4g}{_spread(entry)}")
    if len(stats.tensors) > _FEW:
        page.entry(f"+{len(stats.tensors) - _FEW} more", style="dim")
    page.section("Hashes", f"model {origin.model[:16]}, data {file.data_hash[:16]}")
    page.section("File", f"{path}  {size_text(path.stat().st_size)}")
    if others > 0:
        page.section("Next", "")
        page.code(f"onnxq calibrate --merge {path} OTHERS -o ALL.stats.npz")
    else:
        page.section("Next", "")
        page.code(f"onnxq quantize MODEL --stats {path} --calib DATA")
    return page


def _spread(entry: TensorStats) -> str:
    if entry.variance is None:
        return ""
    return f", mean {entry.mean:.4g}, std {entry.variance**0.5:.4g}"


def to_json(path: Path, file: StatsFile) -> dict[str, Any]:
    """The page for programs."""
    return {
        "schema": 1,
        "file": str(path),
        "samples": file.stats.samples,
        "of": file.origin.samples,
        "counting": file.origin.counting,
        "model_hash": file.origin.model,
        "data_hash": file.data_hash,
        "skipped": [{"where": where, "why": why} for where, why in file.skipped],
        "tensors": {
            name: {
                "min": entry.min,
                "max": entry.max,
                "values": entry.size,
                "mean": entry.mean,
                "variance": entry.variance,
                "counted": entry.histogram.total if entry.histogram is not None else 0,
            }
            for name, entry in file.stats.tensors.items()
        },
    }
