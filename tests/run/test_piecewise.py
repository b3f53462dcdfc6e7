"""Many settings of a deep model: what is asked and sorted for them is what they change, not all of it."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from onnxq.run import ort
from onnxq.run.piecewise import Edge, PiecewiseModel, Setting

LAYERS = 24


def chain() -> PiecewiseModel:
    """A chain of layers, each with a pair on what it reads."""
    nodes, pairs, edges = [], [], {}
    for i in range(LAYERS):
        read, scale = f"x{i}", f"s{i}, z"
        pairs.append(f"[q{i}] q{i} = QuantizeLinear ({read}, {scale})")
        pairs[-1] += f" [d{i}] d{i} = DequantizeLinear (q{i}, {scale})"
        nodes.append(f"[n{i}] x{i + 1} = MatMul ({{}}{i}, w)")
        edges[f"n{i}", 0] = f"x{i}"
    head = f'<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x0) => (float[N, 4] x{LAYERS})'
    both = " ".join(f"{pair} {node.format('d')}" for pair, node in zip(pairs, nodes, strict=True))
    plain = " ".join(node.format("x") for node in nodes)
    models = [onnx.parser.parse_model(f"{head} {{ {body} }}") for body in (both, plain)]
    values = np.eye(4) + np.random.default_rng(0).standard_normal((4, 4)) / 9
    constants = {f"s{i}": np.float32(0.01 + i / 1e3) for i in range(LAYERS)}
    constants |= {"w": values.astype(np.float32), "z": np.zeros((), np.int8)}
    for model in models:
        model.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()
        )
    types = {f"x{i}": onnx.helper.make_tensor_type_proto(1, [None, 4]) for i in range(LAYERS + 1)}
    return PiecewiseModel(*models, edges, [f"s{i}" for i in range(LAYERS)], types)


def test_each_setting_is_asked_for_what_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = chain(), 0
    step = PiecewiseModel._step

    def counted(self: PiecewiseModel, *given: object) -> object:
        nonlocal asked
        asked += 1
        return step(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(PiecewiseModel, "_step", counted)
    off = model.edges
    settings = [Setting(off), *(Setting(off - {edge}) for edge in sorted(off))]
    model.run_each({"x0": np.ones((1, 4), np.float32)}, settings)
    assert asked == 2 * LAYERS  # one by one: LAYERS * (LAYERS + 1)


def test_settings_in_any_order_give_what_each_gives_alone() -> None:
    """Edges off and scales of their own, whatever the first one is."""
    rng, model = random.Random(0), chain()
    edges: list[Edge] = sorted(model.edges)
    settings = [
        Setting(
            frozenset(rng.sample(edges, rng.randrange(LAYERS))),
            {
                f"s{i}": np.array(rng.random(), np.float32)
                for i in rng.sample(range(LAYERS), rng.randrange(4))
            },
        )
        for _ in range(12)
    ]
    feeds = {"x0": np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)}
    together = model.run_each(feeds, settings)
    for setting, (found,) in zip(settings, together, strict=True):
        ((alone,),) = model.run_each(feeds, [setting])
        assert np.array_equal(found, alone)
    assert model.run_each(feeds, []) == []


def test_a_run_of_values_is_one_of_arrays() -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, int64[2] i) => '
    text = head + "(float[2] y, int64[2] j, float[2] z) { y = Neg (x)  j = Add (i, i)  z = Add (x, x) }"
    session = ort.load(onnx.parser.parse_model(text))
    feeds = {"x": np.float32([1, 2]), "i": np.array([3, 4])}
    values = session.run_values({name: ort.as_value(one) for name, one in feeds.items()}, ["z", "j"])
    for found, expected in zip(values, session.run(feeds, ["z", "j"]), strict=True):
        assert np.array_equal(ort.as_array(found), expected)
    with pytest.raises(ort.RunError):
        session.run_values({"x": ort.as_value(feeds["i"]), "i": ort.as_value(feeds["i"])}, ["z"])
