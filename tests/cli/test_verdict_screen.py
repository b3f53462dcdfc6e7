"""What the screens say of the verdict."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from onnxq.cli.pages.verdict import verdict_page, verdict_section
from onnxq.cli.screen import Page
from onnxq.compiled.verdict import Compared, ComparedLayers, EngineFigures, Fastest, OnGpu, Verdict
from onnxq.documents.deployment import DeploymentPart

HALF = EngineFigures(4, 0, 1.5, 0.5, {"fp16": 2_000_000})
CODES = EngineFigures(3, 1, 1.0, 0.25, {"int8": 1_900_000, "fp16": 75_000, "fp32": 25_000})
COMPARED = Compared(HALF, CODES, 1.4, 1.2, 1.6, (OnGpu("T4", 1.6), OnGpu("L4", 1.2)))
BUILT = replace(COMPARED, int8=replace(CODES, kernels=7, conversions=3, moved_mb=2.25))
LAYERS = ComparedLayers(("conv",), ("conv", "relu"), 1, 3, 0.25, 0.8, 0.7, 0.9)
VERDICT = Verdict("", "merged", COMPARED, BUILT, (LAYERS,))
BY = "by an estimate that does no better than a constant"
ESTIMATED = f"times as fast as plain float16, {BY}: T4 1.60, L4 1.20"


def lines(verdict: Verdict | None, status: str = "compiled", *, estimated: bool = False) -> list[str]:
    page = Page()
    engine: Any = SimpleNamespace(status=status)
    report: Any = SimpleNamespace(verdict=verdict, engine=engine, deployments=(), deployment=DeploymentPart())
    verdict_section(page, report, estimated=estimated)
    return [line.text for line in page.lines]


def test_the_end_screen_says_what_is_certain_and_how_to_measure() -> None:
    assert lines(VERDICT) == [
        "int8 moves 0.62 times the bytes of plain float16; 3 kernels for 4, 1 of them only converts; "
        "multiplies int8 95.0 %, fp16 3.8 %, fp32 1.2 %",  # 1.25 of 2 MB
        "that is with what follows a product in its kernel, as NVIDIA documents it of TensorRT; as built by "
        "TensorRT-RTX it moves 1.25 times the bytes of plain float16",
        "whether that is faster only a GPU tells: time it by the first line of Next, and the same model in "
        "plain float16 (onnxq sanitize FLOAT.onnx --body fp16 --calib DATA)",
    ]
    assert lines(Verdict("it has no plain float16 form", "merged")) == ["none: it has no plain float16 form"]


def test_more_bytes_than_plain_float16_are_said_as_that() -> None:
    first, only = lines(replace(VERDICT, form="built"))
    more = (
        "int8 moves 1.25 times the bytes of plain float16: it is not likely to help; 7 kernels for 4, 3 of "
    )
    assert first.startswith(f"{more}them only convert; ")
    assert "only a GPU tells" in only
    same = replace(COMPARED, int8=replace(CODES, moved_mb=1.75, conversions=0))
    first, *_ = lines(replace(VERDICT, merged=same))
    assert first.startswith("int8 moves as many bytes as plain float16; 3 kernels for 4; ")


def test_the_estimate_is_shown_to_who_asks_and_named_as_one() -> None:
    assert not [line for line in lines(VERDICT) if "times as fast" in line]
    assert lines(VERDICT, estimated=True)[-1] == ESTIMATED


@pytest.mark.parametrize("status", ["failed", "not-run", "not-installed"])
def test_it_says_nothing_where_the_section_before_it_says_that_there_is_no_engine(status: str) -> None:
    assert lines(Verdict("why", "merged"), status) == []
    assert lines(None, status) == []


def test_what_was_left_in_float_and_what_it_cost_is_said() -> None:
    fastest = Fastest(("a", "b"), 0.9, 1.05, 1.0, 0.25, 3)
    found = lines(replace(VERDICT, fastest=fastest))
    assert found[3:] == [
        f"2 layers left in float for speed: 0.90 -> 1.05 times as fast as float16, {BY}; int8 share "
        "100.0 % -> 25.0 %",
        "a",
        "b",
    ]
    *_, none = lines(replace(VERDICT, fastest=Fastest((), 0.9, 0.9, 1.0, 1.0, 2)))
    assert none.startswith("no layer is left in float")


def test_the_page_has_both_forms_and_the_estimate_where_it_is_asked_for() -> None:
    found = replace(VERDICT, assumptions=("nothing",))
    plain, asked = (verdict_page("m.onnx", found, estimated=estimated) for estimated in (False, True))
    text = [line.text for line in plain.lines]
    assert text[0] == "m.onnx: int8 against plain fp16"
    assert [line.label for line in plain.lines if line.label] == ["TensorRT", "For RTX", "Faster?"]
    assert "int8 moves 0.62 times the bytes of plain float16" in text
    assert "int8 moves 1.25 times the bytes of plain float16: it is not likely to help" in text
    assert "where its time goes: onnxq engine m.onnx --layer-info F --profile-times G" in text
    assert not [line for line in text if "times as fast" in line or "of the time" in line]
    labels = [line.label for line in asked.lines if line.label]
    assert labels == ["TensorRT", "For RTX", "Faster?", "Estimated", "Assumed"]
    text = [line.text for line in asked.lines]
    assert text.count(ESTIMATED) == 2
    assert "0.80  conv: 25 % of the time, 3 kernels for 1" in text
    assert "nothing" in text
    refused = verdict_page("m.onnx", Verdict("why", "built"))
    assert [line.text for line in refused.lines][1:] == ["none: why"]
