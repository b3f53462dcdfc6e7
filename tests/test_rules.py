"""Every example of every rule: where it fires its change is proved; else it says why not."""

from __future__ import annotations

import pytest

from onnxq.inspection.examples import check_example
from onnxq.rule.api import Fires, Rule, Skips
from onnxq.rule.load import load_rules

RULES = load_rules()
CASES = [(rule, number) for rule in RULES for number in range(len(rule.examples))]


@pytest.mark.parametrize(("rule", "number"), CASES, ids=[f"{r.id}-{n}" for r, n in CASES])
def test_example(rule: Rule, number: int) -> None:
    check_example(rule, rule.examples[number], RULES)


def test_rules_are_complete() -> None:
    lacking = [
        rule.path
        for rule in RULES
        if {type(example) for example in rule.examples} != {Fires, Skips}
        or not rule.summary.endswith(".")
        or not rule.path.endswith(f"{rule.id}.py")
    ]
    assert not lacking, "\n".join(lacking)
