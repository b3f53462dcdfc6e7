"""The section that names the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.cli.screen import Page


def settings_section(page: Page, report: Mapping[str, Any]) -> None:
    """The configuration file that was read, if one was."""
    if report.get("config"):
        page.section("Settings", report["config"])
