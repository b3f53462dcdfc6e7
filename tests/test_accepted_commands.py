"""No command line is printed that would be refused when it is run, and no two runs advise one another."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run
from said import is_said

import onnxq
from onnxq.advice.advise import advise
from onnxq.analysis.reports import OpenedReport
from onnxq.checks.load import CHECKS
from onnxq.cli.pages.short import short_screen
from onnxq.documents.advice import LikelyCause
from onnxq.graph.model import Model
from onnxq.graph.named import named
from onnxq.graph.view import every_node
from onnxq.options.command_line import accepted, without_refused
from onnxq.options.settings import STEPS
from onnxq.page.sections import next_steps
from onnxq.run import ort, trt

HEAD = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> net '
NETS = {
    "strings": "(float[1, 4] x, string[1] s) => (float[1, 4] y, string[1] t) "
               "{ y = Relu (x)  t = Identity (s) }",
    "unknown": "(float[1, 4] x) => (float[1, 4] y) { a = Relu (x)  b = own.Thing (a)  y = Relu (b) }",
    "unknown_alone": "(float[1, 4] x) => (float[1, 4] y) { [only] y = own.Thing (x) }",
    "spaces": "(float[1, 4] x) => (float[1, 4] y) { a = Relu (x)  b = Det2 (a)  y = Relu (b) }",
    "volumes": "(float[1, 2, 4, 4, 4] x, float[1, 4, 4, 4, 3] g) => (float[1, 2, 4, 4, 4] y) "
               "{ a = Relu (x)  y = GridSample (a, g) }",
    "text_inside": "(string[1] s) => (string[1] y) { a = Identity (s)  y = Identity (a) }",
    "unique": "(float[8] x) => (float[U] y) { a = Relu (x)  b = Unique (a)  y = Neg (b) }",
    "double": "(double[1, 4] x) => (double[1, 4] y) { a = Neg (x)  y = Relu (a) }",
    "rankless": "(float x) => (float y) { a = Neg (x)  y = Relu (a) }",
    "trains": "(float[4, 4] x, bool s) => (float[4, 4] y, bool t) { t = Not (s) "
              "a = Relu (x)  [drop] y = Dropout (a, , t) }",
    "trains_input": "(float[4, 4] x, bool t) => (float[4, 4] y) "
                    "{ a = Relu (x)  [drop] y = Dropout (a, , t) }",
    "branches": "(float[2, 1, 8] x, bool s) => (float z, bool c) <int64[1] one = {1}> { c = Not (s) "
                "[choose] y = If (c) <then_branch = a () => (t) { t = Squeeze (x, one) }, "
                "else_branch = b () => (e) { e = Identity (x) }> z = ReduceSum <keepdims = 0> (y) }",
    "loop": "(int64 m, float[1, 4] x) => (float[M, 4] y) <int64 two = {2}, bool c = {1}> { n = Add (m, two) "
            "[grow] y = Loop (n, c, x) <body = b (int64 i, bool ci, float[K, 4] s) "
            "=> (bool co, float[L, 4] t) { co = Identity (ci)  t = Concat <axis = 0> (s, x) }> }",
    "nonzero": "(float[4] x) => (int64[1, M] y) { a = Relu (x)  y = NonZero (a) }",
}  # fmt: skip


def refused(command: str, folder: Path, data: str = "") -> str:
    """What a printed command is refused with; "" where it is taken, or names a file that nobody knows."""
    words = shlex.split(command.replace("--calib DATA", f"--calib {shlex.quote(data)}"))
    assert words[0] == "onnxq"
    if "FLOAT.onnx" in words or "DATA" in words or (not data and "--calib" in words):
        return ""
    own = ["--force", "-o", "printed.onnx"] if words[1] in ("quantize", "sanitize") else []
    ran = run(folder, *words[1:], *(["--force", "-o", "printed"] if words[1] == "split" else own))
    return "" if ran.code in (0, 1) else f"{command}: {ran.err}"


_FLAGS = re.compile(r"(--(?:freeze|assume|shape|around|keep-float)) ('[^']*'|[^\s;,)]+)")


def texts(part: Any) -> Iterator[str]:
    """All texts of a document."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for one in part.values():
            yield from texts(one)
    elif isinstance(part, list):
        for one in part:
            yield from texts(one)


