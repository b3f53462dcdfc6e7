"""Where int8 is all that rounds no body is searched for; with large models one of the two is in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.body import decide
from onnxq.body.formats import KINDS, LOSS, Kind, loss, narrowed
from onnxq.pipeline import verifying
from onnxq.run import ort

ROWS, WIDTH = 256, 64
QUICK: dict[str, Any] = {"prove": "never", "compile": False, "repair": "none"}


def chain(*more: str, scale: float = 1.0) -> onnx.ModelProto:
    """Products with Relu between; `more`: operators behind them."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for index in range(3):
        values = scale * random.standard_normal((WIDTH, WIDTH)) * WIDTH**-0.5
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{index}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], f"layer{index}"))
        nodes.append(helper.make_node("Relu", [f"p{index}"], [f"r{index}"], f"relu{index}"))
        last = f"r{index}"
    for op in more:
        nodes.append(helper.make_node(op, [last], [op.lower()], op))
        last = op.lower()
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, WIDTH]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples() -> list[dict[str, np.ndarray]]:
    return [
        {"x": np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float32)}
        for seed in range(4)
    ]


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[onnx.ModelProto]:
    """The models for which a body was searched."""
    seen: list[Any] = []
    search = decide.settle

    def settle(model: Any, *args: Any, **more: Any) -> Any:
        seen.append(model)
        return search(model, *args, **more)

    monkeypatch.setattr(decide, "settle", settle)
    return seen


def test_no_body_is_searched_where_no_node_is_left(settled: list[Any]) -> None:
    result = onnxq.quantize(chain(), samples(), **QUICK)
    assert settled == []
    body = result.report.body
    assert (body.type, body.float32, body.notes) == ("fp16", (), ())
    assert body.half == 6
    assert result.report.accuracy[0].sqnr_db > 25


@pytest.mark.parametrize("op", ["Sigmoid", "Softmax", "Sqrt"])
def test_one_is_searched_for_a_node_that_rounds(settled: list[Any], op: str) -> None:
    onnxq.quantize(chain(op), samples(), **QUICK)
    assert len(settled) == 1


def test_what_the_type_does_not_hold_stays_all_the_same(settled: list[Any]) -> None:
    """Codes of tiny weights are tiny numbers too: half precision has a few bits of them."""
    result = onnxq.quantize(chain(scale=1e-7), samples(), **QUICK)
    assert settled == []
    stays = {entry.node: entry.code for entry in result.report.body.float32}
    assert {name: stays.get(name) for name in ("layer0", "layer1", "layer2")} == dict.fromkeys(
        ("layer0", "layer1", "layer2"), "constant"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
def test_a_constant_is_held_as_rounding_says(kind: Kind, spread: float) -> None:
    random = np.random.default_rng(int(spread))
    for exponent in range(-12, 6):
        values = 10.0**exponent * np.exp(spread * random.standard_normal(500)) * random.choice([-1, 1], 500)
        values = values.astype(np.float32)
        narrow = narrowed(values, kind).astype(np.float64)
        error = float(((narrow - values) ** 2).sum())
        held = np.isfinite(narrow).all() and error <= LOSS**2 * float((values.astype(np.float64) ** 2).sum())
        assert (loss(values, kind) is None) == held


def test_of_a_large_model_the_float_one_is_not_loaded_beside_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verifying, "LARGE", 0)
    loads, load, step = [], ort.load, [""]

    def counted(model: Any, **more: Any) -> Any:
        if isinstance(model, onnx.ModelProto) and all(
            n.op_type != "QuantizeLinear" for n in model.graph.node
        ):
            loads.append((step[0], len(model.graph.node)))
        return load(model, **more)

    monkeypatch.setattr(verifying.ort, "load", counted)
    onnxq.quantize(
        chain(), samples(), observe=lambda name, *_: step.__setitem__(0, name.partition(":")[0]), **QUICK
    )
    assert "calibrate" in {name for name, _ in loads}
    assert [name for name, nodes in loads if name == "choose" and nodes >= 6] == []
