"""`onnxq.diff`: what was changed in a report is found and judged by the margins; earlier reports open."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onnxq
from onnxq.analysis.diff.rows import RunDiff, RunDifference
from onnxq.base.plain import to_json

# Of an earlier version: layers say `int8`, not `format`; no body, repair, size, SHA-256, codes of reasons.
EARLY = Path(__file__).parent / "early.report.json"
STEM, POOLED = "/stem/stem.0/Conv", "/Concat_output_0"

Document = dict[str, Any]


@pytest.fixture
def early() -> Document:
    document: Document = json.loads(EARLY.read_text("utf-8"))
    document["accuracy"].append({**document["accuracy"][0], "output": "second"})
    return document


def saved(folder: Path, document: object, name: str = "b") -> Path:
    path = folder / f"{name}.report.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def diff(folder: Path, a: Document, b: Document, **options: Any) -> RunDiff:
    return onnxq.diff(saved(folder, a, "a"), saved(folder, b), **options)


def test_a_report_does_not_differ_from_itself(tmp_path: Path, early: Document) -> None:
    found = diff(tmp_path, early, early)
    assert found.differences == ()
    assert found.worse == 0
    assert found.compared == ("accuracy", "engine", "plan", "scales", "changes", "files", "settings")
    assert {part.part: part.of for part in found.missing} == {
        "goal": "both",
        "body": "both",
        "repair": "both",
    }


def less_accurate(d: Document) -> None:
    d["accuracy"][0]["sqnr_db"] -= 0.6


def a_little_less_accurate(d: Document) -> None:
    d["accuracy"][0]["sqnr_db"] -= 0.4


def nonfinite(d: Document) -> None:
    d["accuracy"][0].update(sqnr_db="-inf", nonfinite=3)


def disagrees(d: Document) -> None:
    d["accuracy"][0]["top1"] -= 0.01


def no_output(d: Document) -> None:
    del d["accuracy"][1]


def in_float(d: Document) -> None:
    d["plan"]["layers"][0]["int8"] = False
    d["plan"]["kept_float"].append({"node": STEM, "op": "Conv", "because": "the user's wish"})


def of_another_format(d: Document) -> None:
    d["plan"]["layers"][0]["format"] = "float8"


def scaled(d: Document) -> None:
    d["calibration"]["scales"][POOLED] *= 4


def of_another_group(d: Document) -> None:
    group = next(g for g in d["plan"]["groups"] if POOLED in g["tensors"])
    group["tensors"].remove(POOLED)
    d["plan"]["groups"].append({"id": 99, "tensors": [POOLED], "sources": [POOLED], "reasons": []})


def unproven(d: Document) -> None:
    d["changes"][2]["proof"]["verdict"] = "unproven"


def not_applied(d: Document) -> None:
    change = d["changes"].pop(2)
    d["near_misses"].append({"rule": change["rule"], "node": change["node"], "reason": "its scale is zero"})


def rejected(d: Document) -> None:
    d["rejected"].append(copy.deepcopy(d["changes"][0]))


def not_compiled(d: Document) -> None:
    d["engine"].update(status="failed", reason="no kernel")


def not_int8(d: Document) -> None:
    d["engine"].update(int8=5, not_int8=[STEM])


def moves_more(d: Document) -> None:
    d["engine"]["layers"][0]["outputs"][0]["shape"][0] *= 9


def refused(d: Document) -> None:
    d["unsupported"].append({"node": STEM, "op": "Conv", "reason": "no importer", "advice": ""})


def of_another_method(d: Document) -> None:
    d["calibration"]["method"] = "minmax"


PLANTED: list[tuple[Callable[[Document], None], str, str, str, str]] = [
    (less_accurate, "worse", "accuracy", "SQNR", "logits"),
    (a_little_less_accurate, "within", "accuracy", "SQNR", "logits"),
    (nonfinite, "worse", "accuracy", "NaN or infinite values", "logits"),
    (nonfinite, "worse", "accuracy", "SQNR", "logits"),
    (disagrees, "worse", "accuracy", "top-1 agreement", "logits"),
    (no_output, "worse", "accuracy", "output", "second"),
    (in_float, "worse", "plan", "format", STEM),
    (of_another_format, "other", "plan", "format", STEM),
    (scaled, "other", "scales", "scale", POOLED),
    (of_another_group, "other", "scales", "shares a scale", "/fine/Relu_1_output_0"),
    (unproven, "worse", "changes", "fold_batchnorm", "/fine/second/second.1/BatchNormalization"),
    (not_applied, "other", "changes", "fold_batchnorm", "/fine/second/second.1/BatchNormalization"),
    (rejected, "worse", "changes", "fold_batchnorm", "/stem/stem.1/BatchNormalization"),
    (not_compiled, "worse", "engine", "status", ""),
    (not_int8, "worse", "engine", "runs in", STEM),
    (not_int8, "worse", "engine", "planned layers that are not int8", ""),
    (moves_more, "worse", "engine", "moved by kernels, MB", ""),
    (refused, "worse", "changes", "target", STEM),
    (of_another_method, "other", "settings", "method", ""),
]


@pytest.mark.parametrize(
    ("plant", "verdict", "part", "what", "name"),
    PLANTED,
    ids=[f"{p.__name__}-{w}" for p, _, _, w, _ in PLANTED],
)
def test_what_was_changed_is_found(
    plant: Callable[[Document], None],
    verdict: str,
    part: str,
    what: str,
    name: str,
    tmp_path: Path,
    early: Document,
) -> None:
    changed = copy.deepcopy(early)
    plant(changed)
    found = diff(tmp_path, early, changed)
    rows = [row for row in found.differences if (row.part, row.what, row.name) == (part, what, name)]
    assert [row.verdict for row in rows] == [verdict]
    assert {row.part for row in found.differences} == {part}, "nothing else differs"
    if verdict == "worse":
        assert found.differences[0].verdict == "worse"
    back = diff(tmp_path, changed, early)
    turned = {"worse": "better"}.get(verdict, verdict)
    assert turned in {row.verdict for row in back.differences if row.part == part}
    assert back.worse == 0


def only(rows: tuple[RunDifference, ...], what: str) -> RunDifference:
    (row,) = (row for row in rows if row.what == what)
    return row


def test_figures_of_a_row(tmp_path: Path, early: Document) -> None:
    changed = copy.deepcopy(early)
    for plant in (less_accurate, in_float, scaled, not_applied):
        plant(changed)
    rows = diff(tmp_path, early, changed).differences
    sqnr = only(rows, "SQNR")
    assert (sqnr.unit, sqnr.weight) == ("dB", pytest.approx(0.6 / 0.5))
    assert sqnr.change == pytest.approx(-0.6, abs=1e-9)
    layer = only(rows, "format")
    assert (layer.a, layer.b, layer.node, layer.why) == ("int8", "float", STEM, "the user's wish")
    macs = [layer["macs"] for layer in early["plan"]["layers"]]
    assert layer.weight == pytest.approx(100 * macs[0] / sum(macs) / 0.5)
    scale = only(rows, "scale")
    assert (scale.change, scale.weight, scale.unit) == (4.0, 2.0, "ratio")
    assert scale.node == "/coarse/first/first.0/Conv"
    assert only(rows, "fold_batchnorm").why == "its scale is zero"


def test_worst_first(tmp_path: Path, early: Document) -> None:
    changed = copy.deepcopy(early)
    for plant in (less_accurate, not_compiled, scaled, of_another_method):
        plant(changed)
    changed["calibration"]["scales"]["image"] *= 32
    rows = diff(tmp_path, early, changed).differences
    assert [row.what for row in rows][:2] == ["status", "SQNR"]
    assert [row.name for row in rows if row.what == "scale"] == ["image", POOLED]


def test_margins_are_stated_and_kept_to(tmp_path: Path, early: Document) -> None:
    changed = copy.deepcopy(early)
    less_accurate(changed)
    assert diff(tmp_path, early, changed, margin_db=0.7).worse == 0
    assert diff(tmp_path, early, changed, margins={"margin_db": 0.59}).worse == 1
    found = diff(tmp_path, early, changed, margin_db=0)
    assert (found.worse, found.differences[0].weight) == (1, math.inf)
    assert to_json(found)["differences"][0]["weight"] == "inf"
    assert found.margins == {"margin_db": 0, "margin_points": 0.5, "margin_percent": 1.0}
    with pytest.raises(onnxq.UserError, match="margin"):
        diff(tmp_path, early, changed, margin_db=-1.0)


def test_a_pattern_leaves_what_is_of_other_names_out(tmp_path: Path, early: Document) -> None:
    changed = copy.deepcopy(early)
    for plant in (less_accurate, in_float, scaled):
        plant(changed)
    found = diff(tmp_path, early, changed, match=["/coarse/*"])
    assert [(row.what, row.name) for row in found.differences] == [("scale", POOLED)]
    assert found.worse == 0


def test_integers_are_judged_by_how_many_are_equal(tmp_path: Path, early: Document) -> None:
    del early["accuracy"][1]
    early["accuracy"][0].update(sqnr_db=None, cosine=None, max_abs=None, top1=None, equal=1.0)
    changed = copy.deepcopy(early)
    changed["accuracy"][0]["equal"] = 0.99
    (row,) = diff(tmp_path, early, changed).differences
    assert (row.verdict, row.what, row.unit) == ("worse", "equal values", "points")
    assert row.change == pytest.approx(-1)


def test_weights_whose_scales_stand_behind_the_product(tmp_path: Path, early: Document) -> None:
    one, other = (
        {**early, "body": {"type": "fp16", "post_scaled": layers}} for layers in (["a", "b"], ["a"])
    )
    row = only(diff(tmp_path, one, other).differences, "form of weight scales")
    assert (row.verdict, row.name, row.a, row.b) == ("other", "b", "behind the product", "one a channel")


def test_reports_of_two_models_are_doubted(tmp_path: Path, early: Document) -> None:
    changed = copy.deepcopy(early)
    for layer in changed["plan"]["layers"]:
        layer["node"] += "_"
    assert any("two models" in note for note in diff(tmp_path, early, changed).notes)


@pytest.mark.parametrize("part", ["accuracy", "plan", "calibration", "changes", "engine", "files"])
@pytest.mark.parametrize("value", ["none", "absent", "text", "list", "numbers"])
def test_a_part_that_is_missing_or_nonsense_is_said(
    part: str, value: str, tmp_path: Path, early: Document
) -> None:
    broken = copy.deepcopy(early)
    del broken[part]
    if value != "absent":
        broken[part] = {"none": None, "text": "?", "list": [], "numbers": {"layers": [1, None], "status": 3}}[
            value
        ]
    fits = value in ("none", "absent") or (part, value) == ("calibration", "numbers")  # it has no such fields
    fits = fits or (value == "list" and isinstance(early[part], list))
    for one, other in ((early, broken), (broken, early), (broken, broken)):
        if not fits:
            with pytest.raises(onnxq.UserError, match=rf"is no report of onnxq: \.{part}") as refused:
                diff(tmp_path, one, other)
            assert refused.value.hint
            continue
        found = diff(tmp_path, one, other)
        assert "settings" in found.compared
        told = {row.part for row in found.missing} | set(found.compared)
        assert told == {
            "accuracy", "goal", "engine", "plan", "scales", "body", "changes", "repair", "files", "settings",
        }  # fmt: skip
    of_plan = {"plan": "plan", "calibration": "scales"}.get(part, part)
    if value in ("none", "absent"):
        missing = {row.part: row.of for row in diff(tmp_path, early, broken).missing}
        assert missing[of_plan] == "B"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"{", b"[]", b"1", b'{"schema": 1}', b'{"onnxq": "0.1.0"}', b"[" * 100_000,
     b'{"onnxq": "9.0", "schema": 99}', b'{"onnxq": 1, "schema": 1}', b'{"onnxq": "0.1.0", "schema": true}'],
)  # fmt: skip
def test_what_is_no_report_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.report.json"
    path.write_bytes(content)
    with pytest.raises(onnxq.UserError, match="report") as refused:
        onnxq.diff(EARLY, path)
    assert refused.value.hint
    with pytest.raises(onnxq.UserError, match="cannot read"):
        onnxq.diff(tmp_path / "no.report.json", EARLY)


def test_a_model_in_the_place_of_its_report_is_told(tmp_path: Path) -> None:
    saved(tmp_path, {}, "net")
    (tmp_path / "net.onnx").write_bytes(b"\x08\x08")
    with pytest.raises(onnxq.UserError) as refused:
        onnxq.diff(EARLY, tmp_path / "net.onnx")
    assert "net.report.json" in refused.value.hint
