"""Files of the user's in TOML: where a mistake stands, and what no reader can take."""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.base import tables
from onnxq.base.errors import UserError
from onnxq.base.tables import line_of, load


def by_lines(document: str, keys: tables.Keys) -> int:
    """The definition: the first lines that are TOML and hold `keys`, and the last ones before that do not."""
    lines = document.split("\n")

    def parse(count: int) -> tuple[int, Any]:
        while True:
            try:
                return count, tomllib.loads("\n".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                count -= 1

    def holds(data: Any) -> bool:
        try:
            for key in keys:
                data = data[key]
        except (KeyError, IndexError):
            return False
        return True

    last = bisect_left(range(len(lines)), True, key=lambda count: holds(parse(count)[1]))
    return parse(last - 1)[0] + 1


VALUES = (
    "1", "-0x1f".lstrip("-"), "1979-05-27", "true", '""', "''", '"["', "'#]'", r'"\"]\\"', "[]", "[[1], [2]]",
    "{ a = [1] }", '[\n  1, # ]"\n\n  "]",\n]', '"""\n[x]\n# "" \\"""\n"""', '"""a"""""',
    "'''\n[y]\nk = 1\n'''''", "'''\\'''",
    "[\n  { a = 1, b = [\n 2 ] },\n  '''\n]\n''' ]", '""""""', "''''''", '"""\\\n  x"""',
)  # fmt: skip
FILLING = ("", "\n", "# [c] = \"'\n", "   \n\n", "  # ]\n")


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Random TOML: tables, lists of tables, keys that are quoted or dotted, values of all kinds of ends."""
    parts, number = [], 0
    for _ in range(draw(st.integers(1, 6))):
        number += 1
        head = draw(st.sampled_from(["", "[t{}]\n", "[ 'a]{}' ]  # x\n", "[[list]]\n", '["]{}".b]\n']))
        parts.append(head.format(number) if number > 1 else "")
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            key = draw(st.sampled_from(["k{}", "'q#{}'", "d{}.e", '"]{}"'])).format(number)
            parts.append(draw(st.sampled_from(FILLING)))
            parts.append(f"{key} = {draw(st.sampled_from(VALUES))}{draw(st.sampled_from(['', '  # [']))}\n")
    document = "".join(parts)
    return document if draw(st.booleans()) else document.rstrip("\n")


def ways(data: Any) -> list[tables.Keys]:
    """The ways to all values."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [way for key, value in entries for way in [(key,), *((key, *rest) for rest in ways(value))]]


@settings(max_examples=60, deadline=None)
@given(documents())
def test_a_line_is_that_of_the_definition(document: str) -> None:
    for keys in [*ways(tomllib.loads(document)), ("nowhere",)]:
        assert line_of(document, keys) == by_lines(document, keys), keys


def test_a_file_without_what_it_needs_is_wrong_from_its_first_line() -> None:
    assert line_of("a = 1\nb = 2\n", ()) == 1


@pytest.mark.parametrize("form", ["statements", "list"])
def test_a_long_file_is_parsed_few_times(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f'[[layer]]\nnode = "n{i}"' for i in range(2500)]
    document, keys = "\n".join(rows), ("layer", 2000, "node")
    if form == "list":
        document, keys = "first = 1\nlong = [\n" + "  1,\n" * 5000 + "]\nlast = 2\n", ("long",)
    parsed: list[int] = []
    loads = tomllib.loads
    monkeypatch.setattr(tables.tomllib, "loads", lambda text: parsed.append(len(text)) or loads(text))
    assert line_of(document, keys) == (4002 if form == "statements" else 2)
    assert len(parsed) <= 14  # binary digits of 5,000, and one


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 20_000 + "]" * 20_000, "has values inside of values, too many"),
        ("a = " + "9" * 100_000, "is not TOML: .*4300 digits"),
    ],
)
def test_what_python_cannot_take(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=says):
        load(path, lambda data, _: data)
