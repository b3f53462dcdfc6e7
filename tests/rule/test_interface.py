"""Another type for an input or an output: by a flag, where nothing is lost, and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import onnxq
from onnxq.run import ort

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (uint8[N, 8] image) => (int64[N] best, float[N, 8] y) <float s = {0.5}> {
    f = Cast <to = 1> (image)  y = Mul (f, s)  best = ArgMax <axis = 1, keepdims = 0> (y) }"""
RULE = """
from onnxq.rule import Fires, Interface, Node, Skips, op, rule

@rule("{root}", stage="compat")
def mine(node: Node):
    tensor = {tensor}
    if tensor.dtype.name != "{was}":
        return None
    return Interface(tensor, lambda v: op.Cast(v, to={new}), lambda v: op.Cast(v, to={old}), "no {was} there")
"""
INPUT = RULE.format(root="Cast", tensor="node.inputs[0]", was="uint8", new=1, old=2)
OUTPUT = RULE.format(root="ArgMax", tensor="node.outputs[0]", was="int64", new=6, old=7)
LOSSY = RULE.format(root="Mul", tensor="node.outputs[0]", was="float32", new=10, old=1)


def sanitized(folder: Path, rule: str, text: str = TEXT, **arguments: Any) -> onnxq.Result:
    folder.mkdir()
    (folder / "mine.py").write_text(rule)
    return onnxq.sanitize(onnx.parser.parse_model(text), rules=[folder], **arguments)


@pytest.mark.parametrize(("rule", "kind"), [(INPUT, "input 'image'"), (OUTPUT, "output 'best'")])
def test_without_the_flag_it_is_refused_and_said(tmp_path: Path, rule: str, kind: str) -> None:
    report = sanitized(tmp_path / "r", rule).report
    assert report["interface_changes"] == []
    (miss,) = [entry for entry in report["near_misses"] if entry["rule"] == "mine"]
    assert kind in miss["reason"]
    assert "--allow-interface-changes" in miss["reason"]


@pytest.mark.parametrize(
    ("rule", "entry"),
    [
        (INPUT, {"tensor": "image", "was": "input uint8 Nx8", "now": "input float32 Nx8"}),
        (OUTPUT, {"tensor": "best", "was": "output int64 N", "now": "output int32 N"}),
    ],
)
def test_with_the_flag_it_is_changed_proved_and_told(
    tmp_path: Path, rule: str, entry: dict[str, str]
) -> None:
    result = sanitized(tmp_path / "r", rule, allow_interface_changes=True)
    assert result.report["interface_changes"] == [{**entry, "because": f"no {entry['was'].split()[1]} there"}]
    assert {whole["verdict"] for whole in result.report["whole_model"]} == {"exact"}
    (change,) = [c for c in result.report["changes"] if c["rule"] == "mine"]
    assert change["proof"]["verdict"] == "exact"
    image = np.random.default_rng(0).integers(0, 256, (3, 8)).astype(np.uint8)
    before = ort.load(onnx.parser.parse_model(TEXT)).run({"image": image})
    fed = image.astype(np.float32) if rule is INPUT else image
    after = ort.load(result.model).run({"image": fed})
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_conversion_that_loses_values_is_rejected(tmp_path: Path) -> None:
    text = TEXT.replace("{0.5}", "{0.3}")
    report = sanitized(tmp_path / "r", LOSSY, text, allow_interface_changes=True).report
    assert report["interface_changes"] == []
    assert [entry["rule"] for entry in report["rejected"]] == ["mine"]


def test_a_conversion_that_could_lose_but_does_not_is_kept(tmp_path: Path) -> None:
    """Halves of what is below 256 are float16 numbers: the reason lies upstream of the output."""
    report = sanitized(tmp_path / "r", LOSSY, allow_interface_changes=True).report
    assert [entry["tensor"] for entry in report["interface_changes"]] == ["y"]
