"""The list of modules, `docs/reference/modules.md`: made of the first line of each module's docstring.

`ONNXQ_GOLDEN=1 pytest tests/test_modules.py` (`make reference`) writes it again.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "modules.md"

HEAD = """# Modules

The files of the package, a table a folder: what each says of itself. How they work together is in
[architecture.md](../architecture.md). `make reference` writes this page.
"""


def summary(path: Path) -> str:
    """The first line of a module's docstring, as a cell of a table."""
    document = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return document.partition("\n")[0].replace("|", r"\|")


def section(folder: Path) -> str:
    """The files of a folder, each with what it is."""
    rows = [f"| `{path.name}` | {summary(path)} |" for path in sorted(folder.glob("*.py"))]
    return "\n".join([f"## {folder.relative_to(ROOT).as_posix()}/", "", "| | |", "|---|---|", *rows, ""])


def page() -> str:
    folders = sorted({path.parent for path in (ROOT / "onnxq").rglob("*.py")})
    return "\n".join([HEAD, *map(section, folders)])


def test_the_page_names_every_module() -> None:
    if os.environ.get("ONNXQ_GOLDEN") == "1":
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page(), "write it again: make reference"
    assert page().count("\n| `") == len(list((ROOT / "onnxq").rglob("*.py"))) > 400


def test_each_module_says_in_one_line_what_it_is() -> None:
    """A sentence, or what a list begins with: it stands alone in the table."""
    files = sorted((ROOT / "onnxq").rglob("*.py"))
    assert [path.as_posix() for path in files if not summary(path).endswith((".", ":"))] == []
