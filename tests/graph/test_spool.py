"""Large models: new weights are in a temporary file until they are saved."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.graph import spool
from onnxq.run import ort

SIZE = 1100  # of int8 weights too: more than stays in memory


def saved(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    arrays = {"w": rng.standard_normal((SIZE, SIZE, 1, 1), np.float32) / 24}
    arrays |= {name: rng.random(SIZE, np.float32) + 0.5 for name in ("scale", "shift", "mean", "var")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["y"], name="norm"),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIZE, 4, 4]) for name in "xy"]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    return folder / "net.onnx"


def data() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((1, SIZE, 4, 4), np.float32)} for _ in range(4)]


def weights(path: Path) -> dict[str, bytes]:
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


def test_the_result_is_the_same_and_its_weights_are_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path)
    small = onnxq.quantize(path, data(), compile=False)
    small.save(tmp_path / "small.onnx")
    monkeypatch.setattr(spool, "LARGE", 0)
    large = onnxq.quantize(path, data(), compile=False)
    assert large.model.ByteSize() < SIZE * 30  # of the small tensors alone
    large.save(tmp_path / "large.onnx")
    assert weights(tmp_path / "large.onnx") == weights(tmp_path / "small.onnx")
    for one, other in zip(
        ort.load(tmp_path / "small.onnx").run(data()[0]),
        ort.load(tmp_path / "large.onnx").run(data()[0]),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_the_file_lives_as_long_as_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "LARGE", 0)
    result = onnxq.sanitize(saved(tmp_path))
    (weight,) = [t for t in result.model.graph.initializer if list(t.dims) == [SIZE, SIZE, 1, 1]]
    location = {entry.key: entry.value for entry in weight.external_data}["location"]
    assert result.data_dir is not None
    file = result.data_dir / location
    assert tmp_path not in file.parents
    assert file.stat().st_size >= SIZE * SIZE * 4
    del result, weight
    gc.collect()
    assert not file.exists()
