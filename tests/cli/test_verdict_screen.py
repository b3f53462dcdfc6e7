"""What the screens say of the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onnxq.cli.pages.verdict import verdict_page, verdict_section
from onnxq.cli.screen import Page
from onnxq.compiled.verdict import Compared, ComparedLayers, EngineFigures, Fastest, OnGpu, Verdict
from onnxq.reporting import to_json

FIGURES = EngineFigures(3, 1.5, 0.25, {"fp16": 2_000_000})
COMPARED = Compared(
    FIGURES, FIGURES, 1.4, 1.2, 1.6, "undecided", (OnGpu("T4", 1.6, "faster"), OnGpu("L4", 1.2, "undecided"))
)
LAYERS = ComparedLayers(("conv",), ("conv", "relu"), 1, 3, 0.25, 0.8, 0.7, 0.9, "undecided")
VERDICT = Verdict("", "merged", COMPARED, replace(COMPARED, says="slower", low=0.5, high=0.5), (LAYERS,))


def lines(verdict: Verdict | None, status: str = "compiled") -> list[str]:
    page = Page()
    document: dict[str, Any] | None = None if verdict is None else to_json(verdict)
    verdict_section(page, document, {"status": status})
    return [line.text for line in page.lines]


def test_the_end_screen_has_one_line_of_it() -> None:
    (line,) = lines(VERDICT)
    assert line == (
        "undecided: int8 is 1.20 to 1.60 times as fast as plain float16, estimated for 2 GPUs (T4 faster)"
    )
    (line,) = lines(replace(VERDICT, form="built"))
    assert line.startswith("slower: int8 is 0.50 times as fast")
    assert lines(Verdict("it has no plain float16 form", "merged")) == ["none: it has no plain float16 form"]


@pytest.mark.parametrize("status", ["failed", "not-run", "not-installed"])
def test_it_says_nothing_where_the_section_before_it_says_that_there_is_no_engine(status: str) -> None:
    assert lines(Verdict("why", "merged"), status) == []
    assert lines(None, status) == []


def test_what_was_left_in_float_and_what_it_cost_is_said() -> None:
    fastest = Fastest(("a", "b"), 0.9, 1.05, 1.0, 0.25, 3)
    found = lines(replace(VERDICT, fastest=fastest))
    assert found[1:] == [
        "2 layers left in float for speed: 0.90 -> 1.05 times as fast as float16, int8 share 100.0 % -> "
        "25.0 %",
        "a",
        "b",
    ]
    (_, none) = lines(replace(VERDICT, fastest=Fastest((), 0.9, 0.9, 1.0, 1.0, 2)))
    assert none.startswith("no layer is left in float")


def test_the_page_has_both_forms_the_layers_that_lose_and_what_is_assumed() -> None:
    page = verdict_page("m.onnx", to_json(replace(VERDICT, assumptions=("nothing",))))
    text = [line.text for line in page.lines]
    assert text[0] == "m.onnx: int8 against plain fp16"
    assert [line.label for line in page.lines if line.label] == [
        "TensorRT",
        "For RTX",
        "Slower",
        "Assumed",
    ]
    assert [line.split(":")[0] for line in text if line.startswith(("merged", "as built"))] == [
        "merged",
        "as built by TensorRT-RTX",
    ]
    assert "0.80  conv: 25 % of the time, 3 kernels for 1" in text
    assert "nothing" in text
    refused = verdict_page("m.onnx", to_json(Verdict("why", "built")))
    assert [line.text for line in refused.lines][1:] == ["none: why"]
