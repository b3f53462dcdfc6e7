"""Each verb, and each exit code, in a process of its own: the same words and files as in that of the tests.

Exit codes 3 and 130 are in `test_start.py`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from command import ROOT, Ran, net, run, run_alone

from onnxq.cli.app import app
from onnxq.options.verbs import VERBS
from tests.as_measured import as_measured

DATA = ("--calib", "data.npz")
QUICK = ("--no-engine", "--method", "minmax", "--repair", "none", "--body", "fp32")
LINES: dict[str, tuple[str, ...]] = {
    "quantize": ("net.onnx", *DATA, *QUICK, "-o", "q.onnx"),
    "sanitize": ("net.onnx", "-o", "clean.onnx"),
    "calibrate": ("net.onnx", *DATA, "-o", "net.stats.npz"),
    "plan": ("net.onnx", *DATA, "--method", "minmax", "-o", "plan.toml"),
    "bundle": (
        "net.onnx",
        *DATA,
        "--method",
        "minmax",
        "--repair",
        "none",
        "-o",
        "bundled",
        "--references",
        "1",
    ),
    "check": ("net.onnx", "--no-engine"),
    "inspect": ("net.onnx",),
    "statistics activations": ("net.onnx", *DATA),
    "statistics weights": ("net.onnx", "--against", "q.onnx"),
    "statistics memory": ("net.onnx",),
    "data": ("net.onnx", *DATA),
    "decide": ("bundled/results.json",),
    "compare": ("net.onnx", "q.onnx", "--data", "data.npz"),
    "analyze": ("net.onnx", "q.onnx", "--data", "data.npz"),
    "sensitivity": ("net.onnx", *DATA, "--method", "minmax", "--repair", "none", "-o", "best.toml"),
    "engine": ("q.onnx",),
    "report": ("q.report.json", "-o", "page.html"),
    "pieces split": ("net.onnx", "--at", "a", "-o", "part"),
    "pieces run": ("part.split.json", "--data", "data.npz"),
    "pieces extract": ("net.onnx", "--to", "a", "-o", "piece.onnx"),
    "init": ("net.onnx", "-o", "new.toml"),
    "help": ("SQNR",),
    "rules list": (),
    "rules explain": ("dead_code",),
    "rules page": ("-o", "rules.md"),
    "rules test": ("own",),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what all verbs read."""
    folder = tmp_path_factory.mktemp("made")
    onnx.save(net(), folder / "net.onnx")
    x = np.random.default_rng(1).standard_normal((24, 32, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    (folder / "own").mkdir()
    shutil.copy(ROOT / "tests" / "own_rules" / "both_branches.py", folder / "own")
    for verb in ("quantize", "pieces split", "bundle"):
        ran = run(folder, *verb.split(), *LINES[verb])
        assert ran.code == 0, ran.err
    as_measured(folder / "bundled")
    return folder


def verbs(group: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    for name in group.list_commands(None):
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from verbs(command, (*before, name))
        else:
            yield " ".join((*before, name))


def test_each_verb_has_a_line() -> None:
    assert list(LINES) == list(VERBS) == list(verbs(typer.main.get_command(app)))


def said(ran: Ran) -> tuple[int, str, str]:
    """What is the same each time: no duration, and no size of a file in which one stands."""
    steps = "".join(
        f"{line}\n" for line in ran.err.splitlines() if not re.fullmatch(r"onnxq: .*: \d+ s.*", line)
    )
    out, err = (re.sub(r"\b[\d.]+(?=\s+(s|k?B)\b)", "<n>", text) for text in (ran.out, steps))
    return ran.code, out, err


def compared(folder: Path, made: Path, *arguments: str) -> int:
    """Runs a command line in both ways; returns the exit code."""
    here, alone = folder / "here", folder / "alone"
    for place in (here, alone):
        shutil.copytree(made, place)
    first, second = run(here, *arguments), run_alone(alone, *arguments)
    assert said(first) == said(second)
    assert sorted(path.name for path in here.iterdir()) == sorted(path.name for path in alone.iterdir())
    return second.code


@pytest.mark.parametrize("verb", LINES)
def test_a_verb(verb: str, made: Path, tmp_path: Path) -> None:
    assert compared(tmp_path, made, *verb.split(), *LINES[verb]) == 0


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (1, ("compare", "net.onnx", "q.onnx", "--data", "data.npz", "--min-sqnr", "200")),
        (2, ("sanitize", "no.onnx", "--json")),
        (2, ("sanitize", "--json")),
    ],
)
def test_an_exit_code(code: int, line: tuple[str, ...], made: Path, tmp_path: Path) -> None:
    assert compared(tmp_path, made, *line) == code
