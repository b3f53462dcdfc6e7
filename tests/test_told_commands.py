"""Each command line that the package and its documents tell has a verb and flags that there are."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import pytest
import typer
from trees import ROOT, TREES

from onnxq.cli.app import app
from onnxq.cli.peer_flags import PEERS

_LINE = re.compile(r"(?<![\w./:-])onnxq ((?:-q |-v )?[a-z]+(?: [^`#|;&>,)\n]*)?)")


def texts() -> Iterator[tuple[str, str]]:
    """Texts that people read: documents, and what the package says."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text("utf-8")
        for block in re.findall(r"`+[^`]+`+|^(?:    |\$ |onnxq ).*$", text, re.MULTILINE):
            yield path.name, block
    for path in sorted([*(ROOT / "onnxq").rglob("*.j2"), *(ROOT / "onnxq").rglob("*.toml")]):
        for line in path.read_text("utf-8").splitlines():
            yield str(path.relative_to(ROOT)), re.sub(r"<[^>]*>|[{%}]", " ", line)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(path.relative_to(ROOT)), node.value


def told() -> Iterator[tuple[str, str]]:
    for where, text in texts():
        for found in _LINE.findall(text):
            yield where, found.strip()


@pytest.fixture(scope="module")
def verbs() -> dict[str, set[str]]:
    """The flags of each verb."""
    group = typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {"": command})
        options = [option for one in inner.values() for option in one.params]
        found[name] = {word for option in options for word in (*option.opts, *option.secondary_opts)}
        found[name] |= {"-h", "--help", *PEERS}
    return found


def test_they_have_verbs_and_flags_that_there_are(verbs: dict[str, set[str]]) -> None:
    wrong, seen = [], set()
    for where, line in told():
        try:
            words = shlex.split(line)
        except ValueError:  # a part of a sentence
            words = line.split()
        words = [word.rstrip(".:") for word in words if word not in ("-q", "-v")]
        flags = {word.split("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        if words[0] not in verbs:
            if flags:
                wrong.append((where, line))
            continue
        seen.add(words[0])
        wrong += [(where, line, flag) for flag in flags - verbs[words[0]]]
    assert not wrong
    assert seen >= {
        "quantize",
        "check",
        "engine",
        "analyze",
        "report",
        "sanitize",
        "pieces",
        "calibrate",
        "plan",
    }
