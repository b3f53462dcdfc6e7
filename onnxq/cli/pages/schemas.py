"""The page of `onnxq help schema`: the kinds of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.emit.schemas import SchemaList


def schemas_page(listing: SchemaList) -> Page:
    """A line for each kind: the number of its schema, what it is, and the verbs that make it."""
    page = Page()
    wide = max(len(document.kind) for document in listing.documents)
    for document in listing.documents:
        page.code(
            f"{document.kind:{wide}}  {document.number}  {document.what} ({', '.join(document.made_by)})"
        )
    return page
