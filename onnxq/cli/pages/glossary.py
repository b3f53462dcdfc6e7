"""What `onnxq help` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.base.grouped import grouped
from onnxq.cli.pages.words import counted, say
from onnxq.cli.screen import Page
from onnxq.documents.glossary import page_file

if TYPE_CHECKING:
    from onnxq.advice.symptoms import SymptomTable
    from onnxq.documents.glossary import Glossary, GlossaryWord
    from onnxq.emit.schemas import SchemaList


def word_page(word: GlossaryWord) -> Page:
    """What a word means."""
    page = Page()
    page.head(word.name)
    page.plain(word.text)
    if word.also:
        page.plain(f"also: {', '.join(word.also)}", style="dim")
    if page_file(word.page) is not None:
        page.plain(f"more: {word.page}", style="dim")
    return page


def glossary_page(glossary: Glossary) -> Page:
    """All words."""
    page = Page()
    page.head(say("words"))
    page.plain(", ".join(word.name for word in glossary.entries))
    return page


def symptoms_page(table: SymptomTable, *, all_of: bool) -> Page:
    """What is seen, why, what repairs it, and what that costs.

    Args:
        table: they.
        all_of: whether none were chosen: then what rules repair is counted only.
    """
    from onnxq.advice.symptoms import GROUPS

    page = Page()
    for group, entries in grouped((one.group, one) for one in table.entries).items():
        title, more = GROUPS[group]
        page.head(title if page_file(more) is None else f"{title} ({more})")
        if group == "rule" and all_of:
            page.plain(say("words.rules", rules=counted(len(entries), "rule")))
            continue
        for one in entries:
            page.plain(f"{one.seen}  ({one.code})")
            for word, text in (("cause", one.cause), ("repair", one.repair), ("costs", one.costs)):
                page.plain(f"  {word}: {text}", style="dim")
    return page


def schemas_page(listing: SchemaList) -> Page:
    """A line for each kind of document: the number of its schema, what it is, and the verbs that make it."""
    page = Page()
    wide = max(len(document.kind) for document in listing.documents)
    for document in listing.documents:
        page.code(
            f"{document.kind:{wide}}  {document.number}  {document.what} ({', '.join(document.made_by)})"
        )
    return page
