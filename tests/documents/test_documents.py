"""What the verbs print with --json, and what they write, is as the published schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import weighted

import onnxq
from benchmarks.validate_documents import Counts, commands, mistakes, of_rules, printed, validate
from onnxq.base.plain import to_json
from onnxq.base.typed import typed
from onnxq.cli.app import app
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.emit import schemas
from onnxq.repair.lattice import Lattice
from onnxq.run import trt

OLD = Path(__file__).with_name("digits_of_schema_1.report.json")

KEYED = "keys go with the next release"

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 32, 8] x) => (float[N, 32, 16] y) {
        [product] a = MatMul (x, w)  [scale] s = Mul (a, b)  [relu] r = Relu (s)
        [second] t = MatMul (r, v)  [id] i = Identity (t)  [last] y = Relu (i) }"""
FAST = ("--repair", "none", "--method", "minmax")


def net() -> onnx.ModelProto:
    return weighted(NET, w=(8, 16), b=(16,), v=(16, 16))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its data, in a folder of their own."""
    made = tmp_path_factory.mktemp("documents")
    onnx.save(net(), made / "net.onnx")
    x = np.random.default_rng(1).standard_normal((40, 32, 8)).astype(np.float32)
    np.savez(made / "data.npz", x=x)
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> Counts:
    """What every verb prints and writes, validated once."""
    counts = Counts()
    runs = commands(folder / "net.onnx", folder / "data.npz", folder, engine=False, fast=FAST)
    validate(runs, folder, counts)
    return validate(of_rules(), folder / "none", counts)


def test_every_document_of_every_verb_is_as_its_schema_says(found: Counts) -> None:
    assert found.failures == []


def test_every_kind_is_among_them(found: Counts) -> None:
    made_elsewhere = {"engine", "verdict", "tried-rules"}  # by the compiler; by minutes of proofs
    assert set(schemas.KINDS) - set(found.documents) == made_elsewhere
    assert sum(found.documents.values()) >= 40


@pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's compiler is not installed")
def test_documents_of_the_compiler_are_as_their_schemas_say(folder: Path, tmp_path: Path) -> None:
    runs = dict(commands(folder / "net.onnx", folder / "data.npz", tmp_path, fast=FAST))
    counts = validate(iter([(name, runs[name]) for name in ("quantize", "engine")]), tmp_path)
    assert counts.failures == []
    report = json.loads((tmp_path / "q.report.json").read_text("utf-8"))
    assert report["engine"]["status"] == "compiled"
    assert mistakes(report["verdict"]) == []


def test_the_verb_prints_a_schema_and_the_list() -> None:
    out, _ = printed(["help", "schema", "calibration"])
    assert json.loads(out) == onnxq.schema("calibration")
    out, _ = printed(["help", "schema"])
    assert json.loads(out) == to_json(onnxq.list_schemas())
    assert app(["help", "schema", "calibrtion"], standalone_mode=False) == 2


def test_a_mistake_is_found() -> None:
    document = {"kind": "error", "schema": 2, "error": {"message": "m", "hint": "", "exit_code": 2}}
    assert mistakes(document) == []
    assert mistakes(document | {"schema": 1}) == ["$.schema: 2 was expected"]
    assert "'more' was unexpected" in mistakes(document | {"more": 1})[0]
    assert mistakes({"error": {}}) == ["it says no kind: ['error']"]


def test_results_in_python_are_their_types(folder: Path, tmp_path: Path) -> None:
    result = onnxq.sanitize(folder / "net.onnx")
    assert (result.report.kind, result.report.target) == ("report", "tensorrt-11")
    assert {change.rule for change in result.report.changes} == {"drop_identity", "fold_scale"}
    assert not result.report.plan
    pieces = onnxq.split(folder / "net.onnx", at=["r"])
    assert [piece.nodes for piece in pieces.manifest.pieces] == [3, 3]
    part = onnxq.extract(folder / "net.onnx", start=["a"], end=["r"])
    assert (part.report.start, part.report.to) == (("a",), ("r",))
    planned = onnxq.plan(folder / "net.onnx")
    assert {layer.format for layer in planned.report.plan.layers} == {"int8"}


def test_documents_are_indexed_by_key_with_a_warning(folder: Path) -> None:
    """For this release; the plain value is what they were."""
    report: Any = onnxq.sanitize(folder / "net.onnx").report
    with pytest.warns(DeprecationWarning, match=r"^Report is read by attribute, \.changes;") as heard:
        assert report["changes"] == report.to_dict()["changes"] != []
    assert heard[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"^FileSizes is read by attribute, \.before;"):
        assert report.size["before"] == report.size.before > 0
    with pytest.warns(DeprecationWarning, match=KEYED):
        assert ("plan" in report, "sitse" in report) == (True, False)
    with pytest.warns(DeprecationWarning, match=KEYED):
        assert (report.get("plan"), report.get("sitse", 3)) == ({}, 3)
    with pytest.warns(DeprecationWarning, match=KEYED):
        assert {**report} == report.to_dict()
    with pytest.warns(DeprecationWarning, match=KEYED), pytest.raises(KeyError, match="sitse"):
        _ = report["sitse"]
    with pytest.raises(TypeError):
        report["changes"] = ()


def test_the_key_of_a_field_of_another_name_names_the_attribute(folder: Path) -> None:
    report: Any = onnxq.extract(folder / "net.onnx", start=["a"], end=["r"]).report
    with pytest.warns(DeprecationWarning, match=r", \.start;"):
        assert report["from"] == ["a"]


def test_a_document_is_what_its_json_says(folder: Path) -> None:
    with onnxq.base.remarks.heard() as heard:
        report = onnxq.sanitize(folder / "net.onnx").report
        assert typed(Report, report.to_dict()) == report
    assert not heard


def test_what_repair_says_is_of_its_type() -> None:
    """Its steps are not run here: those of the report that is kept are read."""
    old = json.loads(OLD.read_text("utf-8"))
    read = typed(RepairPart, old["repair"])
    assert {type(edit) for edit in read.edits} == {Lattice}
    assert {step.verdict for step in read.steps} >= {"kept", "not-applicable"}
    assert typed(CalibrationPart, old["calibration"]).choice is not None
    since = {"more_bytes": 0.0, "answers": None}  # which the report that is kept does not know
    steps = [{**step, **since} for step in old["repair"]["steps"]]
    assert to_json(read) == {**old["repair"], "steps": steps}


# -- reports of schema 1 ---------------------------------------------------------------------------------


def test_an_old_report_is_shown_as_a_page(tmp_path: Path) -> None:
    old = json.loads(OLD.read_text("utf-8"))
    assert (old["schema"], "kind" in old) == (1, False)
    page = onnxq.report(OLD, tmp_path / "old.html")
    text = Path(page.page).read_text("utf-8")
    assert "/stem/stem.0/Conv" in text
    assert "/head/Gemm" in text


def test_an_old_report_is_compared(tmp_path: Path) -> None:
    now = tmp_path / "now.report.json"
    old = json.loads(OLD.read_text("utf-8"))
    now.write_text(json.dumps(old | {"kind": "report", "schema": 2, "nodes": 60}), encoding="utf-8")
    found = onnxq.diff(OLD, now)
    assert (found.a.schema, found.b.schema) == (1, 2)
    assert [one.what for one in found.differences if one.verdict == "worse"] == []


@pytest.mark.parametrize("kind", ["extract", "plan", "sensitivity"])
def test_a_document_of_another_kind_is_no_report(kind: str, tmp_path: Path) -> None:
    """Of a plan and of what causes the error there is no model to show; diff takes them."""
    other = tmp_path / "part.report.json"
    other.write_text(json.dumps({"kind": kind, "schema": 2, "onnxq": "0.1.0"}), encoding="utf-8")
    for given in ((other, None), (OLD, other)):
        with pytest.raises(onnxq.UserError, match=f"no report of onnxq: it is of kind '{kind}'"):
            onnxq.report(given[0], tmp_path / "x.html", compare=given[1])
    assert not (tmp_path / "x.html").exists()


def test_an_analysis_with_an_old_report_beside_its_model(folder: Path, tmp_path: Path) -> None:
    """`analyze` reads the report beside B; without `kind`, and without what did not apply."""
    result = onnxq.quantize(folder / "net.onnx", folder / "data.npz", repair="none", compile=False)
    result.save(tmp_path / "q.onnx", page=False)
    report = tmp_path / "q.report.json"
    new = onnxq.analyze(folder / "net.onnx", tmp_path / "q.onnx", folder / "data.npz")
    document: dict[str, Any] = json.loads(report.read_text("utf-8"))
    del document["kind"], document["config"], document["goal"]
    report.write_text(json.dumps(document | {"schema": 1}), encoding="utf-8")
    old = onnxq.analyze(folder / "net.onnx", tmp_path / "q.onnx", folder / "data.npz")
    assert (old.match, old.rows, old.held_out) == (new.match, new.rows, new.held_out)
