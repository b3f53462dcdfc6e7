"""`onnxq statistics activations`, `weights` and `memory`: screens, documents, tables, exit codes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import Ran, net

Run = Callable[..., Ran]
HOSTILE = "=cmd|'/c'!A1\n\x1b[31m\u202e"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A net one of whose names is hostile, and data."""
    model = net()
    model.graph.node[1].name = HOSTILE
    model.graph.node[1].output[0] = model.graph.node[2].input[0] = HOSTILE
    onnx.save(model, tmp_path / "net.onnx")
    values = np.random.default_rng(0).standard_normal((3, 32, 8)).astype(np.float32)
    np.save(tmp_path / "data.npy", values)
    return tmp_path


@pytest.mark.parametrize(
    ("verb", "kind", "more"),
    [
        ("activations", "statistics", ("--calib", "data.npy")),
        ("weights", "weights", ()),
        ("memory", "memory", ()),
    ],
)
def test_screen_document_and_table(
    verb: str, kind: str, more: tuple[str, ...], folder: Path, onnxq: Run
) -> None:
    ran = onnxq("statistics", verb, "net.onnx", *more, "--json", "--csv", "rows.csv")
    assert ran.code == 0, ran.err
    found = ran.json()
    assert (found["kind"], found["schema"]) == (kind, 2 if verb == "weights" else 1)
    rows = found["before"]["steps"] if verb == "memory" else found["rows"]
    with (folder / "rows.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(rows) > 0
    assert not any(cell.startswith("=") for row in table for cell in row.values())
    for text in (ran.err, (folder / "rows.csv").read_text("utf-8")):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "product" in ran.err or "MatMul" in ran.err or verb == "activations"


def test_numbers_of_the_table_are_those_of_the_document(folder: Path, onnxq: Run) -> None:
    found = onnxq(
        "statistics", "activations", "net.onnx", "--calib", "data.npy", "-q", "--json", "--csv", "rows.csv"
    ).json()
    with (folder / "rows.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    values = np.load(folder / "data.npy")
    (whole,) = (row for row in found["rows"] if row["tensor"] == "x" and row["channel"] is None)
    (line,) = (row for row in table if row["tensor"] == "x" and not row["channel"])
    assert whole["max"] == float(line["max"]) == values.max()
    assert {name: json.loads(line[f"histogram.{name}"]) for name in whole["histogram"]} == whole["histogram"]


def test_a_table_does_not_replace_a_file_of_the_users(folder: Path, onnxq: Run) -> None:
    (folder / "mine.csv").write_text("mine")
    ran = onnxq("statistics", "memory", "net.onnx", "--csv", "mine.csv")
    assert ran.code == 2
    assert (folder / "mine.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("statistics", "activations", "net.onnx"), "no data is given"),
        (
            ("statistics", "activations", "net.onnx", "--calib", "data.npy", "--stats", "s.npz"),
            "exclude each other",
        ),
        (("statistics", "activations", "net.onnx", "--stats", "data.npy"), "holds no statistics"),
        (("statistics", "activations", "net.onnx", "--calib", "data.npy", "--op", "Conv"), "Conv"),
    ],
)
def test_what_cannot_be_ends_with_2(arguments: tuple[str, ...], words: str, folder: Path, onnxq: Run) -> None:
    ran = onnxq(*arguments)
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err


def test_histograms_are_drawn_with_letters(folder: Path, onnxq: Run) -> None:
    """Of the worst two channels of a tensor, and with --all of each one; a letter an octave."""
    asked = ("statistics", "activations", "net.onnx", "--calib", "data.npy", "--match", "x")
    for more in ((), ("--all",)):
        found = onnxq(*asked, *more, "-q", "--json").json()["rows"]
        drawn = re.findall(r"^ +(x|channel \d+) +\|(.*)\|", onnxq(*asked, *more).out, re.MULTILINE)
        channels = [row for row in found if row["channel"] is not None]
        kept = {f"channel {row['channel']}": row["histogram"] for row in channels if row["histogram"]}
        assert len(kept) == (len(channels) if more else 2) < 9
        assert len(drawn) == 1 + len(kept)
        edges = found[0]["histogram"]["edges"]
        for name, letters in drawn:
            assert len(letters) == len(edges) - 1
            own = found[0]["histogram"] if name == "x" else kept[name]
            place = edges.index(own["edges"][0])
            assert [letter != " " for letter in letters[place:]][: len(own["counts"])] == [
                count > 0 for count in own["counts"]
            ]
    weights = onnxq("statistics", "weights", "net.onnx").out
    assert re.search(r"Spread +of \|weights\|, .*\n +\S+ +\|[ .:=+*#%@-]+\|", weights)
