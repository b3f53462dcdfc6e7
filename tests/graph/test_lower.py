"""An opset that onnxruntime does not read yet: lowered where no operator of the model changed since."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.graph.model import Model
from onnxq.graph.plainly import lower_opset
from onnxq.run.versions import newest_opset


def model(opset: int, body: str = "y = Relu (x)") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : {opset}]> 
        g (float[N, 4] x) => (float[N, 4] y) {{ {body} }}"""
    )
    assert isinstance(proto, onnx.ModelProto)
    return proto


def test_only_the_stamp_changes() -> None:
    opened = Model.open(model(18))
    assert lower_opset(opened, 17) == ""
    assert opened.to_proto().opset_import[0].version == 17
    assert opened.to_proto().graph == Model.open(model(17)).to_proto().graph


def test_a_newer_operator_is_named() -> None:
    opened = Model.open(model(20, "[it] y = Gelu (x)"))
    assert lower_opset(opened, 19).startswith("Gelu 'it' ")
    assert opened.opset == 20


def test_a_version_that_nobody_knows_stays() -> None:
    assert "opset 999" in lower_opset(Model.open(model(999)), 17)


def test_what_onnxruntime_does_not_read_is_lowered_and_reported() -> None:
    newer = newest_opset() + 1
    if newer > onnx.defs.onnx_opset_version():
        pytest.skip("onnx knows no opset that onnxruntime does not read")
    result = onnxq.sanitize(model(newer), target="tensorrt-rtx")
    assert result.model.opset_import[0].version == newer - 1
    (change,) = result.report["changes"]
    assert (change["rule"], change["node"]) == ("lower_opset", f"opset {newer} to {newer - 1}")
    with pytest.raises(onnxq.UserError, match=f"opset {newer}"):
        onnxq.sanitize(model(newer), target="tensorrt-rtx", prove="always")
