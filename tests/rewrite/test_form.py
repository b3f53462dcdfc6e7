"""Forms of snippets: one is proved once; what a rule does wrong with the next of it is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.rewrite import proof, prover
from onnxq.rewrite.engine import RewriteReport, rewrite
from onnxq.rewrite.proof import compare
from onnxq.rewrite.together import BothSides, Sessions
from onnxq.rule import Close, Node, constant, layer_of, made_by, remake, required
from onnxq.rule.api import Rule
from onnxq.run import ort

F = np.float32
Parameters = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def twice(second: Callable[[int], Parameters], channels: int = 6, width: int = 7) -> onnx.ModelProto:
    """Two convolutions, each with a BatchNormalization, of which the second has these parameters."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4, 9, 9] x) => (y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w0)  b = BatchNormalization (a, g0, b0, m0, v0)  c = Relu (b)
            d = Conv <pads = [1, 1, 1, 1]> (c, w1)  y = BatchNormalization (d, g1, b1, m1, v1) }"""
    )
    rng = np.random.default_rng(0)
    usual = [rng.uniform(0.5, 1.5, channels).astype(F) for _ in range(4)]
    arrays = {"w0": rng.normal(size=(channels, 4, 3, 3)), "w1": rng.normal(size=(width, channels, 3, 3))}
    arrays |= dict(zip(("g0", "b0", "m0", "v0"), usual, strict=True))
    arrays |= dict(zip(("g1", "b1", "m1", "v1"), second(width), strict=True))
    for name, values in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values, F), name))
    return model


def usual(count: int) -> Parameters:
    rng = np.random.default_rng(1)
    gamma, beta, mean, variance = (rng.uniform(0.5, 1.5, count) for _ in range(4))
    return gamma, beta, mean, variance


def with_a(place: int, value: float) -> Callable[[int], Parameters]:
    """The usual parameters, one of which has an unusual value in one channel."""

    def made(count: int) -> Parameters:
        parameters = usual(count)
        parameters[place][2] = value
        return parameters

    return made


def folding(spoiled: Callable[[list[np.ndarray]], None]) -> Rule:
    """A rule that folds a BatchNormalization, of parameters that were spoiled before."""

    def fold(node: Node) -> Any:
        source, *parameters = required(node, 5)
        maker = made_by(source, "Conv")
        layer = None if maker is None else layer_of(maker)
        if layer is None:
            return None
        values = [np.array(constant(one), np.float64) for one in parameters]
        spoiled(values)
        scale, offset, mean, variance = values
        factor = scale / np.sqrt(variance + 1e-5)
        bias = (0.0 - mean) * factor + offset
        return Close(remake(layer.node, layer.node.inputs[0], layer.scaled(factor), bias.astype(F)))

    return Rule("fold", fold, ("BatchNormalization",), "fuse")


def applied(model: onnx.ModelProto, spoiled: Callable[[list[np.ndarray]], None]) -> RewriteReport:
    opened = Model.open(model)
    opened.runtime = ort.evaluate
    return rewrite(opened, [folding(spoiled)], lambda feature: True, prove="always")


def right(values: list[np.ndarray]) -> None:
    """Nothing is spoiled."""


def few(report: RewriteReport) -> bool:
    """Whether the second was run on few inputs, both being proved."""
    first, second = (change.proof for change in report.changes)
    assert (first.verdict, second.verdict) == ("close", "close")
    return second.inputs < first.inputs / 2


@pytest.mark.parametrize("width", [6, 7])
def test_the_second_of_a_form_is_run_on_few_inputs(width: int) -> None:
    model = twice(usual, channels=4, width=4) if width == 6 else twice(usual, width=width)
    report = applied(model, right)
    assert few(report)
    assert report.changes[1].proof.bindings == 2


def test_a_weight_out_of_the_usual_has_a_proof_of_its_own() -> None:
    assert not few(applied(twice(with_a(1, 1e20)), right))


def test_other_attributes_are_another_form() -> None:
    model = twice(usual)
    model.graph.node[3].attribute[0].ints[0] = 2
    assert not few(applied(model, right))


def forgets_the_mean(values: list[np.ndarray]) -> None:
    if values[2][2] > 3:
        values[2][:] = 0


def forgets_a_channel(values: list[np.ndarray]) -> None:
    if len(values[0]) > 6:
        values[1][6] = values[1][5]


def takes_the_size_of_a_factor(values: list[np.ndarray]) -> None:
    values[0][:] = np.abs(values[0])


def another_epsilon(values: list[np.ndarray]) -> None:
    if values[3][2] < 0.01:
        values[3][2] += 1e-5


WRONG = {
    forgets_the_mean: with_a(2, 4.0),
    forgets_a_channel: usual,
    takes_the_size_of_a_factor: with_a(0, -1.0),
    another_epsilon: with_a(3, 1e-3),
}


@pytest.mark.parametrize("spoiled", WRONG, ids=lambda one: one.__name__)
def test_what_is_wrong_with_the_second_of_a_form_alone_is_refused(
    spoiled: Callable[[list[np.ndarray]], None],
) -> None:
    report = applied(twice(WRONG[spoiled]), spoiled)
    assert len(report.changes) == 1
    assert len(report.rejected) == 1


def test_sizes_that_are_known_tell_nothing_of_dynamic_ones() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[5, 4, 9, 9] x, float[N, 4, 9, 9] z) => (y, u) {
            a = Conv (x, w0)  y = BatchNormalization (a, g0, b0, m0, v0)
            d = Conv (z, w1)  u = BatchNormalization (d, g0, b0, m0, v0) }"""
    )
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(6, 4, 3, 3)) for name in ("w0", "w1")}
    arrays |= dict(zip(("g0", "b0", "m0", "v0"), usual(6), strict=True))
    for name, values in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values, F), name))
    assert not few(applied(model, right))


