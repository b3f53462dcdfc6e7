"""`check` compiles: what NVIDIA's parser takes and its compiler does not is a finding."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest
from said import is_said

pytest.importorskip("tensorrt_rtx")

H = '<ir_version: 8, opset_import: ["" : 17]> net '
TOPK = """(float[1, 8400] x) => (float[1, 5000] v, int64[1, 5000] i) <int64[1] k = {5000}> {
    [top] v, i = TopK (x, k) }"""
LOOP = """(int64 n, float[1, 4] x) => (float[M, 4] y) <bool c = {1}> { [grow] y = Loop (n, c, x) <body = b
    (int64 i, bool ci, float[K, 4] s) => (bool co, float[L, 4] t) { co = Identity (ci)
    t = Concat <axis = 0> (s, x) }> }"""
ROWS = """(float[9, 4] t) => (float[2, 4] y) <int64 n = {2}, bool c = {1}, int64[1] z = {0}> {
    [rows] y = Loop (n, c) <body = b (int64 i, bool ci) => (bool co, float[4] r) { co = Identity (ci)
    p = Unsqueeze (i, z)  s = Slice (t, z, p, z)  r = ReduceSum <keepdims = 0> (s, z) }> }"""
RANKS = """(bool c, float[2, 1, 8] x) => (float y) <int64[1] one = {1}> { [choose] r = If (c)
    <then_branch = a () => (t) { t = Squeeze (x, one) }, else_branch = b () => (e) { e = Identity (x) }>
    y = ReduceSum <keepdims = 0> (r) }"""
FLOAT8 = """(float[1, 8] x) => (float[1, 8] y) { h = Cast <to = 17> (x) y = Cast <to = 1> (h) }"""
NMS = """(float[1, 10, 4] b, float[1, 2, 10] s) => (int64[M, 3] y) <int64 k = {3}, float t = {0.5}> {
    [nms] y = NonMaxSuppression (b, s, k, t) }"""
UNTYPED = "(float[4, 4] x) => (y) { [r] y = Relu (x) }"
WINDOWS = """(float[N, 3, H, W] x, float[8, 3, 3, 3] w) => (float[N, 8, A, B] y) { [conv] y = Conv (x, w) }"""


def save(folder: Path, body: str, opset: int = 17) -> None:
    onnx.save(onnx.parser.parse_model(H.replace("17", str(opset)) + body), folder / "net.onnx")


@pytest.mark.parametrize(("body", "says"), [(FLOAT8, "has datatype FP8 but is not produced by")])
def test_what_only_the_compiler_rejects_is_a_finding(body: str, says: str, tmp_path: Path, onnxq) -> None:
    save(tmp_path, body, opset=19)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1, ran.err
    (finding,) = ran.json()["findings"]
    assert (finding["kind"], finding["node"]) == ("compiler", "")
    assert says in finding["reason"]
    assert "/_src/" not in finding["reason"]
    assert is_said(ran.err, "asked-compiler.neither")
    parsed = onnxq("check", "net.onnx", "--json", "--no-engine")
    assert parsed.code == 0
    assert parsed.json()["engine"]["original"] == "not-run"


@pytest.mark.parametrize(
    ("body", "node", "rule", "flag"),
    [
        (LOOP, "grow", "unroll_refused_loop", "--freeze n=NUMBER"),
        (RANKS, "choose", "broadcast_branches", "--freeze c=1 or --freeze c=0"),
    ],
)
def test_what_a_frozen_value_would_mend_names_the_flag(
    body: str, node: str, rule: str, flag: str, tmp_path: Path, onnxq
) -> None:
    save(tmp_path, body)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1, ran.err
    finding = ran.json()["findings"][0]
    assert (finding["kind"], finding["node"]) == ("near-miss", node)
    assert rule in finding["advice"]
    assert flag in finding["advice"]


def test_what_a_rule_writes_otherwise_is_repairable(tmp_path: Path, onnxq) -> None:
    save(tmp_path, TOPK)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1, ran.err
    (finding,) = ran.json()["findings"]
    assert (finding["kind"], finding["node"]) == ("repairable", "top")
    assert ran.json()["engine"]["sanitized"] == "compiled"


def test_a_loop_whose_sizes_an_iteration_decides_is_named(tmp_path: Path, onnxq) -> None:
    """The compiler's own message names no node."""
    save(tmp_path, ROWS)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1, ran.err
    findings = ran.json()["findings"]
    assert [(one["kind"], one["node"]) for one in findings] == [("repairable", "rows"), ("compiler", "")]
    assert "unroll_refused_loop" in findings[0]["advice"]
    assert "newNodeOrder" in findings[1]["reason"]
    assert ran.json()["engine"]["sanitized"] == "compiled"


