"""What the author of a rule reads where it, or an example of it, is not what it seems."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from onnxq.base.errors import UserError
from onnxq.inspection import examples
from onnxq.inspection.examples import check_rule
from onnxq.rule.examples import ExampleError
from onnxq.rule.load import load_rules

TEXT = """
import numpy as np
from onnxq.rule import Fires, Skips, op, rule

@rule("TopK", stage="compat")
def mine(node):
    x, k = node.inputs
    most = node.limit("topk-k")
    if most is None or k.constant is None or k.constant[0] <= most:
        return None
    ANSWER


NET = '''<ir_version: 8, opset_import: ["" : 17]>
    g (int32[3, 6] x) => (int32[3, 4] v, int64[3, 4] i) <int64[1] k = {4}> { v, i = TopK (x, k) }'''
EXAMPLES = [Skips(NET), Fires(NET, limits={"topk-k": 2})]
"""


def failure(folder: Path, answer: str, fires: str = "") -> str:
    """What `rules test` says of a rule with this answer."""
    text = TEXT.replace("ANSWER", textwrap.indent(answer, "    ").strip())
    if fires:
        text = text.replace('Fires(NET, limits={"topk-k": 2})', fires)
    (folder / "mine.py").write_text(text, "utf-8")
    rules = [rule for rule in load_rules((folder,)) if rule.id == "mine" or rule.stage == "place"]
    with pytest.raises(ExampleError) as info:
        check_rule(next(rule for rule in rules if rule.id == "mine"), rules)
    return str(info.value)


@pytest.mark.parametrize(
    ("fires", "says"),
    [
        ('Fires(NET, limits={"topk": 2})', "there is no limit 'topk'; did you mean 'topk-k'?"),
        ('Skips(NET, limits={"topk": 2}), Fires(NET)', "there is no limit 'topk'"),
        ('Fires(NET, after=("quantize_wighted",))', "no rule 'quantize_wighted'; did you mean 'quantize_w"),
        ('Fires(NET, gone="Topk")', "no operator 'Topk'; did you mean 'TopK'"),
        ('Fires(NET, assume={"N": 2})', "no dimension of an input 'N'"),
        ("Fires(NET, limits=None)", "limits is a dict"),
        ('Fires("g (float[2] x) => { y = Abs (x) }")', "ParseError: [ParseError at position"),
        ("Fires(lambda: 1 / 0)", "ZeroDivisionError: division by zero (mine.py, line 16)"),
    ],
)
def test_an_example_that_speaks_of_nothing_fails(tmp_path: Path, fires: str, says: str) -> None:
    found = failure(tmp_path, "return None", fires)
    assert found.startswith("rule 'mine', example 2: ")
    assert says in found
    assert "\\n" not in found


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("return {'v': x}", "keys are output numbers, 0 to 1; 'v' is none of TopK"),
        ("return {0: 'x'}", "this is str for output 0"),
        ("return x.shape[0] + None", "the rule raised TypeError"),
        ("return node.op_type", "it has alike, assumed, attr, attrs, bodies, body, domain"),
        ("return node.imputs", "did you mean 'inputs'"),
        ("return op.TopkK(x, k)", "did you mean 'TopK'"),
        ("return {0: op.Identity(x)}", "its proof fails: "),
    ],
)
def test_what_a_rule_does_wrong_is_said(tmp_path: Path, answer: str, says: str) -> None:
    found = failure(tmp_path, answer)
    assert found.startswith("rule 'mine', example 2: ")
    assert says in found
    assert ("proof" in found) == ("proof" in says)
    assert ("(mine.py, line 11)" in found) == ("Error" in found)


def test_what_the_target_lacks_may_not_stay_for_another_output(tmp_path: Path) -> None:
    one = """Fires(NET.replace("{4}", "{1}").replace("3, 4", "3, 1"), limits={"topk-k": 0})"""
    found = failure(tmp_path, "return {0: op.ReduceMax(x, axes=[1])}", one)
    assert "'v', which stays" in found
    assert "output 1, which is" in found


def test_an_example_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "SECONDS", 0.2)
    found = failure(tmp_path, "while True:\n    x")
    assert found.startswith("rule 'mine', example 2: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("from onnxq.rule import rule\nfrom onnxq.rule import Skps\n", "line 2); did you mean 'Skips'"),
        ("from onnxq.rule import op\n\nx = op.Rellu(1)\n", "line 3)"),
        ("from onnxq.rule import op\ndef f(:\n", "SyntaxError"),
        ("def f(): ...\n\nf = operand(1)\n", "line 3); did you mean 'operands'"),
    ],
)
def test_where_a_file_does_not_load(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.py").write_text(text, "utf-8")
    with pytest.raises(UserError, match="does not load") as info:
        load_rules((tmp_path,))
    assert says in str(info.value)
    assert "(mine.py, line" in str(info.value)
