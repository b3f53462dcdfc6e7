"""The noise of candidates for scales, against numpy; sessions whose scales a run may set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.quant.insert import insert, set_scales
from onnxq.quant.plan import make_plan
from onnxq.rule.load import load_rules
from onnxq.run import ort
from onnxq.run.compare import Recording
from onnxq.run.noise import BEST_DB, Noise, measure

RNG = np.random.default_rng(0)


def decibels(signal: float, noise: float) -> float:
    return float(10 * np.log10(signal / noise))


# -- Noise -----------------------------------------------------------------------------------------


def test_levels_are_means_over_outputs_that_count() -> None:
    noise = Noise(
        np.array([[4.0, 0.0, 1.0], [5.0, 0.0, 1.0]]),
        np.array([[[1.0, 0.0, 0.5], [2.0, 0.0, 0.5]], [[0.0, 0.0, np.inf], [0.0, 0.0, 0.5]]]),
    )
    one, other = noise.sqnr_db().tolist()
    assert one == pytest.approx((decibels(9, 3) + decibels(2, 1)) / 2)
    assert other == (BEST_DB - BEST_DB) / 2


def test_an_advantage_is_the_share_of_the_noise_that_is_saved() -> None:
    """In units of the mean noise of the other, 2 and 0.5; the second output is 0 and does not count."""
    noise = Noise(
        np.array([[4.0, 0.0, 1.0], [5.0, 0.0, 1.0]]), np.array([[[1.0, 9.0, 0.5], [2.0, 9.0, 0.25]]])
    )
    found = noise.advantages(np.array([[3.0, 0.0, 0.75], [1.0, 0.0, 0.25]]))
    assert found.tolist() == [[(2 / 2 + 0.25 / 0.5) / 2, (-1 / 2 + 0 / 0.5) / 2]]
    base = noise.noise[0]
    assert not noise.advantages(base).any()


def test_noise_without_end_is_a_large_disadvantage() -> None:
    noise = Noise(np.ones((2, 1)), np.array([[[np.inf], [0.0]]]))
    worse, better = noise.advantages(np.array([[1.0], [3.0]]))[0].tolist()
    assert -np.inf < worse < -1e5
    assert better == 1.5
    assert np.isfinite(noise.advantages(np.array([[np.inf], [0.0]]))).all()
    assert noise.advantages(np.zeros((2, 1)))[0, 1] == 0


def test_nothing_to_compare_is_not_a_number() -> None:
    nothing = Noise(np.zeros((3, 2)), np.zeros((4, 3, 2)))
    assert np.isnan(nothing.sqnr_db()).tolist() == [True] * 4
    assert not nothing.advantages(np.zeros((3, 2))).any()
    assert np.isnan(Noise(np.zeros((0, 1)), np.zeros((2, 0, 1))).sqnr_db()).all()


def test_parts_are_joined_and_candidates_left_out() -> None:
    signal, noise = RNG.random((5, 2)) + 1, RNG.random((3, 5, 2))
    whole = Noise(signal, noise)
    joined = Noise(signal[:2], noise[:, :2]).joined(Noise(signal[2:], noise[:, 2:]))
    assert joined.sqnr_db().tolist() == whole.sqnr_db().tolist()
    assert whole.of([2, 0]).sqnr_db().tolist() == whole.sqnr_db()[[2, 0]].tolist()


# -- quantized models whose scales a run sets ------------------------------------------------------

CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 16, 8, 8] x) => (float[N, 16, 8, 8] y, int64[N, 1, 8, 8] z) {
        [c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
        [c2] y = Conv <pads = [1, 1, 1, 1]> (b, w2)  z = ArgMax <axis = 1> (y) }"""


def chain() -> onnx.ModelProto:
    """Integer weights with scales of 1, so that all sums are exact where the scales are powers of two."""
    model = onnx.parser.parse_model(CHAIN)
    for name in ("w1", "w2"):
        weights = RNG.integers(-20, 21, (16, 16, 3, 3)).astype(np.float32)
        weights[:, 0, 0, 0] = 127
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model


