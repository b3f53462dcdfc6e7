"""Sums that read what layers read: what it costs to let them read float, and whether the outputs gain."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnxq
from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.placement import make_plan
from onnxq.repair import residual
from onnxq.repair.budget import affordable
from onnxq.rule.load import load_rules

BLOCKS, WIDTH, ROWS = 4, 32, 16


def cost(rows: int) -> float:
    """What a sum in float moves more, as a share of what plain float16 moves.

    Of a block, plain float16 writes a norm, which a product and the sum read, two widths and the sum, which
    one kernel each reads: 6 + 8 + 4 bytes; x is read as float32 and made half for the first norm, y is
    written as float32; and the weights.
    """
    plain = rows * WIDTH * (18 * BLOCKS + 12) + 8 * WIDTH**2 * BLOCKS + 2 * WIDTH * (2 * BLOCKS + 2)
    return 3 * rows * WIDTH / plain


def encoder() -> onnx.ModelProto:
    """Blocks with their norm behind the sum: what each gives is read by a layer and by the next sum."""
    rng = np.random.default_rng(0)
    text, arrays = "", {}
    read = "n0"
    for place in range(BLOCKS):
        text += f"""
        m{place} = MatMul({read}, v{place})
        r{place} = Relu(m{place})
        o{place} = MatMul(r{place}, w{place})
        s{place} = Add({read}, o{place})
        n{place + 1} = LayerNormalization <axis = -1> (s{place}, g, b)"""
        arrays[f"v{place}"] = rng.standard_normal((WIDTH, 2 * WIDTH)) / WIDTH**0.5
        arrays[f"w{place}"] = 0.05 * rng.standard_normal((2 * WIDTH, WIDTH)) / (2 * WIDTH) ** 0.5
        read = f"n{place + 1}"
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        encoder (float[1,{ROWS},{WIDTH}] x) => (float[1,{ROWS},{WIDTH}] y)
        {{
        n0 = LayerNormalization <axis = -1> (x, g, b){text}
        y = Mul({read}, g)
        }}""")
    for node in proto.graph.node:
        node.name = node.output[0]
    arrays |= {"g": np.ones(WIDTH), "b": np.zeros(WIDTH)}
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    return proto


@pytest.fixture(scope="module")
def net() -> onnx.ModelProto:
    return encoder()


def samples(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((1, ROWS, WIDTH)).astype(np.float32)} for _ in range(count)]


def test_sums_that_read_pairs_of_layers(net: onnx.ModelProto) -> None:
    model = Model.open(net)
    plan = make_plan(model, load_rules(()))
    found = residual.find(model, plan)
    assert set(found.edges) == {f"s{place}" for place in range(BLOCKS)}
    assert found.costs == pytest.approx(dict.fromkeys(found.edges, cost(ROWS)), rel=1e-12)
    freed = Draft(plan).in_float({"s1": residual.IN_FLOAT}, model).plan
    readers = {edge.node for site in freed.sites for edge in site.readers}
    assert "s1" not in readers
    assert {"s0", "s2", "s3", *plan.planned} <= readers
    assert freed.planned == plan.planned
    (entry,) = set(freed.kept_float) - set(plan.kept_float)
    assert (entry.node, entry.op, entry.because) == ("s1", "Add", residual.IN_FLOAT)


def test_sizes_that_nobody_knows_have_no_price(net: onnx.ModelProto) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(net)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    model = Model.open(proto)
    model.set_typical_input({"x": (1, 64, WIDTH)})
    plan = make_plan(model, load_rules(()))
    assert residual.find(model, plan).costs == pytest.approx({f"s{i}": cost(64) for i in range(BLOCKS)})
    model.typical_shapes = {}
    found = residual.find(model, plan)
    assert not found.edges
    assert set(found.skipped) == {f"s{place}" for place in range(BLOCKS)}


def test_the_outputs_are_nearer_on_fresh_samples_and_layers_stay_in_int8(net: onnx.ModelProto) -> None:
    made = {
        steps: onnxq.quantize(net, samples(64, 1), repair=steps, compile=False, body="fp32")
        for steps in ("none", "residual")
    }
    levels = {steps: _sqnr(net, result.model) for steps, result in made.items()}
    assert levels["residual"] > levels["none"] + 0.3
    plans = [result.report["plan"] for result in made.values()]
    layers = [[one["node"] for one in plan["layers"] if one["format"] == "int8"] for plan in plans]
    assert layers[0] == layers[1]
    assert len(layers[0]) == 2 * BLOCKS
    (entry,) = made["residual"].report["repair"]["steps"]
    assert entry["verdict"] == "kept"
    assert entry["changed"] == {"sums": 2}  # three are too many: more than a twentieth
    told = {one["node"]: one["because"] for one in plans[1]["kept_float"]}
    assert str(residual.IN_FLOAT) in told.values()


def _sqnr(net: onnx.ModelProto, made: onnx.ModelProto) -> float:
    import onnxruntime

    runs = [onnxruntime.InferenceSession(one.SerializeToString()) for one in (net, made)]
    exact, other = (np.stack([run.run(None, feed)[0] for feed in samples(64, 2)]) for run in runs)
    return float(10 * np.log10((exact - exact.mean(0)).var() / np.mean((exact - other) ** 2)))


@given(
    st.dictionaries(
        st.text("abcdefgh", min_size=1, max_size=2),
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    ),
    st.tuples(st.floats(0, 2), st.floats(0, 2)),
)
def test_what_is_tried_together_costs_no_more_than_it_may(
    entries: dict[str, tuple[float, float, float]], most: tuple[float, float]
) -> None:
    gains = {name: gain for name, (gain, *_) in entries.items()}
    costs = {name: tuple(cost) for name, (_, *cost) in entries.items()}
    names = affordable(gains, costs, most)
    worth = [name for name in gains if gains[name] > 0 and np.all(np.array(costs[name]) <= most)]
    assert bool(names) == bool(worth)
    assert {*names} <= {*worth}
    assert np.all(np.sum([costs[name] for name in names], axis=0) <= np.array(most) * (1 + 1e-12))


_SIZES = st.integers(1, 1000)


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.tuples(_SIZES, _SIZES)), _SIZES)
def test_what_is_tried_is_worth_what_it_costs(entries: dict[str, tuple[int, int]], price: int) -> None:
    gains = {name: float(gain) for name, (gain, _) in entries.items()}
    costs = {name: (float(cost),) for name, (_, cost) in entries.items()}
    names = affordable(gains, costs, (1e9,), lambda gain, cost: 100 * gain - price * float(cost[0]))
    assert {*names} == {name for name, (gain, cost) in entries.items() if 100 * gain > price * cost}
