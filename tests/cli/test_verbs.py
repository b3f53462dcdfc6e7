"""What the verbs do, beyond what the transcripts show."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from command import SAMPLES, contents, net
from said import is_said

DIGITS = SAMPLES / "digits/digits.onnx"
CALIB = SAMPLES / "digits/calib"

UNKNOWN = """<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>
    net (float[N, 32, 8] x) => (float[N, 32, 16] y) {
        [odd] a = com.example.Odd (x)  [product] p = MatMul (a, w)
        [same] s = Identity (p)  [relu] y = Relu (s) }"""


def test_two_runs_give_the_same_bytes(tmp_path: Path, onnxq) -> None:
    arguments = ("-q", "quantize", DIGITS, "--calib", CALIB, "--no-engine", "-o")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert onnxq(*arguments, f"{name}/digits.onnx").code == 0
    assert (tmp_path / "one/digits.onnx").read_bytes() == (tmp_path / "two/digits.onnx").read_bytes()


def test_default_names_and_overwriting_its_own(folder: Path, onnxq) -> None:
    for _ in range(2):  # the second run replaces what the first wrote
        ran = onnxq("-q", "quantize", "net.onnx", "--calib", "data.npz", "--no-engine")
        assert (ran.code, ran.err) == (0, "")
    assert {"net.int8.onnx", "net.int8.report.json"} < set(contents(folder))
    ops = {node.op_type for node in onnx.load(folder / "net.int8.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "MatMul"} <= ops


def test_force_replaces_a_file(folder: Path, onnxq) -> None:
    (folder / "other.onnx").write_bytes(b"mine")
    ran = onnxq("-q", "sanitize", "net.onnx", "-o", "other.onnx", "--force")
    assert (ran.code, ran.err) == (0, "")
    onnx.checker.check_model(folder / "other.onnx")


@pytest.mark.parametrize("stream", ["out", "err"])
def test_a_line_in_a_pipe_is_not_broken(folder: Path, onnxq, stream: str) -> None:
    name = "a/" * 70 + "input"
    model = onnx.load(folder / "net.onnx")
    model.graph.node[0].input[0] = model.graph.input[0].name = name
    onnx.save(model, folder / "net.onnx")
    flags = ("--json",) if stream == "err" else ()

    def longest(columns: int | None) -> int:
        ran = onnxq("sanitize", "net.onnx", "--shape", f"{name}=2x32x8", *flags, columns=columns)
        lines = (ran.err if flags else ran.out).splitlines()
        return max(len(line) for line in lines if not line.startswith("  trtexec"))

    assert longest(80) <= max(80, len(name) + 15)
    assert longest(None) > len(name) + 40
    assert longest(0) == longest(None)


def unknown(folder: Path) -> None:
    model = onnx.parser.parse_model(UNKNOWN)
    model.graph.initializer.extend(net().graph.initializer[:1])
    onnx.save(model, folder / "net.onnx")


def test_an_unknown_operator_is_left_alone(folder: Path, onnxq) -> None:
    unknown(folder)
    report = onnxq("sanitize", "net.onnx", "--json")
    assert report.code == 0
    (entry,) = report.json()["unsupported"]
    assert (entry["node"], entry["op"]) == ("odd", "Odd")
    assert "com.example.Odd" in entry["reason"]
    ops = [(node.domain, node.op_type) for node in onnx.load(folder / "net.clean.onnx").graph.node]
    assert ops == [("com.example", "Odd"), ("", "MatMul"), ("", "Relu")]  # Identity is gone


def test_what_cannot_run_is_not_calibrated(folder: Path, onnxq) -> None:
    unknown(folder)
    report = onnxq("quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--json").json()
    assert report["accuracy"] == []
    assert report["calibration"]["not_run"]["product"] == "com.example.Odd"
    assert report["plan"]["kept_float"] == [
        {
            "node": "product",
            "op": "MatMul",
            "because": "not calibrated: it is or depends on com.example.Odd (--ort-ops LIB, --ops X.py)",
            "code": "not-calibrated",
            "by": "onnxq",
        }
    ]


def test_an_operator_that_onnx_does_not_have(folder: Path, onnxq) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 2] x) => (float[N, 2] y) { [odd] y = Relo (x) }"""
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    report = onnxq("sanitize", "net.onnx", "--json").json()
    assert [entry["reason"].split()[0] for entry in report["unsupported"]] == ["Relo"]


