"""The noise of candidates for scales, against numpy; sessions whose scales a run may set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.judge.comparable import CONSTANT, NOT_COMPARED, UNCHANGED
from onnxq.judge.sqnr import BEST_DB
from onnxq.quant.insert import insert, set_scales
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.placement import make_plan
from onnxq.rule.load import load_rules
from onnxq.run import ort
from onnxq.run.compare import Recording
from onnxq.run.noise import Noise, Outputs, measure

RNG = np.random.default_rng(0)


def decibels(signal: float, noise: float) -> float:
    return float(10 * np.log10(signal / noise))


# -- Noise -----------------------------------------------------------------------------------------


def noise_of(signal: np.ndarray, noise: np.ndarray) -> Noise:
    """Of outputs y0, y1, ... that vary; changed is what has noise."""
    names = tuple(f"y{i}" for i in range(signal.shape[1]))
    low, high = np.zeros(len(names)), np.ones(len(names))
    return Noise(signal, noise, Outputs(names, low, high, noise.any((0, 1))))


def of_levels(*candidates: list[float]) -> Noise:
    """Two samples alike, with these SQNRs of each candidate's outputs, dB."""
    noise = 10 ** (-np.array(candidates)[:, None].repeat(2, 1) / 10)
    return noise_of(np.ones(noise.shape[1:]), noise)


def test_one_output_is_its_sqnr() -> None:
    noise = noise_of(
        np.array([[4.0, 0.0], [5.0, 0.0]]), np.array([[[1.0, 0.0], [2.0, 0.0]], [[9e6, 0.0], [9e6, 0.0]]])
    )
    assert noise.sqnr_db().tolist() == [pytest.approx(decibels(9, 3)), pytest.approx(decibels(9, 18e6))]


def test_several_outputs_are_their_mean_in_decibels() -> None:
    assert of_levels([36, 25]).sqnr_db() == pytest.approx((36 + 25) / 2, abs=0.03)
    assert of_levels([20, 30, 40]).sqnr_db() == pytest.approx(30, abs=0.05)


def test_outputs_that_are_lost_or_unharmed_hide_no_others() -> None:
    """The second output decides, by 3 dB, whatever happens to the first one far from where it matters."""
    for worse, better in ((-40, -20), (-10, -6), (80, 120), (100, 199)):
        for first in ([worse, better], [better, worse]):
            base, other = of_levels([first[0], 25.0], [first[1], 28.0]).sqnr_db()
            assert other > base + 0.5
            advantages = of_levels([first[0], 25.0], [first[1], 28.0])
            assert advantages.advantages(advantages.noise[0])[1] == pytest.approx([1.5] * 2, abs=1.0)


def test_a_candidate_that_is_not_finite_is_the_worst() -> None:
    noise = of_levels([30, 30], [50, -np.inf], [5, 5])
    assert noise.sqnr_db().tolist() == [pytest.approx(30), -BEST_DB, pytest.approx(5, abs=1)]


def test_outputs_that_nothing_changes_or_that_do_not_vary_do_not_count() -> None:
    """With them, 30 dB were 30 + 200 + 90 by three: an output that is equal, and one that is constant."""
    noise = of_levels([30, 200, 90, 99, 30], [20, 200, 80, 99, 30])
    noise.noise[:, :, 1] = 0
    outputs = Outputs(
        ("boxes", "equal", "sums", "ids", "scores"),
        np.array([0, 0, 1 - 1e-7, np.inf, 0]),
        np.array([1, 1, 1, -np.inf, 1]),
        np.array([True, False, True, False, True]),
    )
    noise = Noise(noise.signal, noise.noise, outputs)
    assert noise.sqnr_db().tolist() == [pytest.approx(30, abs=0.01), pytest.approx(25, abs=0.1)]
    why = {one.output: one.why for one in noise.left_out()}
    assert why == {"equal": UNCHANGED, "sums": CONSTANT, "ids": NOT_COMPARED}
    assert list(noise.levels(1).items()) == [
        ("boxes", pytest.approx(20)), ("scores", pytest.approx(30))
    ]  # fmt: skip
    one = Noise(noise.signal[:1], noise.noise[:, :1], outputs)
    assert "sums" not in one.left_out()  # of one sample nothing varies


def test_an_output_that_was_changed_stays_when_those_that_changed_it_are_left_out() -> None:
    noise = of_levels([20.0], [30.0])
    noise.noise[1] = 0
    assert noise.of([1]).sqnr_db().tolist() == [BEST_DB]
    assert noise.of([1]).joined(noise.of([1])).sqnr_db().tolist() == [BEST_DB]