def further(spoiled: Callable[[list[np.ndarray]], None], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compared where the second of a form is folded: snippet, claim, sizes, as a proof takes them."""
    seen: list[Any] = []

    def noted(snippet: Any, claim: Any, sizes: Any, *, form: Any = None) -> Any:
        if form is not None:
            seen.append((snippet, claim, sizes))
        return compare(snippet, claim, sizes, form=form)

    monkeypatch.setattr(prover, "compare", noted)
    applied(twice(usual), spoiled)
    return seen


def test_a_further_one_is_proved_without_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    ((snippet, claim, sizes), *_) = further(right, monkeypatch)
    monkeypatch.setattr(proof, "oracle", pytest.fail)
    known: Sessions = {}
    first, second = (compare(snippet, claim, sizes, form=known) for _ in range(2))
    assert first == second
    assert (first.verdict, len(known)) == ("close", 1)


@pytest.mark.parametrize("exponent", range(-9, 0))
@pytest.mark.parametrize("place", range(4))
def test_what_is_right_without_double_precision_is_right_with_it(
    place: int, exponent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_little_off(values: list[np.ndarray]) -> None:
        if len(values[0]) > 6:
            values[place][3] *= 1 + 10.0**exponent

    ((snippet, claim, sizes), *_) = further(a_little_off, monkeypatch)
    sides = [ort.load(side, optimize=False, threads=1) for side in (snippet.before, snippet.after)]
    in_double = proof._compared(snippet, *sides, claim, sizes, few=True)
    together = BothSides.of(snippet, {})
    assert together is not None
    at_once = proof._compared(
        snippet, together.before, together.after, claim, sizes, few=True, oracle=together
    )
    assert in_double.holds >= at_once.holds
    if not -7 < exponent < -4:
        assert at_once.holds == (exponent < -4)


def test_sessions_are_of_attributes_and_operators_not_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    known: Sessions = {}
    for spoiled in (right, forgets_a_channel):
        ((snippet, claim, sizes), *_) = further(spoiled, monkeypatch)
        assert compare(snippet, claim, sizes, form=known).holds == (spoiled is right)
    assert len(known) == 1
