"""What `onnxq bundle` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.inspection.bundling import Bundle


def bundled_page(found: Bundle) -> Page:
    """What is measured, how near each is, and what comes next."""
    page = Page()
    on = f" on {found.device}" if found.device else ""
    page.head(f"{found.model} -> {found.folder}, for {found.target}{on}")
    page.sections("Measured", found.answer)
    page.sections("Candidates", (f"{one.name}: {one.what}; {one.near}" for one in found.candidates))
    page.sections("Left out", (f"{name}: {why}" for name, why in found.left_out.items()))
    page.section("Next", found.following)
    return page
