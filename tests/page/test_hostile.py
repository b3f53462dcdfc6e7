"""Names that do harm where a program takes them for more than names: in every verb, on every way out.

One model is run through all verbs once, each with --json and whatever it writes: the document is on standard
output, the page of the screen on standard error.
"""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import hostile
import onnx
import pytest
from as_read import Read
from command import made
from onnx import TensorProto, helper

from onnxq.base.progress import LOG
from onnxq.base.shown import Words
from onnxq.cli.app import app
from onnxq.emit.schemas import KINDS


@dataclass(frozen=True)
class Done:
    """A verb that was run."""

    code: int
    out: str
    screen: str


@dataclass(frozen=True)
class Runs:
    """All verbs, run in a folder."""

    folder: Path
    done: dict[str, Done]


def run(*arguments: object) -> Done:
    """Runs a verb in this process: a process of its own takes half a second more, thirty times."""
    out, screen = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(screen):
        code = app([str(one) for one in arguments], prog_name="onnxq", standalone_mode=False) or 0
    return Done(made(arguments, code, out.getvalue()), out.getvalue(), screen.getvalue())


FIRST, MIDDLE = f"{hostile.NAMES[0]} input", f"{hostile.NAMES[5]} relu"


def verbs(model: Path, data: Path, quantized: Path) -> dict[str, list[object]]:
    """Each verb with what it is given, in an order in which each finds what it reads."""
    report = quantized.with_suffix(".report.json")
    few = ("--samples", 4)
    return {
        "quantize": ["quantize", model, "--calib", data, "-o", quantized, "--repair", "none"],
        "quantize again": ["quantize", model, "--calib", data, "-o", "b.onnx", "--repair", "none", "--no-engine",
                           "--method", "minmax", *few],
        "init": ["init", model, "--calib", data, "-o", "x.toml"],
        "check": ["check", model, "-o", "check.json", "--no-engine"],
        "check --calib": ["check", quantized, "--calib", data, "--no-engine"],
        "inspect": ["inspect", model, "--ops"],
        "inspect --nodes": ["inspect", model, "--nodes", "--all", "--csv", "nodes.csv", "--dot", "nodes.dot"],
        "inspect --tensor": ["inspect", quantized, "--tensor", MIDDLE],
        "data": ["data", model, "--calib", data],
        "plan": ["plan", model, "--calib", data, "-o", "plan.toml", *few],
        "sensitivity": ["sensitivity", model, "--calib", data, "-o", "s.toml", *few, "--repair", "none"],
        "calibrate": ["calibrate", model, "--calib", data, "-o", "x.stats.npz", *few],
        "sanitize": ["sanitize", model, "-o", "clean.onnx"],
        "statistics": ["statistics", "activations", model, "--calib", data, "--all", "--csv", "statistics.csv", "--against", quantized],
        "weights": ["statistics", "weights", model, "--all", "--csv", "weights.csv", "--against", quantized],
        "memory": ["statistics", "memory", model, "--all", "--csv", "memory.csv", "--against", quantized],
        "compare": ["compare", model, quantized, "--data", data],
        "analyze": ["analyze", model, quantized, "--data", data, "--noise", "--csv", "analyze.csv"],
        "engine": ["engine", quantized],
        "diff": ["report", report, "b.report.json", "--all", "--csv", "diff.csv"],
        "split": ["pieces", "split", model, "--at", MIDDLE, "-o", "part"],
        "run": ["pieces", "run", "part.split.json", "--data", data],
        "extract": ["pieces", "extract", model, "--to", MIDDLE, "-o", "piece.onnx"],
        "report": ["report", report, "b.report.json", "--analysis", "analyze.json", "-o", "x.html"],
        "no such tensor": ["inspect", model, "--tensor", hostile.NAMES[12]],
        "no such file": ["inspect", hostile.FILE + hostile.NAMES[12] + ".onnx"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("hostile")
    model, data = hostile.write(folder)
    done, before = {}, Path.cwd()
    os.chdir(folder)
    try:
        for verb, arguments in verbs(model, data, folder / f"quantized {hostile.FILE}").items():
            done[verb] = run(*arguments, "--json")
            (folder / f"{verb}.json").write_text(done[verb].out, "utf-8")
    finally:
        os.chdir(before)
    return Runs(folder, done)


EVERY = list(verbs(Path(), Path(), Path("x.onnx")))


@pytest.mark.parametrize("verb", EVERY)
def test_a_verb(runs: Runs, verb: str) -> None:
    """It does what it does with plain names; its screen and its document hold nothing that acts."""
    done = runs.done[verb]
    print(done.screen[:3000])
    assert done.code == 2 if verb.startswith("no such") else done.code in (0, 1)
    assert "Traceback" not in done.screen
    assert is_harmless(done.screen)
    assert done.out.replace("\n", "").isascii()
    assert not ACTS.search(done.out)
    if done.code != 2:
        assert isinstance(json.loads(done.out), dict)


# What GitHub's runner and that of Azure Pipelines obey in a log.
ACTS = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)


def is_harmless(printed: str) -> bool:
    return printed.replace("\n", "").isprintable() and not ACTS.search(printed)


def unknown(name: str) -> onnx.ModelProto:
    """A model of an operator that nobody knows, with its domain and all else of that name."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(f"{name}op", [f"{name}x"], [f"{name}y"], f"{name}node", domain=f"{name}domain")], "g",
        [info(f"{name}x", TensorProto.FLOAT, [1, 4])], [info(f"{name}y", TensorProto.FLOAT, [1, 4])],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(f"{name}domain", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("name", [name for name in hostile.NAMES if "\0" not in name and "/" not in name])
def test_findings_in_each_form(tmp_path: Path, name: str) -> None:
    """GitHub's lines are onnxq's alone; a log of SARIF shows nothing that acts, and names the node as it is."""
    path = tmp_path / f"{name[:90]}.onnx"
    onnx.save(unknown(name), path)
    github, sarif = (run("check", path, "--no-engine", "--as", form) for form in ("github", "sarif"))
    for one in (github, sarif):
        assert one.code == 1
        assert is_harmless(one.screen), one
    assert github.out
    for line in github.out.splitlines():
        assert re.match(r"::(error|warning|notice) file=[^,:]*,title=[^,:]*::", line), line
        assert line.isprintable()
    for result in json.loads(sarif.out)["runs"][0]["results"]:
        assert result["message"]["text"].replace("\n", "").isprintable()
        assert [one["fullyQualifiedName"] for one in result["locations"][0].get("logicalLocations", ())] in (
            [],
            [f"{name}node"],
        )


@pytest.mark.parametrize("name", hostile.NAMES)
def test_logs_and_notebooks(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", LOG.name):
        LOG.info("%s: it was left out", name)
    assert all(line.isprintable() for line in caplog.text.splitlines())
    assert len(caplog.text.splitlines()) == 1
    words = Words(name, [name], [name], [[name]], [name])
    assert words.text().replace("\n", "").isprintable()
    assert words.html().isprintable()


def written(runs: Runs, ending: str) -> dict[str, str]:
    found = {path.name: path.read_text("utf-8") for path in runs.folder.glob(f"*{ending}")}
    assert found
    return found


def test_tables(runs: Runs) -> None:
    """No cell is a formula, no character acts, and a line is a row."""
    tables = written(runs, ".csv")
    assert set(tables) == {
        f"{one}.csv" for one in ("nodes", "statistics", "weights", "memory", "analyze", "diff")
    }
    names = set()
    for name, text in tables.items():
        rows = list(csv.reader(io.StringIO(text)))
        assert len(rows) == text.count("\n") > 3, name
        assert text.replace("\n", "").isprintable(), name
        for cell in (cell for row in rows for cell in row):
            assert not re.match(r"\s*[=+@\uff1d]|\s*-(?![\d.]+(e[+-]?\d+)?$|inf$)", cell), (name, cell[:80])
            names.add(cell)
    assert {
        "<script>alert(1)</script>",
        "'=cmd|'/C calc'!A0 out",
        "'-2+3 weight",
        "\\x1b[31mred\\x1b[0m",
    } <= names
    assert "n" * 2000 + " relu" in names, "nothing is cut in a table"


def test_documents_hold_names_as_they_are(runs: Runs) -> None:
    """What a program reads is the name itself: JSON escapes what acts."""
    document = json.loads(runs.done["inspect --nodes"].out)
    assert set(hostile.NAMES[::2]) <= {node["name"] for node in document["nodes"]}
    for name, text in written(runs, ".report.json").items():
        found = json.loads(text)
        assert found["schema"] == KINDS[found["kind"]].number, name
        assert text.replace("\n", "").isprintable(), name
    assert "\U0001f600é" in written(runs, "b.report.json")["b.report.json"], "what does no harm is legible"


def test_settings_and_drawings(runs: Runs) -> None:
    """What is read by a program again holds the names, and no line of a comment is ended by one."""
    for name, text in written(runs, ".toml").items():
        tomllib.loads(text)
        assert re.sub("[\n\t]", "", text).isprintable(), name
    plan = tomllib.loads((runs.folder / "plan.toml").read_text("utf-8"))
    assert {layer["node"] for layer in plan["layer"]} >= set(hostile.NAMES[4:12:2])
    for name, text in written(runs, ".dot").items():
        assert text.replace("\n", "").isprintable(), name
        assert all(line.count('"') % 2 == 0 for line in text.replace('\\"', "").split("\n")), name


def test_pages(runs: Runs) -> None:
    """The elements are those of the templates; names are text, and data of a script that is not run."""
    pages = written(runs, ".html")
    assert len(pages) == 4
    for name, html in pages.items():
        page = Read(html)
        assert not {"img", "b", "iframe", "object", "base"} & {tag for tag, _ in page.tags}, name
        assert sum(tag == "script" for tag, _ in page.tags) == (2 if page.data else 1), name
        for tag, attributes in page.tags:
            assert not [key for key in attributes if key.startswith("on") or key == "src"], (name, tag)
            assert (attributes.get("href") or "#").startswith(("#", "data:,")), (name, attributes)
        assert page.said.isprintable(), name
        assert "alert(1)" not in page.scripts[-1], name
    whole = Read(pages["x.html"])
    assert set(hostile.NAMES[4:12:2]) <= {layer["name"] for layer in whole.data["layers"]}
    assert "beside" in whole.sections
    assert "{{7*7}}{% raw %}" in whole.said
    assert "\\u{202e}" in whole.said, "what turns the text around is shown as its code"


@pytest.mark.parametrize("old", [b"Conv", b"-2+3 out", b"-2+3 weight"], ids=["operator", "tensor", "weight"])
def test_a_name_that_is_no_text(tmp_path: Path, old: bytes) -> None:
    """A message of protobuf holds any bytes: half a character in a name is the file's fault, and said so."""
    path = tmp_path / "bytes.onnx"
    path.write_bytes(hostile.model().SerializeToString().replace(old, b"\xed\xb2\x80" + old[3:]))
    for verb in ("inspect", "sanitize"):
        ran = run(verb, path)
        assert (ran.code, "is no UTF-8 text: b'\\xed" in ran.screen) == (2, True), ran.screen
