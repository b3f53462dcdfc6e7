"""Bad input: exit code 2, a message that says what and where, a hint, nothing written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import SAMPLES, contents, net

QUANTIZE = ("quantize", "net.onnx", "--calib", "data.npz")
SANITIZE = ("sanitize", "net.onnx")


@dataclass(frozen=True)
class Case:
    """What is prepared, what is run, and what the error must say."""

    name: str
    arguments: tuple[str, ...]
    says: tuple[str, ...]
    prepare: Callable[[], object] = lambda: None


def write(name: str, data: bytes) -> Callable[[], object]:
    return lambda: Path(name).write_bytes(data)


def says(table: str, line: str) -> Callable[[], object]:
    """Settings of one key."""
    return write("onnxq.toml", f"[{table}]\n{line}\n".encode())


def costs(text: str) -> Callable[[], object]:
    """A file of costs, and settings that name it."""

    def prepare() -> None:
        write("c.json", text.encode())()
        says("goal", 'costs = "c.json"')()

    return prepare


def half_of(name: str, source: Path) -> Callable[[], object]:
    return lambda: Path(name).write_bytes(source.read_bytes()[: source.stat().st_size // 2])


def external(location: str | None = None, keep: int | None = None) -> Callable[[], object]:
    """`net.onnx` with its weights in `w.bin`: said to be elsewhere, cut short, or (keep=0) gone."""

    def prepare() -> None:
        onnx.save(net(), "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        if location is not None:
            model = onnx.load("net.onnx", load_external_data=False)
            for tensor in model.graph.initializer:
                for entry in tensor.external_data:
                    if entry.key == "location":
                        entry.value = location
            Path("net.onnx").write_bytes(model.SerializeToString())
        if keep is not None:
            data = Path("w.bin").read_bytes()[:keep]
            Path("w.bin").unlink()
            if data:
                Path("w.bin").write_bytes(data)

    return prepare


def read_from(location: str) -> Callable[[], object]:
    """`net.onnx` with its weights in that file."""
    return lambda: onnx.save(
        net(), "net.onnx", save_as_external_data=True, location=location, size_threshold=0
    )


def defined_twice() -> None:
    model = net()
    model.graph.node[1].output[0] = model.graph.node[2].output[0]
    onnx.save(model, "net.onnx")


def text(body: str) -> Callable[[], object]:
    head = '<ir_version: 8, opset_import: ["" : 17]> net '
    return lambda: onnx.save(onnx.parser.parse_model(head + body), "net.onnx")


def windows() -> None:
    """A model whose branches have equal sizes only where they are even."""
    text("""(float[N, 4, L] x) => (float[N, 4, L] y) { a = MaxPool <kernel_shape = [2], strides = [2]> (x)
        b = Concat <axis = 2> (a, a)  y = Add (b, x) }""")()
    np.savez("data.npz", x=np.ones((6, 4, 5), np.float32))


def huge_weight() -> None:
    model = net()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend((2**31, 2**31))
    model.graph.initializer[0].raw_data = bytes(16)
    onnx.save(model, "net.onnx")


def strings() -> None:
    """A product of text, which onnxruntime refuses."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 16] x) => (string[N, 16] y) { s = Cast <to = 8> (x) y = Abs (s) }""")
    onnx.save(model, "net.onnx")
    np.savez("data.npz", x=np.ones((4, 16), np.float32))


def data(**arrays: object) -> Callable[[], object]:
    return lambda: np.savez("data.npz", **arrays)


def versions(ir: int, opset: int) -> Callable[[], object]:
    def prepare() -> None:
        model = net()
        model.ir_version, model.opset_import[0].version = ir, opset
        onnx.save(model, "net.onnx")

    return prepare


