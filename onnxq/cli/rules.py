"""`onnxq rules`: what onnxq knows to do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options.settings import Repairs

HELP = "List, explain and test the rules."


def list(screen: Screen, chosen: Chosen) -> None:
    """List the rules, by stage."""
    import onnxq
    from onnxq.cli.pages.rules import rules_page

    found = onnxq.list_rules(chosen.group(Repairs).rules)
    screen.show(rules_page(found.rules))
    screen.document(found)


def explain(
    screen: Screen,
    chosen: Chosen,
    name: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="The rule's name.", show_default=False)
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message", metavar="TEXT", help="A message of TensorRT: find the rules that repair it."
        ),
    ] = None,
) -> int:
    """Show a rule's documentation, or find the rules that repair what TensorRT said.

    Names and numbers in the message may differ. The exit code is 1 where nothing is known of it.
    """
    import onnxq
    from onnxq.cli.pages.rules import message_page, rule_page

    if (name is None) == (message is None):
        raise UserError(
            "a rule's name or a message is needed, not both"
            if name
            else "a rule's name or a message is needed",
            hint="onnxq rules explain unfuse_gelu, or --message 'what TensorRT printed'",
        )
    repairs = chosen.group(Repairs)
    if message is not None:
        found = onnxq.explain_message(message, target=repairs.target, rules=repairs.rules)
        screen.show(message_page(found.known))
        screen.document(found)
        return 0 if found.known else 1
    assert name is not None
    if not name.replace("_", "").isalnum() or not name.islower():  # as no rule is called
        raise UserError(
            f"there is no rule {name!r}: a message, or an operator, has a flag in front of it, --message",
            hint=shlex.join(["onnxq", "rules", "explain", "--message", name]),
        )
    explained = onnxq.explain_rule(name, rules=repairs.rules)
    screen.show(rule_page(explained.rule))
    screen.document(explained)
    return 0


def test(
    screen: Screen,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder of rules; the built-in ones by default.")
    ] = None,  # noqa: PT028 (a verb, and no test)
) -> int:
    """Run the examples of rules and prove what they change."""
    import onnxq
    from onnxq.cli.pages.rules import tested_page

    with screen.progress() as observe:
        found = onnxq.try_rules(folder, observe=observe)
    screen.show(tested_page(found.rules))
    screen.document(found)
    return int(found.failed > 0)


def page(
    screen: Screen,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.md", help="The file to write; printed by default."),
    ] = None,
) -> None:
    """Print the documentation of all rules as one page of Markdown."""
    import onnxq
    from onnxq.cli.screen import Page

    text = onnxq.rules_page()
    if output is not None:
        output.write_text(text, "utf-8")
        return
    shown = Page()
    for line in text.splitlines():
        shown.code(line)
    screen.show(shown)
