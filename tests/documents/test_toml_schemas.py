"""The schemas for editors take what onnxq reads, and refuse what it refuses by key, word or type."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import SAMPLES, run

import onnxq
from onnxq.options.option import read_options
from onnxq.options.settings import GROUPS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from test_settings import VALUES

SETTINGS = jsonschema.Draft7Validator(onnxq.schema("onnxq.toml"))
PLAN = jsonschema.Draft7Validator(onnxq.schema("plan.toml"))
PLACES = [(table, said) for group in GROUPS for said in read_options(group).values() for table in said.tables]
LAYERS = """
[[layer]]
match = ["/head/*"]
op = "Conv|Gemm"
format = "float"
because = "boxes"
[[layer]]
op = ["Conv"]
of = "weights"
percentile = 99.9
[[layer]]
match = "x"
repair = ["bias"]
[[deployment]]
name = "decode"
weight = 0.9
batch = "1:8:32"
profile = {ids = "1x1:1x1:1x1"}
"""


def of(table: str, text: str) -> dict[str, Any]:
    return tomllib.loads(f"[{table}]\n{text}\n" if table else f"{text}\n")


@pytest.mark.parametrize(("table", "said"), PLACES, ids=[f"{table}.{said.key}" for table, said in PLACES])
def test_an_option_is_taken_as_it_is_read(table: str, said: Any) -> None:
    SETTINGS.validate(of(table, f"{said.key} = {VALUES[said.key][0]}"))
    assert not SETTINGS.is_valid(of(table, f"{said.key} = 1979-05-27"))
    assert not SETTINGS.is_valid(of(table, f"{said.key}_ = {VALUES[said.key][0]}"))
    if said.kind.names and not said.kind.is_path:
        for word in said.kind.names:
            SETTINGS.validate(of(table, f'{said.key} = "{word}"'))
        assert not SETTINGS.is_valid(of(table, f'{said.key} = "no-such"'))


def test_layers_and_deployments() -> None:
    SETTINGS.validate(tomllib.loads(LAYERS))
    for wrong in ('format = "floot"', 'method = "auto"', "amax = true", "mach = 1"):
        assert not SETTINGS.is_valid(tomllib.loads(f'[[layer]]\nop = "Conv"\n{wrong}\n'))


def test_what_init_writes_names_its_schema(tmp_path: Path) -> None:
    model = SAMPLES / "digits/digits.onnx"
    assert run(tmp_path, "init", model, "--calib", SAMPLES / "digits/calib").code == 0
    text = (tmp_path / "onnxq.toml").read_text("utf-8")
    assert text.startswith("#:schema ./onnxq.toml.schema.json\n")
    schema = tmp_path / "onnxq.toml.schema.json"
    SETTINGS.validate(tomllib.loads(text))
    schema.write_text(schema.read_text("utf-8").replace('"onnxq.toml"', '"mine"'))
    kept = schema.read_text("utf-8")
    assert run(tmp_path, "init", model, "--force").code == 0
    assert schema.read_text("utf-8") == kept
    assert "#:schema" not in (tmp_path / "onnxq.toml").read_text("utf-8")
    schema.unlink()
    assert run(tmp_path, "init", model, "--force").code == 0
    told = (tmp_path / "onnxq.toml").read_text("utf-8").partition("# What is different")[0]
    uncommented = "\n".join(
        line.removeprefix("# ") if " = " in line and line.startswith("# ") else line
        for line in told.splitlines()
    )
    said = tomllib.loads(uncommented)  # every option with its default, or an example
    SETTINGS.validate(said)
    assert len(said["calibration"]) > 8


def test_plans_are_taken(tmp_path: Path) -> None:
    ran = run(
        tmp_path, "plan", SAMPLES / "digits/digits.onnx", "--calib", SAMPLES / "digits/calib",
        "--method", "minmax", "--prove", "never", "-o", "plan.toml",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    plan = tomllib.loads((tmp_path / "plan.toml").read_text("utf-8"))
    PLAN.validate(plan)
    assert plan["tensor"]
    assert plan["layer"]
    for change in ({"version": "1"}, {"layer": [{"node": 1}]}, {"layr": []}, {"body": {"type": "fp61"}}):
        assert not PLAN.is_valid({**plan, **change})
