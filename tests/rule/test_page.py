"""The page of all rules is what stands in their files."""

from __future__ import annotations

from pathlib import Path

from onnxq.rule.load import load_rules
from onnxq.rule.page import markdown

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_that_of_the_rules() -> None:
    assert PAGE.read_text("utf-8") == markdown(load_rules(())), "onnxq rules page -o docs/rules.md"


def test_every_rule_is_on_it_once() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for rule in load_rules(()):
        assert lines.count(f"### {rule.id}") == 1
