"""Rules broken in every small way: do their own examples and the proof notice?

`python -m benchmarks.mutants [RULE ...]` makes the mutants of the built-in rules from their syntax trees (a
swapped comparison, a constant off by one, a dropped guard, swapped branches, a negated condition, another
operator or attribute), runs each against the rule's examples, and prints the counts and what survives.
`--rules DIR` takes the rules of your own folder. `--json FILE` adds one line for each rule as it is done.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxq.errors import UserError, unknown_name
from onnxq.graph.model import Model
from onnxq.pipeline.examples import check_example
from onnxq.rewrite.engine import rewrite
from onnxq.rewrite.text import same_text, text_of
from onnxq.rule.api import Assuming, Close, Example, Except, Fires, Node, Rule, Within
from onnxq.rule.examples import opened
from onnxq.rule.load import builtin_dir, load_rules

_SECONDS = 20  # a mutant that takes longer does not end

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_OPERATORS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Less": "LessOrEqual",
    "Greater": "GreaterOrEqual",
    "GreaterOrEqual": "Greater", "Max": "Min", "Min": "Max", "Squeeze": "Unsqueeze", "Unsqueeze": "Squeeze",
    "ReduceSum": "ReduceMax", "ReduceMean": "ReduceMax", "Softmax": "LogSoftmax", "And": "Or", "Or": "And",
}  # fmt: skip

_BOTH = "an Add has both its inputs"
_LENGTHS = "lengths are only compared: what all have more makes no difference"
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "movement_keeps_scale",
        "node.op == 'Pad' and node.attr('mode') == 'constant' -> "
        "node.attr('mode') == 'constant' and node.attr('mode') == 'constant'",
    ): "none of the other operators has a mode of that name",
    ("movement_keeps_scale", "3 -> 4"): "a fourth input is not looked at",
    (
        "movement_keeps_scale",
        "filled is None or bool(filled != 0) -> bool(filled != 0) or bool(filled != 0)",
    ): "None is not 0 either",
    ("quantize_weighted", "t is not None and t.is_constant -> t.is_constant and t.is_constant"): _BOTH,
    (
        "quantize_weighted",
        "not user.domain and (moves or biased or cut) -> "
        "(moves or biased or cut) and (moves or biased or cut)",
    ): "onnxruntime has no operator of another domain of these names",
    (
        "residual_add",
        "one is None or other is None or one.is_constant or other.is_constant -> "
        "other is None or one.is_constant or other.is_constant",
    ): _BOTH,
    (
        "residual_add",
        "one is None or other is None or one.is_constant or other.is_constant -> "
        "one is None or one.is_constant or other.is_constant",
    ): _BOTH,
    ("residual_add", "0 -> 1 #6"): _LENGTHS,
    ("residual_add", "1 -> 2 #11"): _LENGTHS,
}
"""Mutants that do what their rule does, and why."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule file with one change.

    Attributes:
        kind: what was changed.
        what: the piece before and after, and its place among equal ones.
        text: the whole file.
    """

    kind: str
    what: str
    text: str


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of a rule file: of the rule's function and of what it uses, not of its examples."""
    tree = ast.parse(text)
    count: dict[str, int] = {}
    for node in list(_parts(tree)):
        before = _short(ast.unparse(node))
        for kind, fields in list(_changes(node)):
            own = {name: getattr(node, name) for name in fields}
            _put(node, fields)
            what = f"{before} -> {_short(ast.unparse(node))}"
            changed = ast.unparse(tree)
            _put(node, own)
            seen = count[what] = count.get(what, 0) + 1
            yield Mutant(kind, what if seen == 1 else f"{what} #{seen}", changed)


