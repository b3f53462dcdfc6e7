"""Loading and choosing rules."""

from __future__ import annotations

import pytest

from onnxq.base.errors import UserError
from onnxq.rule import Node, rule
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules, select


def nothing(node: Node) -> None:
    return None


ON = Rule("on", nothing, ("Relu",), "clean", aliases=("former",))
OFF = Rule("off", nothing, ("Relu",), "fuse", default=False)
LACKING = Rule("lacking", nothing, ("Relu",), "compat", lacks="something")
ALL = [ON, OFF, LACKING]


def test_built_in_rules_are_ordered_documented_and_unique() -> None:
    rules = load_rules()
    assert [rule.id for rule in rules] == sorted({rule.id for rule in rules})
    assert all(rule.summary.endswith(".") and rule.examples for rule in rules)


def test_what_is_on() -> None:
    assert [r.id for r in select(ALL)] == ["on", "lacking"]
    assert [r.id for r in select(ALL, enable=["off"])] == ["on", "off", "lacking"]
    assert [r.id for r in select(ALL, skip=["former"])] == ["lacking"]
    assert [r.id for r in select(ALL, enable=["on"], skip=["on"])] == ["lacking"]


def test_enabling_a_rule_does_not_ask_what_the_target_lacks() -> None:
    (forced,) = [r for r in select(ALL, enable=["lacking"]) if r.id == "lacking"]
    assert forced.lacks is None
    assert LACKING.lacks == "something"


@pytest.mark.parametrize("flags", [{"enable": ["formre"]}, {"skip": ["formre"]}])
def test_an_unknown_name(flags: dict[str, list[str]]) -> None:
    with pytest.raises(UserError, match="no rule 'formre'") as info:
        select(ALL, **flags)
    assert "'former'" in info.value.hint


def test_a_rule_takes_one_node() -> None:
    with pytest.raises(TypeError, match="must take one node"):
        rule("Relu", stage="clean")(lambda node, more: None)
    with pytest.raises(TypeError, match="must take one node"):
        rule("Relu", stage="clean")(lambda: None)  # type: ignore[arg-type, misc]
