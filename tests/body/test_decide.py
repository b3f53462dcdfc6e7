"""What stays float32: nearer to float32 than int8 is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.base.reason import Reason
from onnxq.body.bounds import is_float32, needed
from onnxq.body.decide import above_db, decide
from onnxq.body.emulate import losses, with_logits
from onnxq.graph.model import Model
from onnxq.judge.policies import ABOVE_DB, LEAST_ABOVE_DB
from onnxq.quant.post_scale import post_scale

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RNG = np.random.default_rng(0)


def with_weights(text: str, **constants: np.ndarray) -> Model:
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return Model.open(model)


@pytest.mark.parametrize("post", [False, True])
def test_figures_of_both(post: bool) -> None:
    """int8 leaves a large number plus a small one at 80 dB, half precision by itself at about 73."""
    weights = (RNG.standard_normal((16, 16)) / 4).astype(np.float32)
    scales = (np.abs(weights).max(0) / 127).astype(np.float32)
    head = """g (float[8, 16] x) => (float[8, 16] y, int64[8, 16] k)
        <float size = {64}, float s = {0.03}, int8 z = {0}> {"""
    tail = "h = Tanh (m)  y = Add (h, size)  k = Cast <to = 7> (h) }"
    model = with_weights(f"{head} m = MatMul (x, w) {tail}", w=weights)
    quantized = with_weights(
        f"""{head} q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)
        w = DequantizeLinear <axis = 1> (codes, scales)  m = MatMul (d, w) {tail}""",
        codes=np.rint(weights / scales).astype(np.int8),
        scales=scales,
    )
    if post:
        assert post_scale(quantized).layers == ("m",)
    before = quantized.to_proto()
    ranges = dict.fromkeys(needed(model), (-700.0, 700.0))
    feeds = [{"x": RNG.standard_normal((8, 16)).astype(np.float32)} for _ in range(3)]
    decision = decide(model, before, "fp16", ranges, feeds)
    body = decision.convert(quantized)
    assert quantized.to_proto() == before
    ends = {tensor.name: 0 for tensor in model.graph.outputs if is_float32(tensor)}
    exact = model.to_proto()
    int8, both = (losses(exact, proto, ends, feeds)["y"].sqnr_db for proto in (before, body.model.to_proto()))
    assert decision.settled is not None
    alone = decision.settled.outputs["y"].sqnr_db
    assert 75 < int8 < 85
    assert decision.settled.reached
    assert alone > min(int8 + 15, 100)
    assert abs(both - int8) < 0.5
    assert decision.stays["y"].code == "accuracy"
    assert "m" in body.halved
    assert "y" not in decide(model, before, "fp16", ranges, feeds, above=-20.0).stays  # 73 dB are enough
    onnx.checker.check_model(body.model.to_proto())


def test_without_samples_nothing_runs() -> None:
    model = with_weights("g (float[2, 4] x) => (float[2, 4] y) { e = Exp (x)  y = Relu (e) }")
    decision = decide(model, None, "fp16", dict.fromkeys(needed(model), (-9.0, 9.0)), ())
    assert decision.settled is None
    assert {name: why.code for name, why in decision.stays.items()} == {"e": "power"}


def test_a_model_without_float_outputs() -> None:
    model = with_weights("g (float[2, 4] x) => (int64[2, 4] y) { r = Relu (x)  y = Cast <to = 7> (r) }")
    feeds = [{"x": RNG.standard_normal((2, 4)).astype(np.float32)}]
    decision = decide(model, model.to_proto(), "fp16", dict.fromkeys(needed(model), (-9.0, 9.0)), feeds)
    assert decision.settled is not None
    assert decision.settled.reached


def test_what_repair_gained_is_not_asked_of_the_body_again() -> None:
    assert above_db(0.0) == ABOVE_DB == 15.0
    assert above_db(-3.0) == ABOVE_DB
    assert above_db(2.0) == 13.0  # as near as without repair
    assert above_db(30.0) == LEAST_ABOVE_DB == 10.0


def classifier(factor: float = 1.0) -> Model:
    """Scores whose logits get a bias that half precision does not hold: its steps are 2 from 2048 on."""
    biases = 2100.0 + np.arange(16, dtype=np.float32) * 0.37
    return with_weights(
        """g (float[1, 16] x) => (float[1, 16] y)
        { m = MatMul (x, w)  b = Add (m, bias)  y = Softmax <axis = 1> (b) }""",
        w=factor * np.eye(16, dtype=np.float32),
        bias=biases,
    )


def test_scores_are_judged_in_front_of_their_softmax_too() -> None:
    """Samples of which the scores are clear hide it: nothing of half precision is seen behind the Softmax."""
    model, int8 = classifier(), classifier(1.01).to_proto()  # at 40 dB
    clear = []
    for place in range(4):
        x = np.zeros((1, 16), np.float32)
        x[0, place] = 60.0
        clear.append({"x": x})
    ranges = dict.fromkeys(needed(model), (-2200.0, 2200.0))
    proto = model.to_proto()
    decision = decide(model, int8, "fp16", ranges, clear)
    assert decision.settled is not None
    assert decision.settled.reached
    assert [*decision.settled.outputs] == ["y"]
    assert str(decision.stays["b"]).startswith("the logits of 'y' have ")
    half = decision.in_half(model)
    assert half is not None
    body, worse = (one.convert(model).model.to_proto() for one in (decision, half))
    ends = dict.fromkeys(with_logits(proto, ["y"]), 0)
    assert [*losses(proto, worse, ends, clear)] == ["y", "the logits of 'y'"]
    scores, logits = losses(proto, worse, ends, clear).values()
    assert scores.sqnr_db > 100
    assert logits.sqnr_db < 30
    unclear = [{"x": RNG.uniform(-2, 2, (1, 16)).astype(np.float32)} for _ in range(8)]
    assert losses(proto, worse, ends, unclear)["y"].sqnr_db < 15
    assert losses(proto, body, ends, unclear)["y"].sqnr_db > 55  # what the Softmax reads, too


def test_what_is_refitted_is_nothing_that_the_body_loses() -> None:
    """The bias of the float model is not held; the one in its place is: nobody stays for it."""
    model, int8 = classifier(), classifier(1.01).to_proto()
    feeds = [{"x": RNG.standard_normal((1, 16)).astype(np.float32)} for _ in range(4)]
    ranges = dict.fromkeys(needed(model), (-2200.0, 2200.0))
    before = model.to_proto()
    decision = decide(model, int8, "fp16", ranges, feeds, refitted={"bias", "gone"})
    assert "b" in decide(model, int8, "fp16", ranges, feeds).stays
    assert "bias" in decision.refitted
    assert model.to_proto() == before
    held = {
        one.name: numpy_helper.to_array(one) for one in decision.reference(model).to_proto().graph.initializer
    }
    np.testing.assert_array_equal(held["bias"], (2100.0 + np.arange(16) * 0.37).astype(np.float16))
    np.testing.assert_array_equal(held["w"], np.eye(16))


def test_what_stays_in_a_half_body_reads_what_is_refitted() -> None:
    """With nothing in float32 for an output's sake, too: it is held against a model that reads that."""
    model, int8 = classifier(), classifier(1.01).to_proto()
    feeds = [{"x": RNG.standard_normal((1, 16)).astype(np.float32)} for _ in range(4)]
    decision = decide(
        model, int8, "fp16", dict.fromkeys(needed(model), (-2200.0, 2200.0)), feeds, refitted={"bias"}
    )
    why = {"b": Reason("operator", "it has to"), "m": Reason("accuracy", "it is nearer")}
    half = replace(decision, stays=why).in_half(model)
    assert half is not None
    assert half.settled is not None
    constants = {
        one.name: numpy_helper.to_array(one) for one in half.settled.body.model.to_proto().graph.initializer
    }
    np.testing.assert_array_equal(
        constants["bias"], (2100.0 + np.arange(16) * 0.37).astype(np.float16).astype(np.float32)
    )


