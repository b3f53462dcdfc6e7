"""Every figure of `analyze` against plain numpy on dumped tensors, on five nets and three types."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from layer_nets import NETS, dumped, made, samples_of
from threadpoolctl import threadpool_limits

import onnxq
from onnxq.analysis.figures import ExactSum, Means, Operand, TensorMeter
from onnxq.documents.analysis import Analysis, Figures
from onnxq.graph.cut import extract_between
from onnxq.graph.model import Model

BODIES = ("fp32", "fp16", "bf16")


@functools.cache
def analyzed(net: str, body: str) -> tuple[onnx.ModelProto, onnx.ModelProto, Analysis]:
    model = made(net)
    result = onnxq.quantize(
        model, samples_of(model, 6), method="minmax", repair="none", body=body, compile=False, prove="never"
    )

    def metric(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.median(np.abs(a - b)))

    return model, result.model, onnxq.analyze(model, result.model, samples_of(model), metric=metric)


def plain(ones: Sequence[np.ndarray], others: Sequence[np.ndarray], step: float | None) -> Figures:
    """The figures as their definitions say, of all samples as one array."""
    a, b = (np.stack([np.asarray(x, np.float64) for x in side]) for side in (ones, others))
    d = b - a
    mse = np.mean(d**2)
    about = np.sum((a - a.mean(0)) ** 2)

    def bins(values: np.ndarray) -> np.ndarray:
        mantissa, exponent = np.frexp(np.abs(np.float32(values)))
        quarter = 4 * (exponent - 1 + 40) + np.floor((mantissa - 0.5) * 8)
        return np.where(values == 0, 0, np.clip(quarter, 0, 255)) * 2 + np.signbit(values)

    keys, places = np.unique(np.concatenate([bins(a).ravel(), bins(b).ravel()]), return_inverse=True)
    counts = [np.bincount(side, minlength=len(keys)) + 0.5 for side in np.split(places, 2)]
    p, q = (side / side.sum() for side in counts)
    level = 10 * math.log10(np.sum(a**2) / np.sum(d**2)) if d.any() else math.inf
    return Figures(
        samples=len(ones),
        values=a.size,
        cosine=float(np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2))) if d.any() else 1.0,
        sqnr_db=level,
        sqnr_about_mean_db=10 * math.log10(about / np.sum(d**2)) if d.any() else math.inf,
        mse=float(mse),
        l1=float(np.mean(np.abs(d))),
        kl=float(np.sum(p * np.log(p / q))),
        max_abs=float(np.abs(d).max()),
        max_ref=float(np.abs(a).max()),
        max_steps=None if step is None else float(np.abs(d).max()) / step,
        rms_steps=None if step is None else math.sqrt(mse) / step,
        nonfinite=0,
        skipped=0,
        mismatched=0,
        metric=float(np.mean([np.median(np.abs(x - y)) for x, y in zip(b, a, strict=True)])),
    )


EXACT = ("samples", "values", "max_abs", "max_ref", "max_steps", "nonfinite", "skipped", "mismatched")
BOUNDS = {"cosine": 1e-14, "sqnr_db": 1e-11, "sqnr_about_mean_db": 1e-9, "kl": 1e-12, "metric": 1e-15}
RELATIVE = {"mse": 1e-13, "l1": 1e-13, "rms_steps": 1e-13}


def check(found: Figures, wanted: Figures) -> None:
    for name in EXACT:
        assert getattr(found, name) == getattr(wanted, name), name
    for name, bound in BOUNDS.items():
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=bound, rel=0), name
    for name, bound in RELATIVE.items():
        value, expected = getattr(found, name), getattr(wanted, name)
        assert value == expected or value == pytest.approx(expected, rel=bound, abs=0), name


@pytest.mark.parametrize(("net", "body"), list(itertools.product(NETS, BODIES)))
def test_accumulated_figures_are_those_of_plain_runs(net: str, body: str) -> None:
    model, quantized, found = analyzed(net, body)
    assert found.rows
    assert found.samples == 4
    samples = samples_of(model)
    ours = dumped(model, [row.a_tensor for row in found.rows], samples)
    theirs = dumped(quantized, [row.tensor for row in found.rows], samples)
    for row in found.rows:
        pairs = [(x[row.a_tensor], y[row.tensor]) for x, y in zip(ours, theirs, strict=True)]
        check(row.accumulated, plain(*zip(*pairs, strict=True), row.step))


@pytest.mark.parametrize(("net", "body"), list(itertools.product(NETS, BODIES)))
def test_isolated_figures_are_those_of_a_cut_out_part(net: str, body: str) -> None:
    model, quantized, found = analyzed(net, body)
    samples = samples_of(model)
    names = {row.a_tensor for row in found.rows}
    ours = [x | s for x, s in zip(dumped(model, sorted(names), samples), samples, strict=True)]
    compared = {row.tensor for row in found.rows}
    opened = Model.open(quantized)
    for row in found.rows:
        assert row.isolated is not None
        start = [
            name for name in compared if name != row.tensor and before(quantized, row.tensor, name, compared)
        ]
        piece = extract_between(opened, start, [row.tensor]).model
        reads = [info.name for info in piece.graph.input]
        fed = [{name: np.asarray(x[name], np.float32) for name in reads} for x in ours]
        given = dumped(piece, [row.tensor], fed)
        pairs = [(x[row.a_tensor], y[row.tensor]) for x, y in zip(ours, given, strict=True)]
        check(row.isolated, plain(*zip(*pairs, strict=True), row.step))


def before(model: onnx.ModelProto, tensor: str, name: str, stops: set[str]) -> bool:
    """Whether a tensor depends on another one by no third of some."""
    maker = {out: node for node in model.graph.node for out in node.output}
    todo, seen = [*maker[tensor].input], set[str]()
    while todo:
        read = todo.pop()
        if read == name:
            return True
        if read in maker and read not in stops and read not in seen:
            seen.add(read)
            todo += maker[read].input
    return False


def test_sums_are_the_same_in_any_order() -> None:
    random = np.random.default_rng(0)
    pairs = [random.standard_normal((2, 50)) * 10.0 ** random.integers(-12, 12) for _ in range(40)]

    def figures(order: Sequence[int]) -> Figures:
        meter = TensorMeter()
        for place in order:
            meter.add(Operand.of(pairs[place][0], histogram=True), pairs[place][1])
        return meter.figures()

    wanted = figures(range(40))
    for _ in range(3):
        assert figures(list(random.permutation(40))) == wanted


def test_an_exact_sum_is_that_of_rational_numbers() -> None:
    values = [1e308, 1.0, 5e-324, -1e308, 2.0**-1074, 0.1, -1.0]
    for order in itertools.permutations(values):
        total = ExactSum()
        for value in order:
            total.add(value)
        assert float(total) == math.fsum(values)


def test_nan_and_infinities_are_counted_and_left_out() -> None:
    a = np.array([1.0, np.nan, 2.0, np.inf, 3.0], np.float32)
    b = np.array([1.5, 0.0, np.nan, np.inf, 3.0], np.float32)
    meter = TensorMeter()
    assert meter.add(Operand.of(a, histogram=True), b) == math.inf
    found = meter.figures()
    assert (found.values, found.skipped, found.nonfinite) == (2, 2, 1)
    assert (found.sqnr_db, found.max_abs) == (-math.inf, math.inf)
    assert math.isnan(found.cosine or 0.0)
    meter = TensorMeter()
    meter.add(Operand.of(a[:2], histogram=True), b[:2])
    clean = meter.figures()
    assert (clean.values, clean.skipped, clean.mse) == (1, 1, 0.25)


def test_another_shape_is_said_and_nothing_else() -> None:
    meter = TensorMeter()
    meter.add(Operand.of(np.ones(3), histogram=True), np.ones(4))
    found = meter.figures()
    assert (found.samples, found.mismatched, found.values, found.sqnr_db) == (1, 1, 0, None)


def test_no_figure_depends_on_how_many_threads_there_are() -> None:
    """Nor do threads wait for each other where others use the cores."""
    ours, theirs = np.random.default_rng(0).standard_normal((2, 3, 100_000))

    def found(threads: int) -> Figures:
        meter, means = TensorMeter(), Means(1 << 30)
        with threadpool_limits(threads):
            for one, other in zip(ours, theirs, strict=True):
                operand = Operand.of(one, histogram=True)
                means.add("x", operand)
                meter.add(operand, other)
            return meter.figures(means.power("x"))

    assert found(1) == found(2) == found(3) == found(4)