def test_a_compiler_that_crashes_is_a_finding(tmp_path: Path, onnxq) -> None:
    save(tmp_path, "(float[1, 2, 4, 8] q) => (float[1, 2, 4, 8] y) { y = Attention (q, q, q) }", opset=23)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1
    lacked, crashed = ran.json()["findings"]
    assert lacked["kind"] == "repairable"
    assert "the compiler crashed" in crashed["reason"]


def test_what_sanitize_mends_is_repairable(tmp_path: Path, onnxq) -> None:
    save(tmp_path, UNTYPED)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 1
    assert all(is_said(f["advice"], "runtime.mended/do") for f in ran.json()["findings"])
    assert (ran.json()["engine"]["original"], ran.json()["engine"]["sanitized"]) == ("failed", "compiled")


def test_what_only_the_installed_compiler_lacks_is_no_finding_for_another_target(
    tmp_path: Path, onnxq
) -> None:
    save(tmp_path, NMS)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 0
    assert ran.json()["engine"]["beyond"] == {"nms": "NonMaxSuppression"}
    assert is_said(ran.err, "asked-compiler.beyond", ops="NonMaxSuppression", target="TensorRT 11")
    assert onnxq("check", "net.onnx", "--target", "tensorrt-rtx").code == 1


def test_profiles(tmp_path: Path, onnxq) -> None:
    """The user's; else the smallest of some sizes at which it compiles."""
    save(tmp_path, WINDOWS)
    ran = onnxq("check", "net.onnx", "--json")
    assert (ran.code, ran.json()["engine"]["profiles"]) == (0, {"x": [[1, 3, 64, 64]] * 3})
    ran = onnxq("check", "net.onnx", "--json", "--profile", "x=1x3x8x8:2x3x8x8:4x3x9x9")
    assert ran.json()["engine"]["profiles"] == {"x": [[1, 3, 8, 8], [2, 3, 8, 8], [4, 3, 9, 9]]}
    ran = onnxq("check", "net.onnx", "--json", "--shape", "x=Nx3x10x12")
    assert ran.json()["engine"]["profiles"] == {"x": [[1, 3, 10, 12]] * 3}
    small = onnxq("check", "net.onnx", "--json", "--profile", "x=1x3x1x1:1x3x1x1:1x3x1x1")
    assert small.code == 1
    assert "negative" in small.json()["findings"][0]["reason"]
    unknown = onnxq("check", "net.onnx", "--profile", "z=1:1:1")
    assert unknown.code == 2
    assert "'z'" in unknown.err


def test_warnings_and_the_report(tmp_path: Path, onnxq) -> None:
    """The compiler warns; what the screen leaves out is in the file that it names."""
    count = 18
    branches = """<then_branch = a{0} () => (float[4] t{0}) {{ t{0} = Relu (x) }},
        else_branch = b{0} () => (float[4] e{0}) {{ e{0} = Neg (x) }}>"""
    nodes = " ".join(f"y{i} = If (c) {branches.format(i)}" for i in range(count))
    outs = ", ".join(f"float[4] y{i}" for i in range(count))
    save(tmp_path, f"(bool c, float[4] x, int64[4] n) => ({outs}, int64[4] m) {{ {nodes} m = Add (n, n) }}")
    ran = onnxq("check", "net.onnx")
    assert f"+{count - 4} more (--report FILE" in ran.out
    assert "warning: " in ran.out
    assert "Int64 binding" in ran.out
    ran = onnxq("check", "net.onnx", "--report", "found.json")
    assert f"+{count - 4} more in found.json" in ran.out
    report = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert len(report["near_misses"]) == count
    assert any("Int64 binding" in warning for warning in report["engine"]["warnings"])
    (tmp_path / "mine.json").write_text("[1]")
    refused = onnxq("check", "net.onnx", "--report", "mine.json")
    assert refused.code == 2
    assert "exists" in refused.err
    assert (tmp_path / "mine.json").read_text() == "[1]"


