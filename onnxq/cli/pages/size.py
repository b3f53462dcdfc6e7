"""The sections on the sizes of the original and of the result, and of the files that were written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.cli.pages.words import FEW, size_text
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.changes import FileSizes


def size_section(page: Page, size: FileSizes, *, quantized: bool) -> None:
    """The sizes of the original and of the result, and what made the result larger.

    Args:
        page: the screen.
        size: the sizes.
        quantized: whether something is quantized: then the result is meant to be smaller.
    """
    grown = size.grown if size.after > size.before else ()
    text = f"{size_text(size.before)} -> {size_text(size.after)}"
    page.section("Size", text, "yellow" if grown and quantized else "")
    for entry in grown[:FEW]:
        name = f"{shorten(entry.name, 40)}: " if entry.name else ""
        page.entry(f"+{size_text(entry.bytes)} {name}{entry.because}")
    page.more(len(grown) - FEW, "in the report")


def files_section(page: Page, files: Sequence[str]) -> None:
    """The files that were written, with their sizes."""
    page.sections("Files", (f"{file}  {size_text(Path(file).stat().st_size)}" for file in files))
