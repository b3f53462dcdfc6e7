"""What the target takes from a later release on: a note there, an error for what is older."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

import onnxq

VOLUMES = """<ir_version: 9, opset_import: ["" : 20]>
    net (float[1, 2, 4, 4, 4] x, float[1, 4, 4, 4, 3] g) => (float[1, 2, 4, 4, 4] y) {
        [sampled] y = GridSample (x, g) }"""


def checked(text: str, target: str, folder: Path) -> onnxq.Checks:
    onnx.save(onnx.parser.parse_model(text), folder / "net.onnx")
    return onnxq.check(folder / "net.onnx", target=target, compile=False)


@pytest.mark.parametrize(
    ("target", "severity"), [("tensorrt-11", "note"), ("11.1", "error"), ("tensorrt-10", "error")]
)
def test_grid_samples_of_volumes(target: str, severity: str, tmp_path: Path) -> None:
    found = checked(VOLUMES, target, tmp_path)
    (one,) = found.findings
    assert (one.node, one.severity) == ("sampled", severity)
    assert ("build with TensorRT 11.2" in one.advice) == (severity == "note")
    assert ("grid_sample_gathers" in one.advice) == (severity == "error")


def test_the_release_that_has_it_and_those_behind_take_it(tmp_path: Path) -> None:
    for target in ("11.2", "11.5"):
        assert checked(VOLUMES, target, tmp_path).findings == ()
