"""Three pages of the reference, which is made of the code: all options, Python, what rules can ask."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

import onnxq
from onnxq import rule
from onnxq.checks.each.dla import taken
from onnxq.cli.app import app
from onnxq.options.keywords import OPTIONS
from onnxq.options.option import Option, read_options
from onnxq.options.settings import GROUPS
from onnxq.options.verbs import VERBS
from onnxq.targets import DEFAULT, device_table, dla_table, load_target
from onnxq.targets.devices import devices

_OPTIONS = """# All options

Every option, by its group. A group is a panel of `onnxq VERB --help-all`, and a class of the package.

- In Python an option is a keyword of the function, or a field of its group: `method="mse"`, or
  `calibration=onnxq.Calibration(method="mse")`.
- In `onnxq.toml` it is a key of the table that is named here: [calibration](../calibration.md) shows one.
- An option without a flag is set there, or in Python; of some only the verbs that are named have a flag.
- What each verb does, and which flags matter first, is in [usage](../usage.md).

`make reference` writes this page.
"""
_PYTHON = """# Python

Each verb of the command line is a function of the package `onnxq`, with the same options.
[All options](options.md) lists those by their groups: they are keywords of the functions that name the group.
What a function returns is a [document](../documents.md): a type checker knows its attributes, `.to_dict()` is
its JSON.

`make reference` writes this page.
"""

_DEVICES = """# Devices

What `--device` takes, and what is known of it. It takes a compute capability as well: `--device 87` is 8.7.
It takes a file of your own, `X.toml`, which states `title` and `sm`, and may state the `first` and the `last`
TensorRT that serves it.

- An engine is compiled here for the nearest compute capability that the compiler has; with `--target rtx`
  Turing is 7.5. What it fuses there is likely what your GPU's build fuses, and no proof of it.
- A TensorRT that does not serve the device is refused. So is a number format that it does not multiply.
- JetPacks are targets: `--target jetpack-6.2`.
- "?" is not known here. Memory is in GB, bandwidth in GB a second.

`make reference` writes this page, of `onnxq/targets/devices.toml`, which names the sources.
"""

_RULE = """# What a rule can ask

