"""What `onnxq data` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.cli.render import data_section, settings_section, warnings_section
from onnxq.cli.screen import Page, shorten

_FEW = 3


def data_page(document: Mapping[str, Any]) -> Page:
    """Data as the model will see them, and what is doubtful about them."""
    page = Page()
    data = document["data"]
    read, count = document["samples"], document["count"]
    known = count is not None and count != read
    samples = f"{read} of {_number(count, 'sample')}" if known else _number(read, "sample")
    where = data["path"] or data["script"]
    page.head(f"{document['model']} on {where}: {samples} read")
    settings_section(page, document)
    data_section(page, data)
    for entry in data["skipped"]["first"][1:_FEW]:
        page.entry(entry["why"], 2, "yellow")
    for number, entry in enumerate(document["inputs"]):
        _input(page, "Inputs" if number == 0 else "", entry)
    warnings_section(page, document["warnings"])
    if document["sheet"] is not None:
        sheet = document["sheet"]
        page.section("Sheet", f"{sheet['file']}, the first {_number(sheet['images'], 'image')}")
        for caption in sheet["captions"]:
            page.entry(caption)
    return page


def _input(page: Page, label: str, entry: Mapping[str, Any]) -> None:
    from onnxq.graph.types import shape_text

    takes = shape_text(None if entry["shape"] is None else tuple(entry["shape"]))
    page.section(label, f"{shorten(entry['name'], 40)}  {entry['dtype']} [{takes}]")
    shapes = [f"{shape_text(tuple(seen['shape']))} ({seen['samples']})" for seen in entry["shapes"]]
    more = f", +{len(shapes) - _FEW} more" if len(shapes) > _FEW else ""
    page.entry(f"shapes {', '.join(shapes[:_FEW])}{more}")
    if entry["mean"] is None:
        return
    page.entry(
        f"from {entry['min']:.6g} to {entry['max']:.6g}, mean {entry['mean']:.4g}, std {entry['std']:.4g}, "
        f"{100 * entry['zeros']:.1f} % zeros"
    )
    if entry["channels"] and len(entry["channels"]) > 1:
        means, stds = (", ".join(f"{c[name]:.4g}" for c in entry["channels"]) for name in ("mean", "std"))
        page.entry(f"of each channel: mean {means}; std {stds}")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
