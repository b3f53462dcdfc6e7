"""Rules broken in every small way: do their own examples and the proof notice?

`python -m benchmarks.mutants [RULE ...]` makes the mutants of the built-in rules from their syntax trees (a
swapped comparison, a constant off by one, a dropped guard, swapped branches, a negated condition, another
operator or attribute), and runs each against the rule's examples. Four columns:

- noticed: an example fails, or the file does not load;
- equivalent: listed in `EQUIVALENT`, with the reason;
- right too: no example notices it, and on a pool of models (all examples, neighbours of the rule's own that
  differ in one place, random graphs) nothing is wrong. Either it answers otherwise on some of them and the
  proof shows every such change to be right, with half the bound to spare; or what it changes has another
  value on at least three of them, and the answers are the same on all;
- survivors: the rest: a model of the pool shows that it is wrong, or says or does less, or no model of the
  pool reaches it.

What counts is noticed / (noticed + survivors). `--rules DIR` takes the rules of your own folder;
`--json FILE` adds one line for each rule as it is done.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import copy
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

from onnxq.errors import OnnxqError, UserError, unknown_name
from onnxq.graph.model import Model
from onnxq.pipeline.examples import check_example
from onnxq.rewrite.engine import Prove, RewriteReport, rewrite
from onnxq.rewrite.text import same_text, text_of
from onnxq.rewrite.whole import WholeModel
from onnxq.rule.api import (
    ANY,
    Assuming,
    Close,
    Example,
    Except,
    Fires,
    Node,
    Rule,
    Skip,
    Tensor,
    Value,
    Within,
)
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
        "fold_constants",
        "not more and node.op in COMPUTED and (not node.domain) and (str(out... -> "
        "node.op in COMPUTED and (not node.domain) and (str(out.dtype) in TY...",
    ): "none of these operators has several outputs",
    ("deconv3d_symmetric", "3 -> 4 #6"): "an axis more is not looked at, and all have the same number",
    ("deconv3d_symmetric", "1 -> 2 #15"): "numpy takes any negative size of a reshape as the one to find",
    ("affine_batchnorm", "1 -> 2 #3"): "numpy takes any negative size of a reshape as the one to find",
    (
        "gather_elements_to_gather",
        "_known(data, 0) or 1 -> _known(data, 0) or _known(data, 0)",
    ): "None counts as NaN, which is not too many either",
    (
        "gather_elements_to_gather",
        "isinstance(value, np.ndarray) and isinstance(offsets, np.ndarray) -> "
        "isinstance(value, np.ndarray) and isinstance(value, np.ndarray)",
    ): "of a constant index all sizes are known, so that its offsets are constants",
    (
        "movement_keeps_scale",
        "node.op == 'Pad' and node.attr('mode') == 'constant' -> "
        "node.attr('mode') == 'constant' and node.attr('mode') == 'constant'",
    ): "none of the other operators has a mode of that name",
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
        probe: makes a file that tells of each value that is another in the mutant; "" where none can.
    """

    kind: str
    what: str
    text: str
    probe: Callable[[], str] = str


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
            after = {name: getattr(node, name) for name in fields}
            _put(node, own)
            probe = functools.partial(_probed, tree, node, own, after)
            seen = count[what] = count.get(what, 0) + 1
            yield Mutant(kind, what if seen == 1 else f"{what} #{seen}", changed, probe)


def _probed(tree: ast.Module, node: ast.AST, own: Mapping[str, object], after: Mapping[str, object]) -> str:
    """The file with `_both(lambda: old, lambda: new)` for the whole expression in which something changes.

    Returns:
        "" where that would be another program.
    """
    statements = (part for part in ast.walk(tree) if isinstance(part, ast.stmt))
    wholes = [
        (statement, name, value)
        for statement in statements
        for name, value in ast.iter_fields(statement)
        if isinstance(value, ast.expr)
        and (any(part is node for part in ast.walk(value)) or (statement is node and name == "test"))
    ]
    if not wholes:
        return ""
    statement, name, value = wholes[-1]
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(value)):
        return ""
    old = copy.deepcopy(value)
    _put(node, after)
    new = copy.deepcopy(getattr(statement, name))
    _put(node, own)
    setattr(statement, name, _both_of(old, new))
    text = ast.unparse(tree)
    setattr(statement, name, value)
    return text