All that a rule file imports from `onnxq.rule`. How such a file looks is in
[Contributing](../../CONTRIBUTING.md#add-a-rule-one-file); `--rules DIR` reads a folder of them.

`make reference` writes this page.
"""

_OTHERS = {"Observer": "What `observe=` takes: a function that is told each step."}
"""Public names that are no functions and no classes."""


_DLA = """## DLA

`onnxq check MODEL --device agx-orin --target 10.3 --dla` says what the deep learning accelerator leaves to
the GPU, why, and how often the work crosses. It asks `onnxq/targets/dla.toml`, which has this of NVIDIA's
pages; nothing of it was run here. TensorRT up to 10.7 has DLA, and 11.4 on AGX Orin. Its sizes are fixed.
"""


def devices_page() -> str:
    """`docs/reference/devices.md`."""
    families: dict[str, list[str]] = {}
    target = load_target(DEFAULT)
    formats = ("int8", "bf16", "fp8", "fp4", "sparsity")
    for one in devices():
        family = (
            "Jetson" if "Jetson" in one.title else "RTX" if "RTX" in one.title else "Data centre and others"
        )
        has = ", ".join("2:4 sparse weights" if what == "sparsity" else what for what in formats
                        if one.multiplies(what))  # fmt: skip
        cells = (
            _code(one.name), one.title, f"{one.sm / 10:.1f}", f"{one.compiled_as(target) / 10:.1f}",
            has or "-", one.releases or "?", _ends(one.memory), _ends(one.bandwidth), str(one.dla),
        )  # fmt: skip
        families.setdefault(family, []).append(_row(cells))
    head = ("device", "what", "compute capability", "compiled as", "multiplies in", "TensorRT", "memory",
            "bandwidth", "DLA cores")  # fmt: skip
    tables = [
        f"## {family}\n\n{_row(head)}\n{_row(['---'] * len(head))}\n" + "\n".join(rows) + "\n"
        for family, rows in families.items()
    ]
    packs = [
        _row((_code(f"jetpack-{name}"), row["tensorrt"], ", ".join(f"{sm / 10:.1f}" for sm in row["sm"])))
        for name, row in device_table()["jetpack"].items()
    ]
    head = ("target", "TensorRT", "compute capabilities")
    tables.append(f"## JetPack\n\n{_row(head)}\n{_row(['---'] * 3)}\n" + "\n".join(packs) + "\n")
    rows = []
    for name, layer in dla_table()["layer"].items():
        ops = [
            *map(_code, layer["operators"]),
            *(f"`{op}` from {v} on" for op, v in layer.get("since", {}).items()),
        ]
        if "capability" in layer:
            ops.append(f"from compute capability {layer['capability'] / 10:.1f} on")
        limits = "; ".join(f"{one['of']} {taken(one)}" for one in layer["limits"])
        rows.append(_row((name, ", ".join(ops), limits, _cell(dla_table()["sources"][layer["source"]]))))
    head = ("layer", "operators", "limits", "source")
    tables.append(f"{_DLA}\n{_row(head)}\n{_row(['---'] * 4)}\n" + "\n".join(rows) + "\n")
    return "\n".join((_DEVICES, *tables))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ends(numbers: Sequence[int]) -> str:
    return " to ".join(map(str, numbers)) or "?"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")


def _option(group: type, name: str, one: Option) -> str:
    having = [verb for verb, said in VERBS.items() if name in said.options(group)]
    flagged = [verb for verb in having if name in VERBS[verb].flags(group)]
    flags = ", ".join(_code(flag) for flag in one.flag) if flagged else ""
    value = f" {_code(one.metavar)}" if one.metavar and flags else ""
    value += f" of {', '.join(map(_code, flagged))}" if flags and len(flagged) < len(having) else ""
    names = f" One of {', '.join(map(_code, one.kind.names))}." if one.kind.names else ""
    places = [f"[{table}] {one.key}" if table else one.key for table in one.tables] if one.key else []
    keys = ", ".join(_code(place) for place in places)
    return f"| {flags}{value} | {_code(name)} | {keys} | {_cell(one.help)}{names} |"


def _verbs_of(group: type) -> list[str]:
    return [name for name, verb in VERBS.items() if group in verb.groups]


def _of_groups() -> Mapping[type, Mapping[str, Option]]:
    return {group: read_options(group, ()) for group in GROUPS}


def _own(verb: str, command: Any) -> Iterator[str]:
    """The arguments and flags of a verb that no group has."""
    shared = {flag for options in _of_groups().values() for one in options.values() for flag in one.flag}
    shared |= {flag.replace("--", "--no-", 1) for flag in shared} | {
        VERBS[verb].data if verb in VERBS else ""
    }
    for one in command.params:
        flags = [*one.opts, *one.secondary_opts]
        if shared & set(flags) or {"--help", "--help-all", "--json"} & set(flags) or one.name == "help":
            continue
        named = one.metavar or one.name.upper() if one.param_type_name == "argument" else ""
        said = _cell(getattr(one, "help", "") or "")
        value = (
            f" {_code(one.metavar)}" if one.metavar and not named and not one.metavar.startswith("<") else ""
        )
        yield f"| {_code(named.strip('{}')) if named else ', '.join(map(_code, flags)) + value} | {said} |"


def options_page() -> str:
    """All options, a table a group, then what each verb has of its own."""
    lines = [_OPTIONS]
    for group, options in _of_groups().items():
        verbs = _verbs_of(group)
        of = "every verb" if group is GROUPS[0] else ", ".join(map(_code, verbs))
        lines += [f"## {group.__name__}\n", f"{_first(group)} Of {of}.\n"]
        lines += ["| flag | keyword | in `onnxq.toml` | what |", "|---|---|---|---|"]
        lines += [_option(group, name, one) for name, one in options.items()] + [""]
    lines += [
        "## What each verb has of its own\n",
        "Every verb has `--json`, too: its document, on standard output.\n",
    ]
    for verb, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        for name, one in inner.items() if inner else [("", command)]:
            rows = list(_own(verb, one))
            if rows:
                lines += [f"### onnxq {verb} {name}".rstrip() + "\n", _cell(_first(one.callback)) + "\n"]
                lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _parameters(function: Any) -> str:
    """The signature, with the groups of options in the place of their fields."""
    fields = {name for options in _of_groups().values() for name in options}
    groups = {group.__name__ for group in GROUPS}
    shown, grouped = [], False
    for one in inspect.signature(function).parameters.values():
        kind = str(one.annotation).partition(" ")[0]
        if one.kind is one.VAR_KEYWORD or kind in groups or one.name in fields:
            grouped = True
        else:
            default = (
                "" if one.default is one.empty else "=..." if callable(one.default) else f"={one.default!r}"
            )
            star = ["*"] if one.kind is one.KEYWORD_ONLY and "*" not in shown else []
            shown += [*star, f"{one.name}{default}"]
    return ", ".join([*shown, *(["**options"] if grouped else [])])


def _function(name: str) -> list[str]:
    function = getattr(onnxq, name)
    said = (inspect.getdoc(function) or "").partition(f"\n{OPTIONS}")[0]
    lines = [f"### onnxq.{name}\n", f"```text\nonnxq.{name}({_parameters(function)})\n```\n", *_said(said)]
    groups = [group.__name__ for group in GROUPS if f"({group.__name__})" in (inspect.getdoc(function) or "")]
    if groups:
        links = ", ".join(f"[{group}](options.md#{group.lower()})" for group in groups)
        lines += [f"Options: {links}.\n"]
    return lines


def _said(docstring: str) -> list[str]:
    """A docstring in Markdown."""
    lines = []
    summary, *rest = re.split(r"\n(Args|Attributes|Returns|Raises|Yields):\n", docstring)
    for paragraph in summary.strip().split("\n\n"):
        is_code = paragraph.lstrip().startswith("with ")
        lines += [
            f"```python\nimport onnxq\n\n{textwrap.dedent(paragraph)}\n```\n" if is_code else f"{paragraph}\n"
        ]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        lines += [f"**{title}**\n"]
        for entry in re.split(r"\n(?=    \S)", body.rstrip()):
            key, _, text = re.sub(r"\s+", " ", entry).strip().partition(": ")
            lines += [f"- `{key}`: {text}" if text else f"- {key}"]
        lines += [""]
    return lines


def python_page() -> str:
    """Every public name: functions with what they take, classes in one line."""
    names = [name for name in onnxq.__all__ if not name.startswith("_") and name != "VERSION"]
    functions = [name for name in names if inspect.isfunction(getattr(onnxq, name))]
    classes = [name for name in names if inspect.isclass(getattr(onnxq, name))]
    lines = [_PYTHON, "## Functions\n"]
    for name in functions:
        lines += _function(name)
    lines += ["## Classes\n", "| class | what it is |", "|---|---|"]
    lines += [f"| `onnxq.{name}` | {_cell(_first(getattr(onnxq, name)))} |" for name in classes]
    rest = [name for name in names if name not in (*functions, *classes)]
    lines += [f"| `onnxq.{name}` | {_OTHERS[name]} |" for name in rest]
    return "\n".join([*lines, ""])


def _is_own(member: object) -> bool:
    """Whether onnxq has written a property or a method, and not Python."""
    made = getattr(member, "fget", member)
    return inspect.isfunction(made) and made.__module__.startswith("onnxq")


def rule_page() -> str:
    """The functions and classes of `onnxq.rule`, the latter with what can be asked of them."""
    lines = [_RULE]
    things = [(name, getattr(rule, name)) for name in rule.__all__]
    for name, thing in (one for one in things if inspect.isfunction(one[1]) or inspect.isclass(one[1])):
        lines += [f"## {name}\n", *_said(inspect.getdoc(thing) or "")]
        members = [(key, one) for key, one in inspect.getmembers(thing) if _is_own(one)]
        rows = [f"| `{key}` | {_cell(_first(one))} |" for key, one in members if not key.startswith("_")]
        if inspect.isclass(thing) and rows:
            lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)
