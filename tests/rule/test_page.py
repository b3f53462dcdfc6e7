"""The page of all rules is what stands in their files."""

from __future__ import annotations

import os
from pathlib import Path

from onnxq.rule.load import load_rules
from onnxq.rule.page import markdown

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"


def test_the_page_is_that_of_the_rules() -> None:
    made = markdown(load_rules(()))
    if os.environ.get("ONNXQ_GOLDEN") == "1":
        PAGE.write_text(made, "utf-8")
    assert PAGE.read_text("utf-8") == made, "write it again: make reference"


def test_every_rule_is_on_it_once() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for rule in load_rules(()):
        assert lines.count(f"### {rule.id}") == 1
