"""The typed keywords of functions that take options: `onnxq/options/call_options.pyi`, made of the verbs.

Likewise `onnxq/options/parameters.pyi`, the parameters of calibration methods, made of their files, and
`onnxq/__init__.pyi`, what the package gives. `ONNXQ_GOLDEN=1 pytest tests/test_call_options.py`
(`make options`) writes them again.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path

import onnxq
from onnxq.options import settings
from onnxq.options.grouped import KEYWORDS, options_of
from onnxq.options.method import parameters
from onnxq.options.option import read_options

FILE = Path(onnxq.__file__).parent / "options" / "call_options.pyi"
FUNCTIONS = [
    "analyze", "bundle", "calibrate", "check", "compare", "diff", "extract", "look", "plan", "quantize",
    "run_pieces", "sanitize", "sensitivity", "split", "statistics",
]  # fmt: skip
STUB = FILE.with_name("parameters.pyi")
NAMES = FILE.parents[1] / "__init__.pyi"
_STUB_HEAD = '''"""What `parameters.py` makes of the calibration methods. `make options` writes this file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

'''
_FEW = 7
_HEAD = '"""The keywords of the functions that take options. `make options` writes this file."""\n\n'
_FROM = {
    "collections.abc": {"Callable", "Mapping", "Sequence"},
    "pathlib": {"Path"},
    "typing": {"Any", "Literal", "TypedDict"},
}


def kind_of(group: type, name: str) -> str:
    """The type of an option: the values that there are, where these are a few."""
    (written,) = (field.type for field in dataclasses.fields(group) if field.name == name)
    values = read_options(group)[name].kind.names
    if 0 < len(values) <= _FEW and written in ("str", "str | None"):
        literal = f"Literal[{', '.join(f'{value!r}' for value in values)}]".replace("'", '"')
        return literal + written.removeprefix("str")
    return str(written)


def class_of(function: str) -> str:
    """The name of what a function takes."""
    return f"{function.title().replace('_', '')}Options"


def text() -> str:
    """The stub of what each function takes: groups, and options as keywords of their own."""
    parts: dict[tuple[type, tuple[str, ...]], str] = {}
    classes, functions = [], []
    for function in FUNCTIONS:
        for group, options in options_of(function).items():
            key = group, tuple(options)
            if key not in parts:
                whole = not options or key[1] == tuple(read_options(group))
                parts[key] = f"_{group.__name__}" + ("" if whole else f"Of{class_of(function)[:-7]}")
                fields = {KEYWORDS[group]: f"{group.__name__} | Mapping[str, Any] | None"}
                fields |= {name: kind_of(group, name) for name in options}
                lines = "".join(f"    {name}: {kind}\n" for name, kind in fields.items())
                classes.append(f"class {parts[key]}(TypedDict, total=False):\n{lines}")
        bases = ", ".join(parts[group, tuple(options)] for group, options in options_of(function).items())
        functions.append(f"class {class_of(function)}({bases}): ...\n")
    body = "\n".join([*classes, *functions])
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    imports = [f"from {module} import {', '.join(sorted(used & names))}\n" for module, names in _FROM.items()
               if used & names]  # fmt: skip
    own = sorted(name for name in used - set().union(*_FROM.values(), {"Profile"}) if hasattr(settings, name))
    settled = "from onnxq.options.profile import Profile\n"
    settled += f"from onnxq.options.settings import {', '.join(own)}"
    return formatted(f"{_HEAD}{''.join(imports)}\n{settled}\n\n{body}", FILE)


def stub_text() -> str:
    """The stub of the classes that have a field for each parameter."""
    names = list(parameters())
    each = "".join(f"    {name}: float = ...\n" for name in names)
    may = "".join(f"    {name}: float | None = ...\n" for name in names)
    plain, by_name = (
        "@dataclass(frozen=True, slots=True)\n",
        "@dataclass(frozen=True, slots=True, kw_only=True)\n",
    )
    classes = [
        f"{plain}class MethodOptions:\n    method: str = ...\n{each}",
        f"{plain}class NamedMethod:\n    name: str\n{each}",
        f"{by_name}class StatedParameters:\n{may}",
        "def stated(said: StatedParameters | NamedMethod | MethodOptions) -> Mapping[str, Any]: ...\n",
    ]
    return formatted(_STUB_HEAD + "\n".join(classes), STUB)


def names_text() -> str:
    """The stub of the package: what it gives, and from where."""
    lines = [
        f"from {module} import {', '.join(f'{name} as {name}' for name in names)}\n"
        for module, names in onnxq._PLACES.items()
    ]
    listed = ", ".join(f'"{name}"' for name in onnxq.__all__)
    code = f"{''.join(lines)}\n__all__ = [{listed}]\n__version__: str\n"
    return formatted(f'"""What onnxq gives. `make options` writes this file."""\n\n{code}', NAMES)


def formatted(code: str, file: Path) -> str:
    """As ruff writes it, with imports in order."""
    for how in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        command = [sys.executable, "-m", "ruff", *how, "--stdin-filename", str(file), "-"]
        code = subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout
    return code


def test_they_are_those_of_the_groups() -> None:
    if os.environ.get("ONNXQ_GOLDEN") == "1":
        FILE.write_text(text(), "utf-8")
        STUB.write_text(stub_text(), "utf-8")
        NAMES.write_text(names_text(), "utf-8")
    assert NAMES.read_text("utf-8") == names_text(), "`make options` writes it again"
    assert STUB.read_text("utf-8") == stub_text(), "`make options` writes it again"
    assert FILE.read_text("utf-8") == text(), "`make options` writes it again"


def test_each_function_that_takes_options_is_typed() -> None:
    takes = {}
    for name in onnxq.__all__:
        annotations = getattr(inspect.unwrap(getattr(onnxq, name)), "__annotations__", {})
        takes[name] = annotations.get("options", "")
    assert {name: f"Unpack[{class_of(name)}]" for name in FUNCTIONS} == {
        name: kind for name, kind in takes.items() if kind
    }


def test_a_type_checker_takes_right_calls_and_finds_each_wrong_one() -> None:
    """The calls in `typed_calls`, as a user's script would make them."""
    folder = Path(__file__).with_name("typed_calls")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty"]
    ran = subprocess.run(
        [*command, str(folder / "right.py"), str(folder / "wrong.py")],
        cwd=folder.parents[1], capture_output=True, text=True,
    )  # fmt: skip
    found = {line.partition(": error:")[0] for line in ran.stdout.splitlines() if ": error:" in line}
    calls = enumerate((folder / "wrong.py").read_text("utf-8").splitlines(), 1)
    wrong = {number for number, line in calls if line.startswith("onnxq.")}
    assert {(Path(file).name, int(number)) for file, _, number in (at.rpartition(":") for at in found)} == {
        ("wrong.py", number) for number in wrong
    }, ran.stdout + ran.stderr
