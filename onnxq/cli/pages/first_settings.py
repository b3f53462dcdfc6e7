"""What `onnxq init` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.inspection.first_settings import FirstSettings


def first_settings_page(settings: FirstSettings, command: str) -> Page:
    """What is set, what is suggested, and what comes next."""
    page = Page()
    page.head(f"{settings.model} -> {settings.output}")
    _options(page, "Set", settings.filled)
    _options(page, "Suggested", settings.suggested)
    for number, doubt in enumerate(settings.doubts):
        page.section("Warnings" if number == 0 else "", doubt, "yellow")
    page.section("Next", "edit it; then")
    page.code(command)
    return page


def _options(page: Page, label: str, options: Mapping[str, str]) -> None:
    for number, (name, text) in enumerate(options.items()):
        page.section(label if number == 0 else "", f"{name} = {shorten(text, 70)}")
