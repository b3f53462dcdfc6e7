"""What has the compiled engine move more bytes than plain float16 is undone, the nearest way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.numpy_helper import from_array
from said import is_said

import onnxq
from onnxq.pipeline import searches
from onnxq.pipeline.building import Built
from onnxq.pipeline.run import Run
from onnxq.pipeline.searches import bytes as moved_bytes
from onnxq.run import trt

pytestmark = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")

SAMPLES = [
    {"x": np.random.default_rng(seed).standard_normal((1, 16, 24, 24), np.float32)} for seed in range(24)
]


def net(path: Path, *, scores: bool = False) -> Path:
    """Depthwise convolutions, which stay in float, between pointwise ones in int8; or clear scores behind."""
    rng = np.random.default_rng(0)
    body = "".join(
        f"d{i} = Conv <group = 32, pads = [1, 1, 1, 1]> (p{i}, w{i})  "
        f"[point{i}] q{i} = Conv (d{i}, v{i})  p{i + 1} = Relu (q{i})  "
        for i in range(3)
    )
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, 16, 24, 24] x) => (float[1, 32, 24, 24] y)
        {{ c = Conv <pads = [1, 1, 1, 1]> (x, w)  p0 = Relu (c)  {body} y = Conv (p3, v) }}"""
    )
    if scores:
        tail = onnx.parser.parse_graph(
            """g (float[1, 32, 24, 24] y) => (float[1, 32] s)
            { a = GlobalAveragePool (y)  f = Flatten (a)  l = Mul (f, factor)  s = Softmax <axis = 1> (l) }"""
        )
        model.graph.node.extend(tail.node)
        model.graph.initializer.append(from_array(np.float32(4), "factor"))
        del model.graph.output[:]
        model.graph.output.extend(tail.output)
    shapes = {"w": (32, 16, 3, 3), "v": (32, 32, 1, 1)}
    shapes |= {f"w{i}": (32, 1, 3, 3) for i in range(3)} | {f"v{i}": (32, 32, 1, 1) for i in range(3)}
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[1:]))
        model.graph.initializer.append(
            from_array(np.float32(scale * rng.standard_normal(shape).astype(np.float32)), name)
        )
    onnx.save(model, path)
    return path


@pytest.fixture
def wide_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that is to be so near to float32 that much of it is float32."""
    monkeypatch.setattr("onnxq.pipeline.searches.body.above_db", lambda gained: 45.0)


def quantized(folder: Path, *, scores: bool = False, **options: Any) -> Any:
    samples = [{"x": one["x"] * (1 + (2 + place % 3) * scores)} for place, one in enumerate(SAMPLES)]
    return onnxq.quantize(net(folder / "net.onnx", scores=scores), samples, **options).report


def moved(report: Any) -> float:
    figures = report.verdict.merged
    return float(np.divide(*(one.moved_mb + one.weights_mb for one in (figures.int8, figures.fp16))))


def test_a_body_that_moves_more_than_float16_is_in_half_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide_body: None
) -> None:
    after = quantized(tmp_path)
    monkeypatch.setattr(
        "onnxq.pipeline.quantizing.COMPILED", [one for one in searches.COMPILED if one.name != "bytes"]
    )
    before = quantized(tmp_path)
    assert moved(before) > 1.01
    assert moved(after) < 0.9
    assert {one.code for one in before.body.float32} == {"accuracy"}
    assert not after.body.float32
    (told,) = after.body.notes
    assert is_said(
        told,
        "half-for-bytes",
        nodes=len(before.body.float32),
        format="int8",
        moves=f"{moved(before):.2f} times the bytes of plain float16",
        ratio=f"{moved(after):.2f}",
    )


@pytest.mark.parametrize("near", [True, False])
def test_repair_is_made_again_only_where_half_precision_is_not_as_near(
    near: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide_body: None
) -> None:
    asked: list[Run] = []

    def less_room(run: Run) -> None:
        asked.append(run)

    monkeypatch.setattr(moved_bytes, "_with_less_room", less_room)
    monkeypatch.setattr(moved_bytes, "_is_as_near", lambda *_: near)
    assert not quantized(tmp_path).body.float32
    assert bool(asked) is not near


def louder(run: Run) -> Run:
    """The same with all ranges of activations 16 times as wide."""
    draft = run.built.draft
    wide = {name: replace(one, amax=16 * one.amax) for name, one in draft.ranges.items()}
    built = Built.of(run.built.job, replace(draft, ranges=wide), run.built.floats).finished()
    return replace(run, built=built)


@pytest.mark.parametrize("noisy", ["_with_half_body", "_with_less_room"])
def test_the_nearer_file_is_taken(
    noisy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide_body: None
) -> None:
    half = moved_bytes._with_half_body
    quiet = {"_with_half_body", "_with_less_room"} - {noisy}

    def loud(run: Run) -> Run | None:
        found = half(run)
        return None if found is None else louder(found)

    monkeypatch.setattr(moved_bytes, noisy, loud)
    monkeypatch.setattr(moved_bytes, quiet.pop(), half)
    assert quantized(tmp_path).about_mean.sqnr_about_mean_db > 25


def test_files_with_clear_scores_are_heard_in_front_of_the_softmax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads: list[float] = []

    def wanted(run: Run) -> bool:
        as_it_is, loud = moved_bytes._levels((run, louder(run)))
        assert as_it_is.sqnr_db is not None
        assert loud.sqnr_db is not None
        leads.append(as_it_is.sqnr_db - loud.sqnr_db)
        return False

    monkeypatch.setattr(
        "onnxq.pipeline.quantizing.COMPILED",
        [replace(one, wanted=wanted) if one.name == "bytes" else one for one in searches.COMPILED],
    )
    quantized(tmp_path, scores=True)
    assert len(leads) == 1
    assert leads[0] > 10
