"""The README and the documents: short enough, links that lead somewhere, commands whose flags there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from onnxq.cli.app import app
from onnxq.cli.peer_flags import PEERS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCUMENTS = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "sample_models" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(document: Path) -> set[str]:
    """What the headings of a document are called in a link."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", document.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def broken(document: Path) -> list[str]:
    """The links of a document, and its pictures, that lead nowhere."""
    found = []
    for link in _LINK.findall(_FENCE.sub("", document.read_text("utf-8"))):
        file, _, anchor = link.partition("#")
        to = document.parent / file if file else document
        if not to.exists() or (anchor and anchor not in anchors(to)):
            found.append(link)
    return found


def test_the_readme_is_short_and_shows_what_one_gets() -> None:
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= 120
    for picture in ("screen", "light"):  # the terminal's and the page's
        assert f"(docs/images/{picture}.png)" in text
    for command in ("make run", "make test", "onnxq quantize"):
        assert f"$ {command}" in text


def test_pictures_are_small() -> None:
    assert {
        path.name for path in (ROOT / "docs" / "images").iterdir() if path.stat().st_size > 200_000
    } == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One, two\n[a](a.md#one-two) [b](#one-two) [c](#three) ![d](d.png)\n")
    assert broken(tmp_path / "a.md") == ["#three", "d.png"]


def commands(document: Path) -> Iterator[list[str]]:
    """The command lines of onnxq in a document's blocks."""
    for block in _FENCE.findall(document.read_text("utf-8").replace("\\\n", " ")):
        for line in re.findall(r"^(?:\$ )?(onnxq .*)$", block, re.M):
            words = shlex.split(line, comments=True)
            end = next((at for at, word in enumerate(words) if word in (">", "|", "&&")), len(words))
            yield words[1:end]


def unknown(words: list[str]) -> list[str]:
    """The first word that is no verb, or the flags that the verb has not."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return words[:1]
        command, words = command.commands[words[0]], words[1:]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    return [
        word for word in words if re.match("--?[a-zA-Z]", word) and word not in {*known, *PEERS, "--help"}
    ]


def test_commands_of_documents_are_commands() -> None:
    lines = [line for document in DOCUMENTS for line in commands(document)]
    assert len(lines) > 40
    assert [(line, wrong) for line in lines if (wrong := unknown(line))] == []
    assert unknown(["quantize", "m.onnx", "--calibrate"]) == ["--calibrate"]
    assert unknown(["quantise"]) == ["quantise"]
