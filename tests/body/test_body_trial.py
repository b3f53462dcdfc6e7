"""A body tried on a tail is as far from float32 as the whole one, to the bit; what is shared, found once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.base.reason import Reason
from onnxq.body import convert, measured_body
from onnxq.body.convert import ConstantLosses, HalfBody, to_half
from onnxq.body.measured_body import BodyTrial, settle
from onnxq.graph.model import Model
from onnxq.run import ort

WHY = Reason("accuracy", "it is asked for")
LAYERS = 8


def chain() -> onnx.ModelProto:
    """Layers one behind another, with a second output in the middle and a way around the last ones."""
    random = np.random.default_rng(0)
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 16] x) => (float[2, 16] y, float[2, 16] t3) {'
    )
    for i in range(LAYERS):
        text += f" m{i} = MatMul ({'x' if i == 0 else f't{i - 1}'}, w{i})  t{i} = Tanh (m{i})"
    model = parser.parse_model(text + f" y = Add (t{LAYERS - 1}, t4) }}")
    weights = (random.standard_normal((16, 16)).astype(np.float32) / 4 for _ in range(LAYERS))
    model.graph.initializer.extend(numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights))
    for node in model.graph.node:
        node.name = node.output[0]
    return model


def samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((2, 16)).astype(np.float32)} for _ in range(2)]


def trial(*, io: bool) -> BodyTrial:
    proto = chain()
    model = Model.open(proto)

    def convert(part: Model, stays: Mapping[str, Reason], fed: Collection[str]) -> HalfBody:
        return to_half(part, "fp16", stays, io=io, float32_io=fed)

    session = ort.load(proto, optimize=False)
    found = [dict(zip(session.outputs, session.run(feeds), strict=True)) for feeds in samples()]
    wanted = {name: [values[name] for values in found] for name in ("y", "t3")}
    floats = {name for i in range(LAYERS) for name in (f"m{i}", f"t{i}")} | {"y"}
    return BodyTrial(model, convert, samples(), wanted, floats)


@pytest.mark.parametrize("io", [False, True])
def test_a_tail_tells_what_the_whole_tells(io: bool) -> None:
    whole = trial(io=io)
    base = {"m1": WHY, "t4": WHY}
    outputs = whole.outputs(whole.body(base))
    tail = whole.behind({"m5", "t5", "m6"}, base, outputs)
    nearer = tail.behind({"t7", "y"}, base, outputs)
    assert len(whole.model.graph.nodes) > len(tail.model.graph.nodes) > len(nearer.model.graph.nodes) == 2
    assert tail.fed == {"t4"}
    middle = dict.fromkeys(("m5", "t5", "m6"), WHY)
    tried = [(tail, {}), (tail, {"m5": WHY}), (tail, middle), (nearer, {"t7": WHY, "y": WHY})]
    levels = set()
    for part, more in tried:
        want = whole.outputs(whole.body({**base, **more}))
        assert part.outputs(part.body({**base, **more})) == want
        levels.add(want["y"].sqnr_db)
    assert len(levels) == len(tried)  # else it would not show
    assert tail.outputs(tail.body(base))["t3"] == outputs["t3"]


def test_what_is_most_of_a_model_is_no_tail() -> None:
    whole = trial(io=False)
    assert whole.behind({"m0"}, {}, whole.outputs(whole.body({}))) is whole


def test_few_steps_in_front_of_an_output_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = chain()
    proto.graph.node.extend(parser.parse_graph("g () => () { far = Add (y, big)  z = Sub (far, big) }").node)
    proto.graph.initializer.append(numpy_helper.from_array(np.full(16, 60, np.float32), "big"))
    proto.graph.output[0].name = "z"
    for node in proto.graph.node:
        node.name = node.output[0]
    sizes: list[int] = []

    def counted(model: Model, *rest: object, **more: object) -> HalfBody:
        sizes.append(len(model.graph.nodes))
        return to_half(model, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(measured_body, "to_half", counted)
    result = settle(Model.open(proto), "fp16", {}, samples() * 2, needed_db={"z": 50.0})
    assert result.reached
    assert set(result.stays) == {"far", "z"}
    whole = 2 * LAYERS + 3
    assert sizes.count(whole) == 3  # as it is, for what follows the first steps, and at the end
    assert len(sizes) > 6


def test_all_steps_are_tried_when_trials_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "".join(f" t{i} = Neg ({f't{i - 1}' if i else 'near'})" for i in range(12))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 16] x) => (float[2, 16] y)
        {{ far = Add (x, big)  near = Sub (far, big) {steps}  y = Neg (t11) }}"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.full(16, 60, np.float32), "big"))
    for node in model.graph.node:
        node.name = node.output[0]
    monkeypatch.setattr(measured_body, "_TRIALS", 1)  # the last steps, which do not do
    result = settle(Model.open(model), "fp16", {}, samples(), needed_db={"y": 60.0})
    assert result.reached
    assert {"far", "near"} <= set(result.stays)


def test_what_constants_lose_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = convert.loss

    def counted(values: np.ndarray, *rest: object, **more: object) -> Reason | None:
        asked.append(values.size)
        return real(values, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(convert, "loss", counted)
    result = settle(Model.open(chain()), "fp16", {}, samples(), needed_db={"y": 65.0})
    assert result.reached
    assert 0 < len(result.stays) < 2 * LAYERS  # several bodies were tried
    assert asked == [256] * LAYERS


def test_each_question_about_a_constant_has_its_answer() -> None:
    model = Model.open(
        parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) <float far = {1e9}> { y = Mul (x, far) }""")
    )
    (node,) = model.graph.nodes
    losses = ConstantLosses("fp16")
    for _ in range(2):
        assert losses.of(node.inputs[1], divides=False, bounds=True) is None
        why = losses.of(node.inputs[1], divides=False, bounds=False)
        assert why is not None
        assert why.code == "constant"
