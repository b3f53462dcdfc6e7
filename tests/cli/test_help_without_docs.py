"""What is printed names no page of the documentation where that is not installed, as in a wheel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import run

from onnxq.documents import glossary
from onnxq.options.verbs import VERBS

PAGE = re.compile(r"\bdocs/|README")


@pytest.mark.parametrize("verb", VERBS)
def test_no_flag_is_explained_by_a_page(verb: str, tmp_path: Path) -> None:
    ran = run(tmp_path, *verb.split(), "--help")
    assert ran.code == 0
    assert not PAGE.search(ran.out)


@pytest.mark.parametrize("words", [("task",), ("layout",), ("score",), ("symptoms",)])
def test_words_name_a_page_only_where_it_is(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "docs/" in run(tmp_path, "help", *words).out
    monkeypatch.setattr(glossary, "page_file", lambda page: None)
    monkeypatch.setattr("onnxq.cli.pages.glossary.page_file", lambda page: None)
    ran = run(tmp_path, "help", *words)
    assert ran.code == 0
    assert not PAGE.search(ran.out)


def test_hints_name_what_the_command_itself_explains() -> None:
    """Strings of the package that are shown, not its comments and docstrings."""
    root = Path(glossary.__file__).resolve().parents[1]
    said = re.compile(r"^(?!\s*#)(?!.*\"\"\").*[\"'].*(see |; |: )docs/", re.MULTILINE)
    found = {path.name: said.findall(path.read_text("utf-8")) for path in root.rglob("*.py")}
    assert not {name: lines for name, lines in found.items() if lines}
