"""The words of what is found: each code has a row whose text it fills in, and each row is given somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from string import Formatter
from typing import Any, get_args

import pytest
from trees import FILES, TREES

from onnxq.advice.causes import _OF_SCALES
from onnxq.base.catalogue import Fact, table
from onnxq.base.reason import Reason, reason
from onnxq.rule.api import But
from onnxq.task.measures import FigureKind

MADE_BY = {
    "reason": "reasons",
    "NoFit": "reasons",
    "noted": "notes",
    "say": "screens",
    "doubt": "samples",
    "self._refused": "layouts",
    "cause": "answers",
    "advised": "answers",
    "_refusal": "refusals",
    "_of_pictures": "notes",
}
"""Who gives a code, and the file of its rows."""

SAID = ("says", "test", "do")
FIELDS_OF_ROWS = ("seen", "cause", "repair", "costs", *SAID, "if-scores", "if-boxes")

SHARDS = ("counting", "samples", "available", "seed", "shapes", "images", "chosen", "sizes")
COMPUTED = {
    "answers": {f"layer-{code}" for code in _OF_SCALES},
    "notes": {f"equal-but.{one}" for one in get_args(But)},
    "reasons": {f"range.{kind}{where}" for kind in ("fp16", "bf16") for where in ("", "-in-use")},
    "screens": {
        *(f"costs.{one}" for one in ("macs", "bytes", "given")),
        *(f"died.{one}" for one in ("SIGFPE", "SIGBUS")),
        *(f"drawn.{one}" for one in ("map", "heat", "classes", "mask", "colors", "channels")),
        *(f"shards-differ.{one}" for one in SHARDS),
        *(f"weights-against.{one}" for one in ("file", "grid", "nothing")),
    },
    "samples": {
        *(f"{code}-{of}" for of in ("images", "arrays") for code in (
            "normalized-twice.of-bytes", "normalized-twice.of-units", "unnormalized.by-model",
        )),
        *(f"preparation.{form}" for form in ("places", "again", "boxes", "classes", "order")),
    },
}  # fmt: skip
"""Codes that are no literal where they are given."""


def rows(file: str) -> Iterator[tuple[str, str]]:
    """Each code that has a text, and the text."""
    for row, texts in table(file).items():
        forms = {f".{name}": texts | texts[name] for name in texts if name not in FIELDS_OF_ROWS}
        for form, said in {"": texts, **forms}.items():
            if any(part in said for part in SAID):
                yield row + form, "".join(said.get(part, "") for part in SAID)


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


ROWS = {file: dict(rows(file)) for file in dict.fromkeys([*MADE_BY.values(), "files", "documents", "steps"])}
PARSED = [TREES[path] for path in FILES]


def calls() -> Iterator[tuple[str, str, set[str] | None]]:
    """The file and the code of all that is given with a code in the call; its values where these are, too."""
    for tree in PARSED:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (file := MADE_BY.get(ast.unparse(node.func))):
                names = [one.arg for one in node.keywords]
                values = None if None in names else {"input", *filter(None, names)}
                first: Any = node.args[0]
                for one in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
                    if isinstance(one, ast.Constant):
                        yield file, one.value, values


def test_each_code_has_a_row_and_gives_its_values() -> None:
    found = list(calls())
    assert len(found) > 90
    for file, code, values in found:
        assert code in ROWS[file], f"{code!r} has no row in {file}.toml"
        if values is not None:
            assert fields(ROWS[file][code]) <= values, f"{code!r} lacks a value of its text"


@pytest.mark.parametrize("file", ROWS)
def test_each_row_is_given(file: str) -> None:
    literals = {
        node.value
        for tree in PARSED
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    left = ROWS[file].keys() - literals - COMPUTED.get(file, set())
    parts = {code: {code.partition(".")[0], re.sub(r"^[^.]*", "", code)} for code in left}
    assert not [code for code, both in parts.items() if not both <= literals]
    assert COMPUTED.get(file, set()) <= ROWS[file].keys()


def test_each_kind_of_figure_has_its_words() -> None:
    assert set(table("figures")) == set(get_args(FigureKind))


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
