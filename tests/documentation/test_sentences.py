"""README, tutorials and the pages of the list are written in short sentences."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest
from documentation.blocks import ROOT
from documentation.sentences import sentences, words

PLAIN = [ROOT / "README.md", ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]

FINISHED = [
    ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md",
    ROOT / "sample_models" / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "advice", "calibration", "comparison", "data",
            "demonstration", "deploying", "documents", "executors", "exporters", "formats", "formulas",
            "inspecting", "internals", "limits", "lint", "page", "pieces", "placement", "quantized-files",
            "quantizing", "tasks", "tensorrt-says", "usage", "verdict",
        )
    ),
]  # fmt: skip
"""Pages of reference whose sentences are short, too; a page that is finished joins them."""

LONGEST = 30
MEDIAN, MEDIAN_OF_REFERENCE = 16, 18


@pytest.mark.parametrize("page", [*PLAIN, *FINISHED], ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    found = sentences(page.read_text("utf-8"))
    assert len(found) >= 5
    assert [one for one in found if words(one) > LONGEST] == []
    assert statistics.median(map(words, found)) < (MEDIAN if page in PLAIN else MEDIAN_OF_REFERENCE)


def listed() -> list[str]:
    """The words that CONTRIBUTING.md says are not used: the first column of its table."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text.partition("### Words that we do not use")[2].partition("\n## ")[0]
    return [
        word.strip()
        for row in re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.M)
        for word in row.split(",")
    ]


@pytest.mark.parametrize("page", [*PLAIN, *FINISHED], ids=lambda page: page.name)
def test_words_of_the_list_are_not_used(page: Path) -> None:
    avoided = [word for word in listed() if word not in ("word", "---")]
    assert len(avoided) > 10
    text = " ".join(sentences(page.read_text("utf-8"))).lower()
    assert [word for word in avoided if re.search(rf"\b{re.escape(word)}\b", text)] == []


def test_sentences_are_counted() -> None:
    page = """# A title is none

One [two](three.md) `four five` six. Seven: eight;
nine? (Ten.) Eleven

- A point
- Another. And more

| a cell. | none |

```console
$ onnxq check. Not. Here.
```
<!-- nor. this -->
![picture. of](x.png)
"""
    found = sentences(page)
    assert found == [
        "One two code six.",
        "Seven: eight; nine?",
        "(Ten.",
        "Eleven",
        "A point",
        "Another.",
        "And more",
    ]
    assert [*map(words, found)] == [4, 3, 1, 1, 2, 1, 2]
