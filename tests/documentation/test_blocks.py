"""Each block of code of README and site is run, or it is said why not; TOML is read, Python is parsed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from documentation.blocks import PAGES, ROOT, Block, blocks, elsewhere, start_of
from documentation.folder import fill, read_toml, run_block

ALL = [block for page in PAGES for block in blocks(page)]
RUN = {"console", "python", "toml"}
SHOWN = {"text", "json", "ini", "protobuf", "yaml"}
"""What is there to be read: nobody types it."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_every_block_says_what_it_is() -> None:
    assert len(ALL) > 60
    unknown = [one.place for one in ALL if one.language not in RUN | SHOWN]
    assert unknown == []
    commands = [one for one in ALL if one.language != "console" and "\n$ " in "\n" + one.text]
    assert [one.place for one in commands] == []
    assert [one.place for one in ALL if one.language == "console" and not one.commands] == []


def test_what_is_not_run_has_a_reason() -> None:
    left = [(block.place, line, why) for block in ALL for line, why in block.left_out()]
    assert [one for one in left if len(one[2].split()) < 3] == []
    run = [one for one in ALL if one.language in RUN and "not run" not in one.said]
    assert len(run) > 3 * len([one for one in ALL if "not run" in one.said])


@pytest.mark.parametrize("block", [one for one in ALL if one.language == "python"], ids=lambda one: one.place)
def test_python_has_no_mistakes_of_syntax(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", [one for one in ALL if one.language == "toml"], ids=lambda one: one.place)
def test_toml_is_read(block: Block, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    read_toml(block, tmp_path)


def test_a_page_with_a_mistake_is_seen(tmp_path: Path) -> None:
    """The reader of pages, and the runner, on a page of which everything is known."""
    page = ROOT / "docs" / "nowhere.md"
    (tmp_path / "page").mkdir()
    written = tmp_path / "page.md"
    written.write_text(
        "# Page\n<!-- starts from: nothing -->\n<!-- file: a.py -->\n```python\nx = 1\n```\n"
        "- point\n\n  <!-- before: echo 2 > b -->\n  <!-- exit code: 3 -->\n"
        "  ```console\n  $ cat a.py b && \\\n      true  # both\n  $ exit 3\n  said\n  ```\n"
        "<!-- not run: it needs a GPU -->\n```python\nimport gpu\n```\n"
        "```console\n$ trtexec --onnx=x\n$ exit 1\n```\n"
    )
    file, shell, other, last = [
        Block(page, *part) for part in ((b.line, b.language, b.text, b.said) for b in blocks(written))
    ]
    assert start_of(written.read_text()) == "nothing"
    assert [file.said, shell.said, other.said] == [
        {"file": "a.py"},
        {"before": "echo 2 > b", "exit code": "3"},
        {"not run": "it needs a GPU"},
    ]
    assert shell.commands == ["cat a.py b &&      true  # both", "exit 3"]
    assert last.left_out() == [("trtexec --onnx=x", "it needs TensorRT and a GPU")]
    assert elsewhere("X=1 trtexec --onnx=x") is not None
    assert elsewhere("onnxq check a=b.onnx") is None
    folder = tmp_path / "page"
    fill(folder, "nothing")
    assert [run_block(folder, one) for one in (file, shell, other)] == [1, 2, 0]
    with pytest.raises(AssertionError, match="exit 1 ended with 1, not 0"):
        run_block(folder, last)
