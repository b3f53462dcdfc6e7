"""The section on the sizes of the original and of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.cli.pages.words import FEW, size_text
from onnxq.cli.screen import Page, shorten


def size_section(page: Page, report: Mapping[str, Any]) -> None:
    """The sizes of the original and of the result, and what made the result larger."""
    size = report["size"]
    grown = size["grown"] if size["after"] > size["before"] else ()
    doubtful = bool(grown and report["plan"] and report["plan"]["sites"])  # int8 is meant to be smaller
    text = f"{size_text(size['before'])} -> {size_text(size['after'])}"
    page.section("Size", text, "yellow" if doubtful else "")
    for entry in grown[:FEW]:
        name = f"{shorten(entry['name'], 40)}: " if entry["name"] else ""
        page.entry(f"+{size_text(entry['bytes'])} {name}{entry['because']}")
    if len(grown) > FEW:
        page.entry(f"+{len(grown) - FEW} more in the report", style="dim")
