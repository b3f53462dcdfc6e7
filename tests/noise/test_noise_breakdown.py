"""Who makes the noise: what each source, each layer, all weights and all activations leave of the outputs."""

from __future__ import annotations

import math

import numpy as np
import onnx.parser
import pytest
from noise_nets import Case

from onnxq.noise.breakdown import NoiseBreakdown, breakdown
from onnxq.noise.gram import Effort, NoiseModel

NET = """<ir_version: 8, opset_import: ["" : 17]> net (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y)
 {{ a = Conv <pads = [1, 1, 1, 1]> (x, w)  r = Relu (a)  y = Conv <pads = [1, 1, 1, 1]> (r, v) }}"""


@pytest.fixture(scope="module")
def model() -> NoiseModel:
    """A plan of four sources, whose errors are made up: that of the first source goes against the third's."""
    proto = onnx.parser.parse_model(NET.replace("{{", "{").replace("}}", "}"))
    random = np.random.default_rng(0)
    for name in "wv":
        weights = random.standard_normal((16, 16, 3, 3)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    sources = Case(proto).sources
    errors = np.diag([1e-2, 2e-2, 3e-2, 4e-2][: len(sources)])
    errors[2, 0] = -5e-3
    return NoiseModel(sources, {"y": errors @ errors.T}, {"y": 1.0}, {}, Effort(4, 8.0, len(sources)))


@pytest.fixture(scope="module")
def found(model: NoiseModel) -> NoiseBreakdown:
    return breakdown(model)


def test_each_source_alone_and_what_goes_with_it(model: NoiseModel, found: NoiseBreakdown) -> None:
    assert len(model.sources.entries) == len(found.sources) == 4
    total = float(model.gram.sum())
    by_name = {one.name: one for one in found.sources}
    for place, entry in enumerate(model.sources.entries):
        one = by_name[entry.name]
        rest = [at for at in range(4) if at != place]
        assert one.alone_db == pytest.approx(-10 * math.log10(model.gram[place, place]), abs=1e-9)
        assert one.share == pytest.approx(1 - model.gram[np.ix_(rest, rest)].sum() / total, abs=1e-12)
    assert [one.share for one in found.sources] == sorted((one.share for one in found.sources), reverse=True)


def test_weights_activations_and_layers(model: NoiseModel, found: NoiseBreakdown) -> None:
    kinds = {one.name: one for one in found.kinds}
    for kind, one in kinds.items():
        on = [at for at, entry in enumerate(model.sources.entries) if entry.kind == kind]
        assert len(on) == 2
        assert one.alone_db == pytest.approx(-10 * math.log10(model.gram[np.ix_(on, on)].sum()), abs=1e-9)
    assert len(found.layers) == 2
    assert sum(one.share for one in found.layers) == pytest.approx(1.0, abs=0.2)  # but for what they share


def test_no_hash_decides_the_order_of_layers() -> None:
    """The readers of a source are a set."""
    names = [f"c{number}" for number in range(9)]
    nodes = " ".join(f"[{name}] {name}_y = Conv <pads = [1, 1, 1, 1]> (r, w)" for name in names)
    outputs = ", ".join(f"float[1, 16, 8, 8] {name}_y" for name in names)
    head = '<ir_version: 8, opset_import: ["" : 17]> net (float[1, 16, 8, 8] x)'
    proto = onnx.parser.parse_model(f"{head} => ({outputs}) {{ r = Relu (x) {nodes} }}")
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    sources = Case(proto).sources.blocks(1)
    gram = np.eye(len(sources)) * 1e-4
    made = breakdown(NoiseModel(sources, {"c0_y": gram}, {"c0_y": 1.0}, {}, Effort(4, 8.0, len(sources))))
    assert [one.name for one in made.layers] == names


def test_nothing_makes_nothing(model: NoiseModel) -> None:
    empty = NoiseModel(
        type(model.sources)((), {}), {"y": np.zeros((0, 0))}, {"y": 1.0}, {}, Effort(0, 0.0, 0)
    )
    assert breakdown(empty) == NoiseBreakdown((), (), ())
