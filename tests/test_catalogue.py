"""The words of reasons: each call has a row whose texts it fills in, and each row a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from onnxq.base.catalogue import Fact, table
from onnxq.base.reason import Reason, reason

PACKAGE = Path(__file__).resolve().parent.parent / "onnxq"
COMPUTED = {f"range.{kind}{where}" for kind in ("fp16", "bf16") for where in ("", "-in-use")}
"""Codes that are no literal where a reason is given."""


def rows() -> Iterator[tuple[str, str]]:
    """Each code that has a text, and the text."""
    for row, texts in table("reasons").items():
        for name, text in texts.items():
            yield (row, text) if isinstance(text, str) else (f"{row}.{name}", text["says"])


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


ROWS = dict(rows())
PARSED = [ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]


def calls() -> Iterator[tuple[str, set[str]]]:
    """The codes and the values of all reasons that are given with a code in the call."""
    for tree in PARSED:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reason":
                values = {one.arg for one in node.keywords if one.arg is not None}
                first: Any = node.args[0]
                for one in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
                    if isinstance(one, ast.Constant):
                        yield one.value, values


def test_each_reason_has_a_row_and_gives_its_values() -> None:
    found = list(calls())
    assert len(found) > 70
    for code, values in found:
        assert code in ROWS, f"{code!r} has no row in reasons.toml"
        assert fields(ROWS[code]) <= values, f"{code!r} lacks a value of its text"


def test_each_row_is_given() -> None:
    literals = {
        node.value
        for tree in PARSED
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert ROWS.keys() - literals - COMPUTED == set()
    assert ROWS.keys() >= COMPUTED


def test_a_reason_reads_as_its_text_and_has_its_row_as_code() -> None:
    found = reason("constant.zero", "user", dtype="float16")
    assert isinstance(found, Reason)
    assert (found, found.code, found.by) == (
        "it divides by a constant that is 0 in float16",
        "constant",
        "user",
    )


def test_a_form_has_the_texts_of_its_row_where_it_has_none_of_its_own() -> None:
    assert Fact("odd-type").text("checks", "no such part") == ""
    assert Fact("constant.zero", values={"dtype": "x"}).text("reasons") != Fact(
        "constant", values={"amax": 1.0, "percent": 2.0, "dtype": "x"}
    ).text("reasons")
    with pytest.raises(KeyError):
        Fact("constant", values={"amax": 1.0}).text("reasons")
    with pytest.raises(KeyError):
        Fact("no-such-row").text("reasons")
