"""Every command line that is printed runs as it stands, and asks for what the user asked for."""

from __future__ import annotations

import argparse
import copy
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import OF_TWO_LAYERS, weighted
from PIL import Image
from said import is_said
from tool_flags import RELEASES, known

import onnxq
from onnxq.analysis.reports import OpenedReport
from onnxq.cli.app import app
from onnxq.page.making import page_of
from onnxq.run import trt

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, H, W] x) => (float[N, 16, H, W] y) {
        [c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
        [c2] y = Conv <pads = [1, 1, 1, 1]> (b, w2) }"""
QUICK: dict[str, Any] = {"method": "minmax", "repair": "none", "prove": "never"}
ASKED = shlex.split(
    "quantize 'a net.onnx' --calib photos --preset yolo --shape x=1x3x24x24 --method minmax --repair none "
    "--min-sqnr 40 --max-float 1% --config onnxq.toml -o q.onnx"
)
FILE = '[repair]\nprove = "never"\n[report]\nlayer_samples = 0\n'
AGAIN = shlex.join(["onnxq", *ASKED])
OF_MODEL = "'a net.onnx' --calib photos --preset yolo --shape x=1x3x24x24 --config onnxq.toml"


def net() -> onnx.ModelProto:
    return weighted(NET, **OF_TWO_LAYERS)


def samples(*sizes: tuple[int, int]) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((1, 3, *size)).astype(np.float32)} for size in sizes]


def run(line: str) -> list[int]:
    """Runs a command line in this process, as a shell does; the exit codes."""
    codes = []
    for part in line.split(" && "):
        words, _, file = part.partition(" > ")
        program, *arguments = shlex.split(words)
        assert program == "onnxq"
        command = Path(file).open("w") if file else None  # noqa: SIM115
        with pytest.MonkeyPatch.context() as patched:
            if command is not None:
                patched.setattr("sys.stdout", command)
            codes.append(app(arguments, prog_name="onnxq", standalone_mode=False) or 0)
        if command is not None:
            command.close()
    return codes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder in which a goal was missed by a command line, and its report."""
    folder = tmp_path_factory.mktemp("printed")
    random = np.random.default_rng(2)
    (folder / "photos").mkdir()
    for place in range(16):
        pixels = random.integers(0, 256, (20 + place, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{place}.png")
    onnx.save(net(), folder / "a net.onnx")
    (folder / "onnxq.toml").write_text(FILE)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run(AGAIN) == [1]
        report = json.loads(Path("q.report.json").read_text())
    return folder, report


def edited(report: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    found = copy.deepcopy(report)
    change(found)
    return found


def moves_more(report: dict[str, Any]) -> None:
    report["verdict"]["form"] = "merged"
    report["verdict"]["merged"] = {"fp16": {"moved_mb": 1.0}, "int8": {"moved_mb": 2.0}}


def refused(report: dict[str, Any]) -> None:
    report["engine"]["status"] = "failed"
    report["unsupported"] = [{"node": "c1", "op": "Conv", "reason": "NVIDIA's compiler: no", "advice": ""}]


CASES: dict[str, tuple[Callable[[dict[str, Any]], object], str, list[int]]] = {
    "as it is": (lambda report: None, AGAIN.replace("--max-float 1% ", ""), [1]),  # met by float alone
    "moves more": (moves_more, f"onnxq sanitize {OF_MODEL} --body fp16", [0]),
    "refused": (refused, "onnxq check q.onnx", [0]),
    "not in int8": (lambda report: report["engine"].update(status="compiled", not_int8=["c1"]),
                    "onnxq engine q.onnx", [0]),
    "without errors of layers": (
        lambda report: None,
        "onnxq analyze q.onnx --json > analysis.json && onnxq report q.report.json --analysis analysis.json",
        [0, 0],
    ),
}  # fmt: skip


def words(line: str) -> list[str]:
    return sorted(shlex.split(line))


@pytest.mark.parametrize(("change", "command", "codes"), CASES.values(), ids=CASES)
def test_what_the_page_advises(
    made: tuple[Path, dict[str, Any]], change: Callable[[dict[str, Any]], object], command: str,
    codes: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder, report = made
    monkeypatch.chdir(folder)
    page = page_of(OpenedReport.of(edited(report, change), "q.report.json"))
    (line,) = (one.command for one in page.next if words(one.command) == words(command))
    assert run(line) == codes, capsys.readouterr().err


def test_the_page_repeats_the_command_line(
    made: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which makes the same file."""
    folder, report = made
    monkeypatch.chdir(folder)
    line = page_of(OpenedReport.of(report)).reproduce.commands[0]
    assert words(line) == words(AGAIN)
    assert run(line) == [1]
    assert json.loads(Path("q.report.json").read_text())["sha256"] == report["sha256"]


def test_what_sanitize_advises(
    made: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It compiles nothing: the first lines say what does."""
    folder, _ = made
    monkeypatch.chdir(folder)
    assert run("onnxq sanitize 'a net.onnx' --shape x=1x3x24x24 -o 'a clean.onnx'") == [0]
    front = capsys.readouterr().out.partition("a net.onnx -> ")[0]
    (line,) = (one.strip() for one in front.splitlines() if one.startswith("  onnxq "))
    assert line == "onnxq check 'a clean.onnx'"
    assert run(line) == [0], capsys.readouterr().err


def test_of_a_call_in_python_no_command_line_is_made_up() -> None:
    result = onnxq.quantize(net(), samples(*[(16, 16)] * 8), compile=False, layer_samples=0, **QUICK)
    page = page_of(OpenedReport.made(result.report))
    assert not [one.command for one in page.next if one.command.startswith("onnxq")]
    assert not page.reproduce.commands


# -- the tools of others ---------------------------------------------------------------------------------

SIZES = ((24, 40), (16, 64), (32, 48), (20, 40), (28, 56), (24, 40), (24, 40), (24, 40))
SPAN = ((1, 3, 16, 40), (1, 3, 32, 64))


def shapes_of(line: str) -> list[dict[str, tuple[int, ...]]]:
    """The least, the usual and the greatest shape of each input on a line of trtexec."""
    found = []
    for flag in ("--minShapes=", "--optShapes=", "--maxShapes="):
        (word,) = (word for word in shlex.split(line) if word.startswith(flag))
        entries = (one.rsplit(":", 1) for one in word.removeprefix(flag).split(","))
        found.append({name: tuple(map(int, sizes.split("x"))) for name, sizes in entries})
    return found


@pytest.mark.skipif(trt.installed() is None, reason="needs NVIDIA's compiler")
def test_the_shapes_are_those_of_all_samples_and_are_built(tmp_path: Path) -> None:
    """By the run itself, and by who takes the printed ones."""
    result = onnxq.quantize(net(), samples(*SIZES), **QUICK)
    result.save(tmp_path / "q.onnx")
    engine, build = result.report["engine"], result.report["commands"][0]
    least, usual, most = shapes_of(build)
    assert (least["x"], most["x"]) == SPAN
    assert usual["x"][2:] in SIZES
    profile = (least["x"], usual["x"], most["x"])
    assert (engine["status"], engine["int8"]) == ("compiled", 2)
    assert engine["profiles"] == {"x": [list(shape) for shape in profile]}
    again = trt.compile_engine(tmp_path / "q.onnx", sm=engine["sm"], profiles={"x": profile})
    assert again.status == "compiled"


def test_samples_of_one_size_give_one_shape(tmp_path: Path) -> None:
    result = onnxq.quantize(net(), samples(*[(16, 24)] * 8), compile=False, **QUICK)
    assert result.profiles == {"x": ((1, 3, 16, 24),) * 3}


def test_a_profile_of_the_users_is_kept(tmp_path: Path) -> None:
    given = ((1, 3, 8, 8), (1, 3, 16, 16), (4, 3, 64, 64))
    result = onnxq.quantize(net(), samples(*SIZES), compile=False, profiles={"x": given}, **QUICK)
    assert result.profiles == {"x": given}


@pytest.mark.parametrize("target", RELEASES)
def test_the_flags_of_the_tools(target: str, tmp_path: Path) -> None:
    """Each is one that the target's trtexec and Polygraphy know."""
    onnx.save(net(), tmp_path / "net.onnx")
    bodies = {"tensorrt-7": (None,), "tensorrt-10": ("fp32", "fp16", "bf16")}.get(target, ("fp32", "fp16"))
    for body in bodies:
        result = onnxq.quantize(
            tmp_path / "net.onnx", samples(*SIZES), target=target, body=body, compile=False, layer_samples=0,
            **QUICK,
        )  # fmt: skip
        result.save(tmp_path / "q.onnx")
        for line in result.report["commands"]:
            tool, *rest = [word for word in shlex.split(line) if not word.startswith("POLYGRAPHY_")]
            if tool == "polygraphy":
                polygraphy(rest)
            else:
                assert tool == ("tensorrt_rtx" if target == "tensorrt-rtx" else "trtexec")
                assert {word.split("=")[0] for word in rest} <= known(target)


def polygraphy(arguments: list[str]) -> None:
    """Has the tool read its command line; it exits where it does not know a flag."""
    registry = pytest.importorskip("polygraphy.tools.registry")
    parser = argparse.ArgumentParser()
    tools = parser.add_subparsers()
    for tool in registry.TOOL_REGISTRY:
        tool.setup_parser(tools)
    found, unknown = parser.parse_known_args(arguments)
    assert not unknown
    found.subcommand.parse(found)


def test_sizes_that_take_gigabytes_are_not_tried() -> None:
    """The largest inputs take 4.8 GB: that the model runs there is not known, and said so."""
    given = {"x": ((1, 3, 8, 8), (1, 3, 16, 16), (64, 3, 2048, 3072))}
    result = onnxq.quantize(net(), samples(*SIZES), compile=False, profiles=given, layer_samples=0, **QUICK)
    assert result.profiles == given
    notes = " ".join(result.report.calibration.notes)
    assert is_said(notes, "sizes-not-tried", end="largest", gigabytes="4.8")
