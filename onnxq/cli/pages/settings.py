"""The section that names the configuration file."""

from __future__ import annotations

from onnxq.cli.screen import Page


def settings_section(page: Page, config: str | None) -> None:
    """The configuration file that was read, if one was."""
    if config is not None:
        page.section("Settings", config)
