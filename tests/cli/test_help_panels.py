"""`--help` of verbs with many flags: the first ones, a panel by its name, all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
from said import is_said

from onnxq.cli.app import app
from onnxq.cli.panels import PanelledCommand
from onnxq.options.verbs import VERBS

COMMANDS: dict[str, Any] = {
    f"{name} {inner}".strip(): one
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
    for inner, one in getattr(command, "commands", {"": command}).items()
}
MANY = [name for name, command in COMMANDS.items() if isinstance(command, PanelledCommand)]
MOST = 15


def flags(command: Any) -> set[str]:
    return {
        max(one.opts, key=len)
        for one in command.params
        if one.param_type_name == "option" and one.name != "help_all"
    } | {"--help"}


def shown(text: str) -> set[str]:
    """The flags that have a row."""
    return set(re.findall(r"^│ (--[a-z0-9-]+)", text, re.MULTILINE))


def panels(name: str) -> dict[str, list[Any]]:
    command = COMMANDS[name]
    return command.panels(command.make_context(name, [], resilient_parsing=True))


def test_verbs_of_more_than_15_flags_name_ten() -> None:
    assert set(MANY) == {name for name, command in COMMANDS.items() if len(flags(command)) > MOST}
    assert set(MANY) == {name for name, verb in VERBS.items() if verb.first}
    for name in MANY:
        assert len(VERBS[name].first) == 10
        assert set(VERBS[name].first) <= flags(COMMANDS[name])
        assert len(set(VERBS[name].first)) == 10


@pytest.mark.parametrize("name", MANY)
def test_the_first_flags_and_the_names_of_panels(name: str, onnxq) -> None:
    ran = onnxq(*name.split(), "--help", columns=110)
    assert ran.code == 0
    assert shown(ran.out) == {*VERBS[name].first, "--help-all", "--help"}
    for panel in panels(name):
        assert re.search(rf"^│ {panel} +[A-Z].*│$", ran.out, re.MULTILINE), panel
    assert len(ran.out.splitlines()) < 75


@pytest.mark.parametrize("name", MANY)
def test_each_flag_is_in_one_panel_which_can_be_asked_for(name: str, onnxq) -> None:
    found: list[str] = []
    for panel in panels(name):
        ran = onnxq(*name.split(), "--help", panel, columns=110)
        assert ran.code == 0
        found += shown(ran.out)
    assert len(found) == len(set(found))
    assert {*found, "--help"} == {*flags(COMMANDS[name]), "--help-all"}
    every = onnxq(*name.split(), "--help-all", columns=110)
    assert every.code == 0
    assert shown(every.out) == {*flags(COMMANDS[name]), "--help-all"}


def test_other_ways_to_ask(onnxq) -> None:
    goal = onnxq("quantize", "--help", "goal").out
    assert "--max-drop" in goal
    assert "--calib" not in goal
    assert onnxq("quantize", "net.onnx", "-h", "Goal").out == goal
    assert onnxq("quantize", "--help", "all").out == onnxq("quantize", "--help-all").out
    assert "All flags" in onnxq("quantize", "net.onnx", "--help").out


def test_no_such_panel(onnxq) -> None:
    ran = onnxq("quantize", "--help", "gaol")
    assert ran.code == 2
    assert is_said(ran.err, "typed.no-panel", name="gaol", near="did you mean 'goal'")
    assert "options, data, images" in onnxq("quantize", "--help", "qqqqq").err


def test_verbs_of_few_flags_show_them_all(onnxq) -> None:
    ran = onnxq("statistics", "weights", "--help", columns=110)
    assert shown(ran.out) == flags(COMMANDS["statistics weights"])
    assert "--help-all" not in ran.out
