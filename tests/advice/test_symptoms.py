"""The table of symptoms has a line for all that the code can say, and no other; its page is made of it.

`ONNXQ_GOLDEN=1 pytest tests/advice/test_symptoms.py` (`make reference`) writes that page again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from command import ROOT, run

import onnxq
from onnxq.advice.symptoms import GROUPS, symptoms_page
from onnxq.base.catalogue import table
from onnxq.checks.load import CHECKS
from onnxq.cli.app import app
from onnxq.rule.load import load_rules
from onnxq.rule.messages import quotations

PAGE = ROOT / "docs" / "reference" / "symptoms.md"
TABLE = onnxq.symptoms()


def test_each_check_has_a_line() -> None:
    assert set(table("checks")) == set(CHECKS)


def test_a_line_has_all_of_it() -> None:
    assert {one.group for one in TABLE.entries} == set(GROUPS)
    for one in TABLE.entries:
        for text in (one.seen, one.cause, one.repair, one.costs):
            assert text.strip(), one.code
            assert not text.endswith(".") or one.group in ("message", "rule"), one.code
    quoting = {rule.id for rule in load_rules() if quotations(rule.doc)}
    assert {one.code for one in TABLE.entries if one.group == "rule"} == quoting


def test_what_lines_say_to_type_is_there() -> None:
    verbs: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    flags = {
        option
        for verb in verbs.values()
        for command in (verb, *getattr(verb, "commands", {}).values())
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    others = {
        "--minShapes", "--optShapes", "--maxShapes", "--memPoolSize", "--staticPlugins",
        "--versionCompatible",
        "--hardwareCompatibilityLevel", "--workspace", "--explicitBatch", "--minTiming", "--allowGPUFallback",
        "--onnxrt", "--trt", "--gpus", "--refit", "--stripWeights", "--loadEngine", "--useCudaGraph",
        "--duration", "--upgrade", "--dynamicPlugins", "--stronglyTyped",
        "--onnx", "--int8", "--fp16", "--runtime",
    }  # fmt: skip
    for one in TABLE.entries:
        assert set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", one.repair)) <= flags | others, one.code
        for verb in re.findall(r"\bonnxq ([a-z]+)", one.repair):
            assert verb in verbs, one.code


def test_the_page_has_all_of_them() -> None:
    if os.environ.get("ONNXQ_GOLDEN") == "1":
        PAGE.write_text(symptoms_page(), "utf-8")
    assert PAGE.read_text("utf-8") == symptoms_page(), "write it again: make reference"


def test_the_screen(tmp_path: Path) -> None:
    ran = run(tmp_path, "help", "symptoms")
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert all(" ".join(one.seen.split()) in text for one in TABLE.entries if one.group == "answer")
    assert all(heading in text for heading, _ in GROUPS.values())
    some = run(tmp_path, "help", "symptoms", "nan", "--json").json()
    assert some["kind"] == "symptoms"
    assert {one["code"] for one in some["entries"]} >= {"nonfinite", "layer-nonfinite", "fp16-product"}
    assert len(some["entries"]) < len(TABLE.entries) / 4
    ran = run(tmp_path, "help", "Symptoms", "qqqq")
    assert (ran.code, "'qqqq'" in ran.err) == (2, True)


@pytest.mark.parametrize("code", ["weights-only", "bytes-layer", "no-importer", "squeeze_to_slice"])
def test_a_line_of_each_kind_is_found_by_its_code(code: str) -> None:
    assert code in {one.code for one in onnxq.symptoms(code).entries}
