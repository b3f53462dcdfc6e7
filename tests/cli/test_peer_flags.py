"""What people type: words of other tools work, or the error says what to type; so with mistakes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from command import run
from typer.main import get_command

from onnxq.cli.app import app
from onnxq.cli.each_model import main as each_model
from onnxq.cli.peer_flags import METHODS, PEER_VERBS, PEERS, in_our_words, peer_of
from onnxq.cli.typed import UsageError, understood
from onnxq.options.config import load_config
from onnxq.options.settings import METHODS as OURS
from onnxq.options.verbs import VERBS

COMMAND = get_command(app)
FLAGS = {
    flag
    for group in VERBS["quantize"].groups
    for said in VERBS["quantize"].flags(group).values()
    for flag in said.flag
}

# What users of Model-Optimizer, onnxruntime, polygraphy, trtexec, AIMET and Ultralytics type.
TYPED = [
    "--batch", "--batch-size", "--exclude", "--exclude-nodes", "--nodes_to_exclude",
    "--op_types_to_exclude", "--op_types_to_quantize", "--int8", "--fp16", "--bf16", "--per-channel",
    "--calibration_method", "--calibration-method", "--calibration_data", "--calibration_data_path",
    "--onnx_path", "--output_path", "--quantize_mode", "--high_precision_dtype", "--calibration_shapes",
    "--input-shape", "--input_shapes", "--minShapes", "--optShapes", "--maxShapes", "--imgsz", "--data",
]  # fmt: skip

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 16] x) => (float[N, 16] y) <float[16, 16] w = {%s}> {
        [first] a = MatMul (x, w)  [second] s = Softmax (a)  [third] y = MatMul (s, w) }"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    onnx.save(
        onnx.parser.parse_model(NET % ", ".join(map(str, random.standard_normal(256)))), tmp_path / "net.onnx"
    )
    np.savez(tmp_path / "data.npz", x=random.standard_normal((32, 16)).astype(np.float32))
    return tmp_path


def test_each_has_an_answer() -> None:
    ours = FLAGS | {"--output", "--force", "--verbose"}
    assert [flag for flag in TYPED if flag not in FLAGS and peer_of(flag, ours) is None] == []


def test_what_is_said_exists() -> None:
    ours = FLAGS | {"--output", "--force", "--verbose", "--data", "--open"}
    assert set(METHODS.values()) <= set(OURS)
    assert {name for name in PEERS if name in FLAGS} == {"--calib"}  # of verbs that call it --data
    for peer in PEERS.values():
        assert set(re.findall(r"--[a-z][a-z0-9-]+", f"{peer.ours} {peer.why}")) <= ours
    for words, _ in PEER_VERBS.values():
        assert words in {*VERBS, "", "help schema", "quantize --budget 6"}
    assert not set(PEER_VERBS) & set(VERBS)


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        (["--exclude-nodes", "first"], ["--keep-float", "first"]),
        (["--exclude=first"], ["--keep-float", "first"]),
        (["--nodes_to_exclude", "first", "third"], ["--keep-float", "first", "--keep-float", "third"]),
        (["--exclude-ops", "MatMul"], ["--keep-float", "MatMul"]),
        (["--keep_float_op=MatMul"], ["--keep-float", "MatMul"]),
        (["--calibration_method", "max"], ["--method", "minmax"]),
        (["--calibration-method=Entropy"], ["--method", "entropy"]),
        (["--input-shape", "x=8x16"], ["--shape", "x=8x16"]),
        (["--overwrite-input-shape", "x:8,16"], ["--shape", "x=8x16"]),
        (["--batch-size", "4", "--exclude-nodes", "first"], ["--batch", "4", "--keep-float", "first"]),
        (["--minShapes=x:1x16", "--optShapes=x:4x16"], ["--profile", "x=1x16:4x16:4x16"]),
        (["--fp16", "--num_samples", "20"], ["--body", "fp16", "--samples", "20"]),
        (["--no-compile", "--bs", "4"], ["--no-engine", "--batch", "4"]),
        (["--target", "10.13"], ["--target", "tensorrt-10"]),
    ],
)
def test_what_means_the_same_gives_the_same_file(folder: Path, typed: list[str], ours: list[str]) -> None:
    files = []
    for name, flags in (("a.onnx", typed), ("b.onnx", ours)):
        ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--repair", "none",
                  "-o", name, *flags)  # fmt: skip
        assert ran.code == 0, ran.err
        files.append((folder / name).read_bytes())
        flag, value = typed[0].partition("=")[0], typed[-1]
        said = f"target {value} is called" if flag == "--target" else f"{flag} is called {ours[0]} here"
        assert (said in ran.err + ran.out) == (flags is typed)
    assert files[0] == files[1]


def test_the_line_that_is_said_is_understood() -> None:
    """Each error of `typed.md` says a line, which the command line takes as it is."""
    text = Path(__file__).with_name("typed.md").read_text("utf-8")
    commands, lines = text.count("$ onnxq "), re.findall(r"^hint: (.*)$", text, re.MULTILINE)
    assert len(lines) == commands == text.count("[exit code 2]") >= 40
    for line in lines:
        for one in line.split(" && "):
            program, *words = shlex.split(one)
            if program == "python":
                assert words[:3] == ["-P", "-m", each_model.__module__]
                continue
            assert program == "onnxq"
            understood(COMMAND, words)


@pytest.mark.parametrize("flag", [name for name, peer in PEERS.items() if peer.why and not peer.of])
def test_what_is_something_else_is_left_out_of_the_line(folder: Path, flag: str) -> None:
    values = ["1"] * abs(PEERS[flag].values)
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", flag, *values)
    assert (ran.code, ran.out) == (2, "")
    error, hint = ran.err.splitlines()[-2:]
    assert error == f"error: no such option: {flag}: {PEERS[flag].why}"
    added = f" {PEERS[flag].ours}" if PEERS[flag].ours else ""
    assert hint == f"hint: onnxq quantize net.onnx --calib data.npz{added}"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("statistics net.onnx --calib data.npz", "statistics activations net.onnx --calib data.npz"),
        ("statistics --calib data.npz net.onnx", "statistics activations --calib data.npz net.onnx"),
        ("weights net.onnx --csv w.csv", "statistics weights net.onnx --csv w.csv"),
        ("memory net.onnx", "statistics memory net.onnx"),
        ("split net.onnx --at a", "pieces split net.onnx --at a"),
        ("run net.split.json --data data.npz", "pieces run net.split.json --data data.npz"),
        ("extract net.onnx --to a", "pieces extract net.onnx --to a"),
        ("schema report", "help schema report"),
        ("diff a.report.json b.report.json --strict", "report a.report.json b.report.json --strict"),
        ("report a.report.json --compare b.report.json", "report a.report.json b.report.json"),
        ("report --compare=b.report.json a.report.json --open", "report a.report.json --open b.report.json"),
        ("report --output=x.html --compare b.json a.json", "report --output=x.html a.json b.json"),
        ("advise net.onnx --calib data.npz", "quantize --budget 6 net.onnx --calib data.npz"),
        ("pieces split net.onnx part.onnx", "pieces split net.onnx -o part.onnx"),
        ("statistics weights net.onnx b.onnx",
         "statistics weights net.onnx && onnxq statistics weights b.onnx"),
    ],
)  # fmt: skip
def test_a_line_of_before_says_what_to_type(folder: Path, typed: str, line: str) -> None:
    ran = run(folder, *typed.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == f"hint: onnxq {line}"
    for one in line.split(" && onnxq "):
        understood(COMMAND, one.split())


def test_json_has_the_line(folder: Path) -> None:
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--int4", "--json")
    assert ran.json()["error"]["hint"] == "onnxq quantize net.onnx --calib data.npz --json"


@pytest.mark.parametrize(
    "words",
    [
        ("statistics", "weights", "net.onnx", "--exclude-nodes", "first"),
        ("quantize", "net.onnx", "--nonsense", "3"),
        ("nonsense",),
    ],
)
def test_of_what_is_not_known_the_help_is_named(folder: Path, words: tuple[str, ...]) -> None:
    ran = run(folder, *words)
    assert ran.code == 2
    assert re.search(r"^hint: see onnxq( \w+)* --help$", ran.err, re.MULTILINE)


def test_only_the_flag_and_its_value_change() -> None:
    words = ["quantize", "max", "--calibration-method", "max", "-o", "max"]
    peer = peer_of("--calibration-method", {"--method"})
    assert peer is not None
    assert in_our_words(words, "--calibration-method", peer) == [
        "quantize", "max", "--method", "minmax", "-o", "max",
    ]  # fmt: skip
    assert peer_of("--calibration-method", ()) is None
    assert peer_of("--nothing", {"--method"}) is None


def test_a_line_that_is_not_understood_is_refused() -> None:
    for words in (["quantize", "net.onnx", "--int4"], ["net.onnx"], ["check", "a.onnx", "b.onnx"]):
        with pytest.raises(UsageError):
            understood(COMMAND, words)


def test_operators_stay_in_float(folder: Path) -> None:
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--repair", "none",
              "--keep-float", "MatMul", "-o", "a.onnx", "--json")  # fmt: skip
    kept = {one["node"]: one["because"] for one in ran.json()["plan"]["kept_float"]}
    assert kept["first"] == kept["third"] == "--keep-float MatMul"
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--keep-float", "MatMull")
    assert ran.code == 2
    assert "no node 'MatMull'" in ran.err
    assert "did you mean 'MatMul'?" in ran.err


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("--no-page", "no_page = true under [report]"),
        ("--skip a --skip=b", 'skip = ["a", "b"] under [repair]'),
        ("--percentile 99.9", "percentile = 99.9 under [calibration]"),
        ("--crop=224x200", 'crop = "224x200" under [images]'),
        ("--time_limit 600", "time_limit = 600 under [goal]"),
        (
            "--profile-weight a=0.8 --profile-weight b/c=0.2",
            'profile_weight = {"a" = 0.8, "b/c" = 0.2} under [inputs]',
        ),
        ("--workers 2", "workers = 2 under [calibration]"),
        ("--keep-fp32 /head/*", 'keep_fp32 = "/head/*" under [format]'),
        ("--ship-from 90", "ship_from = 90 under [goal]"),
    ],
)
def test_a_flag_that_is_gone_says_the_line_of_the_file(folder: Path, typed: str, line: str) -> None:
    ran = run(folder, "quantize", "net.onnx", *typed.split(), "--calib", "data.npz")
    assert ran.code == 2
    assert f"onnxq.toml now: {line}" in ran.err
    assert "hint: onnxq quantize net.onnx --calib data.npz\n" in ran.err
    text, _, table = line.partition(" under ")
    (folder / "onnxq.toml").write_text(f"{table}\n{text}\n")
    assert load_config(folder / "onnxq.toml").options  # it is taken as it is


def test_few_flags_are_left() -> None:
    assert len(COMMAND.commands["quantize"].params) <= 47  # the model is one, --help is none


def test_what_only_the_file_has_comes_along_by_its_name(folder: Path) -> None:
    """A command that is to follow names the file, unless it is found by itself."""
    for name, said in (("mine.toml", "--config mine.toml"), ("onnxq.toml", "")):
        (folder / name).write_text('[repair]\nskip = "unfuse_gelu"\n')
        named = ("--config", name) if said else ()
        ran = run(folder, "plan", "net.onnx", *named, "-o", "p.toml", "--force", columns=200)
        assert f"onnxq quantize net.onnx --plan p.toml {said}".rstrip() + " --calib DATA\n" in ran.out


def test_nothing_is_printed_while_a_line_is_read(folder: Path) -> None:
    """`report` shows all its flags anyway; the help of the verb that has this flag is not asked for."""
    ran = run(folder, "report", "a.report.json", "b.report.json", "--help-all")
    assert (ran.code, ran.out) == (2, "")
