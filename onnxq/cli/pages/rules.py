"""What `onnxq rules` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.cli.pages.words import counted
from onnxq.cli.screen import Page
from onnxq.rule.messages import BY_OPERATOR
from onnxq.rule.page import STAGES

if TYPE_CHECKING:
    from onnxq.inspection.rule_book import ExplainedRule, RuleEntry, RuleTried
    from onnxq.rule.messages import Match

_STAGES = tuple(STAGES)


def rules_page(rules: Sequence[RuleEntry]) -> Page:
    """The rules, by stage."""
    page = Page()
    for stage in sorted({rule.stage for rule in rules}, key=_STAGES.index):
        page.head(f"{stage}: {STAGES[stage]}")
        for rule in rules:
            if rule.stage == stage:
                page.plain(rule.id, 1)
                page.plain(rule.summary, 2, "dim")
                if _condition(rule):
                    page.plain(_condition(rule), 2, "dim")
    return page


def _condition(rule: RuleEntry) -> str:
    if rule.lacks:
        return f"only where the target lacks {rule.lacks}"
    return "" if rule.default else f'only with enable = ["{rule.id}"]'


def rule_page(rule: ExplainedRule) -> Page:
    """A rule's documentation."""
    page = Page()
    page.head(rule.id)
    for line in rule.doc.splitlines():
        page.code(line)
    page.code("")
    page.section("Stage", f"{rule.stage} ({STAGES[rule.stage]})")
    page.section("Operators", "all" if rule.operators == ("*",) else ", ".join(rule.operators))
    if _condition(rule):
        page.section("Condition", _condition(rule))
    page.section("File", rule.file)
    return page


def tested_page(rules: Sequence[RuleTried]) -> Page:
    """What the examples of rules showed."""
    page = Page()
    for rule in rules:
        text = rule.failure or f"{rule.id} ({counted(rule.examples, 'example')})"
        page.section("failed" if rule.failure else "ok", text, "red" if rule.failure else "")
    failed = sum(bool(rule.failure) for rule in rules)
    page.head(f"{counted(len(rules), 'rule')} tested, {failed or 'none'} failed")
    return page


def message_page(matches: Sequence[Match]) -> Page:
    """What is known of a message of TensorRT."""
    page = Page()
    if not matches:
        page.head("nothing is known of this message")
        page.section("Next", "onnxq check MODEL says which nodes the target does not take")
    for match in matches:
        page.head(match.name)
        if match.quoted:
            page.code(match.quoted)
        sure = match.quoted or match.score >= BY_OPERATOR
        page.section("Advice" if match.kind == "advice" else "Repair" if sure else "Perhaps", match.summary)
        if match.kind == "rule":
            page.section("More", f"onnxq rules explain {match.name}")
    return page