def misnamed(document: dict[str, Any], model: Path) -> list[str]:
    """Flags that texts of a document say to type of what the model does not have."""
    opened = Model.open(model)
    inputs, symbols = {tensor.name for tensor in opened.inputs}, opened.dim_symbols()
    nodes = {node.name for node in every_node(opened)}
    tensors = {tensor.name for node in every_node(opened) for tensor in node.outputs}
    known = {"--freeze": inputs, "--shape": inputs, "--assume": symbols, "--around": nodes | tensors,
             "--keep-float": nodes}  # fmt: skip
    found = []
    for text in texts(document):
        for flag, value in _FLAGS.findall(text):
            name, sign, _ = value.strip("'").rpartition("=")
            stated = (
                name if sign else "" if flag in ("--freeze", "--shape", "--assume") else value.strip("'.:")
            )
            if stated and not (stated.isupper() and len(stated) > 3) and stated not in known[flag]:
                found.append(f"{flag} {value}: {text}")
    return found


def of_check(model: Path, data: Path | None, target: str) -> Iterator[str]:
    checked = onnxq.check(model, data, target=target, compile=False)
    assert not misnamed(checked.to_dict(), model)
    for one in checked.findings:
        yield one.command
        assert " MODEL" not in one.advice
    assert not misnamed(onnxq.sanitize(model, target=target).report.to_dict(), model)


@pytest.mark.parametrize("target", ["tensorrt-11", "tensorrt-8.6"])
@pytest.mark.parametrize("name", NETS)
def test_what_check_prints_is_taken(name: str, target: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(HEAD + NETS[name])
    if target == "tensorrt-8.6":
        model.opset_import[0].version = 20  # newer than it documents
    onnx.save(model, tmp_path / "a net.onnx")
    commands = [*of_check(tmp_path / "a net.onnx", None, target)]
    assert target == "tensorrt-11" or commands
    assert not [why for one in dict.fromkeys(commands) if (why := refused(one, tmp_path))]
    assert not [one for one in commands if "''" in one]


def test_what_a_check_states_is_taken() -> None:
    words = {"MODEL": "m.onnx", "NODE": "n", "OP": "Conv", "SAMPLES": "--calib d", "DATA": "--calib d",
             "REASON": "'no'"}  # fmt: skip
    for check in CHECKS.values():
        command = " ".join(words.get(word, word) for word in check.command.split())
        assert accepted(command, {}), command


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        ("onnxq quantize m.onnx --calib 'a b' --batch 1:4:8 --force -o q.onnx -q", True),
        ("onnxq quantize m.onnx --keep-float c1 --keep-float c2 --mean -1,2,3 --scale 1/255", True),
        ("onnxq quantize m.onnx --keep-float c1 --keep-float other", False),
        ("onnxq quantize m.onnx --batch 1:x", False),
        ("onnxq quantize m.onnx --samples 4.5", False),
        ("onnxq quantize m.onnx --method minmax --percentile 99", False),
        ("onnxq quantize m.onnx --calib", False),
        ("onnxq sanitize m.onnx --pairs adopt", False),
        ("onnxq sanitize m.onnx --batch 1:2:3", True),
        ("onnxq sharpen m.onnx", False),
        ("onnxq rules explain --message 'it failed'", True),
        ("onnxq pieces split m.onnx --at-op Conv", True),
    ],
)
def test_the_gate(command: str, taken: bool) -> None:
    assert accepted(command, {"--keep-float": ("c1", "c2").__contains__}) == taken


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("it is known only then: 't' (--freeze t=0)", "it is known only then: 't'"),
        ("give it with --freeze t=0; else cut the model", "else cut the model"),
        ("branches differ: state it with --freeze t=1 or --freeze t=0", "branches differ"),
        (
            "state it: onnxq sanitize --freeze c=1; else change it",
            "state it: onnxq sanitize --freeze c=1; else change it",
        ),
        ("freeze it: --freeze NAME=VALUE", "freeze it: --freeze NAME=VALUE"),
    ],
)
def test_what_a_sentence_says_to_type_is_there(text: str, left: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        HEAD + "(float[N, 4] x, bool c) => (float[N, 4] y) { t = Not (c)  y = Relu (x) }"
    )
    assert without_refused(text, named(Model.open(model))) == left


# -- reports -----------------------------------------------------------------------------------------


def conv(name: str, of: int, batch: str = "N") -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[{batch}, {of}, 8, 8] x) => '
        f"(float[{batch}, 16, 8, 8] y) {{ a = Conv <pads = [1, 1, 1, 1]> (x, w)  b = Relu (a) "
        "  y = Conv <pads = [1, 1, 1, 1]> (b, v) }"
    )
    random = np.random.default_rng(0)
    model.graph.node[0].name, model.graph.node[2].name = name, "last"
    for key, shape in (("w", (16, of, 3, 3)), ("v", (16, 16, 3, 3))):
        weights = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, key))
    return model


