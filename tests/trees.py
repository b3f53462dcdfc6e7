"""The syntax of the package and of its rules, which a process of tests reads once, and before all tests."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "onnxq"
FILES = sorted(PACKAGE.rglob("*.py"))
RULES = sorted((ROOT / "rules").glob("*.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in (*FILES, *RULES)}
