"""Random graphs in half precision: their types agree, their ends are as asked, the model stays as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from random_models import feeds_of
from test_random_graphs import graphs, interface, loaded

from onnxq.body.convert import to_half
from onnxq.graph.model import Model
from onnxq.run import ort, trt


@graphs(20)
def test_bodies_load_and_compute(model: onnx.ModelProto) -> None:
    opened = Model.open(model)
    original = opened.to_proto()
    wanted = loaded(original)
    for io in (False, True):
        half = to_half(opened, "fp16", {}, io=io).model.to_proto()
        assert opened.to_proto() == original
        assert interface(half) == interface(original)
        session = loaded(half)
        ort.load(half, threads=1)
        feeds = feeds_of(half, 0, special=False, c=True, k=1)
        got = session.run({name: feeds[name] for name in session.inputs})
        exact = feeds_of(original, 0, special=False, c=True, k=1)
        want = wanted.run({name: exact[name] for name in wanted.inputs})
        for one, other in zip(want, got, strict=True):
            assert other.dtype == (np.float16 if io and one.dtype == np.float32 else one.dtype)
            assert one.shape == other.shape


@graphs(8)
def test_bfloat16_loads(model: onnx.ModelProto) -> None:
    loaded(to_half(Model.open(model), "bf16", {}).model.to_proto())


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@graphs(4)
def test_what_nvidias_parser_takes_it_takes_in_half_precision(model: onnx.ModelProto) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        if trt.check_parse(path) == []:
            for kind in ("fp16", "bf16"):
                onnx.save(to_half(Model.open(model), kind, {}).model.to_proto(), path)
                assert trt.check_parse(path) == []
