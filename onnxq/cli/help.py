"""`onnxq help`: words of the screens, symptoms, schemas of documents."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxq.cli.screen import Screen


def help(
    screen: Screen,
    word: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]", help="A word of a screen; without it all are listed.", show_default=False
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open the page that says more in your browser.")
    ] = False,
) -> None:
    """Explain a word of the screens: SQNR, eligible, body; list symptoms, or the schemas of documents.

    The answer is one to three sentences, and the page of the documentation that says more. --open needs
    that page: it is in the repository, not in the installed package.

    `onnxq help symptoms` lists what you see, why, what repairs it and what that costs. `onnxq help symptoms
    NaN` lists those whose text has NaN in it.

    `onnxq help schema` lists the documents that --json prints or a verb writes. `onnxq help schema report`
    prints the JSON Schema of one: its `kind` says which, and its `schema` the number.
    """
    import onnxq
    from onnxq.cli.pages.glossary import glossary_page, schemas_page, symptoms_page, word_page
    from onnxq.cli.screen import write_json

    if word and word[0] == "schema":
        if word[1:]:
            write_json(onnxq.schema(" ".join(word[1:])))
            return
        kinds = onnxq.list_schemas()
        screen.show(schemas_page(kinds))
        screen.document(kinds)
        return
    if word and word[0].casefold() == "symptoms":
        table = onnxq.symptoms(" ".join(word[1:]) or None)
        screen.show(symptoms_page(table, all_of=len(word) == 1))
        screen.document(table)
        return
    found = onnxq.explain_word(" ".join(word) if word else None, open=show)
    screen.show(word_page(found.entries[0]) if word else glossary_page(found))
    screen.document(found)
