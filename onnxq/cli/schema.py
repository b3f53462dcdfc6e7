"""`onnxq schema`: the form of every document."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxq.cli.screen import Screen


def schema(
    screen: Screen,
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help="The `kind` of a document; without it all are listed.", show_default=False
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a document, or list the documents.

    Every document that --json prints or a verb writes has its `kind` and the number of its `schema`.
    """
    import onnxq
    from onnxq.cli.pages.schemas import schemas_page
    from onnxq.cli.screen import write_json

    if kind is not None:
        write_json(onnxq.schema(kind))
        return
    found = onnxq.list_schemas()
    screen.show(schemas_page(found))
    screen.document(found)