def _both_of(old: ast.expr, new: ast.expr) -> ast.Call:
    none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Call(ast.Name("_both"), [ast.Lambda(none, old), ast.Lambda(none, new)], [])


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
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and _is_operands(value):
            yield value
            continue  # `operands(3)[2]` is `operands(4)[2]`
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield from _inside(child)


def _is_operands(node: object) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "operands"
    )


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
            if keyword.arg not in (None, "because", "dtype", "strict", "over", "all"):
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
    """What became of the mutants of a rule.

    Attributes:
        rule: its name.
        total: all mutants.
        equal: those that are listed as equivalent.
        right: those that nothing shows to be wrong, and what shows them to be right.
        survivors: those that are wrong, or may be, and that no example notices; and what is known of them.
        kinds: how many of each kind there are.
        seconds: how long it took.
    """

    rule: str
    total: int
    equal: int
    right: list[tuple[Mutant, str]]
    survivors: list[tuple[Mutant, str]]
    kinds: dict[str, int]
    seconds: float

    @property
    def noticed(self) -> int:
        """How many fail an example, or do not load."""
        return self.total - self.equal - len(self.right) - len(self.survivors)


def judge(
    rule: Rule, rules: Sequence[Rule], chosen: Sequence[Mutant] | None = None, *, pool: bool = True
) -> Found:
    """Runs mutants of a rule against its examples, all by default.

    Args:
        rule: the rule.
        rules: all rules.
        chosen: the mutants.
        pool: whether what no example notices is compared with the rule on a pool of models.
    """
    every = list(mutants(Path(rule.path).read_text("utf-8"))) if chosen is None else list(chosen)
    start = time.monotonic()
    found = Found(rule.id, len(every), 0, [], [], {}, 0.0)
    sound = _traces(rule, rules)
    entries: list[Entry] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for helper in Path(rule.path).parent.glob("_*.py"):
            shutil.copy(helper, folder)
        for mutant in every:
            found.kinds[mutant.kind] = found.kinds.get(mutant.kind, 0) + 1
            if (rule.id, mutant.what) in EQUIVALENT:
                found.equal += 1
            elif _in_child(Path(folder), rule, mutant.text, lambda r: _check(r, rules, sound)) is not None:
                if entries is None:
                    entries = pool_of(rule, rules) if pool else []
                evidence = evidence_of(rule, mutant, Path(folder), rules, entries)
                (found.right if evidence.startswith("right") else found.survivors).append((mutant, evidence))
    found.seconds = time.monotonic() - start
    return found


