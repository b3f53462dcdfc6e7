"""`onnxq help`: each word of a screen is explained, and a page is made of the same file.

`ONNXQ_GOLDEN=1 pytest tests/cli/test_help_verb.py` (`make reference`) writes that page again.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ROOT
from trees import PACKAGE, TREES

import onnxq
from onnxq.documents import glossary
from onnxq.options.settings import LAYER_METHODS, STEPS

PAGES = sorted((PACKAGE / "cli" / "pages").glob("*.py"))
DOCUMENT = ROOT / "docs" / "reference" / "words.md"
ENTRIES = onnxq.explain_word().entries
KNOWN = {name.casefold() for one in ENTRIES for name in (one.name, *one.also)}

# Labels that are no literal, where they are made: what they may be.
MADE = {
    ("check.py", "said.severity.capitalize()"): ("Error", "Warning", "Note"),
    ("data.py", "label"): ("Inputs",),
    ("diff.py", "title"): ("Worse", "Better", "Other", "Within"),
    ("engine.py", "label"): ("Not in it", "Half", "Weights", "Converts"),
    ("model.py", "label"): ("Inputs", "Outputs"),
    ("model.py", "f'Read {pair.format}'"): ("Read int8", "Read fp8"),
    ("plan.py", "plan.format.capitalize()"): ("Int8", "Fp8"),
    ("short.py", "report.number_format.capitalize()"): ("Int8", "Fp8"),
    ("short.py", "label"): ("Images", "Sizes", "Data"),
    ("pieces.py", "label"): ("Inputs", "Outputs"),
    ("first_settings.py", "label"): (),  # whether an option is set
    ("model.py", "str(row.index)"): (),  # a number
    ("pieces.py", "f'Piece {index}'"): ("Piece",),
    ("statistics.py", "state.capitalize()"): ("Dead", "Constant", "Saturated", "Outlier"),
    ("verdict.py", "title"): ("TensorRT", "For RTX"),
}
PLAIN = {
    "",
    "A",
    "B",
    "B - A",
    "min",
    "max",
    "mean",
    "std",
    "op",
    "took",
    "bytes",
    "Model",
    "layer",
    "what",
    "rule",
}


def labels() -> Iterator[tuple[str, str, str]]:
    """The file, the code and the text of each label of a section and each title of a column."""
    for path in PAGES:
        for node in ast.walk(TREES[path]):
            titles: list[ast.expr] = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called, first = node.func.attr, node.args[0] if node.args else None
                if called in ("section", "sections") and first is not None:
                    texts = [one.value for one in ast.walk(first) if isinstance(one, ast.Constant)]
                    plain = [text for text in texts if isinstance(text, str) and text]
                    is_made = not plain or isinstance(first, ast.JoinedStr)
                    yield from (
                        (path.name, ast.unparse(first), text) for text in ([""] if is_made else plain)
                    )
                if called == "table" and isinstance(first, ast.List | ast.Tuple):
                    titles = [first]
            if isinstance(node, ast.Assign | ast.AugAssign) and "head" in ast.unparse(node).split("=")[0]:
                titles = [node.value]
            for title in titles:
                for one in ast.walk(title):
                    if (
                        isinstance(one, ast.Constant)
                        and isinstance(one.value, str)
                        and path.name != "repair.py"
                    ):
                        yield path.name, "", one.value


def test_each_label_of_a_screen_has_an_entry() -> None:
    found = list(labels())
    assert len(found) > 150
    missing, made = set(), set()
    for file, code, text in found:
        if code and not text:
            made.add((file, code))
        elif text not in PLAIN and text.strip(" ,").casefold() not in KNOWN:
            missing.add((file, text))
    assert missing == set()
    assert {one for one in made if one[1] not in ("''", '""')} == set(MADE)
    assert {text for texts in MADE.values() for text in texts if text.casefold() not in KNOWN} == set()


def test_steps_and_methods_have_entries() -> None:
    assert {name for name in (*STEPS, *LAYER_METHODS) if name.casefold() not in KNOWN} == set()


def test_entries_are_short_and_in_order_and_their_pages_are_there() -> None:
    names = [one.name.casefold() for one in ENTRIES]
    assert names == sorted(names)
    every = [name.casefold() for one in ENTRIES for name in (one.name, *one.also)]
    assert len(every) == len(set(every))
    for one in ENTRIES:
        assert 1 <= len(re.findall(r"[.?](?= |$)", one.text)) <= 3, one.name
        assert one.text.endswith("."), one.name
        assert len(one.text) < 300, one.name
        file, _, heading = one.page.partition("#")
        text = (ROOT / file).read_text("utf-8")
        headings = re.findall(r"^#+ (.*)$", text, re.M)
        titles = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}
        assert not heading or heading in titles, one.page


def page() -> str:
    lines = [
        "# Words", "",
        "The words of the screens, as `onnxq help WORD` explains them. `make reference` writes this page.",
        "", "| word | means | more |", "|---|---|---|",
    ]  # fmt: skip
    for one in ENTRIES:
        link = os.path.relpath(one.page, "docs/reference")
        also = f" ({', '.join(one.also)})" if one.also else ""
        named = Path(link.partition("#")[0]).stem
        lines.append(f"| {one.name}{also} | {one.text} | [{named}]({link}) |")
    return "\n".join(lines) + "\n"


def test_the_page_has_all_words() -> None:
    if os.environ.get("ONNXQ_GOLDEN") == "1":
        DOCUMENT.write_text(page(), "utf-8")
    assert DOCUMENT.read_text("utf-8") == page(), "write it again: make reference"


def test_a_word(onnxq) -> None:
    for words in (("SQNR",), ("held", "out"), ("held out",), ("q/dq",), ("About", "the", "MEAN")):
        ran = onnxq("help", *words)
        assert ran.code == 0, ran.err
        assert "more: docs/" in ran.out
    assert onnxq("help", "worst").out.startswith("worst\n  The output")
    document = onnxq("help", "percentile", "--json").json()
    assert (document["kind"], [one["name"] for one in document["entries"]]) == ("words", ["percentile"])


def test_all_words(onnxq) -> None:
    text = " ".join(onnxq("help").out.split())
    assert all(one.name in text for one in ENTRIES)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("elligible", "'eligible'"),
        ("calib", "'calibration'"),
        ("Kullback", "'entropy'"),
        ("qqqq", "onnxq help lists all"),
    ],
)
def test_an_unknown_word_names_near_ones(word: str, near: str, onnxq) -> None:
    ran = onnxq("help", word)
    assert ran.code == 2
    assert f"no word '{word}'" in ran.err
    assert near in ran.err


class TestOpen:
    def test_the_page_is_shown(self, onnxq, monkeypatch: pytest.MonkeyPatch) -> None:
        shown = list[str]()
        monkeypatch.setattr(glossary.webbrowser, "open", lambda url: shown.append(url) or True)
        assert onnxq("help", "goal", "--open").code == 0
        assert shown == [(ROOT / "docs/quantizing.md").as_uri() + "#a-goal"]

    def test_no_browser(self, onnxq, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(glossary.webbrowser, "open", lambda url: False)
        ran = onnxq("help", "goal", "--open")
        assert (ran.code, "no browser" in ran.err, "quantizing.md" in ran.err) == (2, True, True)

    def test_where_the_documentation_is_not_beside(
        self, onnxq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(glossary, "__file__", str(tmp_path / "onnxq/documents/glossary.py"))
        ran = onnxq("help", "goal", "--open")
        assert ran.code == 2
        assert "docs/quantizing.md is not there" in ran.err
        assert "docs/quantizing.md#a-goal" in ran.err

    def test_a_page_without_a_word(self, onnxq) -> None:
        assert onnxq("help", "--open").code == 2
