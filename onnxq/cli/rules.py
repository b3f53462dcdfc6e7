"""`onnxq rules`: what onnxq knows to do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.cli.verb import verb
from onnxq.errors import OnnxqError, UserError, unknown_name
from onnxq.option import read_options
from onnxq.settings import Repairs

if TYPE_CHECKING:
    from onnxq.rule.api import Rule


_takes_rules = takes(Repairs, without=[name for name in read_options(Repairs) if name != "rules"])


@_takes_rules
def list_rules(screen: Screen, chosen: Chosen) -> None:
    """List the rules, by stage."""
    from onnxq.cli.pages.rules import rules_page
    from onnxq.rule.load import load_rules

    found = [_describe(rule) for rule in load_rules(chosen.group(Repairs).rules)]
    screen.show(rules_page(found))
    screen.document({"schema": 1, "rules": found})


@takes(Repairs, without=[name for name in read_options(Repairs) if name not in ("rules", "target")])
def explain(
    screen: Screen,
    chosen: Chosen,
    name: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="The rule's name.", show_default=False)
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", metavar="TEXT", help="What TensorRT printed: find what is known of it."),
    ] = None,
) -> int:
    """Show a rule's documentation, or find the rules that repair what TensorRT said.

    Names and numbers in the message may differ. The exit code is 1 where nothing is known of it.
    """
    from onnxq.cli.pages.rules import rule_page
    from onnxq.rule.load import load_rules

    if (name is None) == (message is None):
        raise UserError(
            "a rule's name or a message is needed, not both"
            if name
            else "a rule's name or a message is needed",
            hint="onnxq rules explain unfuse_gelu, or --message 'what TensorRT printed'",
        )
    repairs = chosen.group(Repairs)
    rules = load_rules(repairs.rules)
    if message is not None:
        return _explain_message(screen, message, rules, repairs.target)
    assert name is not None
    known = {name: rule for rule in rules for name in (rule.id, *rule.aliases)}
    if name not in known:
        raise unknown_name("rule", name, known)
    found = _describe(known[name]) | {"doc": known[name].doc}
    screen.show(rule_page(found))
    screen.document({"schema": 1, "rule": found})
    return 0


def _explain_message(screen: Screen, message: str, rules: list[Rule], target: str) -> int:
    from onnxq.cli.pages.rules import message_page
    from onnxq.rule.messages import known_of
    from onnxq.target import SAME_PARSER, load_target

    targets = [load_target(name) for name in dict.fromkeys((target, *SAME_PARSER))]
    found = [dataclasses.asdict(match) for match in known_of(message, rules, targets)]
    screen.show(message_page(found))
    screen.document({"schema": 1, "message": message, "known": found})
    return 0 if found else 1


def run_examples(
    screen: Screen,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder of rules; the built-in ones by default.")
    ] = None,
) -> int:
    """Run the examples of rules and prove what they change."""
    from onnxq.cli.pages.rules import tested_page
    from onnxq.pipeline.examples import check_rule
    from onnxq.rule.load import load_rules

    rules = load_rules((folder,) if folder is not None else ())
    found: list[dict[str, Any]] = []
    for rule in rules:
        if folder is not None and not Path(rule.path).resolve().is_relative_to(folder.resolve()):
            continue
        failure = None
        try:
            check_rule(rule, rules)
        except OnnxqError as error:
            failure = str(error)
        except Exception as error:  # an example's text or a placement rule may raise anything
            failure = f"rule {rule.id!r}: {type(error).__name__}: {error}"
        found.append({"id": rule.id, "examples": len(rule.examples), "failure": failure})
    screen.show(tested_page(found))
    screen.document({"schema": 1, "rules": found})
    return 1 if any(entry["failure"] for entry in found) else 0


def page(
    screen: Screen,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.md", help="Where to write it; else it is printed."),
    ] = None,
) -> None:
    """Print the documentation of all rules as one page of Markdown."""
    from onnxq.cli.screen import Page
    from onnxq.rule.load import load_rules
    from onnxq.rule.page import markdown

    text = markdown(load_rules(()))
    if output is not None:
        output.write_text(text, "utf-8")
        return
    shown = Page()
    for line in text.splitlines():
        shown.code(line)
    screen.show(shown)


def _describe(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "stage": rule.stage,
        "operators": list(rule.roots),
        "lacks": rule.lacks,
        "default": rule.default,
        "aliases": list(rule.aliases),
        "summary": rule.summary,
        "file": rule.path,
    }


rules = typer.Typer(name="rules", help="List, explain and test the rules.")
for name, function in (("list", list_rules), ("explain", explain), ("page", page), ("test", run_examples)):
    rules.command(name)(verb(function))
