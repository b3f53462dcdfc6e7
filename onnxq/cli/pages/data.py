"""What the data look like: sections of several pages, and what `onnxq data` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.cli.pages.words import counted, first_few, say, type_text
from onnxq.cli.screen import Page, shorten
from onnxq.data.fed import fed_lines

if TYPE_CHECKING:
    from onnxq.data.understood import DataRead
    from onnxq.data.warnings import DataWarning
    from onnxq.documents.data import CalibrationData, DataPlaced
    from onnxq.inspection.data_seen import DataSeen, InputSeen

_SHOWN = 3


def data_page(data_seen: DataSeen) -> Page:
    """Data as the model will see them, and what is doubtful about them."""
    page = Page()
    data, read, count = data_seen.data, data_seen.samples, data_seen.count
    known = counted(read if count is None else count, "sample")
    samples = known if count in (None, read) else f"{read} of {known}"
    page.head(f"{data_seen.model} on {data.path or data.script}: {samples} read")
    page.sections("Settings", filter(None, [data_seen.config]))
    data_section(page, data)
    for entry in data.skipped.first[1:_SHOWN]:
        page.entry(entry.why, 2, "yellow")
    for number, seen in enumerate(data_seen.inputs):
        _input(page, "Inputs" if number == 0 else "", seen)
    warnings_section(page, data_seen.warnings)
    if data_seen.sheet is not None:
        page.section("Sheet", f"{data_seen.sheet.file}, the first {counted(data_seen.sheet.images, 'image')}")
        for caption in data_seen.sheet.captions:
            page.entry(caption)
    return page


def _input(page: Page, label: str, seen: InputSeen) -> None:
    from onnxq.graph.types import shape_text

    page.section(label, f"{shorten(seen.name, 40)}  {type_text(seen.dtype, seen.shape)}")
    shapes = [f"{shape_text(fed.shape)} ({fed.samples})" for fed in seen.shapes]
    page.entry(f"shapes {first_few(shapes, _SHOWN, '')}")
    if seen.mean is None or seen.zeros is None:
        return
    ends = {"low": seen.min, "high": seen.max}
    page.entry(say("fed-values", **ends, mean=seen.mean, std=seen.std, zeros=100 * seen.zeros))
    if seen.channels and len(seen.channels) > 1:
        means = ", ".join(f"{one.mean:.4g}" for one in seen.channels)
        stds = ", ".join(f"{one.std:.4g}" for one in seen.channels)
        page.entry(say("fed-values.channels", means=means, stds=stds))


def data_section(page: Page, data: DataRead | CalibrationData, place: DataPlaced | None = None) -> None:
    """How the data were understood, and what the model was fed; `place` knows what was stated of it."""
    page.sections("Data", data.lines)
    for line in fed_lines(data.images, None if place is None else place.images):
        page.entry(line)
    for note in data.notes:
        page.entry(note, style="yellow")


def calibration_data_section(page: Page, data: CalibrationData) -> None:
    """The same of the data that calibrate, and what is doubtful about them."""
    data_section(page, data, data.place)
    if data.doubts:
        warnings_section(page, data.doubts)
        some = "sample" if data.looked_at == 1 else f"{data.looked_at} samples"
        page.entry(say("looked-at", some=some), style="dim")


def warnings_section(page: Page, doubts: Sequence[DataWarning]) -> None:
    """What is doubtful about the data, and what to do."""
    for number, doubt in enumerate(doubts):
        page.section("Warnings" if number == 0 else "", doubt.text, "yellow")
        page.entry(doubt.hint)
