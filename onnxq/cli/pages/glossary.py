"""What `onnxq help` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.documents.glossary import Glossary, GlossaryWord


def word_page(word: GlossaryWord) -> Page:
    """What a word means."""
    page = Page()
    page.head(word.name)
    page.plain(word.text)
    if word.also:
        page.plain(f"also: {', '.join(word.also)}", style="dim")
    page.plain(f"more: {word.page}", style="dim")
    return page


def glossary_page(glossary: Glossary) -> Page:
    """All words."""
    page = Page()
    page.head("The words of the screens: onnxq help WORD explains one")
    page.plain(", ".join(word.name for word in glossary.entries))
    return page
