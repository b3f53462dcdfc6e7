"""Reports in which somebody changed one field: they are read, or what is wrong is said with its place."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest
from long_report import analysis_of, synthetic

from onnxq.analysis.changes import recorded
from onnxq.analysis.reports import OpenedReport
from onnxq.base.errors import UserError
from onnxq.base.typed import Unlike
from onnxq.documents.analysis import Analysis
from onnxq.documents.reading import read_plain
from onnxq.documents.report import Report
from onnxq.graph.model import Model
from onnxq.inspection.diffing import compare_reports
from onnxq.inspection.tensor_statistics import grids_of
from onnxq.options.settings import Margins
from onnxq.page.making import html_of, page_of

OTHERS = (None, "x", 7, -1, [], {}, math.nan, 1e308, [1, 2, 3], True, {"x": 1}, 10**400, "\udc80", [[1]], 0.5)
REPORT = synthetic(8)
ANALYSIS = analysis_of(REPORT)
Key = str | int


def fields(value: Any, path: tuple[Key, ...] = ()) -> Iterator[tuple[Key, ...]]:
    """Where something stands in a document; of a list in its first entry."""
    if path and path != ("schema",):  # which is checked when a report is opened
        yield path
    keys: list[Key] = (
        list(value) if isinstance(value, dict) else [0] if isinstance(value, list) and value else []
    )
    for key in keys:
        yield from fields(value[key], (*path, key))


def with_other(document: dict[str, Any], path: tuple[Key, ...], other: Any) -> dict[str, Any]:
    found = copy.deepcopy(document)
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = other
    return found


def shown(report: dict[str, Any], analysis: dict[str, Any]) -> None:
    html_of(page_of(OpenedReport.of(report, "r.json"), analysis=read_plain(Analysis, analysis)))


def differs(report: dict[str, Any], _: dict[str, Any]) -> None:
    a, b = OpenedReport.of(REPORT, "a.json"), OpenedReport.of(report, "b.json")
    compare_reports(a, b, Margins(), ())
    compare_reports(b, a, Margins(), ())


def way(path: tuple[Key, ...]) -> str:
    return "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path)


@pytest.mark.parametrize(("reads", "changed"), [(shown, "report"), (shown, "analysis"), (differs, "report")])
def test_a_field_of_another_type_or_size(reads: Callable[..., None], changed: str) -> None:
    """Every eighth field, each of the next other type: all fields and types would take minutes."""
    places = list(fields(REPORT if changed == "report" else ANALYSIS))[::8]
    refused: list[tuple[str, str]] = []
    for number, path in enumerate(places):
        other = OTHERS[number % len(OTHERS)]
        try:
            if changed == "report":
                reads(with_other(REPORT, path, other), ANALYSIS)
            else:
                reads(REPORT, with_other(ANALYSIS, path, other))
        except Unlike as error:
            refused.append((error.at, way(path)))
    assert [found for found, changed in refused if not found.startswith(changed)] == []
    assert len(refused) > len(places) / 3


@pytest.mark.parametrize(
    ("path", "other"),
    [
        (("verdict", "merged", "fp16"), math.nan),
        (("engine", "layers", 0, "inputs", 0, "shape", 0), 10**400),
        (("verdict", "assumptions"), 7),
        (("verdict", "assumptions", 0), [1]),
        (("verdict", "form"), ["merged"]),
        (("plan", "sites", 0, "readers"), 0.5),
        (("outline", 0, "reads"), 0.5),
        (("phases", "load"), 10**400),
    ],
)
def test_what_ended_in_a_traceback(path: tuple[Key, ...], other: Any) -> None:
    with pytest.raises(Unlike) as caught:
        shown(with_other(REPORT, path, other), ANALYSIS)
    assert caught.value.at.startswith(way(path))


@pytest.mark.parametrize(
    ("path", "other"),
    [
        (("rows",), 7),
        (("rows", 0, "causes"), 0.5),
        (("worst", "outputs"), 7),
        (("worst", "outputs", 0, "values"), True),
    ],
)
def test_what_of_an_analysis_ended_in_a_traceback(path: tuple[Key, ...], other: Any) -> None:
    with pytest.raises(Unlike) as caught:
        shown(REPORT, with_other(ANALYSIS, path, other))
    assert caught.value.at.startswith(way(path))


MAP = {
    "tensor": "t",
    "axis": 1,
    "scale": 2.0,
    "shape": None,
    "offset": [1.0, 2.0],
    "index": None,
    "was": None,
}


@pytest.mark.parametrize(
    ("key", "other", "said"),
    [
        (
            "scale",
            [1.0, 2.0, 3.0],
            "'t', which does not fit its shape 1x2x3x3: operands could not be broadcast",
        ),
        ("offset", [], "does not fit its shape 1x2x3x3"),
        ("index", [7], "does not fit its shape 1x2x3x3: index 7 is out of bounds"),
        ("axis", 9, "does not fit its shape 1x2x3x3"),
        ("scale", math.nan, "'t' was edited; how cannot be read: nan is not finite"),
        ("scale", None, "'t' was edited; how cannot be read: nan is not finite"),
        ("shape", [2, 2], "how cannot be read: cannot reshape"),
    ],
)
def test_what_an_edit_made_of_a_tensor(key: str, other: Any, said: str) -> None:
    report = json.loads(json.dumps({"repair": {"maps": [{**MAP, key: other}]}}))
    values = np.ones((1, 2, 3, 3), np.float32)
    with pytest.raises(UserError) as caught:
        recorded(read_plain(Report, report)).maps["t"](values)
    assert said in str(caught.value)
    assert "repair.maps" in str(caught.value)
    assert "onnxq wrote it" in caught.value.hint


def test_a_wide_scale_that_does_not_broadcast() -> None:
    wide = {**MAP, "axis": None, "offset": 0.0, "scale": [1.0] * 6, "shape": [3, 2, 1, 1, 1]}
    made = recorded(read_plain(Report, {"repair": {"maps": [wide]}})).maps["t"]
    with pytest.raises(UserError, match="it makes 3x2x2x3x3 of it"):
        made(np.ones((1, 2, 3, 3), np.float32))


def test_scales_that_are_none() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[4] x) => (float[4] y) { y = Relu (x) }'
    report = read_plain(Report, {"calibration": {"scales": {"x": 0.5, "a": math.nan, "b": "inf", "d": -1.0}}})
    found = grids_of(Model.open(onnx.parser.parse_model(text)), report)
    assert {name: grid.scale for name, grid in found.items()} == {"x": 0.5}