def _in_child(folder: Path, rule: Rule, text: str, look: Callable[[Rule], object]) -> Any:
    """What is seen of a rule's text in a process of its own; None where it fails, crashes or does not end."""
    (folder / f"{rule.id}.py").write_text(text, "utf-8")
    answer = folder.with_name(folder.name + ".answer")
    child = os.fork()
    if child:
        ended = os.waitpid(child, 0)[1] == 0
        return json.loads(answer.read_text("utf-8")) if ended else None
    try:
        signal.alarm(_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        answer.write_text(json.dumps(look(_loaded(folder)) or 0), "utf-8")
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


@dataclass(slots=True)
class Entry:
    """A model of the pool, and what a rule says of its nodes.

    Attributes:
        proto: the model.
        model: it, opened.
        example: what is stated beside it.
        nodes: those that the rule looks at.
        answers: what it says of each.
    """

    proto: onnx.ModelProto
    model: Model
    example: Example | None
    nodes: list[Node]
    answers: list[str]


def pool_of(rule: Rule, rules: Sequence[Rule]) -> list[Entry]:
    """Models on which a rule and its mutants are compared, with its own examples' neighbours among them."""
    small = [(proto, e) for e in rule.examples if (proto := _proto_of(e)).ByteSize() <= _BYTES]
    own = [(near, e) for proto, e in small for near in neighbours(proto)]
    seeds = [(_proto_of(e), e) for other in rules for e in other.examples]
    random = [(proto, None) for proto in _random_models()] if rule.stage != "place" else []
    entries: list[Entry] = []
    seen: set[bytes] = set()
    for proto, example in [*seeds, *own[:: -(-len(own) // _MOST) or 1], *random]:
        key = proto.SerializeToString(deterministic=True)
        if key in seen or len(key) > _BYTES:
            continue
        seen.add(key)
        try:
            model = Model.open(proto)
            if example is not None:
                model.limits = {**model.limits, **example.limits}
                model.assumed.update(getattr(example, "assume", {}))
                before = [other for other in rules if other.id in example.after and other.id != rule.id]
                if before:
                    rewrite(model, before, lambda feature: True, prove="never")
        except Exception:
            continue  # no model
        nodes = [Node(model, node) for graph in model.graphs() for node in graph.nodes]
        nodes = [
            n
            for n in nodes
            if (f"{n.domain}.{n.op}" if n.domain else n.op) in rule.roots or ANY in rule.roots
        ]
        if nodes:
            entries.append(Entry(proto, model, example, nodes, [answer_of(rule, node) for node in nodes]))
    return entries


def _proto_of(example: Example) -> onnx.ModelProto:
    return onnx.parser.parse_model(example.model) if isinstance(example.model, str) else example.model()


@functools.cache
def _random_models() -> list[onnx.ModelProto]:
    """The graphs of tests/rewrite/test_random_graphs.py, or others like them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rewrite"))
    import random_models
    from hypothesis import HealthCheck, given, settings

    made: list[onnx.ModelProto] = []
    quiet = list(HealthCheck)
    run = settings(
        max_examples=_RANDOM, derandomize=True, database=None, deadline=None, suppress_health_check=quiet
    )
    run(given(random_models.models())(lambda model: made.append(model)))()
    return made


_MOST, _RANDOM, _BYTES, _REACHED, _WRONG = 600, 40, 1 << 15, 3, 1
_OPSETS = (6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 21)
_TWINS = {
    "Add": ("Sub", "Mul"), "Mul": ("Div", "Add"), "Sub": ("Add",), "Div": ("Mul",),
    "Relu": ("Neg", "Identity"), "Identity": ("Neg", "Relu"), "Squeeze": ("Identity",), "Equal": ("Less",),
    "Conv": ("ConvTranspose",),
}  # fmt: skip


def neighbours(proto: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """A model, and those that differ from it in one place; not all of them are valid."""
    yield proto
    for number in _OPSETS:
        other = _copy(proto)
        for entry in other.opset_import:
            entry.version = entry.version if entry.domain else number
        yield other
    paths = [()] + [
        (index, place)
        for index, node in enumerate(proto.graph.node)
        for place, a in enumerate(node.attribute)
        if a.HasField("g")
    ]
    for path in paths:
        for change in _changes_of(_graph_at(proto, path), proto.graph):
            other = _copy(proto)
            with contextlib.suppress(IndexError, ValueError, OverflowError, TypeError):  # not possible here
                change(_graph_at(other, path), other.graph)
                yield other


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    del other.graph.value_info[:]
    return other


def _graph_at(proto: onnx.ModelProto, path: tuple[int, ...]) -> onnx.GraphProto:
    return proto.graph.node[path[0]].attribute[path[1]].g if path else proto.graph


Change = Callable[[onnx.GraphProto, onnx.GraphProto], object]


def _changes_of(graph: onnx.GraphProto, main: onnx.GraphProto) -> Iterator[Change]:
    """Ways to change a graph (or a body, in a main graph) in one place."""
    for i, node in enumerate(graph.node):
        for j, attribute in enumerate(node.attribute):
            if not attribute.HasField("g"):
                yield lambda g, m, i=i, j=j: g.node[i].attribute.pop(j)
            for k in range(len(attribute.ints)):
                for step in (1, -1):
                    yield lambda g, m, i=i, j=j, k=k, s=step: _step(g.node[i].attribute[j].ints, k, s)
            if attribute.ints:
                yield lambda g, m, i=i, j=j: g.node[i].attribute[j].ints.pop()
                yield lambda g, m, i=i, j=j: _fill(g.node[i].attribute[j].ints, 0)
            if attribute.type == onnx.AttributeProto.INT:
                for value in {attribute.i + 1, attribute.i - 1, 0, 1, -1} - {attribute.i}:
                    yield lambda g, m, i=i, j=j, v=value: setattr(g.node[i].attribute[j], "i", v)
            if attribute.type == onnx.AttributeProto.FLOAT:
                for number in (attribute.f * 2 + 1, 0.0, float("nan")):
                    yield lambda g, m, i=i, j=j, v=number: setattr(g.node[i].attribute[j], "f", v)
            if attribute.type == onnx.AttributeProto.TENSOR:
                for values in _values_near(onnx.numpy_helper.to_array(attribute.t)):
                    yield lambda g, m, i=i, j=j, v=values: g.node[i].attribute[j].t.CopyFrom(_tensor(v))
            if attribute.type == onnx.AttributeProto.STRING:
                for text in (b"SAME_LOWER", b"constant", b"edge", b"sum", b"linear", b"tanh", b"", b"VALID"):
                    yield lambda g, m, i=i, j=j, v=text: setattr(g.node[i].attribute[j], "s", v)
        for k, name in enumerate(node.input):
            yield lambda g, m, i=i, k=k: _set(g.node[i].input, k, "")
            yield lambda g, m, i=i, k=k: _read_through(g, i, k)
            for other in dict.fromkeys(n for n in node.input if n != name):
                yield lambda g, m, i=i, k=k, v=other: _set(g.node[i].input, k, v)
        yield lambda g, m, i=i: g.node[i].input.pop()
        for other in _TWINS.get(node.op_type, ()):
            yield lambda g, m, i=i, v=other: setattr(g.node[i], "op_type", v)
        for name in node.output if graph is main else ():
            yield lambda g, m, v=name: m.output.add(name=v)
            yield lambda g, m, v=name: (
                m.node.add(op_type="Identity", input=[v], output=["more"]),
                m.output.add(name="more"),
            )
        if len(node.output) == 1 and graph is main:
            for more in (1, 2, 3, 4):
                yield lambda g, m, i=i, n=more: _more_outputs(g, i, n)
    for i, tensor in enumerate(graph.initializer):
        values = onnx.numpy_helper.to_array(tensor)
        yield lambda g, m, i=i: _as_input(g, m, i)
        yield lambda g, m, i=i: m.input.add().CopyFrom(_info_of(g.initializer[i]))
        for new in _values_near(values):
            yield lambda g, m, i=i, v=new: g.initializer[i].CopyFrom(_tensor(v, g.initializer[i].name))
    for i, info in enumerate(graph.input if graph is main else ()):
        tensor_type = info.type.tensor_type
        for k in range(len(tensor_type.shape.dim)):
            for size in ("K", "N", 1, 2, 3, 4, 8, 0):
                yield lambda g, m, i=i, k=k, v=size: _resize(g.input[i].type.tensor_type.shape.dim[k], v)
        yield lambda g, m, i=i: g.input[i].type.tensor_type.ClearField("shape")
        yield lambda g, m, i=i: g.input[i].type.tensor_type.shape.dim.add(dim_value=2)
        yield lambda g, m, i=i: g.input[i].type.tensor_type.shape.dim.insert(
            0, onnx.TensorShapeProto.Dimension(dim_value=1)
        )
        if tensor_type.shape.dim:
            yield lambda g, m, i=i: g.input[i].type.tensor_type.shape.dim.pop()
        for kind in (1, 3, 6, 7, 9, 10, 11):
            yield lambda g, m, i=i, v=kind: setattr(g.input[i].type.tensor_type, "elem_type", v)
    for kind in (10, 11):  # all that is float becomes another type
        yield lambda g, m, v=kind: _retype(m, v)


def _tensor(values: np.ndarray, name: str = "") -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, order="C"), name)


def _step(items: Any, index: int, by: int) -> None:
    items[index] += by


def _set(items: Any, index: int, value: Any) -> None:
    items[index] = value


def _fill(items: Any, value: int) -> None:
    items[:] = [value] * len(items)


def _read_through(graph: onnx.GraphProto, index: int, place: int) -> None:
    """An Identity before an input: it is computed then."""
    node = onnx.helper.make_node("Identity", [graph.node[index].input[place]], ["through"])
    graph.node[index].input[place] = "through"
    graph.node.insert(index, node)


def _more_outputs(graph: onnx.GraphProto, index: int, count: int) -> None:
    graph.node[index].output.extend([""] * (count - 1) + ["second"])
    graph.output.add(name="second")


def _info_of(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _as_input(graph: onnx.GraphProto, main: onnx.GraphProto, index: int) -> None:
    main.input.add().CopyFrom(_info_of(graph.initializer[index]))
    graph.initializer.pop(index)


def _resize(dim: Any, size: int | str) -> None:
    dim.Clear()
    setattr(dim, "dim_param" if isinstance(size, str) else "dim_value", size)


def _retype(main: onnx.GraphProto, kind: int) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    for info in [*main.input, *main.output]:
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = kind
    for tensor in main.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(_tensor(onnx.numpy_helper.to_array(tensor).astype(dtype), tensor.name))


def _values_near(values: np.ndarray) -> Iterator[np.ndarray]:
    """Other values, shapes and types for a constant."""
    if values.size and values.dtype.kind in "iuf":
        yield values + values.dtype.type(1)
        yield values * values.dtype.type(0)
        if values.dtype.kind != "u":
            yield -values
            yield values - values.dtype.type(1)
        for number in (0, 1, 2, -1, 2**31 - 1, np.nan, np.inf, 1e30, -0.0):
            if values.dtype.kind == "f" or (number == number and -1 < number < 127):
                for place in {0, values.size - 1}:
                    other = values.copy()
                    other.reshape(-1)[place] = number
                    yield other
        yield values.astype(np.int32 if values.dtype.kind != "i" else np.float32)
        yield np.full_like(values, values.reshape(-1)[0])
    if values.dtype == bool:
        yield ~values
    yield values[np.newaxis]
    yield values[..., np.newaxis]
    if values.ndim:
        yield values[:1]
        yield values[1:]
        yield np.concatenate([values, values[:1]])
    if values.size == 1:
        yield values.reshape(())
        yield np.repeat(values.reshape(1), 2)


def answer_of(rule: Rule, node: Node) -> str:
    """What a rule says of a node, as text that is equal for equal answers."""
    try:
        answer = rule(node)
    except Skip as reason:
        return f"skip {reason}"
    except Exception as error:
        return f"raised {type(error).__name__}"
    return _told(answer, {})


def _told(value: Any, known: dict[int, str]) -> str:
    if isinstance(value, Tensor):
        return f"tensor {value.name}"
    if isinstance(value, Node):
        return f"node {value.name}"
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        return str({key: _told(item, known) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return str([_told(item, known) for item in value])
    if dataclasses.is_dataclass(value) or isinstance(value, Value):
        if id(value) not in known:
            known[id(value)] = f"#{len(known)}"
            names = (
                [f.name for f in dataclasses.fields(value)]
                if dataclasses.is_dataclass(value)
                else sorted(
                    {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
                    or vars(value)
                )
            )
            fields = [_told(getattr(value, name), known) for name in names if name != "_types"]
            known[id(value)] = hashlib.sha256(f"{type(value).__name__}{fields}".encode()).hexdigest()[:20]
        return known[id(value)]
    return f"{type(value).__name__} {value!r}"


def evidence_of(
    rule: Rule, mutant: Mutant, folder: Path, rules: Sequence[Rule], pool: Sequence[Entry]
) -> str:
    """What the pool says of a mutant that no example notices: begins with "right" where it shows it to be."""
    found = _in_child(folder, rule, mutant.text, lambda broken: _compared(rule, broken, rules, pool))
    if found is None:
        return "does not end"
    if found["wrong"]:
        return "a model of the pool shows that it is wrong"
    if found["right"]:
        return f"right: another answer on {found['right']} models, proved on all of them"
    probe = mutant.probe()
    if probe:
        told = _in_child(folder, rule, probe, lambda probed: _differing(probed, pool))
        if told is not None and told >= _REACHED:
            return f"right: other values on {told} models, the same answers on all {len(pool)}"
    return "nothing in the pool reaches it"


def _compared(rule: Rule, broken: Rule, rules: Sequence[Rule], pool: Sequence[Entry]) -> dict[str, Any]:
    """On which models a mutant is wrong, and on how many it is right in another way."""
    wrong: list[int] = []
    right = 0
    for index, entry in enumerate(pool):
        if [answer_of(broken, node) for node in entry.nodes] != entry.answers:
            found = _verdict(rule, broken, rules, entry)
            right += found is True
            if found is False:
                wrong.append(index)
                if len(wrong) >= _WRONG:
                    break
    return {"wrong": wrong, "right": right}


def _verdict(rule: Rule, broken: Rule, rules: Sequence[Rule], entry: Entry) -> bool | None:
    """Whether a mutant is right in a model; None where it does the same, or where there is no telling."""
    before = _run(rule, rules, entry, "never")
    if before is None or before[0].rejected:
        return None
    after = _run(broken, rules, entry, "never")
    if after is None or after[0].rejected:
        return False
    reports = (before[0], after[0])
    changed, broken_changed = ({change.node for change in report.changes} for report in reports)
    said, broken_said = ({miss.reason for miss in report.near_misses} for report in reports)
    if not changed <= broken_changed or not said <= broken_said | {""}:
        return False  # it does less, or says less
    if before[1] == after[1]:
        return None
    proved = _run(broken, rules, entry, "always")
    if proved is None or proved[0].rejected:
        return False
    proofs = [change.proof for change in proved[0].changes]
    if not all(p.holds and p.max_abs <= p.bound / 2 for p in proofs):
        return False
    again = Model.open(onnx.load_from_string(proved[1]))
    return not rewrite(again, [broken], lambda feature: True, prove="never").changes


def _run(rule: Rule, rules: Sequence[Rule], entry: Entry, prove: Prove) -> tuple[RewriteReport, bytes] | None:
    """Rewrites a model of the pool; None where onnxruntime does not load it, or the whole differs."""
    example = entry.example or Fires(lambda: entry.proto)
    try:
        model = opened(dataclasses.replace(example, model=lambda: entry.proto))
        model.assumed.update(getattr(example, "assume", {}))
        chosen = [rule, *(other for other in rules if other.id in example.after and other.id != rule.id)]
        whole = WholeModel(model) if prove != "never" else None
        report = rewrite(model, chosen, lambda feature: True, prove=prove, whole=whole)
    except OnnxqError:
        return None
    report.changes = [change for change in report.changes if change.rule == rule.id]
    return report, model.to_proto().SerializeToString(deterministic=True)


def _differing(probed: Rule, pool: Sequence[Entry]) -> int:
    """On how many models of the pool what a mutant changes has another value there."""
    count = 0
    for entry in pool:
        _OTHERS.clear()
        for node in entry.nodes:
            answer_of(probed, node)
        count += bool(_OTHERS)
    return count


_OTHERS: list[bool] = []


def _both(old: Callable[[], Any], new: Callable[[], Any]) -> Any:
    """The old value; notes whether the new one is another."""
    value = old()
    if not _OTHERS:
        try:
            other = _told(new(), {})
        except Exception:
            other = "raised"
        if other != _told(value, {}):
            _OTHERS.append(True)
    return value


def _loaded(folder: Path) -> Rule:
    from onnxq.rule import load

    (broken,) = load._load_folder(folder)
    return broken


builtins._both = _both  # type: ignore[attr-defined]  # for the probes


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the counts; 1 where something survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="RULE", help="names of rules, all by default")
    parser.add_argument("--rules", type=Path, metavar="DIR", help="your folder, not the built-in rules")
    parser.add_argument("--json", type=Path, help="a file to add a line to for each rule")
    given = parser.parse_args(arguments)
    rules = load_rules() if given.rules is None else load_rules((given.rules,))
    home = builtin_dir() if given.rules is None else given.rules
    chosen = [rule for rule in rules if Path(rule.path).resolve().parent == home.resolve()]
    for name in given.names:
        if all(rule.id != name for rule in chosen):
            parser.error(str(unknown_name("rule", name, [rule.id for rule in chosen])))
    every: list[Found] = []
    print(f"{'':28}{'all':>6}{'noticed':>9}{'equivalent':>12}{'right too':>11}{'survivors':>11}")
    for rule in chosen:
        if given.names and rule.id not in given.names:
            continue
        found = judge(rule, rules)
        every.append(found)
        _print(found.rule, [found])
        for name, kept in (("right too", found.right), ("survives", found.survivors)):
            for mutant, evidence in kept:
                print(f"    {name}: {mutant.kind}: {mutant.what} ({evidence})", flush=True)
        if given.json is not None:
            line = {
                "rule": rule.id,
                "total": found.total,
                "noticed": found.noticed,
                "equivalent": found.equal,
                "kinds": found.kinds,
                "right": [[mutant.kind, mutant.what, evidence] for mutant, evidence in found.right],
                "survivors": [[mutant.kind, mutant.what, evidence] for mutant, evidence in found.survivors],
            }
            with given.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    _print("all", every)
    noticed = sum(found.noticed for found in every)
    wrong = noticed + sum(len(found.survivors) for found in every)
    same = sum("the same answers" in evidence for found in every for _, evidence in found.right)
    print(f"{noticed} of {wrong} wrong mutants noticed: {noticed / max(wrong, 1):.1%}")
    print(f"({noticed / max(wrong + same, 1):.1%} if the {same} right ones of equal answers count too)")
    return 1 if noticed < wrong else 0


def _print(name: str, found: Sequence[Found]) -> None:
    counts = [[f.total, f.noticed, f.equal, len(f.right), len(f.survivors)] for f in found]
    sums = [sum(column) for column in zip(*counts, strict=True)] or [0] * 5
    print("{:28}{:>6}{:>9}{:>12}{:>11}{:>11}".format(name, *sums), flush=True)


if __name__ == "__main__":
    sys.exit(main())
