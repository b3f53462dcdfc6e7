"""MatMulNBits: its weights stay codes of 4 bits in blocks, of older opsets too; outputs are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from said import is_said

from onnxq import quantize, sanitize
from onnxq.run import ort, trt

ROWS, COLUMNS, BLOCK = 128, 96, 32


def model_of(
    opset: int = 17, kind: Any = np.float32, zero: int | None = None, rows: int | str = "N"
) -> onnx.ModelProto:
    """Two products of 4-bit weights; between them a ReduceMean and a Split, which are others in opset 18."""
    newer = opset >= 18
    rng = np.random.default_rng(4)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes, constants, source = [], [], "x"
    for name, columns in (("first", 2 * COLUMNS), ("second", COLUMNS)):
        blocks = (ROWS if name == "first" else COLUMNS) // BLOCK
        codes = rng.integers(0, 256, (columns, blocks, BLOCK // 2), np.uint8)
        scales = rng.uniform(0.005, 0.015, columns * blocks).astype(kind)
        constants += [
            numpy_helper.from_array(codes, f"{name}_w"),
            numpy_helper.from_array(scales, f"{name}_s"),
        ]
        inputs = [source, f"{name}_w", f"{name}_s"]
        if zero is not None:
            packed = np.full(columns * -(-blocks // 2), zero * 17, np.uint8)
            constants.append(numpy_helper.from_array(packed, f"{name}_z"))
            inputs.append(f"{name}_z")
        nodes.append(
            helper.make_node("MatMulNBits", inputs, [f"{name}_y"], name, domain="com.microsoft",
                             K=blocks * BLOCK, N=columns, bits=4, block_size=BLOCK)
        )  # fmt: skip
        if name == "first":
            nodes += [
                helper.make_node("Split", ["first_y"], ["left", "right"], "halves", axis=1,
                                 **({"num_outputs": 2} if newer else {})),
                helper.make_node("Max", ["left", "right"], ["larger"], "larger"),
                helper.make_node("ReduceMean", ["larger", "one"][: 1 + newer], ["mean"], "mean",
                                 **({} if newer else {"axes": [1]})),
                helper.make_node("Sub", ["larger", "mean"], ["centered"], "centered"),
            ]  # fmt: skip
            constants += [numpy_helper.from_array(np.array([1]), "one")] * newer
            source = "centered"
    nodes.append(helper.make_node("Relu", ["second_y"], ["y"], "relu"))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", element, [rows, ROWS])],
        [helper.make_tensor_value_info("y", element, [rows, COLUMNS])],
        constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 21 else 10)


def weights(model: onnx.ModelProto) -> list[int]:
    """The types of the large weights."""
    return [one.data_type for one in model.graph.initializer if np.prod(one.dims) >= ROWS * COLUMNS / 2]


def outputs(model: onnx.ModelProto) -> np.ndarray:
    x = np.random.default_rng(8).standard_normal((7, ROWS)).astype(np.float32)
    return ort.load(model, optimize=False, threads=1).run({"x": x})[0]


@pytest.mark.parametrize(
    ("opset", "zero", "target"), [(17, None, "tensorrt-11"), (13, 8, "tensorrt-10"), (21, 8, "tensorrt-rtx")]
)
def test_weights_stay_in_blocks(opset: int, zero: int | None, target: str) -> None:
    model = model_of(opset, zero=zero)
    result = sanitize(model, target=target)
    assert weights(result.model) == [TensorProto.INT4] * 2
    assert result.model.opset_import[0].version == 21
    onnx.checker.check_model(result.model)
    assert [one["node"] for one in result.report["changes"] if one["rule"] == "upgrade_opset"] == [
        f"opset {opset} to 21"
    ] * (opset < 21)
    assert result.report["unsupported"] == result.report["rejected"] == []
    assert not [one for one in result.report["notes"] if "become float" in one]
    assert result.report["size"]["after"] < 1.05 * result.report["size"]["before"]
    np.testing.assert_allclose(outputs(result.model), outputs(model), rtol=0, atol=2e-6)


def test_of_a_target_without_blocks_they_become_float_and_that_is_said() -> None:
    model = model_of()
    result = sanitize(model, target="tensorrt-8.6")
    assert weights(result.model) == [TensorProto.FLOAT] * 2
    assert result.model.opset_import[0].version == 17
    (note,) = [one for one in result.report["notes"] if "MatMulNBits" in one]
    assert is_said(note, "blocks-become-float", why="TensorRT 8.6 takes no weights in blocks")
    np.testing.assert_allclose(outputs(result.model), outputs(model), rtol=0, atol=2e-6)


def test_an_opset_that_cannot_be_raised_is_said() -> None:
    model = model_of()
    pool = helper.make_node("AveragePool", ["image"], ["p"], "pool", kernel_shape=[2], ceil_mode=1)
    model.graph.node.append(pool)
    model.graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 5]))
    model.graph.output.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, 1, 3]))
    result = sanitize(model, target="tensorrt-11")
    assert weights(result.model) == [TensorProto.FLOAT] * 2
    assert result.model.opset_import[0].version == 17
    (note,) = [one for one in result.report["notes"] if "MatMulNBits" in one]
    assert "become float: their blocks need opset 21" in note
    assert "ceil_mode" in note


def test_quantize_leaves_them_so_and_the_compiler_takes_them(tmp_path: Path) -> None:
    model = model_of(kind=np.float16, rows=16)
    rng = np.random.default_rng(2)
    samples = [{"x": rng.standard_normal((16, ROWS)).astype(np.float16)} for _ in range(8)]
    result = quantize(model, samples, method="minmax", repair="none", compile=False)
    assert weights(result.model) == [TensorProto.INT4] * 2
    assert result.report["size"]["after"] < 1.15 * result.report["size"]["before"]
    kept = {one["because"] for one in result.report["plan"]["kept_float"]}
    assert kept == {"the model holds its weights as int4 in blocks of 32, which products in int8 do not read"}
    if trt.installed() is not None:
        onnx.save(result.model, tmp_path / "x.onnx")
        engine = trt.compile_engine(tmp_path / "x.onnx")
        assert (engine.status, engine.reason) == ("compiled", "")