def samples(count: int = 3) -> Iterator[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    for _ in range(count):
        yield {"x": random.integers(-50, 51, (1, 16, 8, 8)).astype(np.float32)}


def inserted(
    model: onnx.ModelProto, scales: tuple[float, float] = (1.0, 64.0)
) -> tuple[onnx.ModelProto, dict[int, str]]:
    """The model with pairs, and the constant of each group's scale."""
    opened = Model.open(model)
    plan = make_plan(opened, load_rules(()))
    groups = [site.group for site in plan.sites if site.kind == "activation"]
    names = insert(opened, plan, dict(zip(groups, map(np.float32, scales), strict=True)))
    return opened.to_proto(), names


SETTINGS = [(1.0, 64.0), (8.0, 64.0), (2.0, 16.0), (0.25, 1024.0)]


def test_a_run_that_sets_scales_gives_what_a_model_with_them_gives(tmp_path: Path) -> None:
    proto, names = inserted(chain())
    session = ort.load(proto, settable=list(names.values()))
    assert (session.inputs, session.outputs) == (("x",), ("y", "z"))
    seen = set()
    for scales in SETTINGS:
        by_group = dict(zip(names, map(np.float32, scales), strict=True))
        saved = onnx.ModelProto()
        saved.CopyFrom(proto)
        set_scales(saved, names, by_group)
        onnx.save(saved, tmp_path / "saved.onnx")
        constants = {
            t.name: onnx.numpy_helper.to_array(t)
            for t in onnx.load(tmp_path / "saved.onnx").graph.initializer
        }
        assert [constants[names[group]].tolist() for group in names] == list(scales)
        assert all(constants[name].dtype == np.float32 for name in names.values())
        itself = ort.load(tmp_path / "saved.onnx", optimize=False)
        for feeds in samples():
            expected = itself.run(feeds)
            setting = {names[group]: np.asarray(scale) for group, scale in by_group.items()}
            for ours, theirs in zip(session.run({**feeds, **setting}), expected, strict=True):
                assert np.array_equal(ours, theirs)
        seen.add(expected[0].tobytes())
    assert len(seen) == len(SETTINGS)
    for feeds in samples():  # unless it sets them, they are those of the model
        assert np.array_equal(session.run(feeds)[0], ort.load(proto, optimize=False).run(feeds)[0])


def test_noise_is_that_of_the_outputs() -> None:
    model = chain()
    proto, names = inserted(model)
    reference, candidate = ort.load(model), ort.load(proto, settable=list(names.values()))
    settings = [dict(zip(names.values(), map(np.float32, scales), strict=True)) for scales in SETTINGS]
    settings = [{name: np.asarray(scale) for name, scale in one.items()} for one in settings]
    found = measure(reference, candidate, samples(), settings)
    recorded = measure(Recording(reference, samples()), candidate, samples(), settings)
    assert found.noise.shape == (len(SETTINGS), 3, 2)
    assert np.array_equal(found.noise, recorded.noise)
    for i, feeds in enumerate(samples()):
        exact = reference.run(feeds)[0].astype(np.float64)
        assert found.signal[i].tolist() == pytest.approx([np.sum(exact**2), 0], rel=1e-12)  # z is no float
        for j, setting in enumerate(settings):
            error = exact - candidate.run({**feeds, **setting})[0]
            assert found.noise[j, i].tolist() == pytest.approx([np.sum(error**2), 0], rel=1e-12)


CASES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[N] y, float[M] z) {{ y = {y}  z = {z} }}"""


def test_outputs_that_are_not_finite_or_of_another_shape() -> None:
    def model(y: str, z: str) -> onnx.ModelProto:
        return onnx.parser.parse_model(CASES.format(y=y, z=z))

    reference = ort.load(model("Abs (x)", "Neg (x)"))
    infinite = ort.load(model("Reciprocal (x)", "Neg (x)"))
    no_number = ort.load(model("Div (x, x)", "Neg (x)"))
    feeds = [{"x": np.array([0, 1, 2, 3], np.float32)}]
    for candidate in (infinite, no_number):
        found = measure(reference, candidate, feeds, [{}, {}])
        assert found.noise[:, 0].tolist() == [[np.inf, 0], [np.inf, 0]]
        assert found.sqnr_db().tolist() == [(-BEST_DB + BEST_DB) / 2] * 2
    longer = ort.load(model("Concat <axis = 0> (x, x)", "Neg (x)"))
    assert measure(reference, longer, feeds, [{}]).signal.tolist() == [[0, 14]]
    assert measure(infinite, reference, feeds, [{}]).signal.tolist() == [[0, 14]]


def test_an_input_that_the_candidate_lacks_is_not_fed() -> None:
    two = "g (float[4] x, float[4] w) => (float[4] y) { y = Add (x, w) }"
    one = "g (float[4] x) => (float[4] y) { y = Add (x, x) }"
    sessions = [
        ort.load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))
        for text in (two, one)
    ]
    feeds = [{"x": np.ones(4, np.float32), "w": np.full(4, 3, np.float32)}]
    assert measure(*sessions, feeds, [{}]).noise.tolist() == [[[16.0]]]