QUICK = shlex.split("--no-engine --repair none --method minmax")


def quantized(folder: Path, model: onnx.ModelProto, *more: str) -> dict[str, Any]:
    """The report of a quick run."""
    onnx.save(model, folder / "net.onnx")
    shape = [dim.dim_value or 1 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    values = np.random.default_rng(1).standard_normal((32, *shape[1:])).astype(np.float32)
    np.savez(folder / "x.npz", x=values)
    ran = run(folder, "quantize", "net.onnx", "--calib", "x.npz", "-o", "q.onnx", *QUICK, *more)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads((folder / "q.report.json").read_text("utf-8"))
    return found


def causes(report: dict[str, Any]) -> list[LikelyCause]:
    found = advise(OpenedReport.of(report).document).findings
    return [cause for one in found for cause in one.causes]


def heavy(report: dict[str, Any], layer: str) -> dict[str, Any]:
    """It, as if the engine moved more bytes, most of them in a layer."""
    found = copy.deepcopy(report)
    layers = [{"layers": [layer], "nodes": [layer], "int8_mb": 3.0, "fp16_mb": 1.0, "kernels_int8": 2,
               "kernels_fp16": 1}]  # fmt: skip
    sides = {"fp16": {"moved_mb": 1.0}, "int8": {"moved_mb": 2.0}}
    found["verdict"] = {"form": "merged", "merged": sides, "layers": layers}
    found["engine"] |= {"status": "compiled"}
    return found


def of_layer(report: dict[str, Any]) -> LikelyCause:
    return next(one for one in causes(report) if one.code == "bytes-layer")


def test_a_name_with_brackets_is_left_in_float_as_it_is_printed(tmp_path: Path) -> None:
    """A glob in which the brackets are a set of characters would match no node."""
    report = quantized(tmp_path, conv("layers[0]*", 16))
    command = of_layer(heavy(report, "layers[0]*")).command
    assert shlex.split(command)[-2:] == ["--keep-float", "layers[0]*"]
    assert not refused(command, tmp_path, "x.npz")


def test_a_layer_with_pairs_of_the_file_is_not_told_to_be_left_in_float(tmp_path: Path) -> None:
    quantized(tmp_path, conv("first", 16), "--body", "fp32")
    report = quantized(tmp_path, onnx.load(tmp_path / "q.onnx"), "--pairs", "keep", "--force")
    told = of_layer(heavy(report, "last"))
    assert "--keep-float" not in told.command
    assert shlex.split(told.command)[-2:] == ["--pairs", "adopt"]
    assert told.command.count("--pairs") == 1
    assert not refused(told.command, tmp_path, "x.npz")


def test_a_batch_that_is_baked_in_is_not_told_to_be_larger(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[N, 256] x) => (float[N, 256] y) '
        "<int64[2] s = {1, 256}> { a = MatMul (x, w)  b = Reshape (a, s)  y = MatMul (b, v) }"
    )
    for name in "wv":
        weights = np.random.default_rng(2).standard_normal((256, 256)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    report = quantized(tmp_path, model)
    assert not [one for one in causes(report) if "--batch" in one.command]
    told = next(one for one in causes(report) if one.code == "few-rows")
    assert "export" in told.do
    model.graph.node[1].op_type = "Relu"
    del model.graph.node[1].input[1:]
    free = next(one for one in causes(quantized(tmp_path, model, "--force")) if one.code == "few-rows")
    assert "--batch" in free.command
    assert not refused(free.command, tmp_path, "x.npz")


def test_a_fixed_batch_is_made_dynamic(tmp_path: Path) -> None:
    onnx.save(conv("first", 16, "1"), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((8, 16, 8, 8), np.float32))
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "x.npz", "--batch", "1:4:8")
    assert ran.code == 0
    assert "--minShapes=x:1x16x8x8 --optShapes=x:4x16x8x8 --maxShapes=x:8x16x8x8" in ran.out


@pytest.mark.parametrize("verb", ["quantize", "sanitize"])
@pytest.mark.parametrize("name", ["out.engine", "out.plan", "out.json", "net.v2"])
def test_a_model_is_not_written_under_the_name_of_something_else(
    verb: str, name: str, tmp_path: Path
) -> None:
    """The printed build of `out.engine` would overwrite its own input."""
    onnx.save(conv("first", 16), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((8, 16, 8, 8), np.float32))
    ran = run(tmp_path, verb, "net.onnx", "--calib", "x.npz", "-o", name)
    assert ran.code == 2
    assert f"give -o {Path(name).with_suffix('.onnx')}" in ran.err
    assert not (tmp_path / name).exists()


