"""The page of `onnxq schema`: the kinds of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.emit.schemas import SchemaList


def schemas_page(found: SchemaList) -> Page:
    """A line for each kind: the number of its schema, what it is, and the verbs that make it."""
    page = Page()
    wide = max(len(one.kind) for one in found.documents)
    for one in found.documents:
        page.code(f"{one.kind:{wide}}  {one.number}  {one.what} ({', '.join(one.made_by)})")
    return page
