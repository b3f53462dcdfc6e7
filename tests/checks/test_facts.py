"""What checks find and what the catalogue says of it fit: no fact without words, no words without a fact."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from onnxq.base.catalogue import table
from onnxq.checks import each

ROWS = table("checks")
FOLDER = Path(each.__file__).parent
FILES = [*FOLDER.glob("*.py"), FOLDER.parent / "own.py", FOLDER.parent / "load.py"]

MADE = {"f'own-check.{check.needs}'": ("own-check.pairs", "own-check.data", "own-check.engine")}
"""Codes that are no texts of their file."""
NO_FACTS = ("check(", "stated(", "CHECKS[", "ORDER =")
"""How that begins which names checks, and gives nothing of them."""
OF_FINDINGS = {"db", "confirmed", "severity"}
"""Values that are a finding's own, whether a text has them or not."""


def texts_in(node: ast.AST) -> Iterator[str]:
    """The texts of a file, but those of what a check, a condition or the order of checks is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif ast.unparse(node) in MADE:
        yield from MADE[ast.unparse(node)]
    elif not isinstance(node, ast.Compare) and not ast.unparse(node).startswith(NO_FACTS):
        for child in ast.iter_child_nodes(node):
            yield from texts_in(child)


def codes_in(tree: ast.AST) -> set[str]:
    """The codes of a file, and the `.form`s that it puts behind rows."""
    found = (text for text in texts_in(tree) if re.fullmatch(r"[a-z0-9-]*(\.[a-z0-9-]+)*", text))
    return {text for text in found if text[:1] == "." or row_of(text) in ROWS}


def row_of(code: str) -> str:
    return code.partition(".")[0]


def values_of(texts: Mapping[str, Any]) -> set[str]:
    """The values that the texts of a row, and of its forms, name."""
    own = "".join(texts.get(part, "") for part in ("says", "so", "do"))
    named = {name for _, name, _, _ in string.Formatter().parse(own) if name}
    return named.union(*(values_of(form) for form in texts.values() if isinstance(form, Mapping)))


def keys_in(*nodes: ast.AST) -> set[str]:
    """The names in what is written as a mapping."""
    dicts = [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Dict)]
    return {key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant)}


def checks_in(source: str) -> Iterator[str]:
    """Each check of a file with what else of the file it names; all of a file that has no check."""
    tops = {name: node for node in ast.parse(source).body for name in names_of(node)}
    checks = [name for name, node in tops.items() if ast.unparse(node).startswith("@check(")]
    for check in checks:
        used, new = set[str](), {check}
        while new:
            used |= new
            names = {one.id for at in new for one in ast.walk(tops[at]) if isinstance(one, ast.Name)}
            new = (names & tops.keys()) - used
        yield "\n".join(ast.unparse(tops[name]) for name in sorted(used))
    if not checks:
        yield source


def names_of(node: ast.AST) -> list[str]:
    """The names that a statement of a file gives."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [one.id for one in targets if isinstance(one, ast.Name)]


def faults(source: str) -> Iterator[str]:
    """What does not fit between the facts of a file and their rows."""
    tree = ast.parse(source)
    codes = codes_in(tree)
    rows = {row_of(code) for code in codes} - {""}
    forms = {form for code in codes for form in code.split(".")[1:]}
    values = set[str]().union(*(values_of(ROWS[row]) for row in rows))
    for row in rows:
        named = {key for key, text in ROWS[row].items() if isinstance(text, Mapping)}
        yield from (f"nothing gives [{row}.{form}]" for form in named - forms)
    for code in codes:
        row, *parts = code.split(".")
        of = [ROWS[row]] if row else [ROWS[one] for one in rows]
        yield from (f"{code!r} has no row" for form in parts if not any(form in one for one in of))
        if not any("says" in one for one in (*of, *(one.get(form, {}) for one in of for form in parts))):
            yield f"{code!r} says nothing"
    yield from (f"{sorted(rows)} are given no {name!r}" for name in values - keys_in(tree))
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Fact", "of_pair"):
            first, *others = [*call.args, *(one.value for one in call.keywords)]
            heads = {row_of(text) for text in texts_in(first)} - {""}
            yield from (f"{head!r} has no row" for head in heads - ROWS.keys())
            more = keys_in(*others) - values - OF_FINDINGS
            yield from (f"no text of {sorted(rows)} names {name!r}" for name in more)


def test_each_fact_has_its_row_and_each_row_its_fact() -> None:
    sources = {path.name: path.read_text("utf-8") for path in FILES}
    found = [
        f"{name}: {fault}"
        for name, source in sources.items()
        for one in checks_in(source)
        for fault in faults(one)
    ]
    given = {row_of(code) for source in sources.values() for code in codes_in(ast.parse(source))}
    found += [f"nothing gives [{row}]" for row in ROWS.keys() - given]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("Fact('concat-scale')", "'concat-scale' has no row"),
        ("Fact('unfused.red')", "'unfused.red' has no row"),
        ("Fact('parser' + ('.late' if x else '.skip'))", "'.late' has no row"),
        ("Fact('odd-type', values={'nodes': 1})", "'odd-type' says nothing"),
        ("Fact('runtime', values={'message': 1})", "nothing gives [runtime.mended]"),
        ("Fact('idle-pair')", "['idle-pair'] are given no 'ops'"),
        ("Fact('uint8', values={'ops': 1})", "no text of ['uint8'] names 'ops'"),
    ],
)
def test_what_does_not_fit_is_named(source: str, fault: str) -> None:
    assert fault in list(faults(source))