@pytest.mark.parametrize(("op", "first"), [("Swish", 24), ("BitCast", 26), ("LinearAttention", 27)])
def test_an_operator_of_a_later_opset_is_known_by_name(folder: Path, onnxq, op: str, first: int) -> None:
    if not any(one.name == op for one in onnx.defs.get_all_schemas_with_history()):
        pytest.skip(f"this onnx has no {op}")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[1, 2] x) => (float[1, 2] y) {{ [odd] y = {op} (x) }}"""
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    report = onnxq("sanitize", "net.onnx", "--json").json()
    said = f"{op} is no operator of ONNX opset 17: ONNX has it from opset {first} on"
    assert [entry["reason"] for entry in report["unsupported"]] == [said]


@pytest.mark.parametrize(
    ("kind", "read", "said"),
    [
        ("seq(float[1, 4])", "SequenceAt (s, at)", "a sequence"),
        ("optional(float[1, 4])", "OptionalGetElement (s)", "optional"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "sanitize", "quantize"])
def test_an_input_that_is_no_tensor(folder: Path, onnxq, verb: str, kind: str, read: str, said: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        net ({kind} s) => (float[1, 4] y) <int64 at = {{0}}> {{ t = {read}  y = Relu (t) }}"""
    onnx.save(onnx.parser.parse_model(text), folder / "sequence.onnx")
    ran = onnxq(verb, "sequence.onnx", *(["--calib", "calib"] if verb == "quantize" else []))
    assert ran.code == 2
    assert f"input 's' is {said}, not a tensor" in ran.err
    assert "hint: export the model" in ran.err


def test_profiles_reach_the_commands(folder: Path, onnxq) -> None:
    flags = ("--no-engine", "--profile", "x=1x32x8:4x32x8:8x32x8")
    ran = onnxq("quantize", "net.onnx", "--calib", "data.npz", *flags, "--json")
    trtexec, polygraphy = ran.json()["commands"]
    assert "--minShapes=x:1x32x8 --optShapes=x:4x32x8 --maxShapes=x:8x32x8" in trtexec
    assert "--trt-max-shapes 'x:[8,32,8]'" in polygraphy
    engine = ran.json()["engine"]
    assert (engine["status"], engine["planned"], engine["int8"]) == ("not-run", 1, 0)


def test_the_commands_of_tensorrt_rtx(folder: Path, onnxq) -> None:
    ran = onnxq("sanitize", "net.onnx", "--target", "tensorrt-rtx", "--json")
    build, compare = ran.json()["commands"]
    assert build.startswith("tensorrt_rtx --onnx=net.clean.onnx ")
    assert compare.startswith("POLYGRAPHY_USE_TENSORRT_RTX=1 polygraphy run net.clean.onnx ")


@pytest.mark.parametrize(
    ("target", "reduction", "refused"),
    [("tensorrt-rtx", "add", 1), ("tensorrt-rtx", "none", 0), ("tensorrt-11", "add", 0)],
)
def test_scatter_reductions(folder: Path, onnxq, target: str, reduction: str, refused: int) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[N] x, int64[M] i, float[M] u) => (float[N] y) {{
            [add] y = ScatterElements <reduction = "{reduction}"> (x, i, u) }}""")
    onnx.save(model, folder / "net.onnx")
    found = onnxq("sanitize", "net.onnx", "--target", target, "--json").json()["unsupported"]
    assert len(found) == refused
    assert all("reduction=add" in entry["reason"] for entry in found)


def test_check_changes_nothing_and_finds(folder: Path, onnxq) -> None:
    unknown(folder)
    before = contents(folder)
    ran = onnxq("check", "net.onnx", "--json", "--prove", "never")
    assert ran.code == 1
    findings = ran.json()["findings"]
    assert [(f["node"], f["kind"]) for f in findings][:1] == [("odd", "unsupported")]
    assert contents(folder) == before


def test_check_knows_mistakes_in_qdq(folder: Path, onnxq) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 4, 8] x) => (float[N, 4, 8] y) <float s = {0.1}, uint8 z = {3}> {
            [q] a = QuantizeLinear (x, s, z)  [dq] y = DequantizeLinear (a, s, z) }"""
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1
    reasons = {
        (f["node"], f["reason"].partition(":")[0]) for f in ran.json()["findings"] if f["kind"] == "qdq"
    }
    assert ("q", "its zero point is not 0") in reasons
    assert ("dq", "its zero point is not 0") in reasons


def test_flags_reach_the_model(folder: Path, onnxq) -> None:
    report = onnxq("sanitize", "net.onnx", "--json").json()
    assert {change["rule"] for change in report["changes"]} == {"fold_scale"}
    (folder / "onnxq.toml").write_text('[repair]\nskip = "fold_scale"\n')
    ran = onnxq("sanitize", "net.onnx", "--shape", "x=2x32x8", "--json", "--force")
    report = ran.json()
    assert report["interface_changes"][0] == {
        "tensor": "x", "was": "input float32 Nx32x8", "now": "input float32 2x32x8", "because": None,
    }  # fmt: skip
    assert report["changes"] == []