def integers() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (int64[N, 4] ids) => (float[N, 4] y) { y = Cast <to = 1> (ids) }"""
    onnx.save(onnx.parser.parse_model(text), "net.onnx")
    np.savez("data.npz", ids=np.full((3, 4), 0.5))


def pickled() -> None:
    np.save("data.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)


def infinite_and_nan(value: float) -> Callable[[], object]:
    def prepare() -> None:
        x = np.ones((6, 32, 8), np.float32)
        x[4, 2, 1] = value
        np.savez("data.npz", x=x)

    return prepare


GOOD = np.ones((6, 32, 8), np.float32)
MODELS = [
    Case("missing", ("sanitize", "nte.onnx"), ("no model file", "nte.onnx", "net.onnx")),
    Case("folder", ("sanitize", "."), ("is not a file",)),
    Case("empty", SANITIZE, ("net.onnx", "is empty", "hint: export"), write("net.onnx", b"")),
    Case("truncated", SANITIZE, ("net.onnx", "truncated", "hint: compare the file's size"),
         half_of("net.onnx", SAMPLES / "digits/digits.onnx")),
    Case("text", SANITIZE, ("net.onnx", "not an ONNX model"), write("net.onnx", b"hello, world\n" * 9)),
    Case("random", SANITIZE, ("net.onnx", "not an ONNX model"),
         write("net.onnx", np.random.default_rng(3).bytes(5000))),
    Case("image", SANITIZE, ("net.onnx", "not an ONNX model"),
         write("net.onnx", (SAMPLES / "digits/calib/000.png").read_bytes())),
    Case("no-data-file", SANITIZE, ("'w'", "w.bin"), external(keep=0)),
    Case("short-data-file", SANITIZE, ("'w'", "w.bin"), external(keep=100)),
    Case("data-above", SANITIZE, ("'w'", "../w.bin"), external(location="../w.bin")),
    Case("data-absolute", SANITIZE, ("'w'", "/etc/passwd"), external(location="/etc/passwd")),
    Case("long-name", ("inspect", "n" * 300 + ".onnx"), ("no model file",)),
    Case("defined-twice", SANITIZE, ("net.onnx", "tensor 'y' is defined more than once", "hint: give each"),
         defined_twice),
    Case("cycle", SANITIZE, ("net.onnx", "2 nodes read each other in a cycle", "'b' -> 'a' -> 'b'"),
         text("(float[N] x) => (float[N] y) { a = Add (x, b)  b = Relu (a)  y = Relu (b) }")),
    Case("reads-itself", SANITIZE, ("net.onnx", "node 'a' (Add) reads its own output"),
         text("(float[N] x) => (float[N] y) { a = Add (x, a)  y = Relu (a) }")),
    Case("two-inputs", SANITIZE, ("net.onnx", "there are two inputs 'x'"),
         text("(float[N] x, float[N] x) => (float[N] y) { y = Relu (x) }")),
    Case("output-of-nothing", SANITIZE, ("net.onnx", "nothing makes its output 'z'"),
         text("(float[N] x) => (float[N] y, float[N] z) { y = Relu (x) }")),
    Case("huge-weight", SANITIZE, ("weight 'w' is 2147483648x2147483648", "and the file holds 16"),
         huge_weight),
    Case("not-in-onnxruntime", QUANTIZE,
         ("onnxruntime does not load the model", "Abs", "hint: calibration runs"), strings),
    Case("opset-99", SANITIZE, ("opset 99", "onnxruntime", "hint: export it with an older opset"),
         versions(8, 99)),
    Case("ir-99", SANITIZE, ("IR version 99", "onnxruntime"), versions(99, 17)),
    Case("ir-99-quantize", QUANTIZE, ("IR version 99", "onnxruntime"), versions(99, 17)),
    Case("ir-99-compare", ("compare", "net.onnx", "net.onnx", "--data", "data.npz"), ("IR version 99",),
         versions(99, 17)),
    Case("empty-inspect", ("inspect", "net.onnx"), ("net.onnx", "is empty"), write("net.onnx", b"")),
    Case("empty-check", ("check", "net.onnx"), ("net.onnx", "is empty"), write("net.onnx", b"")),
    Case("empty-engine", ("engine", "net.onnx"), ("net.onnx", "is empty"), write("net.onnx", b"")),
]  # fmt: skip
DATA = [
    Case("data-missing", ("quantize", "net.onnx", "--calib", "dat.npz"),
         ("dat.npz", "hint: did you mean 'data.npz'")),
    Case("data-long-name", ("quantize", "net.onnx", "--calib", "n" * 300), ("no data file or folder",)),
    Case("data-name", QUANTIZE, ("data.npz", "'x'", "Rename the array", "--input-name x=NAME"),
         data(image=GOOD, label=GOOD)),
    Case("data-rank", QUANTIZE, ("data.npz", "'x'", "Nx32x8", "shape 6", "rank"), data(x=GOOD[:, 0, 0])),
    Case("data-size", QUANTIZE, ("data.npz", "'x'", "Nx32x8", "6x3x8", "size 3 where 32"),
         data(x=GOOD[:, :3])),
    Case("data-dtype", QUANTIZE, ("data.npz", "'ids'", "int64", "float64", "hint: convert it"), integers),
    Case("data-nan", QUANTIZE, ("data.npz[4]", "'x'", "nan", "[0, 2, 1]"), infinite_and_nan(np.nan)),
    Case("data-infinite", QUANTIZE, ("data.npz[4]", "'x'", "inf", "[0, 2, 1]"), infinite_and_nan(np.inf)),
    Case("data-pickled", ("quantize", "net.onnx", "--calib", "data.npy"), ("data.npy", "pickle"), pickled),
    Case("data-zero", QUANTIZE, ("zero samples",), data(x=GOOD[:0])),
    Case("data-empty-folder", ("quantize", "net.onnx", "--calib", "calib"),
         ("calib", "zero samples", "empty"), lambda: Path("calib").mkdir()),
    Case("data-not-data", ("quantize", "net.onnx", "--calib", "net.onnx"), ("net.onnx", "not a data file")),
    Case("data-broken", QUANTIZE, ("data.npz",), write("data.npz", b"PK\x03\x04 not a zip file")),
    Case("data-compare", ("compare", "net.onnx", "net.onnx", "--data", "data.npz"), ("data.npz", "'x'"),
         data(image=GOOD, label=GOOD)),
    Case("input-name-unknown", (*QUANTIZE, "--input-name", "xx=image"),
         ("--input-name xx=image: there is no input 'xx'", "hint: did you mean 'x'"), data(image=GOOD)),
    Case("input-name-turned", ("data", "net.onnx", "--calib", "data.npz", "--input-name", "image=x"),
         ("there is no input 'image'", "hint: the model's input stands first: --input-name x=image"),
         data(image=GOOD)),
    Case("input-name-form", (*QUANTIZE, "--input-name", "x="),
         ("'x=' is not understood: there is no name", "hint: the form is --input-name INPUT=NAME"),
         data(image=GOOD)),
    Case("input-name-of-no-array", (*QUANTIZE, "--input-name", "x=imag"),
         ("there is no array named 'imag', which --input-name gives to input 'x'", "did you mean 'image'"),
         data(image=GOOD)),
    Case("input-name-of-one-array", ("compare", "net.onnx", "net.onnx", "--data", "data.npz", "--input-name",
                                     "x=imag"),
         ("there is no array named 'imag'",), data(image=GOOD)),
    Case("input-name-without-names", ("quantize", "net.onnx", "--calib", "x.npy", "--input-name", "x=image"),
         ("--input-name x=image: x.npy", "without names", "hint: leave it out"),
         lambda: np.save("x.npy", GOOD)),
]  # fmt: skip
OUTPUTS = [
    Case("output-no-folder", (*SANITIZE, "-o", "no/such/x.onnx"), ("no/such", "hint: create it first")),
    Case("output-no-such-folder", (*SANITIZE, "-o", "new/"), ("no folder 'new/'", "create it first")),
    Case("output-is-folder", (*SANITIZE, "-o", "here"), ("net.clean.onnx", "is a folder"),
         lambda: Path("here/net.clean.onnx").mkdir(parents=True)),
    Case("output-is-input", (*QUANTIZE, "-o", "net.onnx"), ("net.onnx", "is the input", "-o")),
    Case("output-links-to-input", (*SANITIZE, "-o", "link.onnx"), ("link.onnx", "is the input"),
         lambda: os.symlink("net.onnx", "link.onnx")),
    Case("output-is-input-forced", (*SANITIZE, "--force", "-o", "./net.onnx"), ("is the input",)),
    Case("output-is-pipe", (*SANITIZE, "-o", "pipe.onnx"), ("pipe.onnx", "not a file"),
         lambda: os.mkfifo("pipe.onnx")),
    Case("output-long-name", (*SANITIZE, "-o", "n" * 300 + ".onnx"), ("cannot write", "too long")),
    Case("output-long-report", (*SANITIZE, "-o", "n" * 246 + ".onnx"), ("cannot write", "too long")),
    Case("output-replaces-weights", (*SANITIZE, "--force", "-o", "x.onnx"),
         ("'x.onnx.data' holds weights of the input 'net.onnx'", "-o"), read_from("x.onnx.data")),
    Case("output-exists", (*SANITIZE, "-o", "other.onnx"), ("other.onnx", "did not write it", "--force"),
         write("other.onnx", b"mine")),
    Case("output-data-exists", (*SANITIZE, "-o", "x.onnx"), ("x.onnx.data", "did not write it"),
         write("x.onnx.data", b"mine")),
    Case("output-report-exists", (*SANITIZE, "-o", "x.onnx"), ("x.report.json", "did not write it"),
         write("x.report.json", b"[1]")),
]  # fmt: skip
NAMES = [
    Case("target", (*SANITIZE, "--target", "tensorrt-12"), ("target 'tensorrt-12'", "tensorrt-11")),
    Case("rule-skip", SANITIZE, ("rule 'fold_constant'", "'fold_constants'"),
         says("repair", 'skip = "fold_constant"')),
    Case("rule-enable", SANITIZE, ("rule 'inline_fi'", "'inline_if'"),
         says("repair", 'enable = "inline_fi"')),
    Case("rule-explain", ("rules", "explain", "dead_cod"), ("rule 'dead_cod'", "'dead_code'")),
    Case("node", (*QUANTIZE, "--keep-float", "prodct"), ("node 'prodct'", "'product'")),
    Case("input", (*SANITIZE, "--shape", "xx=1x32x8"), ("input 'xx'", "'x'")),
    Case("input-freeze", (*SANITIZE, "--freeze", "xx=1"), ("input 'xx'", "'x'")),
    Case("input-profile", ("engine", "net.onnx", "--profile", "xx=1:1:1"), ("input 'xx'", "'x'")),
    Case("dimension", (*SANITIZE, "--assume", "NN=1"), ("dimension 'NN'", "'N'")),
    Case("tensor", ("inspect", "net.onnx", "--tensor", "yy"), ("tensor 'yy'", "'y'")),
    Case("rules-folder", (*SANITIZE, "--rules", "mine"), ("rules folder 'mine'", "hint:")),
    Case("rules-empty", ("rules", "test", "mine"), ("no rule in folder 'mine'",),
         lambda: Path("mine").mkdir()),
    Case("method", (*QUANTIZE, "--method", "minimax"), ("method 'minimax'", "'minmax'")),
    Case("body", (*QUANTIZE, "--body", "fp8"), ("body 'fp8'", "'fp16'")),
    Case("io", (*QUANTIZE, "--body", "bf16"), ("in fp16 do not go", "one type"),
         says("format", 'io = "fp16"')),
    Case("prove", (*SANITIZE, "--prove", "alway"), ("'alway'", "'always'")),
]  # fmt: skip
VALUES = [
    Case("shape-rank", (*SANITIZE, "--shape", "x=1x4"), ("'x'", "3 dimensions", "2")),
    Case("shape-static", (*SANITIZE, "--shape", "x=1x5x8"), ("dimension 1", "'x'", "32", "5")),
    Case("shape-does-not-run", (*SANITIZE, "--shape", "x=1x4x5"),
         ("with --shape x=1x4x5 the model does not run", "hint: it runs with other sizes, as with x=1x4x64"),
         windows),
    Case("data-sizes", QUANTIZE, ("data.npz[", "others do (x 1x4x64): check the sample's sizes"), windows),
    Case("shape-form", (*SANITIZE, "--shape", "1x32x8"), ("--shape '1x32x8'", "INPUT=1x3x224x224")),
    Case("shape-twice", (*SANITIZE, "--shape", "x=1x32x8", "--shape", "x=2x32x8"), ("twice", "'x'")),
    Case("assume-form", (*SANITIZE, "--assume", "N=one"), ("--assume 'N=one'", "DIM=SIZE")),
    Case("assume-zero", (*SANITIZE, "--assume", "N=0"), ("N=0", "at least 1")),
    Case("freeze-form", (*SANITIZE, "--freeze", "x=1,true"), ("--freeze 'x=1,true'", "INPUT=VALUE")),
    Case("profile-form", (*QUANTIZE, "--profile", "x=1x32x8"), ("--profile 'x=1x32x8'", "MIN:OPT:MAX")),
    Case("samples", (*QUANTIZE, "--samples", "0"), ("samples", "at least 1")),
    Case("seed", QUANTIZE, ("seed is -1, not a whole",), says("calibration", "seed = -1")),
    Case("compare-samples", ("compare", "net.onnx", "net.onnx", "--data", "data.npz", "--samples", "0"),
         ("--samples 0", "at least 1")),
    Case("no-model", ("sanitize",),
         ("MODEL", "hint: the form is onnxq sanitize [OPTIONS] MODEL: see onnxq sanitize --help")),
    Case(
        "no-data",
        ("quantize", "net.onnx"),
        ("--calib", "hint: give --calib FOLDER (images or arrays), or --stats FILE"),
    ),
    Case("no-such-flag", (*SANITIZE, "--fast"), ("--fast",)),
    Case("no-such-verb", ("quantise",), ("quantise", "hint: see onnxq --help")),
    Case("no-rules-verb", ("rules",), ("command", "hint: see onnxq rules --help")),
]  # fmt: skip
EVAL = (*QUANTIZE, "--eval", "score.py:top1")
COSTS = (*QUANTIZE, "--min-sqnr", "99")
GOALS = [
    Case("goal-number", (*QUANTIZE, "--min-sqnr", "much"), ("--min-sqnr 'much'", "no number", "as in 30")),
    Case("goal-infinite", (*QUANTIZE, "--min-sqnr", "inf"), ("'inf' is not finite",)),
    Case("goal-percentage", (*QUANTIZE, "--min-agreement", "101"), ("'101' is no percentage",)),
    Case("goal-twice", (*QUANTIZE, "--min-agreement", "y=9", "--min-agreement", "z=8"),
         ("--min-agreement is given twice: 'y=9' and 'z=8'", "once")),
    Case("goal-level-twice", (*QUANTIZE, "--min-sqnr", "9", "--min-sqnr", "8"),
         ("--min-sqnr is given twice",)),
    Case("goal-output", (*QUANTIZE, "--min-agreement", "yy=99"), ("there is no output 'yy'", "'y'")),
    Case("task-twice", (*QUANTIZE, "--task", "classify", "--task", "detect"),
         ("--task is given twice", "once")),
    Case("task-unknown", (*QUANTIZE, "--task", "detects"), ("no task 'detects'", "'detect'")),
    Case("task-not-understood", (*QUANTIZE, "--task", "detect:yolov99"), ("'yolov99' is no word", "yolov8")),
    Case("task-not-fitting", (*QUANTIZE, "--task", "detect:boxes=0:4,scores=90:,xyxy"),
         ("does not fit the model", "'y' has 16 columns")),
    Case("task-and-output", (*QUANTIZE, "--task", "classify", "--min-agreement", "y=9"),
         ("--min-agreement names output 'y'", "leave one of them out")),
    Case("task-compare",
         ("compare", "net.onnx", "net.onnx", "--data", "data.npz", "--task", "tokens:scores=z"),
         ("no output 'z'", "'y'")),
    Case("goal-weigh", (*QUANTIZE, "--min-sqnr", "30"), ("no output 'yy'", "'y'"),
         says("goal", "weigh = {yy = 2}")),
    Case("goal-weigh-nothing", (*QUANTIZE, "--min-sqnr", "30"), ("every output weighs 0",),
         says("goal", "weigh = {y = 0}")),
    Case("goal-share", (*QUANTIZE, "--min-sqnr", "30", "--max-float", "5"), ("'5' is no part", "as in 5%")),
    Case("goal-share-alone", (*QUANTIZE, "--max-float", "5%"), ("no goal", "hint: give one: --min-sqnr")),
    Case("goal-no-workers", (*QUANTIZE, "--min-sqnr", "30"), ("workers is 0, not a whole",),
         says("calibration", "workers = 0")),
    Case("goal-measure-alone", QUANTIZE, ("samples measure", "no goal", "--min-sqnr"),
         says("goal", "measure = 8")),
    Case("goal-drop-alone", (*QUANTIZE, "--max-drop", "1"), ("no score", "--eval FILE.py:FUNCTION")),
    Case("goal-target", (*QUANTIZE, "--min-sqnr", "30", "--target", "tensorrt-7"),
         ("calibrates by itself", "leave the goal out")),
    Case("goal-compare", ("compare", "net.onnx", "net.onnx", "--data", "data.npz", "--min-agreement", "z=9"),
         ("no output 'z'", "'y'")),
    Case("costs-missing", COSTS, ("cannot read 'c.json'",), says("goal", 'costs = "c.json"')),
    Case("costs-near", COSTS, ("did you mean 'macs'",), says("goal", 'costs = "mac"')),
    Case("costs-no-json", COSTS, ("'c.json' is no JSON",), costs("product: 1")),
    Case("costs-no-object", COSTS, ("holds no costs",), costs("[1]")),
    Case("costs-negative", COSTS, ("the cost of node 'product' is -1", "not negative"),
         costs('{"product": -1}')),
    Case("costs-node", COSTS, ("no node 'prodct'", "'product'"), costs('{"prodct": 1}')),
    Case("eval-missing", EVAL, ("no scoring script 'score.py'", "FILE.py:FUNCTION")),
    Case("eval-no-function", (*QUANTIZE, "--eval", "score.py"), ("does not say which function",),
         write("score.py", b"def top1(model): return 1")),
    Case("eval-other-function", EVAL, ("no function in 'score.py' named 'top1'", "'top'"),
         write("score.py", b"def top(model): return 1")),
    Case("eval-syntax", EVAL, ("'score.py', line 2: SyntaxError",), write("score.py", b"\ndef top1(")),
    Case("eval-raises", EVAL, ("'score.py', line 2: KeyError", "-v"),
         write("score.py", b"def top1(model):\n    raise KeyError('label')")),
    Case("eval-nothing", EVAL, ("score.py:top1 returned NoneType, not a number",),
         write("score.py", b"def top1(model): pass")),
    Case("eval-nan", EVAL, ("score.py:top1 returned nan", "finite"),
         write("score.py", b"def top1(model, part): return float('nan')")),
    Case("eval-no-parameter", EVAL, ("score.py:top1 takes no parameter", "the form is"),
         write("score.py", b"def top1(): return 1")),
    Case("eval-async", EVAL, ("score.py:top1 is an async function",),
         write("score.py", b"async def top1(model): return 1")),
    Case("eval-exit", EVAL, ("'score.py', line 3: it called sys.exit(0)",),
         write("score.py", b"import sys\ndef top1(model):\n    sys.exit(0)")),
    Case("eval-parameters", EVAL, ("cannot be called with a model",),
         write("score.py", b"def top1(model, part, seed): return 1")),
    Case("eval-input", EVAL,
         ("'score.py', line 1: the function feeds the model 'image', and not its input 'x'",),
         write("score.py", b"def top1(model): return model({'image': 0})")),
    Case("eval-shape", EVAL, ("'score.py', line 2: the model does not run on what the function gives it",),
         write("score.py", b"import numpy\ndef top1(model): return model({'x': numpy.ones((1, 2), 'f')})")),
    Case("sensitivity-no-data", ("sensitivity", "net.onnx"), ("no data", "--calib")),
    Case("sensitivity-output", ("sensitivity", "net.onnx", "--calib", "data.npz", "-o", "onnxq.toml"),
         ("'onnxq.toml' exists, and onnxq did not write it", "--force"),
         write("onnxq.toml", b"quiet = false\n")),
]  # fmt: skip
CASES = [*MODELS, *DATA, *OUTPUTS, *NAMES, *VALUES, *GOALS]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_is_refused(case: Case, folder: Path, onnxq, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    case.prepare()
    before = contents(folder)
    ran = onnxq(*case.arguments)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    errors = [line for line in ran.err.splitlines() if not line.startswith("onnxq: ")]
    assert errors[0].startswith("error: ")
    for text in case.says:
        assert text in ran.err
    assert contents(folder) == before
    assert not list(folder.with_name(f"{folder.name}.tmp").glob("*onnxq*"))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder in which nobody can write")
def test_folder_that_cannot_be_written(folder: Path, onnxq) -> None:
    ran = onnxq(*SANITIZE, "-o", "/proc/x.onnx")
    assert ran.code == 2
    assert "/proc/x.onnx" in ran.err
    assert "cannot write" in ran.err


def test_traceback_only_when_asked_for(folder: Path, onnxq) -> None:
    ran = onnxq("-v", "sanitize", "no.onnx")
    assert ran.code == 2
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-2].endswith("'no.onnx'")
