"""A large model that runs in parts computes what the whole does: here nothing is fused across them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnxq
from onnxq.pipeline import ranging, verifying
from onnxq.quant import measuring
from onnxq.run import in_parts, ort
from onnxq.run.in_parts import InParts, blocks, run_all

RNG = np.random.default_rng(0)
NOTHING = onnx.GraphProto()

CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 16] x) => (float[N, 16] y, float[N, 16] d)
{ a = MatMul (x, w)  b = Relu (a)  c = MatMul (b, v)  d = Add (c, x)  e = MatMul (d, w)  y = Add (e, a) }"""

BODIES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 16] x, bool way) => (float[N, 16] y)
{
    a = MatMul (x, w)
    b = MatMul (a, v)
    c = If (way) <then_branch = t () => (float[N, 16] s) { s = Add (a, b) },
                 else_branch = f () => (float[N, 16] r) { r = MatMul (x, w) }>
    y = MatMul (c, v)
}"""

SHAPES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 16] x) => (float[M, 4, 4] y, float[16, 16] w)
{
    n = Shape <end = 1> (x)
    a = MatMul (x, w)
    to = Concat <axis = 0> (n, four)
    b = MatMul (a, v)
    y = Reshape (b, to)
}"""


def net(text: str) -> onnx.ModelProto:
    proto = parser.parse_model(text)
    for name in "wv":
        weights = RNG.standard_normal((16, 16), np.float32) / 4
        proto.graph.initializer.append(numpy_helper.from_array(weights, name))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([4, 4]), "four"))
    return proto


def fed(count: int, **more: Any) -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.standard_normal((1 + i, 16), np.float32), **more} for i in range(count)]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.fixture(autouse=True)
def each_weight_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "_PART", 0)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(
    ("text", "more"), [(CHAIN, {}), (SHAPES, {}), *((BODIES, {"way": np.array(w)}) for w in (True, False))]
)
def test_parts_give_the_bits_of_the_whole(
    text: str, more: dict[str, Any], on_disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_disk:
        monkeypatch.setattr(in_parts, "_HELD", 1)
    model, samples = net(text), fed(3, **more)
    whole, parts = ort.load(model, large=True), InParts(model, None, NOTHING)
    assert (parts.inputs, parts.outputs, parts.input_shapes) == (
        whole.inputs, whole.outputs, whole.input_shapes,
    )  # fmt: skip
    for one, found in zip(samples, parts.run_all(samples), strict=True):
        assert same(in_parts.given(found), whole.run(one))
    wanted = whole.outputs[::-1]
    assert same(parts.run(samples[0], wanted), whole.run(samples[0], wanted))


def test_one_part_is_open_at_a_time_and_has_its_own_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[list[str]] = []
    load = ort.load

    def counted(model: onnx.ModelProto, **more: Any) -> ort.Session:
        opened.append([tensor.name for tensor in model.graph.initializer if tensor.dims == [16, 16]])
        return load(model, **more)

    parts, samples = InParts(net(CHAIN), None, NOTHING), fed(5)
    monkeypatch.setattr(ort, "load", counted)
    assert len(list(parts.run_all(samples))) == 5
    assert opened == [["w"], ["v"], ["w"]]  # each once, for all samples


def test_a_sample_on_which_it_does_not_run_stops_no_other() -> None:
    samples = fed(3)
    samples[1] = {"x": np.zeros((2, 15), np.float32)}
    model = net(CHAIN)
    for session in (ort.load(model), InParts(model, None, NOTHING)):
        found = list(run_all(session, samples))
        assert [isinstance(one, ort.RunError) for one in found] == [False, True, False]
    with pytest.raises(ort.RunError):
        InParts(model, None, NOTHING).run(samples[1])


def test_weights_stay_in_the_file_of_the_model(tmp_path: Path) -> None:
    model, samples = net(CHAIN), fed(2)
    whole = ort.load(model, large=True)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    outside = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    found = InParts(outside, tmp_path, NOTHING).run_all(samples)
    assert all(same(in_parts.given(a), whole.run(b)) for a, b in zip(found, samples, strict=True))


def test_blocks_hold_what_memory_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "_BLOCK", 3)
    monkeypatch.setattr(in_parts, "_BLOCK_BYTES", 10)
    assert list(blocks([1, 1, 1, 1, 10, 6, 6], int)) == [[1, 1, 1], [1, 10], [6, 6]]
    assert list(blocks([1, 2], int, many=False)) == [[1], [2]]


PICKED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[16, 16] x, int64[1] i) => (float[16, 16] y)
{
    a = MatMul (x, w)  b = Relu (a)  c = MatMul (b, v)  d = Add (c, x)
    e = MatMul (d, w)  z = Gather (w, i)  f = Add (e, z)  y = Relu (f)
}"""


def picked(bad: int | None) -> list[dict[str, np.ndarray]]:
    """Samples, on one of which no model runs that looks up 16 rows."""
    places = [99 if place == bad else 0 for place in range(12)]
    return [{"x": RNG.standard_normal((16, 16), np.float32), "i": np.array([place])} for place in places]


@pytest.fixture
def quantized(monkeypatch: pytest.MonkeyPatch) -> Callable[..., onnxq.Result]:
    monkeypatch.setattr(ranging, "LARGE", 0)  # of few samples, halves judge each other's where it is small

    def made(model: onnx.ModelProto, samples: Any, *, large: bool, **more: Any) -> onnxq.Result:
        for module in (in_parts, verifying, measuring):
            monkeypatch.setattr(module, "LARGE", 0 if large else 1 << 29)
        return onnxq.quantize(model, samples, compile=False, repair="none", loud="int8", **more)

    return made


@pytest.mark.parametrize("bad", [None, 0, 4, 8])
def test_a_large_model_is_quantized_to_the_same_file(
    bad: int | None, quantized: Callable[..., onnxq.Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, samples = net(PICKED), picked(bad)
    small = quantized(model, samples, large=False, skip_bad=True)
    used: list[int] = []
    run = InParts.run_all

    def counted(self: InParts, *given: Any, **more: Any) -> Any:
        used.append(len(self._parts))
        return run(self, *given, **more)

    monkeypatch.setattr(InParts, "run_all", counted)
    large = quantized(model, samples, large=True, skip_bad=True)
    assert min(used, default=0) == 3
    assert large.model == small.model
    assert large.report.accuracy == small.report.accuracy


@pytest.mark.parametrize("bad", [0, 3, 6, 9])
def test_a_sample_on_which_a_large_model_does_not_run_is_named(
    bad: int, quantized: Callable[..., onnxq.Result]
) -> None:
    said = []
    for large in (False, True):
        with pytest.raises(onnxq.UserError) as caught:
            quantized(net(PICKED), picked(bad), large=large)
        said.append(str(caught.value).partition(": ")[0])
    assert said[0] == said[1]
    assert str(bad) in said[0]
