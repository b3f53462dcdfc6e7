"""What the screens say of the verdict."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from said import is_said

from onnxq.cli.pages.verdict import verdict_page, verdict_section
from onnxq.cli.screen import Page
from onnxq.compiled.verdict import Compared, ComparedLayers, EngineFigures, Verdict
from onnxq.documents.deployment import DeploymentPart

HALF = EngineFigures(4, 0, 1.5, 0.5, {"fp16": 2_000_000})
CODES = EngineFigures(3, 1, 1.0, 0.25, {"int8": 1_900_000, "fp16": 75_000, "fp32": 25_000})
COMPARED = Compared(HALF, CODES)
BUILT = replace(COMPARED, int8=replace(CODES, kernels=7, conversions=3, moved_mb=2.25))
LAYERS = ComparedLayers(("conv",), ("conv", "relu"), 1, 3, 0.25, 0.75)
VERDICT = Verdict("", "merged", COMPARED, BUILT, (LAYERS,))


def lines(verdict: Verdict | None, status: str = "compiled") -> list[str]:
    page = Page()
    engine: Any = SimpleNamespace(status=status)
    report: Any = SimpleNamespace(verdict=verdict, engine=engine, deployments=(), deployment=DeploymentPart())
    verdict_section(page, report)
    return [line.text for line in page.lines]


def test_the_end_screen_says_what_is_certain_and_how_to_measure() -> None:
    assert lines(VERDICT) == [
        "int8 moves 0.62 times the bytes of plain float16; 3 kernels for 4, 1 of them only converts; "
        "multiplies int8 95.0 %, fp16 3.8 %, fp32 1.2 %",  # 1.25 of 2 MB
        "that is with what follows a product in its kernel, as NVIDIA documents it of TensorRT; as built by "
        "TensorRT-RTX it moves 1.25 times the bytes of plain float16",
        "whether that is faster only a GPU tells: onnxq bundle FLOAT.onnx writes the folder that measures it "
        "there",
    ]
    assert lines(Verdict("it has no plain float16 form", "merged")) == ["none: it has no plain float16 form"]


def test_more_bytes_than_plain_float16_are_said_as_that() -> None:
    first, only = lines(replace(VERDICT, form="built"))
    more = (
        "int8 moves 1.25 times the bytes of plain float16: it is not likely to help; 7 kernels for 4, 3 of "
    )
    assert first.startswith(f"{more}them only convert; ")
    assert is_said(only, "time-it.page")
    same = replace(COMPARED, int8=replace(CODES, moved_mb=1.75, conversions=0))
    first, *_ = lines(replace(VERDICT, merged=same))
    assert first.startswith("int8 moves as many bytes as plain float16; 3 kernels for 4; ")


@pytest.mark.parametrize("status", ["failed", "not-run", "not-installed"])
def test_it_says_nothing_where_the_section_before_it_says_that_there_is_no_engine(status: str) -> None:
    assert lines(Verdict("why", "merged"), status) == []
    assert lines(None, status) == []


def test_the_page_has_both_forms_and_the_layers_that_move_more() -> None:
    little = replace(LAYERS, layers=("little",), fp16_mb=0.25, int8_mb=0.255)  # of 2 MB
    found = replace(VERDICT, layers=(LAYERS, little), assumptions=("nothing",))
    page = verdict_page("m.onnx", found)
    text = [line.text for line in page.lines]
    assert text[0] == "m.onnx: int8 against plain fp16"
    labels = [line.label for line in page.lines if line.label]
    assert labels == ["TensorRT", "For RTX", "Faster?", "Moves more", "Assumed"]
    assert is_said(text, "worth.times", ratio="int8 moves 0.62")
    assert is_said(text, "worth.no-help", format="int8")
    assert is_said(text, "time-it.where", name="m.onnx")
    assert "conv: 0.75 MB for 0.25, 3 kernels for 1" in text
    assert not [line for line in text if "little" in line]
    assert "nothing" in text
    refused = verdict_page("m.onnx", Verdict("why", "built"))
    assert [line.text for line in refused.lines][1:] == ["none: why"]