def _put(node: ast.AST, fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        setattr(node, name, value)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else line[:67] + "..."


def _parts(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that may change: of the functions and constants that the rule needs."""
    named: dict[str, list[ast.stmt]] = {}
    todo: list[str] = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            named[statement.name] = [statement]
            todo += [statement.name] if statement.decorator_list else []
        elif isinstance(statement, ast.Assign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for name in (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                named.setdefault(name, []).append(statement)
    needed: dict[str, None] = {}
    while todo:
        name = todo.pop()
        if name in named and name not in needed:
            needed[name] = None
            todo += [n.id for part in named[name] for n in ast.walk(part) if isinstance(n, ast.Name)]
    done: set[int] = set()
    for statement in (statement for name, parts in named.items() if name in needed for statement in parts):
        if id(statement) not in done:
            done.add(id(statement))
            yield from _inside(statement)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without annotations, decorators, texts for the user and docstrings."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns", "args") and isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.AnnAssign) and name == "annotation":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield from _inside(child)


def _is_text(node: ast.AST) -> bool:
    """What only the user reads."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.keyword):
        return node.arg in ("because", "strict")  # `strict` only asserts
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value


def _changes(node: ast.AST) -> Iterator[tuple[str, dict[str, object]]]:
    """Each way to change a node: its kind, and the fields that are others then."""

    def put(kind: str, **fields: object) -> tuple[str, dict[str, object]]:
        return kind, fields

    if isinstance(node, ast.Compare):
        for index, sign in enumerate(node.ops):
            swapped = _COMPARISONS.get(type(sign))
            if swapped is not None:
                yield put("comparison", ops=[*node.ops[:index], swapped(), *node.ops[index + 1 :]])
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        yield put("constant", value=node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield put("constant", value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield put("name", value="nothing")
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield put("negated", test=ast.UnaryOp(ast.Not(), node.test))
        if isinstance(node, ast.IfExp):
            yield put("branches", body=node.orelse, orelse=node.body)
        elif isinstance(node, ast.If):
            yield put("guard", test=ast.Constant(False))
            yield put("guard", test=ast.Constant(True))
            if node.orelse:
                yield put("branches", body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.BoolOp):
        yield put("condition", op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            yield put("condition", values=rest if len(rest) > 1 else [rest[0], rest[0]])
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield put("arithmetic", op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield put(
            "sign", op=ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not(), operand=_undone(node)
        )
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "op":
        yield put("operator", attr=_OPERATORS.get(node.attr, "Identity"))
    elif isinstance(node, ast.Call):
        for index, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, "because", "dtype", "strict"):
                yield put("attribute", keywords=[*node.keywords[:index], *node.keywords[index + 1 :]])
        plain = not any(isinstance(arg, ast.Starred) for arg in node.args[:2])
        if len(node.args) == 2 and plain and not _is_fixed(node):
            yield put("operands", args=node.args[::-1])
    elif isinstance(node, ast.comprehension):
        for index in range(len(node.ifs)):
            yield put("guard", ifs=[*node.ifs[:index], *node.ifs[index + 1 :]])


def _undone(node: ast.UnaryOp) -> ast.expr:
    return node.operand if isinstance(node.op, ast.USub) else ast.UnaryOp(ast.Not(), node.operand)


def _is_fixed(node: ast.Call) -> bool:
    """Whether swapping the two arguments of a call changes nothing, or would only fail to run."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name in ("isinstance", "getattr", "operands", "range", "attr", "Add", "Mul", "max", "min")


@dataclass(slots=True)
class Found:
    """What became of the mutants of a rule: how many are wrong, what nothing notices, how many are equal."""

    rule: str
    total: int
    survivors: list[Mutant]
    equal: int
    kinds: dict[str, int]
    seconds: float


def judge(rule: Rule, rules: Sequence[Rule], chosen: Sequence[Mutant] | None = None) -> Found:
    """Runs mutants of a rule against its examples, all by default."""
    every = list(mutants(Path(rule.path).read_text("utf-8"))) if chosen is None else list(chosen)
    start = time.monotonic()
    kinds: dict[str, int] = {}
    sound = _traces(rule, rules)
    with tempfile.TemporaryDirectory() as folder:
        for helper in Path(rule.path).parent.glob("_*.py"):
            shutil.copy(helper, folder)
        survivors = []
        wrong = [mutant for mutant in every if (rule.id, mutant.what) not in EQUIVALENT]
        for mutant in wrong:
            kinds[mutant.kind] = kinds.get(mutant.kind, 0) + 1
            if not _noticed(rule, mutant, Path(folder), rules, sound):
                survivors.append(mutant)
    return Found(rule.id, len(wrong), survivors, len(every) - len(wrong), kinds, time.monotonic() - start)


def _noticed(
    rule: Rule, mutant: Mutant, folder: Path, rules: Sequence[Rule], sound: Sequence[object]
) -> bool:
    """Whether an example fails, or the file does not load, in a process that may crash or hang."""
    (folder / f"{rule.id}.py").write_text(mutant.text, "utf-8")
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] != 0
    try:
        signal.alarm(_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        _check(_loaded(folder), rules, sound)
        os._exit(0)
    except BaseException:
        os._exit(1)


def _check(rule: Rule, rules: Sequence[Rule], sound: Sequence[object]) -> None:
    """Checks the examples in which a rule does something else than it should; no others can fail."""
    others = [other for other in rules if other.id != rule.id]
    traces = _traces(rule, [*others, rule])
    if len(traces) != len(sound):
        raise UserError("other examples")
    unlike = [
        e for e, now, was in zip(rule.examples, traces, sound, strict=True) if now != was or now is None
    ]
    for example in sorted(unlike, key=lambda e: not getattr(e, "becomes", "")):
        check_example(rule, example, [*others, rule])


def _traces(rule: Rule, rules: Sequence[Rule]) -> list[object]:
    """What a rule does in each of its examples and says of it, before any proof; None for placement rules."""
    return [None if rule.stage == "place" else _trace(rule, example, rules) for example in rule.examples]


def _trace(rule: Rule, example: Example, rules: Sequence[Rule]) -> object:
    said: list[object] = []

    def spied(node: Node) -> object:
        answer = claim = rule.function(node)
        while isinstance(claim, Assuming | Close | Except | Within):
            fields = dataclasses.fields(claim)
            told = {
                f.name: getattr(claim, f.name)
                for f in fields
                if f.name in ("but", "steps", "dim", "size", "why")
            }
            said.append((node.name, type(claim).__name__, told))
            claim = claim.results
        return answer

    model = opened(example)
    chosen = [
        dataclasses.replace(rule, function=spied),
        *(other for other in rules if other.id in example.after),
    ]
    if isinstance(example, Fires):
        model.assumed.update(example.assume)
    found: list[object] = []
    for _ in range(2):  # a second run must change nothing
        before = model.to_proto()
        report = rewrite(model, chosen, lambda feature: True, prove="never")
        changes = [(change.rule, change.node) for change in report.changes]
        refused = [(change.node, change.proof.why) for change in report.rejected]
        proto = model.to_proto()
        found += [changes, refused, report.near_misses, proto.SerializeToString(deterministic=True)]
        stated = example.becomes if isinstance(example, Fires) and len(found) == 4 else ""
        if stated and not same_text("\n".join(text_of(proto, before)), stated):
            raise UserError("another graph")  # whatever the proof says
        model = Model.open(proto)
    return [*found, said]


def _loaded(folder: Path) -> Rule:
    from onnxq.rule import load

    (broken,) = load._load_folder(folder)
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the counts; 1 where something survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="RULE", help="names of rules, all by default")
    parser.add_argument("--rules", type=Path, metavar="DIR", help="your folder, not the built-in rules")
    parser.add_argument("--json", type=Path, help="a file to add a line to for each rule")
    given = parser.parse_args(arguments)
    rules = load_rules() if given.rules is None else load_rules((given.rules,))
    folder = builtin_dir() if given.rules is None else given.rules
    chosen = [rule for rule in rules if Path(rule.path).resolve().parent == folder.resolve()]
    for name in given.names:
        if all(rule.id != name for rule in chosen):
            parser.error(str(unknown_name("rule", name, [rule.id for rule in chosen])))
    total = alive = 0
    for rule in chosen:
        if given.names and rule.id not in given.names:
            continue
        found = judge(rule, rules)
        total, alive = total + found.total, alive + len(found.survivors)
        print(
            f"{rule.id}: {found.total - len(found.survivors)} of {found.total}, {found.equal} equivalent, "
            f"{found.seconds:.0f} s",
            flush=True,
        )
        for mutant in found.survivors:
            print(f"    {mutant.kind}: {mutant.what}", flush=True)
        if given.json is not None:
            line = {
                "rule": rule.id,
                "total": found.total,
                "kinds": found.kinds,
                "survivors": [[mutant.kind, mutant.what] for mutant in found.survivors],
            }
            with given.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    print(f"{total - alive} of {total} mutants noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