def test_the_mean_advantage_is_the_difference_of_the_figures_costs() -> None:
    """Between -60 and 0 dB it is about that of the figures, of one output or of several."""
    signal, noise = RNG.random((40, 3)) + 1, 10 ** (-RNG.uniform(1.5, 4, (4, 1, 3))) * RNG.random((4, 40, 3))
    several = noise_of(signal, noise)
    levels = several.sqnr_db()
    assert several.advantages(noise[0]).mean(1) == pytest.approx(levels - levels[0], abs=0.3)


def test_of_one_output_an_advantage_is_the_noise_that_is_saved() -> None:
    """But for a factor: so is its mean in standard errors."""
    signal, noise = RNG.random((9, 1)) + 1, RNG.random((3, 9, 1)) * [[[1e-3]], [[2e-3]], [[1e-9]]]
    for given in (noise_of(signal, noise), noise_of(signal, 1e6 * noise), noise_of(signal, 1e-6 * noise)):
        saved = (given.noise[0] - given.noise)[..., 0]
        found = given.advantages(given.noise[0])
        assert not found[0].any()
        for one, other in zip(found[1:], saved[1:], strict=True):
            factor = one / other
            assert factor.min() > 0
            assert factor == pytest.approx([factor[0]] * 9, rel=1e-9)


def test_noise_without_end_is_a_large_disadvantage() -> None:
    noise = noise_of(np.ones((2, 1)), np.array([[[np.inf], [0.0]]]))
    worse, better = noise.advantages(np.array([[1.0], [3.0]]))[0].tolist()
    assert -np.inf < worse < -100 * better < 0
    assert np.isfinite(noise.advantages(np.array([[np.inf], [0.0]]))).all()
    assert noise.advantages(np.zeros((2, 1)))[0, 1] == 0


def test_nothing_to_compare_is_not_a_number() -> None:
    nothing = noise_of(np.zeros((3, 2)), np.zeros((4, 3, 2)))
    assert np.isnan(nothing.sqnr_db()).tolist() == [True] * 4
    assert not nothing.advantages(np.zeros((3, 2))).any()
    assert np.isnan(noise_of(np.zeros((0, 1)), np.zeros((2, 0, 1))).sqnr_db()).all()


def test_parts_are_joined_and_candidates_left_out() -> None:
    signal, noise = RNG.random((5, 2)) + 1, RNG.random((3, 5, 2))
    whole = noise_of(signal, noise)
    joined = noise_of(signal[:2], noise[:, :2]).joined(noise_of(signal[2:], noise[:, 2:]))
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
) -> tuple[onnx.ModelProto, dict[int, str], MeasuringCopy]:
    """The model with pairs, the constant of each group's scale, and what runs it with others."""
    opened = Model.open(model)
    plan = make_plan(opened, load_rules(()))
    groups = [site.group for site in plan.sites if site.kind == "activation"]
    found = insert(opened, plan, dict(zip(groups, map(np.float32, scales), strict=True)))
    proto = found.model.to_proto()
    return proto, dict(found.scales), MeasuringCopy(found, plan, proto, opened.to_proto())


SETTINGS = [(1.0, 64.0), (8.0, 64.0), (2.0, 16.0), (0.25, 1024.0)]


def test_a_run_that_sets_scales_gives_what_a_model_with_them_gives(tmp_path: Path) -> None:
    proto, names, copy = inserted(chain())
    assert (copy.inputs, copy.outputs) == (("x",), ("y", "z"))
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
            (found,) = copy.run_each(feeds, [Candidate(scales=by_group)])
            for ours, theirs in zip(found, expected, strict=True):
                assert np.array_equal(ours, theirs)
        seen.add(expected[0].tobytes())
    assert len(seen) == len(SETTINGS)
    for feeds in samples():  # unless it sets them, they are those of the model
        (found,) = copy.run_each(feeds, [Candidate()])
        assert np.array_equal(found[0], ort.load(proto, optimize=False).run(feeds)[0])


def test_noise_is_that_of_the_outputs() -> None:
    model = chain()
    _, names, candidate = inserted(model)
    reference = ort.load(model)
    by_group = [dict(zip(names, map(np.float32, scales), strict=True)) for scales in SETTINGS]
    settings = [Candidate(scales=one) for one in by_group]
    found = measure(reference, candidate, samples(), settings)
    recorded = measure(Recording.of(reference, samples()), candidate, samples(), settings)
    assert found.noise.shape == (len(SETTINGS), 3, 2)
    assert np.array_equal(found.noise, recorded.noise)
    for i, feeds in enumerate(samples()):
        exact = reference.run(feeds)[0].astype(np.float64)
        assert found.signal[i].tolist() == pytest.approx([np.sum(exact**2), 0], rel=1e-12)  # z is no float
        for j, setting in enumerate(settings):
            error = exact - candidate.run_each(feeds, [setting])[0][0]
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
        assert found.sqnr_db().tolist() == [-BEST_DB] * 2
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
