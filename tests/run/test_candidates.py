"""Candidates of one quantized model: what groups of samples say of each, against numpy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.answers import Answers
from onnxq.judge.comparable import NOT_COMPARED, UNWEIGHED
from onnxq.judge.sqnr import BEST_DB
from onnxq.quant.insert import insert, set_scales
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.placement import make_plan
from onnxq.rule.load import load_rules
from onnxq.run import ort
from onnxq.run.candidates import heard
from onnxq.run.compare import Recording

RNG = np.random.default_rng(0)


def joined(meters: list[AboutMeanMeter]) -> AboutMeanMeter:
    return meters[0].joined(meters[1:])


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


@pytest.fixture(scope="module")
def measured() -> tuple[ort.Session, MeasuringCopy, list[Candidate]]:
    """A float model, what runs the quantized one, and candidates for its scales."""
    model = chain()
    _, names, copy = inserted(model)
    by_group = [dict(zip(names, map(np.float32, scales), strict=True)) for scales in SETTINGS]
    return ort.load(model), copy, [Candidate(scales=one) for one in by_group]


def test_noise_is_that_of_the_outputs(measured: Any) -> None:
    """In parts of what varies from sample to sample; `z` is no float."""
    reference, copy, settings = measured
    found = joined(heard(reference, copy, samples(), settings))
    exact = np.array([reference.run(feeds)[0] for feeds in samples()], np.float64)
    signal = np.sum((exact - exact.mean(0)) ** 2)
    assert found.samples == 3
    for setting, result in zip(settings, found.results(), strict=True):
        given = np.array([copy.run_each(feeds, [setting])[0][0] for feeds in samples()])
        level = 10 * np.log10(signal / np.sum((exact - given) ** 2))
        assert result.levels == {"y": pytest.approx(level, abs=1e-9)}
        assert [(one.output, one.why) for one in result.left_out] == [("z", NOT_COMPARED)]
    assert len({result.sqnr_about_mean_db for result in found.results()}) == len(settings)


def test_what_the_float_model_gave_may_be_recorded(measured: Any) -> None:
    reference, copy, settings = measured
    recorded = heard(Recording.of(reference, samples()), copy, samples(), settings)
    assert joined(recorded).losses() == joined(heard(reference, copy, samples(), settings)).losses()


@pytest.mark.parametrize(("groups", "wanted"), [(32, [1] * 5), (2, [3, 2])])
def test_samples_are_dealt_to_groups(measured: Any, groups: int, wanted: list[int]) -> None:
    reference, copy, settings = measured
    found = heard(reference, copy, samples(5), settings, groups=groups)
    assert [one.samples for one in found if one.samples] == wanted
    assert all(len(one.results()) == len(settings) for one in found)
    whole = joined(heard(reference, copy, samples(5), settings, groups=1))
    assert joined(found).result(1).levels == pytest.approx(whole.result(1).levels, abs=1e-9)


def test_without_samples_there_is_nothing(measured: Any) -> None:
    reference, copy, settings = measured
    (found,) = heard(reference, copy, [], settings)
    assert (found.samples, found.losses()) == (0, [None] * len(settings))


def test_weights_and_answers_are_heard(measured: Any) -> None:
    """Answers are counted of the same outputs, with what the float model was fed."""
    reference, copy, settings = measured
    asked: list[Any] = []

    def counter(exact: Any, given: Any, feeds: Any) -> list[Answers]:
        asked.append((exact, given, feeds))
        return [Answers("classes", (place,), (3.0,), (0.0,)) for place in range(len(given))]

    found = heard(reference, copy, samples(2), settings, None, counter, {"y": 0.0, "z": 1.0}, 1)
    assert [one.kept for one in found[0].answers] == [(place, place) for place in range(len(settings))]
    assert [one.why for one in found[0].result().left_out] == [UNWEIGHED, NOT_COMPARED]
    for (exact, given, feeds), one in zip(asked, samples(2), strict=True):
        assert np.array_equal(exact[0], reference.run(one)[0])
        assert np.array_equal(given[2][0], copy.run_each(one, [settings[2]])[0][0])
        assert np.array_equal(feeds["x"], one["x"])


CASES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[N] y, float[M] z) {{ y = {y}  z = {z} }}"""


def test_outputs_that_are_not_finite_or_of_another_shape() -> None:
    def model(y: str, z: str) -> ort.Session:
        return ort.load(onnx.parser.parse_model(CASES.format(y=y, z=z)))

    reference, near = model("Abs (x)", "Neg (x)"), model("Neg (x)", "Neg (x)")
    infinite, no_number = model("Reciprocal (x)", "Neg (x)"), model("Div (x, x)", "Neg (x)")
    longer = model("Concat <axis = 0> (x, x)", "Neg (x)")
    feeds = [{"x": np.array([0, 1, 2, 3 + place], np.float32)} for place in range(4)]
    for candidate in (infinite, no_number):
        found = joined(heard(reference, candidate, feeds, [{}, {}]))
        assert [one.levels for one in found.results()] == [{"y": -BEST_DB, "z": BEST_DB}] * 2
        assert [one is not None and one.all for one in found.losses()] == [np.inf] * 2
    for one, other in ((reference, longer), (infinite, near)):  # the float model's own infinities are masks
        result = joined(heard(one, other, feeds, [{}])).result()
        assert result.levels == ({"z": BEST_DB} if one is reference else {"y": -BEST_DB, "z": BEST_DB})
        assert [x.output for x in result.left_out] == (["y"] if one is reference else [])
    none = joined(heard(no_number, reference, feeds, [{}])).result()
    assert [(one.output, one.why) for one in none.left_out] == [("y", NOT_COMPARED)]


def test_an_input_that_the_candidate_lacks_is_not_fed() -> None:
    two = "g (float[4] x, float[4] w) => (float[4] y) { y = Add (x, w) }"
    one = "g (float[4] x) => (float[4] y) { y = Add (x, x) }"
    sessions = [
        ort.load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))
        for text in (two, one)
    ]
    feeds = [
        {"x": np.full(4, place, np.float32), "w": np.full(4, place + 3, np.float32)} for place in (-1, 1)
    ]
    ((loss,),) = [joined(heard(*sessions, feeds, [{}])).losses()]
    assert loss is not None
    assert loss.all == pytest.approx(9 / 4)  # 3 of 2, which is what varies
