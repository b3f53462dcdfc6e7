"""The blocks of code of README and site, and how each is run.

A comment in front of a block says what is otherwise than usual:

    <!-- not run: needs PyTorch -->        it is listed with that reason, and not run
    <!-- file: score.py -->                it is written to that file
    <!-- before: cp a.onnx b.onnx -->      is run first, out of sight of readers
    <!-- exit code: 1 -->                  its last command ends with that; `1 0 0`: each of the last three
    <!-- part -->                          TOML that is a part of a plan file

A page that starts from other files than those of `digits` says so: `<!-- starts from: detector -->`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "sample_models/README.md")]
PAGES = [*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"((?:^ *<!--[^\n]*-->\n\s*)*)^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_SAID = re.compile(r"<!-- *(not run|file|before|exit code|part)(?:: *(.*?))? *-->")
_START = re.compile(r"<!-- *starts from: *([\w-]+) *-->")

ELSEWHERE = {
    "pip": "it installs packages",
    "make": "it makes environments, and is what CI runs",
    "trtexec": "it needs TensorRT and a GPU",
    "tritonserver": "it needs a GPU",
    "deepstream-app": "it needs a GPU",
    "dot": "Graphviz is no part of onnxq",
    "polygraphy": "it runs TensorRT on a GPU",
    "docker": "it starts containers",
    "mkdocs": "it is what `make docs` runs",
}
"""Programs that no test starts, and why."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page.

    Attributes:
        page: where it stands.
        line: of the page, from 1.
        language: what the fence says: `console`, `python`, `toml`, ...
        text: without the fence.
        said: the comments in front of it, by their names.
    """

    page: Path
    line: int
    language: str
    text: str
    said: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The command lines, each in one line."""
        joined = self.text.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    def left_out(self) -> list[tuple[str, str]]:
        """What of it is not run, each with the reason."""
        if "not run" in self.said:
            return [(self.text.strip().partition("\n")[0], self.said["not run"])]
        if self.language != "console":
            return []
        return [(one, why) for one in self.commands if (why := elsewhere(one)) is not None]


def elsewhere(command: str) -> str | None:
    """Why no test runs a command line, or None."""
    words = shlex.split(command, comments=True)
    words = [word for word in words if "=" not in word.split("/")[0] or word.startswith("-")]
    return ELSEWHERE.get(words[0]) if words else None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    text = page.read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        indent = match[2]
        body = "".join(line.removeprefix(indent) for line in match[4].splitlines(keepends=True))
        said = {name: value or "" for name, value in _SAID.findall(match[1])}
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(page, line, match[3], body, said))
    return found


def start_of(text: str) -> str:
    """What the folder holds in which the blocks of a page are run."""
    found = _START.search(text)
    return found[1] if found else "digits"


if __name__ == "__main__":
    for page in PAGES:
        for one in blocks(page):
            for line, why in one.left_out():
                print(f"{one.place}: {line}: {why}")
