"""The page of `onnxq calibrate`: what was measured, and how surely."""

from __future__ import annotations

from pathlib import Path

from onnxq.calib.stats import Stats, TensorStats
from onnxq.calib.stats_file import Origin, StatsFile
from onnxq.cli.pages.data import calibration_data_section
from onnxq.cli.pages.words import counted, say, size_text
from onnxq.cli.screen import Page, shorten
from onnxq.data.understood import LeftOutSample
from onnxq.documents.data import CalibrationData, StatisticsTaken, TensorTaken

_FEW = 8


def statistics_page(path: Path, file: StatsFile, *, merged: bool = False) -> Page:
    """What was written, and the tensors with the widest range in proportion to their spread.

    Args:
        path: the file.
        file: what it holds.
        merged: whether it is of several shards: then those that are missing are named.
    """
    page = Page()
    stats, origin = file.stats, file.origin
    others = len(file.missing)
    page.section("Samples", _samples(stats, origin), "yellow" if others else "")
    if merged and others:
        page.entry(f"{counted(others, 'sample')} missing: {file.missing_text()}", style="yellow")
    for where, why in file.skipped[:_FEW]:
        page.entry(say("taken.bad", why=why if where in why else f"{where}: {why}"), style="yellow")
    page.more(len(file.skipped) - _FEW, "", style="yellow")
    calibration_data_section(page, _data(file))
    quantized = {name: entry for name, entry in stats.tensors.items() if entry.total is not None}
    page.section("Tensors", f"{len(quantized)}, {_counting(origin, stats)}")
    for name, entry in list(quantized.items())[:_FEW]:
        page.entry(f"{shorten(name)}: {entry.min:.4g} to {entry.max:.4g}{_spread(entry)}")
    page.more(len(quantized) - _FEW, "")
    rest = len(stats.tensors) - len(quantized)
    if rest:
        page.entry(say("taken.body", tensors=counted(rest, "tensor")), style="dim")
    page.section("Hashes", f"model {origin.model[:16]}, data {file.data_hash[:16]}")
    page.section("File", f"{path}  {size_text(path.stat().st_size)}")
    page.section("Next", "")
    if others:
        page.code(f"onnxq calibrate --merge {path} OTHERS -o ALL.stats.npz")
    elif origin.available is None:  # which samples did not calibrate is not known
        page.code(f"onnxq quantize MODEL --stats {path}")
    else:
        page.code(f"onnxq quantize MODEL --stats {path} --calib DATA")
    return page


def _samples(stats: Stats, origin: Origin) -> str:
    """How many there are, and what the others are for."""
    available = origin.available or origin.samples  # of a stream it is not known
    if stats.samples < origin.samples:
        text = say("taken.shard", samples=stats.samples, all=origin.samples)
        others = f"others of the {available}"
    elif origin.samples < available:
        text, others = f"{stats.samples} of {available} samples", "others"
    else:
        text, others = counted(stats.samples, "sample"), ""
    return say("taken.verify", samples=text, others=others) if origin.samples < available else text


def _counting(origin: Origin, stats: Stats) -> str:
    """What the histograms are made of, and how many values that is at least."""
    if origin.counting == "none":
        return "ranges only"
    some = [
        entry.counted
        for entry in stats.tensors.values()
        if entry.histogram is not None and entry.counted < entry.size
    ]
    if not some:
        return say("taken.whole")
    least = min(some)
    number = f"{least / 1e6:.3g} M" if least >= 1e5 else f"{least:,}"
    return say("taken.some", number=number)


def _spread(entry: TensorStats) -> str:
    if entry.variance is None:
        return ""
    return f", mean {entry.mean:.4g}, std {entry.variance**0.5:.4g}"


def statistics_taken(path: Path, file: StatsFile) -> StatisticsTaken:
    """The document of a file of statistics."""
    return StatisticsTaken(
        kind="calibration",
        schema=3,
        file=str(path),
        samples=file.stats.samples,
        of=file.origin.samples,
        available=file.origin.available,
        counting=file.origin.counting,
        model_hash=file.origin.model,
        data_hash=file.data_hash,
        missing=tuple(file.missing),
        skipped=tuple(LeftOutSample(where, why) for where, why in file.skipped),
        doubts=file.doubts.doubts,
        looked_at=file.doubts.looked_at,
        tensors={
            name: TensorTaken(entry.min, entry.max, entry.size, entry.mean, entry.variance, entry.counted)
            for name, entry in file.stats.tensors.items()
        },
    )


def _data(file: StatsFile) -> CalibrationData:
    """What a file says of the data."""
    seen = file.doubts
    return CalibrationData(file.lines, file.origin.images, (), seen.doubts, seen.looked_at, place=None)
