"""What is read again: what another version wrote, what it lacks, what somebody edited."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

import onnxq
from onnxq.analysis.reports import open_report, part_of
from onnxq.base.errors import UserError
from onnxq.base.typed import Unlike, nothing, typed
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.reading import brought_up
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Nothing, Report

EARLY = Path(__file__).parent.parent / "analysis" / "early.report.json"


@dataclass(frozen=True)
class _Inner:
    name: str
    size: int


@dataclass(frozen=True)
class _Empty:
    pass


@dataclass(frozen=True)
class _Other:
    name: str
    ends: tuple[float, float]


@dataclass(frozen=True)
class _Outer:
    name: str
    level: float
    count: int
    known: bool
    word: Literal["a", "b"]
    inner: _Inner
    maybe: _Inner | None
    part: _Inner | _Empty
    edit: _Other | _Inner | None
    ends: tuple[float, float]
    many: tuple[_Inner, ...]
    by: Mapping[str, float]
    stated: int = field(default=3, metadata={"key": "from"})
    both: int | None = 4


def test_what_is_missing_is_nothing_of_its_type() -> None:
    for plain in (
        {},
        dict.fromkeys(("name", "level", "count", "known", "word", "inner", "maybe", "many", "by")),
    ):
        read = typed(_Outer, plain, lenient=True)
        assert (read.name, read.word, read.many, read.by, read.stated) == ("", "", (), {}, 3)
        assert (read.count, read.known, read.maybe, read.edit) == (None, None, None, None)
        assert math.isnan(read.level)
        assert [math.isnan(end) for end in read.ends] == [True, True]
        assert (read.inner, read.part) == (_Inner("", None), _Empty())  # type: ignore[arg-type]
    assert nothing(_Outer).name == ""
    assert typed(_Outer, {"both": None, "from": None}, lenient=True).both is None
    with pytest.raises(Unlike, match="lacks 'name'"):
        typed(_Outer, {})


def test_what_is_not_known_is_passed_over() -> None:
    read = typed(
        _Outer, {"name": "x", "later": 1, "inner": {"size": 2, "more": []}, "word": "c"}, lenient=True
    )
    assert (read.name, read.inner.size, read.word) == ("x", 2, "c")


def test_an_object_is_of_the_type_that_its_fields_fit_best() -> None:
    def edit(**plain: Any) -> object:
        return typed(_Outer, {"edit": plain}, lenient=True).edit

    assert edit(name="x", size=1) == _Inner("x", 1)
    assert edit(name="x", ends=[0, 1], new=1) == _Other("x", (0, 1))
    assert typed(_Outer, {"part": {"name": "x"}}, lenient=True).part == _Inner("x", None)  # type: ignore[arg-type]
    with pytest.raises(Unlike, match=r"^\.part\.size: a whole number is expected"):
        typed(_Outer, {"part": {"size": "x"}}, lenient=True)


@pytest.mark.parametrize(
    ("plain", "at"),
    [
        ({"name": 1}, ".name"), ({"count": 1.5}, ".count"), ({"count": 10**400}, ".count"),
        ({"known": 1}, ".known"), ({"word": 1}, ".word"), ({"level": "x"}, ".level"),
        ({"inner": []}, ".inner"), ({"many": {}}, ".many"),
        ({"many": [None]}, ".many[0]"), ({"many": [{"size": "x"}]}, ".many[0].size"),
        ({"by": {"a": []}}, ".by.a"),
        ({"ends": [1]}, ".ends"), ({"edit": 1}, ".edit"), ({"from": "x"}, ".from"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_error(plain: dict[str, Any], at: str) -> None:
    with pytest.raises(Unlike) as caught:
        typed(_Outer, plain, lenient=True)
    assert caught.value.at == at


def test_an_edited_report_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "x.report.json"
    document = json.loads(EARLY.read_text("utf-8"))
    document["plan"]["sites"][0]["readers"] = 0.5
    path.write_text(json.dumps(document), "utf-8")
    said = r"x\.report\.json' is no report of onnxq: \.plan\.sites\[0\]\.readers: a list is expected"
    for read in (open_report, onnxq.report, lambda file: onnxq.diff(EARLY, file)):
        with pytest.raises(UserError, match=said) as caught:
            read(path)
        assert caught.value.hint


def test_an_early_report_is_in_todays_words() -> None:
    opened = open_report(EARLY)
    report = opened.document
    plan = part_of(PlanPart, report.plan)
    assert (report.schema, {layer.format for layer in plan.layers}) == (1, {"float", "int8"})
    assert (report.body, report.repair, report.goal) == (Nothing(), None, None)
    assert {"body", "repair", "goal"} <= opened.lacks
    assert not {"plan", "changes", "files"} & opened.lacks
    assert part_of(RepairPart, report.repair).steps == ()


def test_what_was_said_otherwise() -> None:
    edits = [{"kind": "scale", "tensor": "t", "axis": 1, "factors": [2.0], "ratios": {}}]
    plain = {
        "plan": {"layers": [{"node": "a", "int8": True}, {"node": "b"}, {"node": "c", "format": "int8"}]},
        "body": {"type": "fp16", "post_scaled": [{"tensor": "w"}, "v"]},
        "calibration": {"method": "mse"},
        "repair": {"edits": edits},
        "layer_errors": {"worst": {"outputs": [{"output": "y", "argmax": [1, 2]}]}},
    }
    before = json.dumps(plain)
    read = typed(Report, brought_up(plain), lenient=True)
    assert json.dumps(plain) == before
    assert [layer.format for layer in part_of(PlanPart, read.plan).layers] == ["int8", "float", "int8"]
    assert not isinstance(read.body, Nothing)
    assert read.body.post_scaled == ("w", "v")
    assert part_of(CalibrationPart, read.calibration).before == {"t": "scale"}
    assert read.layer_errors is not None
    assert read.layer_errors.worst is not None
    assert read.layer_errors.worst.outputs[0].argmax == (None, None)
    said = {"calibration": {"before": {}}, "repair": {"edits": edits}}
    assert part_of(CalibrationPart, typed(Report, brought_up(said), lenient=True).calibration).before == {}


def test_strictly_a_field_that_no_type_has_is_an_error() -> None:
    with pytest.raises(Unlike, match="_Inner has no 'more'"):
        typed(_Inner, {"name": "a", "size": 1, "more": 2})
    with pytest.raises(Unlike, match="_Inner lacks 'size'"):
        typed(_Inner, {"name": "a"})