SOUND = """(float[batch, samples] x, float[2, batch, 8] h, float[4, 1, SIZE] w) =>
    (float[batch, 4, frames] y, float[2, batch, 8] g) <int64[1] one = {1}> {
    u = Unsqueeze (x, one)  [frames] y = Conv <strides = [8]> (u, w)  g = Relu (h) }"""


@pytest.mark.parametrize("size", [400, 3000])
def test_sound_is_compiled_at_a_size_that_windows_fit_into(size: int, tmp_path: Path, onnxq) -> None:
    save(tmp_path, SOUND.replace("SIZE", str(size)))
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["findings"] == []
    profiles = ran.json()["engine"]["profiles"]
    assert profiles["x"][1][1] >= size
    assert profiles["h"][1] == [2, 1, 8]  # the batch is the same in all inputs


def test_sizes_that_nobody_stated_are_no_error(tmp_path: Path, onnxq) -> None:
    save(tmp_path, SOUND.replace("SIZE", "40000"))
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == 0, ran.err
    (finding,) = ran.json()["findings"]
    assert (finding["severity"], finding["check"]) == (
        "note", "unstated-sizes",
    )  # fmt: skip
    assert "nobody stated" in finding["reason"]
    assert "--profile INPUT=MIN:OPT:MAX" in finding["advice"]
    stated = onnxq(
        "check", "net.onnx", "--json", "--profile", "x=1x8:1x8:1x8", "--profile", "h=2x1x8:2x1x8:2x1x8"
    )
    assert [one["severity"] for one in stated.json()["findings"]] == ["error"]


def test_one_cause_is_said_once_whoever_named_the_node(tmp_path: Path, onnxq) -> None:
    save(tmp_path, "(float[4] x) => (float[4] y) { y = Clip (x, , ) }")
    (finding,) = onnxq("check", "net.onnx", "--json").json()["findings"]
    assert "after sanitize" not in finding["reason"]


def test_no_size_is_asked_for_where_a_type_is_not_taken(tmp_path: Path, onnxq) -> None:
    fed = "(float[N] x, int64[1] s) => (float[N] y, float[M] z)"
    save(tmp_path, f"{fed} {{ a = Cast <to = 17> (x)  y = Cast <to = 1> (a)  z = Expand (x, s) }}", opset=19)
    found = onnxq("check", "net.onnx", "--json").json()["findings"]
    (finding,) = [one for one in found if "datatype FP8" in one["reason"]]
    assert "--profile" not in finding["advice"]
    assert "--freeze" not in finding["advice"]


def test_an_image_is_compiled_at_a_size_at_which_something_comes_out(tmp_path: Path, onnxq) -> None:
    """A pixel is less than such a window: the compiler takes it all the same."""
    weights = ", ".join(["0.01"] * 3 * 64)
    save(tmp_path, "(float[N, 3, H, W] x) => (float[N, 1, I, J] y) "
         f"<float[1, 3, 8, 8] w = {{{weights}}}> {{ y = Conv <strides = [8, 8]> (x, w) }}")  # fmt: skip
    profiles = onnxq("check", "net.onnx", "--json").json()["engine"]["profiles"]
    assert profiles["x"][1] == [1, 3, 64, 64]


@pytest.mark.parametrize(("rows", "width", "code", "severity"), [(1, 16, 0, "note"), (4, 8, 1, "error")])
def test_a_form_that_the_compiler_takes_is_a_note(
    rows: int, width: int, code: int, severity: str, tmp_path: Path, onnxq
) -> None:
    """Whether there is a kernel of an Attention is decided by its sizes: the compiler's word counts."""
    given = f"(float[1, 4, {rows}, {width}] q, float[1, 4, 32, {width}] k, float[1, 4, 32, {width}] v"
    rest = f"float[1, 1, 1, 32] m) => (float[1, 4, {rows}, {width}] y)"
    save(tmp_path, f"{given}, {rest} {{ [a] y = Attention (q, k, v, m) }}", opset=23)
    ran = onnxq("check", "net.onnx", "--json")
    assert ran.code == code, ran.err
    assert {one["severity"] for one in ran.json()["findings"] if one["node"] == "a"} == {severity}
