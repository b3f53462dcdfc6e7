"""Every flag of every verb, given as a keyword of its function: the error says what to give instead."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import onnxq
from onnxq.cli.app import app

OTHER_NAMES = {
    "data": "look", "run": "run_pieces", "list": "list_rules", "explain": "explain_rule", "test": "try_rules",
    "page": "rules_page", "help": "explain_word", "activations": "statistics",
}  # fmt: skip


def flags() -> Iterator[tuple[str, str]]:
    """The name of the function of each verb and a flag that is none of its keywords."""

    def commands(group: Any) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            yield from commands(command) if hasattr(command, "commands") else [(name, command)]

    for verb, command in commands(typer.main.get_command(app)):
        function = OTHER_NAMES.get(verb, verb)
        known = inspect.signature(getattr(onnxq, function)).parameters
        for parameter in command.params:
            for flag in (*parameter.opts, *parameter.secondary_opts):
                name = flag[2:].replace("-", "_")
                if flag.startswith("--") and name not in known and name not in ("help", "help_all"):
                    yield function, name


FLAGS = sorted(set(flags()))


def error_of(function: str, name: str) -> str:
    with pytest.raises(TypeError) as caught:
        getattr(onnxq, function)(**{name: True})
    return str(caught.value)


@pytest.mark.parametrize(("function", "name"), FLAGS)
def test_the_error_says_what_to_give(function: str, name: str) -> None:
    said = error_of(function, name)
    assert said.startswith(f"{function}() got an unexpected keyword argument {name!r}; ")
    hint = said.partition("; ")[2]
    assert "did you mean" not in hint
    for keyword in re.findall(r"^give (\w+)=", hint):
        assert keyword in inspect.signature(getattr(onnxq, function)).parameters
    for other in re.findall(r"onnxq\.(\w+)", hint.replace("onnxq.toml", "")):
        assert other in onnxq.__all__


@pytest.mark.parametrize(
    ("function", "name", "hint"),
    [
        ("quantize", "no_engine", "give compile=False"),
        ("quantize", "calib", "give data="),
        ("quantize", "shape", "give shapes="),
        ("quantize", "mean", "give images={'mean': ...}"),
        ("check", "input_name", "give input_names="),
        ("check", "profile", "give profiles="),
        ("engine", "profile", "give profiles="),
        ("weights", "no_channels", "give channels=False"),
        ("analyze", "no_isolated", "give isolated=False"),
        ("analyze", "threshold", "give thresholds="),
        ("analyze", "match", "give layers="),
        ("inspect", "op", "give ops="),
        ("extract", "from", "give start="),
        ("extract", "to", "give end="),
        ("calibrate", "merge", "call onnxq.merge_stats"),
    ],
)
def test_those_whose_keyword_has_another_name(function: str, name: str, hint: str) -> None:
    assert (function, name) in FLAGS
    assert error_of(function, name).partition("; ")[2] == hint


def test_a_name_that_is_no_flag() -> None:
    assert "did you mean 'samples'" in error_of("quantize", "sampels")
    assert error_of("engine", "zzzz").endswith("'zzzz'")
