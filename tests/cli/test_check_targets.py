"""`check --target`: each node that an old target does not take once, with the reason and what to do."""

from __future__ import annotations

from pathlib import Path

import onnx
from said import is_said

MODEL = """<ir_version: 8, opset_import: ["" : 12]>
    net (float[N, 9, W] x, int64[N, 2, W] i, float[2, 9, 4] z, int64[2, 2, 4] j) => (a, b, c, d)
        <int64 axis = {1}, float low = {0}> {
        [free] a = GatherElements <axis = 1> (x, i)
        [known] b = GatherElements <axis = 1> (z, j)
        [clip] c = Clip (x, low)
        [sum] d = CumSum (x, axis)
    }"""
SPLIT = "onnxq pieces split MODEL --at-op GatherElements"


def test_every_finding_has_a_reason_and_advice(folder: Path, onnxq) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), folder / "net.onnx")
    ran = onnxq("check", "net.onnx", "--target", "tensorrt-7", "--json")
    assert ran.code == 1
    findings = ran.json()["findings"]
    told = {finding["node"]: (finding["kind"], finding["reason"], finding["advice"]) for finding in findings}
    assert len(told) == len(findings) == 5
    taken = "TensorRT 7 does not take"
    repaired = "onnxq sanitize repairs it ({})"
    assert told["known"] == (
        "unsupported", f"{taken} GatherElements", repaired.format("gather_elements_to_gather"),
    )  # fmt: skip
    assert told["clip"][2] == repaired.format("explicit_clip_bounds")
    assert told["free"][:2] == ("unsupported", f"{taken} GatherElements")
    assert "dimension 2 of 'x' is dynamic" in told["free"][2]
    assert SPLIT.replace("MODEL", "net.onnx") in told["free"][2]
    assert told["sum"][1] == f"{taken} CumSum"
    assert "plugin" in told["sum"][2]
    assert told[""] == (
        "unsupported",
        "opset 12 is newer than 11, the last that TensorRT 7 documents",
        "export with opset 11, if the importer stumbles over a newer operator",
    )


def test_what_sanitize_cannot_repair_is_in_its_report(folder: Path, onnxq) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), folder / "net.onnx")
    report = onnxq("sanitize", "net.onnx", "--target", "tensorrt-7", "--json").json()
    assert [entry["node"] for entry in report["unsupported"]] == ["", "free", "sum"]
    assert SPLIT in report["unsupported"][1]["advice"]
    assert report["rejected"] == []


def test_what_is_beyond_a_limit_names_it(folder: Path, onnxq) -> None:
    """A rule that asks for a limit has no `lacks`."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[2, 5000] x, float[2, 5000] z) => (v, i, w, j) <int64[1] k = {4000}> {
            [whole] v, i = TopK (x, k)  [real] w, j = TopK (z, k) }"""
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    own = Path(__file__).resolve().parents[1] / "own_rules"
    (folder / "onnxq.toml").write_text('[repair]\nskip = "topk_over_limit"\n')
    flags = ("--rules", own, "--no-engine", "--json")
    document = onnxq("check", "net.onnx", *flags).json()
    told = {f["node"]: f for f in document["findings"] if f["kind"] in ("repairable", "near-miss")}
    for node in ("whole", "real"):
        assert is_said(
            told[node]["reason"], "node-not-taken.limit", target="tensorrt-11", limits="topk-k = 3,840"
        )
    assert is_said(told["whole"]["advice"], "node-not-taken.repaired", rule="topk_in_parts")
    (change,) = [change for change in document["changes"] if change["rule"] == "topk_in_parts"]
    assert change["limits"] == {"topk-k": 3840}
