"""Random graphs in half precision: their types agree, their ends are as asked, the model stays as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import reject
from random_models import LAYERED, feeds_of
from test_random_graphs import graphs, interface, is_valid, loaded

from onnxq.base.errors import UserError
from onnxq.body.convert import to_half
from onnxq.body.formats import Kind
from onnxq.body.measured_body import settle
from onnxq.graph.model import Model
from onnxq.run import ort, trt


def half_of(model: onnx.ModelProto, kind: Kind) -> onnx.ModelProto:
    try:
        return to_half(Model.open(model), kind, {}).model.to_proto()
    except UserError:  # a Cast to float16 in the middle, or an old operator that bfloat16 has no equal of
        assert kind == "bf16"
        reject()


@graphs(15)
def test_bodies_load_and_compute(model: onnx.ModelProto) -> None:
    opened = Model.open(model)
    original = opened.to_proto()
    wanted = loaded(original)
    for io in (False, True):
        half = to_half(opened, "fp16", {}, io=io).model.to_proto()
        assert opened.to_proto() == original
        assert interface(half) == interface(original)
        if is_valid(original):
            onnx.checker.check_model(half)
        session = loaded(half)
        ort.load(half, threads=1)
        feeds = feeds_of(half, 0, special=False, c=True, k=1)
        got = session.run({name: feeds[name] for name in session.inputs})
        exact = feeds_of(original, 0, special=False, c=True, k=1)
        try:
            want = wanted.run({name: exact[name] for name in wanted.inputs})
        except ort.RunError:  # onnxruntime 1.31 loses the second of two Casts that only a body reads
            reject()
        for one, other in zip(want, got, strict=True):
            assert other.dtype == (np.float16 if io and one.dtype == np.float32 else one.dtype)
            assert one.shape == other.shape


@graphs(8, steps=LAYERED)
def test_outputs_are_finite_and_near(model: onnx.ModelProto) -> None:
    """Worst case by worst case; what has to stay for that stays."""
    opened = Model.open(model)
    feeds = feeds_of(model, 0, special=False, c=True, k=1)
    result = settle(opened, "fp16", {}, [{one.name: feeds[one.name] for one in opened.inputs}])
    assert result.reached
    assert all(not loss.beyond for loss in result.outputs.values())


@graphs(8)
def test_bfloat16_loads(model: onnx.ModelProto) -> None:
    loaded(half_of(model, "bf16"))


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@graphs(4)
def test_what_nvidias_parser_takes_it_takes_in_half_precision(model: onnx.ModelProto) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        if trt.check_parse(path) == []:
            kinds: tuple[Kind, ...] = ("fp16", "bf16")
            for kind in kinds:
                onnx.save(half_of(model, kind), path)
                assert trt.check_parse(path) == []
