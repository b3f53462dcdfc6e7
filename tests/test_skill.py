"""The skill file of coding assistants: its commands parse, and its paths are in the schemas."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import onnxq
from onnxq.cli.app import app
from onnxq.emit.schemas import KINDS

TEXT = (Path(__file__).resolve().parents[1] / "skills/onnxq/SKILL.md").read_text("utf-8")
COMMANDS = [line for line in re.findall(r"`(onnxq [^`]*)`", TEXT) if not re.search(r"\b(VERB|KIND)\b", line)]
PATHS = [
    path for path in re.findall(r"`([\w.\[\]-]+)`", TEXT) if path.partition(".")[0] in KINDS and "." in path
]


def test_the_head_is_what_assistants_read() -> None:
    head = re.match(r"---\nname: (.*)\ndescription: (.*)\n---\n", TEXT)
    assert head is not None
    assert head[1] == "onnxq"
    assert len(head[2]) <= 1024
    assert TEXT.count("\n") < 120


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_parses(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "onnxq"
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    read = command.make_context(command.name, list(words))
    assert read.args == []
    assert "--json" in words


@pytest.mark.parametrize("path", PATHS)
def test_each_path_is_in_its_schema(path: str) -> None:
    kind, *fields = path.split(".")
    schema = onnxq.schema(kind)
    parts = [schema]
    for field in fields:
        name = field.removesuffix("[]")
        parts = [part["properties"][name] for part in parts if name in part.get("properties", {})]
        assert parts, f"{path}: there is no {name}"
        parts = [one for part in parts for one in forms(part, schema)]
        if field.endswith("[]"):
            parts = [
                one for part in parts if part.get("type") == "array" for one in forms(part["items"], schema)
            ]
            assert parts, f"{path}: {name} is no list"


def forms(part: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """What a part may be, where it refers to another one or is one of several."""
    if "$ref" in part:
        return forms(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in part:
        return [one for entry in part["anyOf"] for one in forms(entry, schema)]
    return [part]


def test_exit_codes_and_answers_are_all_told() -> None:
    assert re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE) == ["0", "1", "2", "3", "130"]
    answers = onnxq.schema("report")["$defs"]["Advice"]["properties"]["answer"]["enum"]
    told = next(line for line in TEXT.splitlines() if "report.advice.answer" in line)
    assert {f"`{answer}`" for answer in answers} <= set(re.findall(r"`[\w-]+`", told))
    assert len(COMMANDS) > 10
    assert len(PATHS) > 15
