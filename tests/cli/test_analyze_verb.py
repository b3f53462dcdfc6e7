"""`onnxq analyze`: the command, its table, its exit codes, and what it refuses."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import Ran, net, run
from onnx import numpy_helper
from said import is_said

import onnxq as package
from onnxq.cli.app import app

Typed = Callable[..., Ran]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `net.onnx`, `data.npz`, and `net.int8.onnx` with its report."""
    folder = tmp_path_factory.mktemp("analyze") / "work"
    folder.mkdir()
    onnx.save(net(), folder / "net.onnx")
    x = np.random.default_rng(1).standard_normal((24, 32, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    done = run(
        folder, "-q", "quantize", "net.onnx", "--calib", "data.npz", "-o", "net.int8.onnx", "--no-engine"
    )
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def typed(quantized: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """The command in this process, in that folder: what it imports takes most of its time."""

    def typed(*arguments: str) -> Ran:
        monkeypatch.chdir(quantized)
        monkeypatch.setenv("COLUMNS", "120")
        capsys.readouterr()  # what the test itself said
        code = app(["analyze", *arguments], prog_name="onnxq", standalone_mode=False) or 0
        return Ran(code, *capsys.readouterr())

    return typed


def test_the_report_beside_it_names_the_original_and_the_data(quantized: Path, typed: Typed) -> None:
    done = typed("net.int8.onnx", "--json", "--csv", "rows.csv")
    assert done.code == 0, done.err
    found = done.json()
    report = json.loads((quantized / "net.int8.report.json").read_text())
    held = report["calibration"]["data"]["place"]["held_out"]
    assert (found["kind"], found["schema"], found["a"]) == ("analysis", 1, "net.onnx")
    assert (found["samples"], found["held_out"], found["data"]) == (len(held), True, "data.npz")
    assert [row["tensor"] for row in found["rows"]][-1] in ("a", "s", "y")
    with (quantized / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["tensor"] for row in rows] == [row["tensor"] for row in found["rows"]]
    for cells, row in zip(rows, found["rows"], strict=True):
        for name, value in row["isolated"].items():
            cell = cells[f"isolated.{name}"]
            assert (None if cell == "" else float(cell)) == (None if value is None else float(value))


def test_the_outputs_are_those_of_compare(quantized: Path, typed: Typed) -> None:
    """One figure, one value: SQNR and that about the mean of an output."""
    command = ("net.onnx", "net.int8.onnx", "--data", "data.npz", "--json")
    output = next(row for row in typed(*command).json()["rows"] if row["output"])
    compared = run(quantized, "compare", *command).json()
    assert output["accumulated"]["sqnr_db"] == pytest.approx(compared["accuracy"][0]["sqnr_db"], abs=1e-3)
    about = compared["about_mean"]["outputs"][0]["sqnr_about_mean_db"]
    assert output["accumulated"]["sqnr_about_mean_db"] == pytest.approx(about, abs=1e-3)


def test_a_threshold_that_is_not_met_is_exit_code_1(quantized: Path, typed: Typed) -> None:
    both = ("net.onnx", "net.int8.onnx", "--data", "data.npz")
    assert typed(*both, "--threshold", "sqnr=5").code == 0
    done = typed(*both, "--threshold", "sqnr=200", "--op", "relu")
    assert done.code == 1
    assert "sqnr=200: 1 of 1" in done.out
    assert typed(*both, "--threshold", "isolated.max_steps=0.001", "--match", "zzz*").code == 0


def test_a_users_metric_is_in_every_row(quantized: Path, typed: Typed) -> None:
    (quantized / "own.py").write_text("def worst(a, b):\n    return abs(a - b).max()\n")
    done = typed(
        "net.onnx", "net.int8.onnx", "--data", "data.npz", "--samples", "1",
        "--metric", "own.py:worst", "--json",
    )  # fmt: skip
    for row in done.json()["rows"]:
        assert row["accumulated"]["metric"] == row["accumulated"]["max_abs"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("net.onnx",), "no report of 'net.onnx'"),
        (("missing.onnx",), "no model file 'missing.onnx'"),
        (("net.int8.report.json", "net.onnx", "--data", "data.npz"), "is a report of onnxq"),
        (("net.onnx", "net.int8.onnx", "--data", "data.npz", "--threshold", "sqnr"), "the form is FIGURE=X"),
        (("net.onnx", "net.int8.onnx", "--data", "data.npz", "--threshold", "psnr=3"), "no figure 'psnr'"),
        (("net.onnx", "net.int8.onnx", "--data", "data.npz", "--metric", "own.py:none"), "none"),
        (("net.onnx", "net.int8.onnx", "--data", "data.npz", "--samples", "0"), "at least 1"),
        (("net.onnx", "data.npz", "--data", "data.npz"), "data.npz"),
    ],
)
def test_what_cannot_be_used_is_said(
    quantized: Path, typed: Typed, arguments: tuple[str, ...], said: str
) -> None:
    (quantized / "own.py").write_text("def worst(a, b):\n    return abs(a - b).max()\n")
    done = typed(*arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_the_noise_model_says_what_the_layer_costs(typed: Typed) -> None:
    """Its product is all that is quantized: what the output is off by is its noise."""
    done = typed("net.int8.onnx", "--noise", "--samples", "4", "--json")
    assert done.code == 0, done.err
    found = done.json()
    rows = {row["layer"]: row for row in found["rows"]}
    assert rows["product"]["predicted_db"] == pytest.approx(
        rows["relu"]["accumulated"]["sqnr_about_mean_db"], abs=1.5
    )
    assert [name for name, row in rows.items() if row["predicted_db"] is not None] == ["product"]
    assert is_said(found["notes"], "predicted-noise")


def test_another_file_is_not_replaced_by_a_table(quantized: Path, typed: Typed) -> None:
    command = ("net.int8.onnx", "--samples", "1", "--csv")
    (quantized / "mine.csv").write_text("name,value\n")
    done = typed(*command, "mine.csv")
    assert done.code == 2
    assert "exists" in done.err
    assert (quantized / "mine.csv").read_text() == "name,value\n"
    assert typed(*command, "mine.csv", "--force").code == 0
    assert typed(*command, "mine.csv").code == 0


def test_names_of_a_model_are_harmless(quantized: Path, typed: Typed) -> None:
    """A name that a terminal or a spreadsheet would obey."""
    model = onnx.load(quantized / "net.onnx")
    names = {
        "product": "=cmd|' /C calc'!A0",
        "a": "@SUM(1)\x1b[2J",
        "scale": "-2+3",
        "relu": "\t=1,\n2",
        "s": "+1",
    }
    for node in model.graph.node:
        node.name = names[node.name]
        for part in (node.input, node.output):
            part[:] = [names.get(name, name) for name in part]
    other = onnx.ModelProto()
    other.CopyFrom(model)
    weights = numpy_helper.to_array(other.graph.initializer[0]) * np.float32(1.01)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, other.graph.initializer[0].name))
    onnx.save(model, quantized / "a.onnx")
    onnx.save(other, quantized / "b.onnx")
    done = typed("a.onnx", "b.onnx", "--data", "data.npz", "--csv", "names.csv")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out + done.err
    assert "=cmd" in done.out
    with (quantized / "names.csv").open(newline="") as file:
        text = file.read()
    rows = list(csv.reader(text.splitlines()))
    assert len(rows) == 4
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "\t", "+"))]
    assert not [cell for cell in cells if cell.startswith("-") and not _is_number(cell)]
    assert "\x1b" not in text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_what_polygraphy_saved_is_compared(quantized: Path, typed: Typed) -> None:
    from polygraphy.comparator import RunResults

    x = np.load(quantized / "data.npz")["x"][:3]
    model = onnx.load(quantized / "net.onnx")
    model.graph.output.append(onnx.ValueInfoProto(name="s"))
    from onnxq.run import ort

    session = ort.load(model, optimize=False)
    given = [dict(zip(session.outputs, session.run({"x": one[None]}), strict=True)) for one in x]
    given[1]["s"] = given[1]["s"] + np.float32(0.5)
    results = RunResults()
    results.add(given, runner_name="trt-runner")
    results.save(str(quantized / "saved.json"))
    np.savez(quantized / "three.npz", x=x)
    done = typed("net.onnx", "saved.json", "--data", "three.npz", "--json")
    assert done.code == 0, done.err
    found = done.json()
    rows = {row["tensor"]: row for row in found["rows"]}
    assert found["runner"] == "trt-runner"
    assert set(rows) == {"s", "y"}
    assert rows["y"]["accumulated"]["sqnr_db"] == "inf"
    assert rows["s"]["accumulated"]["max_abs"] == pytest.approx(0.5, abs=1e-6)
    assert rows["s"]["isolated"] is None
    more = typed("net.onnx", "saved.json", "--data", "data.npz")
    assert more.code == 2
    assert "outputs of 3 samples" in more.err


def test_the_python_function_gives_what_the_command_gives(quantized: Path, typed: Typed) -> None:
    done = typed("net.onnx", "net.int8.onnx", "--data", "data.npz", "--json").json()
    found = package.analyze(quantized / "net.onnx", quantized / "net.int8.onnx", quantized / "data.npz")
    assert [row.tensor for row in found.rows] == [row["tensor"] for row in done["rows"]]
    assert [row.accumulated.mse for row in found.rows] == [row["accumulated"]["mse"] for row in done["rows"]]
