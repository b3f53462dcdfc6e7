"""The pages that are made of the code are what the code says: `make reference` writes them again."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from documentation.blocks import ROOT
from documentation.reference import devices_page, options_page, python_page, rule_page

import onnxq
from onnxq.options.option import read_options
from onnxq.options.settings import GROUPS
from onnxq.options.verbs import VERBS


@pytest.mark.parametrize(
    ("name", "made"),
    [("options", options_page), ("python", python_page), ("rule", rule_page), ("devices", devices_page)],
)
def test_the_page_is_that_of_the_code(name: str, made: Callable[[], str]) -> None:
    page = ROOT / "docs" / "reference" / f"{name}.md"
    if os.environ.get("ONNXQ_GOLDEN") == "1":
        page.write_text(made(), "utf-8")
    assert page.read_text("utf-8") == made(), "write it again: make reference"


def test_what_rules_can_ask_is_there() -> None:
    page = rule_page()
    for said in (
        "## Except",
        "`extreme-input`",
        "| `limit` | A number of the target",
        "## inline",
        "- `body`: as",
    ):
        assert said in page


def test_every_flag_and_every_public_name_is_there() -> None:
    options, python = options_page(), python_page()
    every = [one for group in GROUPS for one in read_options(group, ()).values()]
    typed = [one for verb in VERBS.values() for group in verb.groups for one in verb.flags(group).values()]
    flags = {flag for one in typed for flag in one.flag}
    assert len(flags) > 40
    assert [flag for flag in flags if f"`{flag}`" not in options] == []
    assert [one.key for one in every if one.file_only and f"{one.key}`" not in options] == []
    names = [name for name in onnxq.__all__ if name != "__version__"]
    assert [
        name for name in names if f"onnxq.{name}`" not in python and f"onnxq.{name}\n" not in python
    ] == []