def test_onnxruntimes_source_is_not_named() -> None:
    model = conv("first", 16)
    model.graph.node[1].op_type = "Reshape"
    model.graph.node[1].input.append("s")
    shape = np.array([1, 16, 8, 8])
    model.graph.initializer.append(onnx.numpy_helper.from_array(shape, "s"))
    with pytest.raises(ort.RunError) as told:
        ort.load(model).run({"x": np.ones((2, 16, 8, 8), np.float32)})
    assert "Reshape node" in str(told.value)
    assert "cannot be reshaped" in str(told.value)
    assert "onnxruntime_src" not in str(told.value)
    assert "reshape_helper" not in str(told.value)


def test_sanitize_is_given_no_flag_of_quantize(tmp_path: Path) -> None:
    """The same file in float16 is another verb's."""
    report = heavy(quantized(tmp_path, conv("first", 16), "--pairs", "drop", "--batch", "1:2:2"), "first")
    command = next(one.command for one in causes(report) if one.code == "float16")
    assert command.startswith("onnxq sanitize")
    assert not refused(command, tmp_path, "x.npz")


def test_no_two_runs_advise_one_another(tmp_path: Path) -> None:
    """What one of them adds, none takes away."""
    report = quantized(tmp_path, conv("first", 16))

    def both(edited: dict[str, Any], asked: list[str]) -> list[str]:
        """What is advised of a run that loses much, and moves much."""
        edited["asked"] = [part for part in edited["asked"] if part[0] not in ("--repair", "--body")]
        edited["asked"].append(asked)
        steps = ("lattice", "scale", "smooth", "residual", "bias", "shift", "gptq", "split", "thresholds")
        edited["body"] |= {"type": asked[1] if asked[0] == "--body" else "fp16"}
        if asked[0] == "--repair" and asked[1] != "auto":
            steps = tuple(asked[1].split(","))
        verdicts = {"split": "kept", "gptq": "left-out"}
        edited["repair"] = {
            "asked": "auto" if asked[1] == "auto" or asked[0] == "--body" else list(steps),
            "steps": [
                {"step": one, "verdict": verdicts.get(one, "dropped"), "before_db": 1.0, "after_db": 2.0,
                 "more_bytes": 0.2 * (one == "split"), "why": "it takes long"}
                for one in steps
            ],
        }  # fmt: skip
        level = {"output": "y", "sqnr_about_mean_db": 5.0, "interval": {"low": 4.0, "high": 6.0}}
        edited["about_mean"] |= {"worst_output": "y", "worst_output_db": 5.0, "outputs": [level]}
        half = {"output": "y", "int8_db": 40.0, "body_db": 10.0, "together_db": 9.0}
        edited["body"] |= {"outputs": [half] if edited["body"]["type"] == "fp16" else []}
        return [one.command for one in causes(edited) if one.command]

    def key(command: str) -> list[str]:
        return sorted(shlex.split(command))

    for first in (["--repair", "auto"], ["--body", "fp16"]):
        printed = both(heavy(report, "first"), first)
        again = both(heavy(report, "first"), first) and key(
            shlex.join(["onnxq", *(w for part in report["asked"] if part[0] not in ("--repair", "--body")
                                   for w in part)])
        )  # fmt: skip
        for command in printed:
            words = shlex.split(command)
            for flag in ("--repair", "--body"):
                if flag not in words or [flag, words[words.index(flag) + 1]] == first:
                    continue
                second = both(heavy(report, "first"), [flag, words[words.index(flag) + 1]])
                assert second
                assert not [one for one in second if key(one) in (again, sorted([*again, *first]))], command


# -- the words beside them ----------------------------------------------------------------------------


def test_a_score_that_takes_a_path_is_told_what_it_is_given(tmp_path: Path) -> None:
    onnx.save(conv("first", 16), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((8, 16, 8, 8), np.float32))
    (tmp_path / "s.py").write_text("def score(path):\n    return len(open(path).read())\n")
    goal = ["--max-drop", "1", "--eval", "s.py:score"]
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "x.npz", *QUICK, *goal)
    assert ran.code == 2
    assert "a function, no path" in " ".join(ran.err.split())


def test_a_folder_that_is_not_there_is_told_near_names_alone(tmp_path: Path) -> None:
    onnx.save(conv("first", 16), tmp_path / "net.onnx")
    (tmp_path / "photos").mkdir()
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "fotos")
    assert "did you mean 'photos'?" in ran.err
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "zzz")
    assert ran.code == 2
    assert "net.onnx" not in ran.err.partition("hint:")[2]


