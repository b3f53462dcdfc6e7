"""What the data look like: sections of several pages, and what `onnxq data` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxq.cli.pages.settings import settings_section
from onnxq.cli.pages.words import counted
from onnxq.cli.screen import Page, shorten

_SHOWN = 3


def data_page(document: Mapping[str, Any]) -> Page:
    """Data as the model will see them, and what is doubtful about them."""
    page = Page()
    data = document["data"]
    read, count = document["samples"], document["count"]
    known = count is not None and count != read
    samples = f"{read} of {counted(count, 'sample')}" if known else counted(read, "sample")
    where = data["path"] or data["script"]
    page.head(f"{document['model']} on {where}: {samples} read")
    settings_section(page, document)
    data_section(page, data)
    for entry in data["skipped"]["first"][1:_SHOWN]:
        page.entry(entry["why"], 2, "yellow")
    for number, entry in enumerate(document["inputs"]):
        _input(page, "Inputs" if number == 0 else "", entry)
    warnings_section(page, document["warnings"])
    if document["sheet"] is not None:
        sheet = document["sheet"]
        page.section("Sheet", f"{sheet['file']}, the first {counted(sheet['images'], 'image')}")
        for caption in sheet["captions"]:
            page.entry(caption)
    return page


def _input(page: Page, label: str, entry: Mapping[str, Any]) -> None:
    from onnxq.graph.types import shape_text

    takes = shape_text(None if entry["shape"] is None else tuple(entry["shape"]))
    page.section(label, f"{shorten(entry['name'], 40)}  {entry['dtype']} [{takes}]")
    shapes = [f"{shape_text(tuple(seen['shape']))} ({seen['samples']})" for seen in entry["shapes"]]
    more = f", +{len(shapes) - _SHOWN} more" if len(shapes) > _SHOWN else ""
    page.entry(f"shapes {', '.join(shapes[:_SHOWN])}{more}")
    if entry["mean"] is None:
        return
    page.entry(
        f"from {entry['min']:.6g} to {entry['max']:.6g}, mean {entry['mean']:.4g}, std {entry['std']:.4g}, "
        f"{100 * entry['zeros']:.1f} % zeros"
    )
    if entry["channels"] and len(entry["channels"]) > 1:
        means, stds = (", ".join(f"{c[name]:.4g}" for c in entry["channels"]) for name in ("mean", "std"))
        page.entry(f"of each channel: mean {means}; std {stds}")


def data_section(page: Page, data: Mapping[str, Any]) -> None:
    """How the data were understood, and what the model was fed."""
    for number, line in enumerate(data["lines"]):
        page.section("Data" if number == 0 else "", line)
    for image in data["images"]:
        page.entry(_fed(image))
    for note in data["notes"]:
        page.entry(note, style="yellow")
    if data.get("doubts"):
        warnings_section(page, data["doubts"])
        some = "sample" if data["looked_at"] == 1 else f"{data['looked_at']} samples"
        page.entry(f"looked at: the first {some} of those that were read", style="dim")


def warnings_section(page: Page, doubts: Sequence[Mapping[str, Any]]) -> None:
    """What is doubtful about the data, and what to do."""
    for number, doubt in enumerate(doubts):
        page.section("Warnings" if number == 0 else "", doubt["text"], "yellow")
        page.entry(doubt["hint"])


def _fed(image: Mapping[str, Any]) -> str:
    """What is done to an image: `x takes NCHW rgb, stretched to 224x224; float32 -2.1 to 2.6: ...`."""
    low, high = image["range"]
    text = f"{image['input']} is fed {image['layout']}, {image['color']}, {image['size']}; "
    text += f"{image['dtype']} from {low:.4g} to {high:.4g}"
    scale, mean, std = image["scale"], image["mean"], image["std"]
    value = "pixel" if scale == 1 else f"pixel {_factor(scale)}"
    if any(mean):
        value = f"{value} - {_each(mean)}"
    if any(entry != 1 for entry in std):
        value = f"({value}) / {_each(std)}" if any(mean) else f"{value} / {_each(std)}"
    return f"{text}: {value}" + (f" (preset {image['preset']})" if image["preset"] else "")


def _factor(scale: float) -> str:
    divisor = f"{1 / scale:g}"
    return f"/ {divisor}" if abs(scale) < 1 and abs(float(divisor) * scale - 1) < 1e-9 else f"* {scale:g}"


def _each(values: Sequence[float]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"[{', '.join(f'{value:g}' for value in values)}]"
