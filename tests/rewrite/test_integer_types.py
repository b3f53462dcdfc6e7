"""Integer types that TensorRT lacks, in its compiler: refused as they are, compiled and equal repaired."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.run import ort, trt

pytestmark = pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's compiler is not installed")

MODELS = {
    "an image, moved and then cast": (
        "uint8[1, 6, 6, 3] x",
        "float[1, 3, 6, 6] y",
        "t = Transpose <perm = [0, 3, 1, 2]> (x)  c = Cast <to = 1> (t)  y = Mul (c, half)",
    ),
    "sums that overflow": ("uint8[4, 8] x", "uint8[4, 8] y", "s = Add (x, x)  y = Mul (s, x)"),
    "numbers rounded to bytes": (
        "float[4, 8] x",
        "float[4, 8] y",
        "c = Cast <to = 2> (x)  y = Cast <to = 1> (c)",
    ),
    "bits": ("int32[4, 8] x", "int32[4, 8] y", "n = Neg (x)  y = BitwiseXor (x, n)"),
    "words, by the flag": ("int16[4, 8] x", "int16[4, 8] y", "y = Add (x, x)"),
}


@pytest.mark.parametrize("case", MODELS)
def test_it_compiles_and_is_equal(case: str, tmp_path: Path) -> None:
    inputs, outputs, body = MODELS[case]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]>
        g ({inputs}) => ({outputs}) <float half = {{0.5}}> {{ {body} }}"""
    )
    onnx.save(model, tmp_path / "before.onnx")
    assert trt.compile_engine(tmp_path / "before.onnx").status == "failed"
    result = onnxq.sanitize(model, target="tensorrt-rtx", allow_interface_changes=True)
    onnx.save(result.model, tmp_path / "after.onnx")
    assert trt.compile_engine(tmp_path / "after.onnx").status == "compiled"
    dtype, shape = input_of(model)
    fed = np.random.default_rng(0).integers(0, 250, shape).astype(dtype)
    wide = onnx.helper.tensor_dtype_to_np_dtype(result.model.graph.input[0].type.tensor_type.elem_type)
    (before,) = ort.load(model).run({"x": fed})
    (after,) = ort.load(result.model).run({"x": fed.astype(wide)})
    np.testing.assert_array_equal(after, before)
    changed = [entry["tensor"] for entry in result.report["interface_changes"]]
    assert changed == (["x", "y"] if "flag" in case else [])


def input_of(model: onnx.ModelProto) -> tuple[np.dtype, list[int]]:
    kind = model.graph.input[0].type.tensor_type
    return onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type), [dim.dim_value for dim in kind.shape.dim]
