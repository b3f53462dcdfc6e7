"""The comparison of outputs against its formulas."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from onnx import parser

from onnxq.base.errors import UserError
from onnxq.judge.comparable import OutputLeftOut, not_compared
from onnxq.run import ort
from onnxq.run.compare import OutputAccuracy, OutputComparison, compare_models

RNG = np.random.default_rng(0)


def compare(reference: np.ndarray, candidate: np.ndarray, output: str = "") -> OutputAccuracy:
    comparison = OutputComparison(output)
    comparison.add(reference, candidate)
    return comparison.result()


def test_formulas_over_samples() -> None:
    refs = [RNG.standard_normal((3, 5)).astype(np.float32) for _ in range(4)]
    cands = [(r + RNG.standard_normal(r.shape) * 0.4).astype(np.float32) for r in refs]
    comparison = OutputComparison("y")
    for ref, cand in zip(refs, cands, strict=True):
        comparison.add(ref, cand)
    found = comparison.result()
    r = np.concatenate(refs).astype(np.float64)
    c = np.concatenate(cands).astype(np.float64)
    assert found.sqnr_db == pytest.approx(10 * math.log10((r**2).sum() / ((r - c) ** 2).sum()), rel=1e-12)
    assert found.cosine == pytest.approx((r * c).sum() / np.linalg.norm(r) / np.linalg.norm(c), rel=1e-12)
    assert found.max_abs == np.abs(r - c).max()
    assert found.max_ref == np.abs(r).max()
    assert found.top1 == (r.argmax(1) == c.argmax(1)).mean()
    assert 0 < found.top1 < 1
    assert (found.samples, found.equal, found.nonfinite) == (4, 0.0, 0)


def test_known_values() -> None:
    found = compare(np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]]), "y")
    assert found.output == "y"
    assert found.sqnr_db == pytest.approx(20.0, abs=1e-12)
    assert (found.max_abs, found.max_ref, found.equal, found.top1) == (0.5, 4.0, 0.5, 1.0)


def test_equal() -> None:
    same = compare(np.ones((2, 1, 3)), np.ones((2, 1, 3)))
    assert (same.sqnr_db, same.cosine, same.max_abs, same.equal) == (math.inf, 1.0, 0.0, 1.0)
    assert same.top1 is None
    zeros = compare(np.zeros(4), np.zeros(4))
    assert (zeros.sqnr_db, zeros.cosine) == (math.inf, 1.0)
    assert compare(np.zeros(4), np.ones(4)).sqnr_db == -math.inf
    assert compare(np.ones(4), np.zeros(4)).sqnr_db == 0.0


def test_integers_and_booleans() -> None:
    found = compare(np.array([1, 2, 3, 4]), np.array([1, 2, 0, 4]))
    assert found.equal == 0.75
    assert (found.sqnr_db, found.cosine, found.max_abs, found.max_ref) == (None,) * 4
    assert compare(np.array([True, False]), np.array([True, True])).equal == 0.5


def test_large_values_do_not_overflow() -> None:
    big = np.full(8, 3e38, np.float32)
    assert compare(big, np.float32(0.5) * big).sqnr_db == pytest.approx(6.0206, abs=1e-4)
    half = np.full(8, 6e4, np.float16)
    assert compare(half, half / 2).cosine == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_candidate_that_is_not_finite(value: float) -> None:
    found = compare(np.ones(4), np.array([1.0, value, 1.0, 1.0]))
    assert (found.nonfinite, found.skipped) == (1, 0)
    assert (found.sqnr_db, found.max_abs) == (-math.inf, math.inf)
    assert found.cosine is not None
    assert math.isnan(found.cosine)
    assert found.equal == 0.75


def test_reference_that_is_not_finite() -> None:
    ref = np.array([np.nan, -np.inf, np.inf, 2.0])
    found = compare(ref, np.array([np.nan, -np.inf, 5.0, 1.0]))
    assert (found.nonfinite, found.skipped) == (0, 3)
    assert found.equal == 0.5
    assert (found.max_abs, found.max_ref) == (1.0, 2.0)
    assert compare(ref[:3], ref[:3]).sqnr_db is None


def test_shapes_that_differ() -> None:
    comparison = OutputComparison("boxes")
    comparison.add(np.ones((2, 4)), np.ones((3, 4)))
    assert comparison.result().equal is None
    assert comparison.result().sqnr_db is None
    comparison.add(np.ones((2, 4)), np.ones((2, 4)))
    found = comparison.result()
    assert (found.samples, found.mismatched, found.equal) == (2, 1, 1.0)


def test_json_is_strict() -> None:
    bad = compare(np.ones(2), np.array([np.nan, 1.0])).to_dict()
    text = json.dumps([bad, compare(np.ones(2), np.ones(2)).to_dict()], allow_nan=False)
    broken, same = json.loads(text)
    assert (broken["sqnr_db"], broken["max_abs"], broken["cosine"]) == ("-inf", "inf", None)
    assert same["sqnr_db"] == "inf"


def session(text: str) -> ort.Session:
    return ort.load(parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>' + text))


def test_models() -> None:
    a = session(
        """g (float[N, 3] x) => (float[N, 3] y, int64[N] k) <float two = {2.0}>
        { y = Mul (x, two) k = ArgMax <axis = 1, keepdims = 0> (x) }"""
    )
    b = session(
        """g (float[N, 3] x) => (int64[N] k, float[N, 3] y) <float two = {2.2}>
        { y = Mul (x, two) k = ArgMax <axis = 1, keepdims = 0> (y) }"""
    )
    feeds = [{"x": RNG.standard_normal((1, 3)).astype(np.float32)} for _ in range(5)]
    y, k = compare_models(a, b, iter(feeds))
    assert (y.output, k.output) == ("y", "k")
    assert y.sqnr_db == pytest.approx(20.0, abs=1e-4)  # noise is a tenth
    assert y.samples == 5
    assert k.equal == 1.0


def test_models_that_cannot_be_compared() -> None:
    a = session("g (float[N] x) => (float[N] y) { y = Neg (x) }")
    b = session("g (float[N] x) => (float[N] yy) { yy = Neg (x) }")
    with pytest.raises(UserError, match="'y'") as caught:
        compare_models(a, b, [])
    assert "'yy'" in caught.value.hint
    with pytest.raises(UserError, match="zero samples"):
        compare_models(a, a, [])


def test_a_sequence_is_all_of_its_values() -> None:
    """The second of the sequence's tensors is the first times 2, and times 3 in the candidate."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[4] x) => (seq(float[4]) s) <float k = {{{k}}}> {{ y = Mul (x, k)
            s = SequenceConstruct (x, y) }}"""
    two, three = (ort.load(parser.parse_model(text.format(k=k))) for k in (2, 3))
    x = np.array([1, -2, 0, 4], np.float32)
    (same,) = compare_models(two, two, [{"x": x}])
    assert (same.sqnr_db, same.equal, same.samples) == (math.inf, 1.0, 1)
    (other,) = compare_models(two, three, [{"x": x}])
    assert (other.max_abs, other.max_ref, other.equal, other.mismatched) == (4.0, 8.0, 5 / 8, 0)


def test_inputs_are_given_in_the_type_of_each_model() -> None:
    text = "g ({k}[2] x) => ({k}[2] y) {{ y = Neg (x) }}"
    single, half = (session(text.format(k=kind)) for kind in ("float", "float16"))
    feeds = [{"x": np.array([1, 2], np.float32)}]
    (found,) = compare_models(single, half, feeds, {"x": np.dtype(np.float16)})
    assert found.equal == 1


def test_outputs_that_could_not_be_compared_are_told_by_reason() -> None:
    same = "it does not vary from sample to sample"
    reasons = {**{f"y{place}": same for place in range(5)}, "best": "its weight is 0"}
    left_out = [OutputLeftOut(*one) for one in reasons.items()]
    assert not_compared(left_out) == (
        f"no output could be compared ('y0', 'y1', 'y2' and 2 more: {same}; 'best': its weight is 0)"
    )
    assert not_compared([]) == "no output could be compared"
