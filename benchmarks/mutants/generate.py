"""Every small way in which a rule can be broken, from its syntax tree."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
    plain = ast.unparse(tree)
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
            if changed == plain:
                continue  # two equal arguments, swapped
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
            if isinstance(child, ast.AST) and not _is_text(child) and not _is_budget(child):
                yield from _inside(child)


def _is_operands(node: object) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "operands"
    )


def _is_budget(node: ast.AST) -> bool:
    """So many bytes or elements at most, as `1 << 26`: no model as small as an example comes near."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.LShift):
        return False
    one, places = node.left, node.right
    return (
        isinstance(one, ast.Constant) and isinstance(places, ast.Constant)
        and one.value == 1 and places.value in range(22, 31)
    )  # fmt: skip


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
    return name in (
        "isinstance", "getattr", "operands", "range", "attr", "Add", "Mul", "max", "min", "array_equal"
    )  # fmt: skip
