"""Mutants that are made of a rule's syntax tree: what its examples do not notice must be equivalent.

All of them run with `python -m benchmarks.mutants`; here a few of each rule that has none by hand.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from test_mutants import MUTANTS

from benchmarks.mutants import EQUIVALENT, judge, main, mutants
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules

RULES = load_rules()
SMALL = '''"""A rule."""
LIMIT = 3
UNUSED = 5
@rule("Relu", stage="clean")
def small(node):
    """It is small."""
    if node.attr("axis", 1) < LIMIT and not node.users:
        raise Skip("too small 7")
    return op.Add(_other(node), 2) if node.opset > 7 else remake(node, axis=-1)
def _other(node: Node) -> int:
    return 4 - 1
def _example():
    return 9
EXAMPLES = [Fires(_example)]
'''


def test_what_is_changed() -> None:
    made = list(mutants(SMALL))
    found = {mutant.what for mutant in made}
    for what in (
        "node.attr('axis', 1) < LIMIT -> node.attr('axis', 1) <= LIMIT",
        "node.opset > 7 -> node.opset >= 7",
        "op.Add -> op.Sub",
        "'axis' -> 'nothing'",
        "remake(node, axis=-1) -> remake(node)",
        "4 - 1 -> 4 + 1",
        "3 -> 4",
        "not node.users -> not not node.users",
        "-1 -> +1",
    ):
        assert what in found, sorted(found)
    texts = {mutant.text for mutant in made} | {ast.unparse(ast.parse(SMALL))}
    assert len(texts) == len(made) + 1, "each is another program"
    assert all("UNUSED = 5" in text and "return 9" in text and "too small 7" in text for text in texts)


def test_equivalent_mutants_exist() -> None:
    made = {
        (rule.id, mutant.what) for rule in RULES for mutant in mutants(Path(rule.path).read_text("utf-8"))
    }
    assert set(EQUIVALENT) <= made


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.id not in MUTANTS], ids=lambda rule: rule.id)
def test_a_broken_rule_is_noticed(rule: Rule) -> None:
    every = list(mutants(Path(rule.path).read_text("utf-8")))
    found = judge(rule, RULES, every[:: -(-len(every) // 5) or 1])
    assert [mutant.what for mutant in found.survivors] == []


def test_the_rules_of_a_users_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "_helper.py").write_text("LIMIT = 2\n", "utf-8")
    text = """
from _helper import LIMIT
from onnxq.rule import Fires, Skips, op, rule


@rule("Neg", stage="clean")
def mine(node):
    x = node.inputs[0]
    if x.rank is None or x.rank > LIMIT:
        return None
    return op.Mul(x, -1.0)


EXAMPLES = [
    Fires('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg (x) }'),
    Skips('<ir_version: 8, opset_import: ["" : 17]> g (float[2, 1, 1] x) => (y) { y = Neg (x) }'),
]
"""
    (tmp_path / "mine.py").write_text(text, "utf-8")
    assert main(["--rules", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "comparison: x.rank > LIMIT -> x.rank >= LIMIT" in told, "no example has two axes"
    assert "0 of" not in told, "the others are noticed"
    text = text.replace("float[2] x) => (float[2] y)", "float[2, 2] x) => (y)")
    (tmp_path / "mine.py").write_text(text, "utf-8")
    main(["--rules", str(tmp_path), "mine"])
    assert ">= LIMIT" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--rules", str(tmp_path), "inline_if"])
