"""What `onnxq init` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.inspection.first_settings import FirstSettings


def first_settings_page(settings: FirstSettings, command: str) -> Page:
    """What is set, what is suggested, and what comes next."""
    page = Page()
    page.head(f"{settings.model} -> {settings.output}")
    for label, options in (("Set", settings.filled), ("Suggested", settings.suggested)):
        page.sections(label, (f"{name} = {shorten(text, 70)}" for name, text in options.items()))
    page.sections("Warnings", settings.doubts, "yellow")
    page.section("Next", "edit it; then")
    page.code(command)
    return page
