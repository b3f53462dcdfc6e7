"""Mutants that are made of a rule's syntax tree: what its examples do not notice must be equivalent.

All of them run with `python -m benchmarks.mutants`; here a few of every rule that has none by hand.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import onnx
import onnx.parser
import pytest
from test_mutants import MUTANTS

from benchmarks.mutants.__main__ import main
from benchmarks.mutants.child import uncrashed
from benchmarks.mutants.equivalent import EQUIVALENT
from benchmarks.mutants.generate import mutants
from benchmarks.mutants.judging import judge
from benchmarks.mutants.neighbours import neighbours
from benchmarks.mutants.pool import evidence_of, pool_of
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules

RULES = load_rules()
SMALL = '''"""A rule."""
LIMIT = 3
UNUSED = 5
BYTES = 1 << 28
@rule("Relu", stage="clean")
def small(node):
    """It is small."""
    if node.attr("axis", 1) < LIMIT and not node.users or _size(node) > BYTES:
        raise Skip("too small 7")
    return op.Add(_other(node), 2) if node.opset > 7 else remake(node, axis=-1)
def _other(node: Node) -> int:
    return 4 - 1
def _size(node: Node) -> int:
    return node.size
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
    assert all("1 << 28" in text for text in texts), "no small model is so large"
    assert all("UNUSED = 5" in text and "return 9" in text and "too small 7" in text for text in texts)


def test_a_probe_is_the_same_program_but_for_the_place() -> None:
    plain = ast.unparse(ast.parse(SMALL))
    for mutant in mutants(SMALL):
        probe = mutant.probe()
        assert probe.count("_both(") == 1, mutant.what
        ast.parse(probe)
        assert mutant.probe() == probe, "the tree is as it was"
    assert plain not in {mutant.text for mutant in mutants(SMALL)}


def test_neighbours_differ_in_one_place() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2] x) => (y) <float[2] w = {1, 2}> {
            a = Softmax <axis = 1> (x)  y = Add (a, w) }"""
    )
    first, *others = neighbours(model)
    assert first == model
    assert any(other.opset_import[0].version == 9 for other in others)
    assert any(not other.graph.node[0].attribute for other in others), "without its attribute"
    assert any(other.graph.node[0].attribute and other.graph.node[0].attribute[0].i == 2 for other in others)
    assert any([info.name for info in other.graph.input] == ["x", "w"] for other in others), "w is computed"
    assert any(not other.graph.input[0].type.tensor_type.HasField("shape") for other in others)
    assert any(len(other.graph.output) == 2 for other in others)
    assert model == first, "none of them changed it"


def test_the_pool_tells_wrong_mutants_from_right_ones(tmp_path: Path) -> None:
    (rule,) = (rule for rule in RULES if rule.id == "drop_noop_arithmetic")
    made = {mutant.what: mutant for mutant in mutants(Path(rule.path).read_text("utf-8"))}
    pool = pool_of(rule, RULES)
    for what, wrong in (
        ("values == NEUTRAL[op] -> values != NEUTRAL[op]", True),
        (
            "op == 'Add' and values.dtype.kind not in 'iu' -> op == 'Add' or values.dtype.kind not in 'iu'",
            True,
        ),
        (
            "op == 'Sub' and np.signbit(values.astype(np.float64)).any() -> "
            "np.signbit(values.astype(np.float64)).any() and np.signbit(values.a...",
            False,  # a neutral factor has no sign either
        ),
    ):
        evidence = evidence_of(rule, made[what], tmp_path, RULES, pool)
        assert evidence.startswith("a model" if wrong else "right"), (what, evidence)


def test_what_crashes_a_process_is_left_out() -> None:
    def look(number: int) -> None:
        if number in (0, 3, 4, 9):
            os.abort()
        if number == 5:
            raise ValueError

    assert uncrashed(range(10), look) == [1, 2, 5, 6, 7, 8]


def test_equal_arguments_are_not_swapped() -> None:
    assert not [
        m
        for m in mutants(SMALL.replace('attr("axis", 1)', "take(axis, axis)"))
        if "take" in m.what and m.kind == "operands"
    ]


def test_equivalent_mutants_exist() -> None:
    listed = {name for name, _ in EQUIVALENT}
    of_listed = [rule for rule in RULES if rule.id in listed]
    made = {
        (rule.id, mutant.what) for rule in of_listed for mutant in mutants(Path(rule.path).read_text("utf-8"))
    }
    assert set(EQUIVALENT) <= made


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.id not in MUTANTS], ids=lambda rule: rule.id)
def test_a_broken_rule_is_noticed(rule: Rule) -> None:
    every = list(mutants(Path(rule.path).read_text("utf-8")))
    found = judge(rule, RULES, every[:: -(-len(every) // 5) or 1])
    assert [(mutant.what, evidence) for mutant, evidence in found.survivors] == []


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