@pytest.mark.parametrize("mask", [-1e4, -1e9, float(np.finfo(np.float32).min)])
def test_masked_classes_are_no_signal(mask: float) -> None:
    """A mask in front of the last Softmax: what stays is what stays without it."""
    masks = np.where(np.arange(16) % 4 == 1, mask, 0).astype(np.float32)

    def policy(factor: float = 1.0) -> Model:
        return with_weights(
            """g (float[1, 16] x) => (float[1, 16] y)
            { m = MatMul (x, w)  b = Add (m, bias)  p = Add (b, masks)  y = Softmax <axis = 1> (p) }""",
            w=factor * np.eye(16, dtype=np.float32),
            bias=2100.0 + np.arange(16, dtype=np.float32) * 0.37,
            masks=masks,
        )

    model = policy()
    feeds = [{"x": RNG.uniform(-2, 2, (1, 16)).astype(np.float32)} for _ in range(4)]
    ranges = dict.fromkeys(("x", "m", "b"), (-2200.0, 2200.0)) | {"p": (mask, 2200.0), "y": (0.0, 1.0)}
    decision = decide(model, policy(1.01).to_proto(), "bf16", ranges, feeds)
    assert decision.settled is not None
    assert decision.settled.reached
    body = decision.convert(model).model.to_proto()
    assert losses(model.to_proto(), body, {"y": 0}, feeds)["y"].sqnr_db > 40


