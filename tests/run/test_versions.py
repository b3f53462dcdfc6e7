"""What onnxruntime reads is asked of onnxruntime."""

from __future__ import annotations

import re

import onnx
import pytest
from onnx import parser

from onnxq.run import ort
from onnxq.run.versions import unreadable, version


def model(ir_version: int, opset: int) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
        "g (float[1] x) => (float[1] y) { y = Relu (x) }"
    )


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 7), (8, 13), (10, 21)])
def test_readable(ir_version: int, opset: int) -> None:
    assert unreadable(model(ir_version, opset)) is None


@pytest.mark.parametrize(("ir_version", "opset", "what"), [(99, 13, "IR version"), (8, 999, "opset")])
def test_too_new(ir_version: int, opset: int, what: str) -> None:
    reason = unreadable(model(ir_version, opset))
    assert reason is not None
    assert reason.startswith(f"{what} {max(ir_version, opset)}; onnxruntime {version()}")
    newest = int(re.findall(r"up to (\d+)", reason)[0])
    versions = (newest, opset) if what == "IR version" else (ir_version, newest)
    ort.load(model(*versions))
    with pytest.raises(ort.RunError):
        ort.load(model(*((n + 1) if n == newest else n for n in versions)))