def test_an_opset_that_is_too_new_is_told_in_a_sentence(tmp_path: Path) -> None:
    report = quantized(tmp_path, conv("first", 16))
    newer = "opset 13 is newer than 11, the last that TensorRT 7 documents"
    report["unsupported"] = [{"node": "", "op": "", "reason": newer, "advice": ""}]
    found = advise(OpenedReport.of(report).document).findings
    assert is_said(next(one.said for one in found if one.code == "not-taken"), "not-taken", first=newer)


def test_what_stays_is_no_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = quantized(tmp_path, conv("first", 16))
    step = {"step": "bias", "verdict": "kept", "before_db": 34.81, "after_db": 34.84, "more_bytes": 0.0}
    report["repair"] = {"before_db": 34.81, "after_db": 34.84, "steps": [step]}
    lines = short_screen(OpenedReport.of(report).document).lines
    assert [
        one
        for one in lines
        if is_said(one.text, "repair.same", steps="bias", does="leaves", whole="the output", after="34.8 dB")
    ]


def test_the_globs_of_the_run_stay_in_what_it_advises(tmp_path: Path) -> None:
    """They name no node by themselves; without them the command would make another file."""
    report = quantized(tmp_path, conv("first", 16), "--keep-float", "f*")
    commands = [cause.command for cause in causes(report) if cause.command.startswith("onnxq quantize")]
    assert commands
    assert all("--keep-float 'f*'" in command for command in commands)


def test_repair_that_too_few_samples_left_out_asks_for_more(tmp_path: Path) -> None:
    """It said that the steps may take long."""
    report = quantized(tmp_path, conv("first", 16))
    steps = [{"step": name, "verdict": "left-out", "why": "few", "more_bytes": 0.0} for name in STEPS]
    few = "not tried: 12 samples to fit and judge with are too few: give more (16 at least)"
    report["repair"] = {"asked": "auto", "why_not": few, "steps": steps}
    report["about_mean"] |= {"worst_output": "y", "worst_output_db": 9.0, "worst_interval": None}
    report["accuracy"][0] |= {"sqnr_db": 9.0}
    (cause,) = (cause for cause in causes(report) if cause.code == "repair-untried")
    assert cause.said == f"repair was {few}"
    assert cause.do.startswith("give more samples")


# -- everything that is there ------------------------------------------------------------------------

CORPUS = Path(os.environ.get("ONNXQ_CORPUS", ""))
_HEAVY = re.compile("GB|vgg|densenet|agllnet|resnet50|inception|lfm2")


def models() -> list[Path]:
    if not os.environ.get("ONNXQ_CORPUS"):
        return []
    found = [*sorted((CORPUS / "models").glob("*.onnx")), *sorted((CORPUS / "../cases").glob("*.onnx"))]
    return [path for path in found if not _HEAVY.search(path.stem)]


@pytest.mark.skipif(not models(), reason="ONNXQ_CORPUS names no folder of models")
@pytest.mark.parametrize("model", models(), ids=lambda path: path.stem)
def test_of_real_models_too(model: Path, tmp_path: Path) -> None:
    data = model.with_suffix("")
    with_data = data.is_dir()
    commands = [
        command
        for target in ("tensorrt-11", "tensorrt-8.6")
        for command in of_check(model, None, target)
        if command
    ]
    if with_data and trt.installed() is not None:
        first = ["quantize", str(model), "--calib", str(data), "-o", "q.onnx"]
        ran = run(tmp_path, *first, "--json")
        if ran.code in (0, 1):
            commands += [one.command for one in causes(ran.json()) if one.command.startswith("onnxq ")]
            assert not misnamed(ran.json(), model)
            opened = OpenedReport.of(ran.json())
            steps = next_steps(opened, advise(opened.document), analysed=False)
            for part in (part for step in steps for part in step.command.split(" && ")):
                assert not part.startswith("onnxq ") or accepted(part.partition(" > ")[0], {}), part
            onnxq_line = shlex.join(["onnxq", *first, "--json"])
            for command in [one for one in commands if one.startswith("onnxq quantize") and "q.onnx" in one]:
                second = run(tmp_path, *shlex.split(command)[1:], "--json")
                assert second.code in (0, 1), f"{command}: {second.err}"
                told = {tuple(sorted(shlex.split(one.command))) for one in causes(second.json())}
                assert tuple(sorted(shlex.split(onnxq_line))) not in told, command
                commands.remove(command)
    source = str(data) if with_data else ""
    assert not [why for one in dict.fromkeys(commands) if (why := refused(one, tmp_path, source))]