def test_the_hardest_samples_make_most_of_the_noise() -> None:
    """Not those of the least SQNR of their own: an output of next to nothing has none."""
    text = "g (float[1, 16] x) => (float[1, 16] y) { m = Mul (x, three)  b = Sub (m, size)  y = Mul (b, w) }"
    three, third = np.array(3, np.float32), np.full((1, 16), 0.3, np.float32)
    size = (three * third)[0]
    model, int8 = (
        with_weights(text, size=size, three=three, w=np.array(w, np.float32)) for w in (1.0, 1.001)
    )
    random = np.random.default_rng(0)
    normal = [{"x": random.uniform(10, 60, (1, 16)).astype(np.float32)} for _ in range(2)]
    zero = [{"x": third}] * 2  # 0 in float32, and 0.0005 in half precision
    ranges = dict.fromkeys(needed(model), (-200.0, 200.0))
    stays = []
    for feeds in (normal + zero, normal):
        decision = decide(model, int8.to_proto(), "fp16", ranges, feeds)
        assert decision.settled is not None
        assert decision.settled.reached
        assert len(decision.settled.found) == 1
        stays.append({*decision.stays})
    assert stays[0] == stays[1]


def test_what_the_last_samples_lose_is_said_to_be_lost() -> None:
    """So that it stays whatever the bytes, as what is there for the sake of accuracy does not."""
    model = with_weights(
        "g (float[1, 16] x) => (float[1, 16] y) { m = Add (x, size)  b = Sub (m, size)  y = Mul (b, two) }",
        size=np.full(16, 2100.0, np.float32),
        two=np.array(2.0, np.float32),
    )
    even = [{"x": np.full((1, 16), 2.0, np.float32)}] * 3  # half precision holds 2102
    small = [{"x": RNG.uniform(-0.4, 0.4, (1, 16)).astype(np.float32)}]
    ranges = dict.fromkeys(needed(model), (-5000.0, 5000.0))
    decision = decide(model, None, "fp16", ranges, [*even, *(small * 9)])
    assert decision.settled is not None
    assert decision.settled.reached
    assert {why.code for why in decision.stays.values()} == {"lost"}


def test_all_samples_say_whether_more_has_to_stay() -> None:
    """Half precision is exact in the first ones: it holds 46 * 46."""
    text = "g (float[1, 16] x) => (float[1, 16] y) { m = Mul (x, x)  b = Sub (m, size)  y = Mul (b, w) }"
    size = np.full(16, 2100.0, np.float32)
    model, int8 = (with_weights(text, size=size, w=np.array(w, np.float32)) for w in (1.0, 1.001))
    ranges = dict.fromkeys(needed(model), (-5000.0, 5000.0))
    exact, rounded = ({"x": np.full((1, 16), value, np.float32)} for value in (46.0, 45.85))
    for feeds, stays in (([exact] * 4, False), ([exact] * 3 + [rounded], True)):
        decision = decide(model, int8.to_proto(), "fp16", ranges, feeds)
        assert decision.settled is not None
        assert decision.settled.reached
        assert ("m" in decision.stays) == stays
        assert len(decision.settled.found) == stays  # what is hardest is searched with