def test_a_frozen_input_is_a_constant(folder: Path, onnxq) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 2] x, float[2] bias:0=1) => (float[N, 2] y) { y = Add (x, bias) }"""
    model = onnx.parser.parse_model(text.replace("bias:0=1", "bias"))
    model.graph.input[1].name = model.graph.node[0].input[1] = "bias:0=1"  # a name may hold both
    onnx.save(model, folder / "net.onnx")
    ran = onnxq("-q", "sanitize", "net.onnx", "--freeze", "bias:0=1=0.5,-2e3")
    assert ran.code == 0, ran.err
    clean = onnx.load(folder / "net.clean.onnx")
    assert [value.name for value in clean.graph.input] == ["x"]
    (y,) = onnx.reference.ReferenceEvaluator(clean).run(None, {"x": np.ones((1, 2), np.float32)})
    np.testing.assert_array_equal(y, np.float32([[1.5, -1999]]))
    np.savez(folder / "data.npz", **{"x": np.ones((3, 2)), "bias:0=1": np.float32([0.5, -2000])})
    ran = onnxq("compare", "net.onnx", "net.clean.onnx", "--data", "data.npz")
    assert ran.code == 0
    assert [line.strip() for line in ran.out.splitlines()[1:3]] == ["y[0]: equal", "y[1]: equal"]


def test_compare_sees_a_difference(folder: Path, onnxq) -> None:
    model = net()
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]) * np.float32(1.1)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, folder / "other.onnx")
    ran = onnxq("compare", "net.onnx", "other.onnx", "--data", "data.npz", "--samples", "5", "--json")
    (entry,) = ran.json()["accuracy"]
    assert ran.code == 0
    assert entry["samples"] == 5
    assert 15 < entry["sqnr_db"] < 25  # the product is off by a tenth, 20 dB


def test_inspect_tells_what_is_eligible_at_stated_sizes(folder: Path, onnxq) -> None:
    """The last layer of `digits` is a product with a row for each sample."""

    def eligible(*flags: str) -> tuple[bool, int]:
        document = onnxq("inspect", DIGITS, "--json", *flags).json()
        (layer,) = (one for one in document["layers"] if one["node"] == "/head/Gemm")
        return layer["eligible"], layer["macs"]

    (alone, macs), several = eligible(), eligible("--batch", "64")
    assert not alone
    assert several == (True, 64 * macs)
    shape = ":".join(["{0}x1x8x8"] * 3)
    both = [f"--profile=one/image={shape.format(1)}", f"--profile=many/image={shape.format(64)}"]
    assert not eligible(*both, "--profile-weight", "one=0.9")[0]
    assert eligible(*both, "--profile-weight", "one=0.1")[0]
    ran = onnxq("inspect", DIGITS, "--profile", "imag=1x1x8x8:2x1x8x8:4x1x8x8")
    assert (ran.code, "no input 'imag'" in ran.err) == (2, True)


def test_inspect_tensor_tells_its_scale_and_why(folder: Path, onnxq) -> None:
    assert onnxq("-q", "quantize", DIGITS, "--calib", CALIB, "--no-engine", "-o", "d.onnx").code == 0
    document = onnxq("inspect", "d.onnx", "--tensor", "/Concat_output_0", "--json").json()
    assert document["tensor"]["producer"] == {"node": "/Concat", "op": "Concat"}
    found = document["quantization"]
    assert found["scale"] > 0
    assert "/pool/MaxPool_output_0" in found["group"]["tensors"]
    assert "inputs of one Concat (/Concat)" in found["group"]["reasons"]
    assert {"node": "/coarse/Add", "input": 1} in found["readers"]
    shutil.move(folder / "d.report.json", folder / "elsewhere.json")
    assert onnxq("inspect", "d.onnx", "--tensor", "/Concat_output_0", "--json").json()["quantization"] is None


def test_rules_test_fails_for_a_wrong_rule(folder: Path, onnxq) -> None:
    (folder / "mine").mkdir()
    rule = '''"""Turn the Sub of a constant into an Add."""

from onnxq.rule import Fires, Node, Skips, Value, constant, op, rule


@rule("Sub", stage="clean")
def sub_to_add(node: Node) -> Value | None:
    x, y = node.inputs
    values = constant(y)
    return None if values is None else op.Add(x, values)


EXAMPLES = [
    Fires("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] c = {1, -2}> { y = Sub (x, c) }""", gone="Sub"),
    Skips("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, float[2] c) => (float[2] y) { y = Sub (x, c) }"""),
]
'''
    (folder / "mine/sub_to_add.py").write_text(rule)
    ran = onnxq("rules", "test", "mine", "--json")
    assert ran.code == 1
    (entry,) = ran.json()["rules"]
    assert entry["id"] == "sub_to_add"
    assert "its proof fails" in entry["failure"]
    (folder / "mine/sub_to_add.py").write_text(rule.replace("(x, values)", "(x, -values)"))
    ran = onnxq("rules", "test", "mine")
    assert ran.code == 0, ran.out
    assert "sub_to_add (2 examples)" in ran.out
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 2] x) => (float[N, 2] y) <float[2] c = {1, -2}> { y = Sub (x, c) }"""
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    ran = onnxq("sanitize", "net.onnx", "--rules", "mine", "--json")
    assert [change["rule"] for change in ran.json()["changes"]] == ["sub_to_add"]


def test_engine_of_a_model_that_the_compiler_rejects(tmp_path: Path, onnxq) -> None:
    pytest.importorskip("tensorrt_rtx")
    model = SAMPLES / "squeeze_if/squeeze_if.onnx"
    ran = onnxq("engine", model, "--profile", "x=1x1x64:4x1x64:8x3x64", "--json")
    assert ran.code == 1
    engine = ran.json()["engine"]
    assert engine["status"] == "failed"
    assert "equal ranks" in engine["reason"]
    assert not list(tmp_path.iterdir())


def test_engine_says_what_its_kernels_move(tmp_path: Path, onnxq) -> None:
    pytest.importorskip("tensorrt_rtx")
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 128] x) => (float[N, 128] y) { a = Relu (x)  y = Neg (a) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    ran = onnxq("engine", "net.onnx", "--profile", "x=1x128:4x128:8x128", "--json")
    moved = ran.json()["traffic"]
    assert (moved["moved_mb"], moved["kernels"], moved["dynamic"]) == (0.001024, 2, True)
    assert "0.00102 MB as built, in 2 kernels" in " ".join(ran.err.split())
    ran = onnxq("engine", "net.onnx", "--json")
    moved = ran.json()["traffic"]
    assert (moved["moved_mb"], moved["kernels"], moved["dynamic"]) == (0.001024, 1, False)


def test_engine_takes_the_profiles_of_the_report_beside_the_model(folder: Path, onnxq) -> None:
    pytest.importorskip("tensorrt_rtx")
    flags = ("--calib", "data.npz", "--no-engine", "--profile", "x=1x32x8:4x32x8:8x32x8")
    assert onnxq("-q", "quantize", "net.onnx", *flags).code == 0

    def compiled(*flags: str) -> tuple[object, str]:
        ran = onnxq("engine", "net.int8.onnx", *flags, "--json")
        assert ran.code == 0, ran.err
        document = ran.json()
        assert document["profiles_from"] in " ".join(ran.err.split()), "the screen says it too"
        return document["engine"]["profiles"]["x"], document["profiles_from"]

    ones = [[1, 32, 8]] * 3
    recorded, where = compiled()
    assert (recorded, "net.int8.report.json" in where) == ([[1, 32, 8], [4, 32, 8], [8, 32, 8]], True)
    assert compiled("--profile", "x=2x32x8:2x32x8:2x32x8") == ([[2, 32, 8]] * 3, "")
    (folder / "net.int8.onnx").write_bytes((folder / "net.onnx").read_bytes())
    other, why = compiled()
    assert (other, is_said(why, "recorded-profiles.other-file")) == (ones, True)
    (folder / "net.int8.report.json").write_text("[]")
    assert is_said(compiled()[1], "recorded-profiles.no-report")
    (folder / "net.int8.report.json").unlink()
    assert compiled() == (ones, "")


def test_calibration_that_is_all_zeros_is_said(folder: Path, onnxq) -> None:
    np.savez(folder / "data.npz", x=np.zeros((4, 32, 8), np.float32))
    notes = onnxq("quantize", "net.onnx", "--calib", "data.npz", "--json").json()["calibration"]["notes"]
    assert is_said(notes, "zero-tensor", tensor="x")
    assert len(notes) == 1


def test_the_calibration_data_give_the_profile(folder: Path, onnxq) -> None:
    """Sizes of 1, of which nothing is left after a convolution, would say nothing about the engine."""
    model = net()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    onnx.save(model, folder / "net.onnx")
    report = onnxq("quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--json").json()
    assert "--minShapes=x:1x32x8 --optShapes=x:1x32x8 --maxShapes=x:1x32x8" in report["commands"][0]
