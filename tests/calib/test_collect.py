"""The calibration pass against brute force, its refusals, and its memory."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser
from stats_tools import activations, brute_counts, content, counted

from onnxq.base.errors import UserError
from onnxq.calib import collect as collector
from onnxq.calib.collect import Counting, Request, Watch, collect
from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.probes import Rows, rows_of
from onnxq.calib.stats import Stats, TensorStats, merge
from onnxq.data.samples import Sample
from onnxq.run import ort

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y, bool[N, 4, 8, 8] b) <float two = {2.0}> {
        c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
        r = Relu (c)
        s = Mul (r, two)
        y = Add (s, c)
        p = ReduceMean <axes = [2, 3], keepdims = 0> (y)
        t = ReduceSum <keepdims = 0> (p)
        b = Greater (y, two)
    }"""
TENSORS = ["y", "c", "x", "w", "s", "r", "two", "b", "p", "t"]
COUNTINGS: list[Counting] = ["none", "sampled", "exact"]


def net() -> onnx.ModelProto:
    model = parser.parse_model(NET)
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return model


def relu(opset: int = 17, rank: int = 2) -> onnx.ModelProto:
    """`y` is `x`, rectified, and `z` is -`x`; `constant` is no value's fault."""
    shape = ", ".join(f"D{axis}" for axis in range(rank))
    return parser.parse_model(
        f"""<ir_version: 7, opset_import: ["" : {opset}]>
        g (float[{shape}] x) => (float[{shape}] y, float[{shape}] z) {{ [f] y = Relu (x) [n] z = Neg (x) }}"""
    )


def samples(count: int = 5, shape: Sequence[int] = (1, 3, 8, 8), first: int = 0) -> list[Sample]:
    rng = np.random.default_rng(1)
    feeds = [np.asarray(rng.standard_normal(shape) * (i + 1), np.float32) for i in range(count)]
    return [Sample(first + i, f"calib/{i}.npy", {"x": x}) for i, x in enumerate(feeds)]


def taken(
    model: onnx.ModelProto, names: Sequence[str], given, counting: Counting = "none", watch=None, **more
) -> Stats:
    return collect(model, Request(names, counting, **more), given, watch=watch or Watch())


class Loads:
    """How many sessions were loaded in one go, and the first output of those with probes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.with_probes: list[str] = []
        load = ort.load

        def counting(*args, probes: onnx.GraphProto | None = None, **more) -> ort.Session:
            self.count += 1
            names = [value.name for value in probes.output] if probes is not None else []
            self.with_probes += [name for name in names[:1] if name.startswith("onnxq_probe_")]
            return load(*args, probes=probes, **more)

        monkeypatch.setattr(ort, "load", counting)


def rounded(values: Sequence[np.ndarray], of: TensorStats, tolerance: float = 2e-6) -> None:
    """The sums are those of each sample, rounded to float32."""
    total = sum(v.sum(dtype=np.float64) for v in values)
    size = sum(np.abs(v).sum(dtype=np.float64) for v in values)
    squares = sum(np.square(v, dtype=np.float64).sum() for v in values)
    assert of.total is not None
    assert of.squares is not None
    assert abs(of.total / 2**149 - total) <= tolerance * size
    assert abs(of.squares / 2**149 - squares) <= tolerance * squares


def check(entry: TensorStats, values: Sequence[np.ndarray]) -> None:
    """All but the histogram."""
    assert entry.lows.tolist() == [v.min() if v.size else np.inf for v in values]
    assert entry.highs.tolist() == [v.max() if v.size else -np.inf for v in values]
    assert entry.lows.dtype == entry.highs.dtype == np.float32
    assert entry.size == sum(v.size for v in values)
    rounded(values, entry)


@pytest.mark.parametrize("counting", COUNTINGS)
def test_statistics_are_those_of_the_values(counting: Counting) -> None:
    model, given = net(), samples(first=40)
    before = model.SerializeToString(deterministic=True)
    told: list[int] = []
    stats = taken(model, TENSORS, iter(given), counting, Watch(told.append))
    assert model.SerializeToString(deterministic=True) == before
    assert told == [1, 2, 3, 4, 5]
    assert stats.indices.tolist() == [40, 41, 42, 43, 44]
    assert list(stats.tensors) == TENSORS
    for name, values in activations(model, TENSORS, given).items():
        entry = stats.tensors[name]
        check(entry, values)
        assert (entry.histogram is None) == (counting == "none")
        if entry.histogram is not None:
            assert counted(entry.histogram) == brute_counts(np.concatenate([v.ravel() for v in values]))
            assert (entry.step, entry.sampling_error) == (1, 0)
    assert stats.tensors["two"].mean == 2
    assert stats.tensors["two"].variance == 0
    assert stats.seconds > 0


def test_samples_in_any_order() -> None:
    given = samples(9)
    whole = taken(net(), TENSORS, given, "exact")
    for order in (given[::-1], given[4:] + given[:4]):
        assert content(taken(net(), TENSORS, order, "exact")) == content(whole)


@pytest.mark.parametrize("counting", COUNTINGS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_shards_are_the_same_as_one_run(counting: Counting, data: st.DataObject) -> None:
    given = samples(8, (2, 3, 8, 8))
    request = Request(["c", "y", "p"], counting, {"c": 1}, samples=8, first=given[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxq.calib.probes.SAMPLED", 512)
        whole = collect(net(), request, given)
        owner = data.draw(st.lists(st.integers(0, 2), min_size=8, max_size=8))
        shards = [[s for s, o in zip(given, owner, strict=True) if o == n] for n in range(3)]
        parts = [collect(net(), request, shard) for shard in shards if shard]
    assert whole.tensors["c"].step == {"none": 1, "sampled": 8, "exact": 1}[counting]
    assert content(merge(data.draw(st.permutations(parts)))) == content(whole)


class TestSampledRows:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("onnxq.calib.probes.SAMPLED", 500)

    @pytest.mark.parametrize(
        ("shape", "axis", "step"),
        [
            ((96,), 0, 2),
            ((64, 20), 0, 32),
            ((1, 1000), 1, 32),  # of whole lines there are too few
            ((16, 96), 1, 32),
            ((2, 64, 8), 1, 32),
            ((8, 10, 3), 1, 4),
            ((4, 3, 40, 8), 2, 64),  # every axis is too short: some samples have no row
            ((4, 8, 32, 9), 2, 256),
            ((1, 31), 0, 1),
            ((), 0, 1),
        ],
    )
    def test_are_those_that_rotate(self, shape: tuple[int, ...], axis: int, step: int) -> None:
        given = samples(16, shape, first=7)
        entry = taken(relu(rank=len(shape)), ["y"], given, "sampled", samples=16).tensors["y"]
        assert entry.step == step
        raw = [np.maximum(sample.feeds["x"], 0) for sample in given]
        check(entry, raw)
        rows = [
            np.take(x, range(Rows.start(step, s.index), x.shape[axis], step), axis) if step > 1 else x
            for x, s in zip(raw, given, strict=True)
        ]
        assert entry.histogram is not None
        assert counted(entry.histogram) == brute_counts(np.concatenate([r.ravel() for r in rows]))
        if step > 1:
            assert 0 < entry.sampling_error < 0.05
            assert 450 < entry.histogram.total < entry.size

    def test_enough_of_an_iterator_of_unknown_length(self) -> None:
        entry = taken(relu(), ["y"], iter(samples(64, (64, 32))), "sampled").tensors["y"]
        assert entry.step == 256
        assert entry.histogram is not None
        assert entry.histogram.total >= 500

    def test_a_scalar_has_no_rows(self) -> None:
        entry = taken(relu(rank=0), ["y"], samples(2, ()), "sampled", samples=4000).tensors["y"]
        assert entry.histogram is not None
        assert (entry.step, entry.histogram.total) == (1, 2)

    def test_known_shapes_are_not_looked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loads = Loads(monkeypatch)
        known = {"y": (64, 32), "z": ("N", 32), "x": (1, 1)}
        entries = taken(relu(), ["y"], samples(4, (64, 32)), "sampled", samples=4, shapes=known).tensors
        assert loads.count == 1
        assert entries["y"].step == 16
        entries = taken(relu(), ["z", "x"], samples(4, (64, 32)), "sampled", samples=4, shapes=known).tensors
        assert loads.count == 3
        assert [entries[name].step for name in "zx"] == [16, 16]

    def test_before_slices_took_inputs_everything(self) -> None:
        given = samples(4, (64, 32))
        entry = taken(relu(9), ["y"], given, "sampled", samples=4).tensors["y"]
        assert entry.histogram is not None
        assert entry.histogram.total == entry.size
        assert entry.sampling_error == 0

    @settings(max_examples=25, deadline=None)
    @given(shape=st.lists(st.integers(1, 70), min_size=1, max_size=4), count=st.integers(1, 40))
    def test_enough_values(self, shape: list[int], count: int) -> None:
        """At least as many as asked for, but for the last row of a sample."""
        rows = rows_of(tuple(shape), count)
        length, row = shape[rows.axis], np.prod(shape, dtype=int) // shape[rows.axis]
        found = sum(len(range(Rows.start(rows.step, i), length, rows.step)) for i in range(count)) * row
        total = row * length * count
        assert found >= min(total, 500) - 2 * row
        assert rows.step == 1 or total / rows.step < 1000


@pytest.mark.parametrize(
    ("opset", "dtype"),
    [(o, d) for o in (7, 10, 11, 12, 13, 18, 22) for d in ("f2", "f4", "f8", "i4", "i8", "u1", "i1", "?")]
    + [(o, "bf16") for o in (17, 18, 22)],  # Identity takes it from opset 13 on
)
def test_opsets_and_dtypes(opset: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxq.calib.probes.SAMPLED", 8)
    numpy_type = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)
    kind = helper.np_dtype_to_tensor_dtype(numpy_type)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["h"]), helper.make_node("Identity", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, ["N", 3])],
        [helper.make_tensor_value_info("y", kind, ["N", 3])],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    values = np.array([[3, 7, 5], [0, 1, 1], [9, 9, 2], [4, 4, 6]]).astype(numpy_type)
    feeds = {"x": values}
    if dtype == "bf16":  # onnxruntime's Python API takes no bfloat16: cast in the graph
        model.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["h"], to=kind))
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
        feeds = {"x": values.astype(np.float32)}
    for counting in COUNTINGS:
        stats = taken(model, ["h", "y"], [Sample(6, "a", feeds)], counting, channels={"y": 1}, samples=2)
        wide = values.astype(np.float32)
        for entry in stats.tensors.values():
            check(entry, [wide])
            if entry.histogram is not None:
                rows = wide[Rows.start(2, 6) :: 2] if counting == "sampled" and opset > 9 else wide
                assert counted(entry.histogram) == brute_counts(rows)
        channels = stats.tensors["y"].channels
        assert channels is not None
        assert [channels.low.tolist(), channels.high.tolist(), channels.mean.tolist()] == [
            wide.min(0).tolist(), wide.max(0).tolist(), wide.mean(0, np.float64).tolist(),
        ]  # fmt: skip


def test_a_double_that_float32_does_not_hold() -> None:
    model = relu()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(UserError, match=r"'y'.* is infinite for a"):
        taken(model, ["y"], [Sample(0, "a", {"x": np.array([[1, 1e200]])})])


class TestChannels:
    @pytest.mark.parametrize("opset", [11, 13, 18])
    @pytest.mark.parametrize("axis", [-1, 0, 1, 2])
    def test_of_samples_of_several_sizes(self, opset: int, axis: int) -> None:
        shapes = [[2, 3, 4] for _ in range(4)]
        for i, shape in enumerate(shapes):
            for other in {0, 1, 2} - {axis % 3}:
                shape[other] += i * (other + 1)
        given = [Sample(i, str(i), samples(1, shape)[0].feeds) for i, shape in enumerate(shapes)]
        found = taken(relu(opset, 3), ["x", "z"], given, channels={"z": axis}).tensors
        assert found["x"].channels is None
        channels = found["z"].channels
        assert channels is not None
        values = np.concatenate(
            [-np.moveaxis(s.feeds["x"], axis, 0).reshape(shapes[0][axis], -1) for s in given], 1
        )
        assert channels.axis == axis % 3
        assert channels.count == values.shape[1]
        np.testing.assert_array_equal(channels.low, values.min(1), strict=True)
        np.testing.assert_array_equal(channels.high, values.max(1), strict=True)
        limit = 1e-6 * np.abs(values).mean(1)
        assert (np.abs(channels.mean - values.mean(1, np.float64)) <= limit).all()

    @pytest.mark.parametrize("opset", [11, 13, 18])
    def test_of_a_vector(self, opset: int) -> None:
        given = [Sample(i, "a", {"x": np.array([1, -2, 3], np.float32) * (i + 1)}) for i in range(3)]
        channels = taken(relu(opset, 1), ["x"], given, channels={"x": 0}).tensors["x"].channels
        assert channels is not None
        assert [channels.low.tolist(), channels.high.tolist(), channels.mean.tolist(), channels.count] == [
            [1, -6, 3], [3, -2, 9], [2, -4, 6], 3,
        ]  # fmt: skip

    def test_zeros_of_both_signs_in_any_order(self) -> None:
        zeros = [
            Sample(i, "a", {"x": np.full((1, 2), z, np.float32)}) for i, z in enumerate((0.0, -0.0, -0.0))
        ]
        request = Request(["x"], channels={"x": 1})
        parts = [collect(relu(), request, [zero]) for zero in zeros]
        assert len({content(merge(order)) for order in (parts, parts[::-1], parts[1:] + parts[:1])}) == 1
        entry = merge(parts).tensors["x"]
        assert not np.signbit([entry.lows, entry.highs]).any()

    def test_that_vary(self) -> None:
        given = [*samples(1, (1, 3)), *samples(1, (1, 4), first=1)]
        with pytest.raises(UserError, match="3 channels in one sample and 4 in another"):
            taken(relu(), ["y"], given, channels={"y": 1})

    def test_a_sum_that_overflows_is_that_channel_s(self) -> None:
        x = np.array([[3e38, 1], [3e38, 2]], np.float32)
        found = taken(relu(), ["x"], [Sample(0, "a", {"x": x})], channels={"x": 1}).tensors["x"].channels
        assert found is not None
        assert np.isnan(found.mean[0])
        assert (found.mean[1], found.high.tolist()) == (1.5, [float(np.float32(3e38)), 2])


class TestNotFinite:
    @pytest.mark.parametrize("counting", COUNTINGS)
    @pytest.mark.parametrize("place", [(0, 0, 0, 0), (0, 2, 3, 3), (0, 2, 7, 7)])
    @pytest.mark.parametrize(
        ("values", "what"),
        [
            ((np.nan,), "NaN"),
            ((np.inf,), "infinite"),
            ((-np.inf,), "infinite"),
            ((-np.inf, np.inf), "infinite"),
        ],
    )
    def test_is_found(self, place, values, what: str, counting: Counting) -> None:
        given = samples()
        for i, value in enumerate(values):
            given[3].feeds["x"][(*place[:3], (place[3] + i) % 8)] = value
        with pytest.raises(UserError, match=rf"tensor 'x'.* is {what} for calib/3\.npy"):
            taken(net(), ["y", "x"], given, counting)

    def test_the_first_overflow_is_blamed(self) -> None:
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] z) {
                [grow] y = Exp (x)
                z = Sub (y, y)
            }"""
        )
        wide = np.zeros((1, 4), np.float32)
        given = [Sample(0, "a", {"x": wide}), Sample(1, "b", {"x": wide + 100})]
        with pytest.raises(UserError) as caught:
            taken(model, ["z", "y"], given)
        assert "'y' (output of Exp node 'grow')" in str(caught.value)
        assert "float model itself" in caught.value.hint

    @pytest.mark.parametrize("counting", COUNTINGS)
    @pytest.mark.parametrize("value", [np.finfo(np.float32).min, np.finfo(np.float32).max, 2e38])
    def test_a_sum_that_overflows_is_no_fault(
        self, value: float, counting: Counting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Masks of attention are such; the session is built anew once, not for each sample."""
        given = samples(8)
        for sample in given[2:]:
            sample.feeds["x"][0, 0] = value
        loads = Loads(monkeypatch)
        stats = taken(net(), ["x", "w"], given, counting)
        assert loads.count == 2
        entry = stats.tensors["x"]
        assert entry.lows.tolist() == [s.feeds["x"].min() for s in given]
        assert entry.highs.tolist() == [s.feeds["x"].max() for s in given]
        assert (entry.mean, entry.variance, entry.total, entry.squares) == (None, None, None, None)
        assert stats.tensors["w"].mean is not None
        if entry.histogram is not None:
            assert counted(entry.histogram) == brute_counts(np.concatenate([s.feeds["x"] for s in given]))

    def test_squares_overflow_long_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = [Sample(0, "a", {"x": np.full((1, 3, 8, 8), 1e25, np.float32)})]
        loads = Loads(monkeypatch)
        entry = taken(net(), ["x"], given).tensors["x"]
        assert loads.count == 1
        assert entry.mean == pytest.approx(1e25, rel=1e-6)
        assert entry.variance is None

    def test_after_an_overflow_it_is_found_too(self) -> None:
        given = samples(3)
        given[0].feeds["x"][:] = 3e38
        given[1].feeds["x"][0, 1, 2, 3] = np.nan
        with pytest.raises(UserError, match=r"tensor 'x'.* is NaN for calib/1\.npy"):
            taken(net(), ["x"], given)


class TestSkip:
    """Bad samples leave no trace."""

    @pytest.mark.parametrize("room", [1 << 28, 2000], ids=["one pass", "groups"])
    @pytest.mark.parametrize("once", [False, True])
    @pytest.mark.parametrize("counting", COUNTINGS)
    def test_as_if_they_were_not_there(
        self, counting: Counting, once: bool, room: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collector, "_LEAVING", room)
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]> g (float[N, C] x) => (float[N, C] z)
            <float[12] one = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> {
                y = Mul (x, one)
                z = Log (y)
                q = Exp (z)
            }"""
        )
        given = samples(8, (20, 12))
        for sample in given:
            np.abs(sample.feeds["x"], out=sample.feeds["x"])
        given[2].feeds["x"][3, 3] = np.nan
        given[3] = Sample(3, "c", {"x": np.ones((20, 5), np.float32)})
        given[5].feeds["x"][0, 0] = 0  # its logarithm only is infinite
        given[7].feeds["x"][19, 11] = np.inf
        skipped: list[tuple[int, str]] = []
        watch = Watch(skip=lambda sample, error: skipped.append((sample.index, str(error))))
        names = ["y", "z", "q"]
        found = taken(model, names, iter(given) if once else given, counting, watch, samples=8)
        good = [given[i] for i in (0, 1, 4, 6)]
        assert content(found) == content(taken(model, names, good, counting, samples=8))
        assert [index for index, _ in skipped] == [2, 3, 5, 7]
        for (_, why), says in zip(
            skipped, ("'y'.* is NaN", "does not run on c", "'z'.* is infinite", "is infinite"), strict=True
        ):
            assert re.search(says, why)

    def test_all_of_them(self) -> None:
        bad = samples(3)
        for sample in bad:
            sample.feeds["x"][:] = np.nan
        with pytest.raises(UserError, match=r"no good sample: 3 are left out, the first one: .*calib/0\.npy"):
            taken(net(), ["x"], bad, watch=Watch(skip=lambda sample, error: None))


class TestSizes:
    def test_that_vary(self) -> None:
        rng = np.random.default_rng(3)
        shapes = [(1, 4), (7, 2), (3, 9), (0, 5), (1, 1)]
        given = [
            Sample(i, "a", {"x": rng.standard_normal(s).astype(np.float32)}) for i, s in enumerate(shapes)
        ]
        for counting in COUNTINGS:
            entry = taken(relu(), ["y"], given, counting, samples=5).tensors["y"]
            values = [np.maximum(s.feeds["x"], 0) for s in given]
            check(entry, values)
            if entry.histogram is not None:
                assert counted(entry.histogram) == brute_counts(np.concatenate([v.ravel() for v in values]))

    def test_tensors_without_values(self) -> None:
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[M] y) {
                p = NonZero (x)
                i = Squeeze (p)
                y = Gather (x, i)
            }"""
        )
        some, none = np.array([0, -2, 3], np.float32), np.zeros(3, np.float32)
        given = [Sample(0, "a", {"x": none}), Sample(1, "b", {"x": some}), Sample(2, "c", {"x": none})]
        request = Request(["y"], "exact", {"y": 0}, first=given[1])
        stats = collect(model, request, given)
        entry = stats.tensors["y"]
        check(entry, [none[:0], some[1:], none[:0]])
        assert (entry.min, entry.max, entry.amaxes.tolist(), entry.size) == (-2, 3, [3], 2)
        assert not stats.without_values(["y"])
        parts = [collect(model, request, [sample]) for sample in given]
        assert content(merge(parts)) == content(stats)
        assert parts[0].without_values(["y"]) == ("y",)


class TestGroups:
    """Tensors that do not fit into memory together are taken one after another."""

    @pytest.mark.parametrize("once", [False, True])
    @pytest.mark.parametrize("counting", ["sampled", "exact"])
    def test_the_same_bits(self, counting: Counting, once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        given = samples()
        given[3].feeds["x"][0, 0] = 1e37  # an overflow in some of the passes
        expected = content(taken(net(), TENSORS[2:6], given, counting))
        for room, passes in ((1, 4), (2500, 2)):  # c, s and r have 1,024 bytes, x 768
            monkeypatch.setattr(collector, "_LEAVING", room)
            runs: list[int] = []

            class Counted(collector._Pass):
                def run(self, them, runs=runs) -> Stats:
                    runs.append(sum(probe.rows is not None for probe in self._probes))
                    return super().run(them)

            with monkeypatch.context() as patch:
                patch.setattr(collector, "_Pass", Counted)
                found = taken(net(), TENSORS[2:6], iter(given) if once else given, counting)
            assert (len(runs), sum(runs)) == (passes, 4)  # no rows leave the graph twice
            assert content(found) == expected

    def test_rows_that_are_not_counted_take_no_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("onnxq.calib.probes.SAMPLED", 512)
        request = Request(["y", "z"], "sampled", samples=1, shapes={"y": (64, 32), "z": (64, 32)})
        given = samples(1, (64, 32))
        for room, passes in ((2 * 4 * 512, 1), (2 * 4 * 512 - 1, 2)):
            monkeypatch.setattr(collector, "_LEAVING", room)
            with monkeypatch.context() as patch:
                loads = Loads(patch)
                assert collect(relu(), request, given).tensors["y"].step == 4
            assert loads.count == passes

    @pytest.mark.parametrize("after", [1, 2, 4])
    def test_blocks_are_kept(self, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """All groups over a block of samples, so that an interruption loses one block."""
        given, kept, told = samples(), [], []

        def stop(done: int) -> None:
            told.append(done)
            if done > after:
                raise KeyboardInterrupt

        monkeypatch.setattr(collector, "_LEAVING", 1)
        monkeypatch.setattr(collector, "_BLOCK", 2)
        with pytest.raises(KeyboardInterrupt):
            taken(net(), ["x", "y", "r"], iter(given), "exact", Watch(stop, checkpoint=kept.append))
        assert told == sorted(told)
        done = after // 2 * 2
        assert [part.samples for part in kept] == [done] * bool(done)
        rest = taken(net(), ["x", "y", "r"], given[done:], "exact")
        assert content(merge([rest, *kept])) == content(taken(net(), ["x", "y", "r"], given, "exact"))

    def test_progress_is_over_all_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(collector, "_LEAVING", 1)
        monkeypatch.setattr(collector, "_BLOCK", 4)
        told: list[int] = []
        taken(net(), ["x", "y"], samples(), "exact", Watch(told.append))
        assert told == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]

    def test_a_block_of_bad_samples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(collector, "_BLOCK", 2)
        given = samples(7)
        for index in (0, 1, 4, 5):
            given[index].feeds["x"][0, 0, 0, 0] = np.nan
        good = [sample for sample in given if np.isfinite(sample.feeds["x"]).all()]
        expected = content(taken(net(), ["x", "y"], good, "exact"))
        monkeypatch.setattr(collector, "_LEAVING", 1)
        watch = Watch(skip=lambda sample, error: None)
        found = taken(net(), ["x", "y"], given, "exact", watch, first=good[0])
        assert content(found) == expected

    def test_a_fault_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(collector, "_LEAVING", 1)
        given = samples()
        given[2].feeds["x"][0, 0, 0, 1] = np.nan
        with pytest.raises(UserError, match=r"'x'.* is NaN for calib/2\.npy"):
            taken(net(), ["y", "x"], iter(given), "exact")


class TestWatch:
    def test_what_was_done_is_kept_when_it_ends_early(self) -> None:
        given, kept = samples(), []

        def stop(done: int) -> None:
            if done == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            taken(net(), TENSORS, given, "exact", Watch(stop, checkpoint=kept.append, seconds=1e9))
        (part,) = kept
        assert content(part) == content(taken(net(), TENSORS, given[:3], "exact"))
        rest = taken(net(), TENSORS, given[3:], "exact")
        assert content(merge([rest, part])) == content(taken(net(), TENSORS, given, "exact"))

    def test_a_bad_sample_keeps_those_before(self) -> None:
        given, kept = samples(), []
        given[2].feeds["x"][0, 0, 0, 1] = np.nan
        with pytest.raises(UserError):
            taken(net(), ["x"], given, "exact", Watch(checkpoint=kept.append))
        assert [part.indices.tolist() for part in kept] == [[0, 1]]

    def test_now_and_then(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept: list[Stats] = []
        monkeypatch.setattr(collector, "_SHARE", 0)
        taken(net(), ["x"], samples(), "exact", Watch(checkpoint=kept.append, seconds=0))
        assert [part.indices.tolist() for part in kept] == [list(range(n)) for n in range(1, 6)]
        assert content(kept[1]) == content(taken(net(), ["x"], samples()[:2], "exact"))

    def test_less_often_where_it_takes_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now, kept = [0.0], []
        monkeypatch.setattr(collector.time, "monotonic", lambda: now[0])

        def keep(part: Stats) -> None:
            kept.append(part.samples)
            now[0] += 3

        def pass_by(done: int) -> None:
            now[0] += 10

        taken(net(), ["x"], samples(8), "exact", Watch(pass_by, checkpoint=keep, seconds=20))
        assert kept == [2, 5, 8]

    def test_an_interruption_waits_until_a_sample_is_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given, kept = samples(), []
        count = HistogramCounter.add

        def interrupted(self: HistogramCounter, values: np.ndarray) -> None:
            if values[0, 0, 0, 0] == given[2].feeds["x"][0, 0, 0, 0]:
                signal.raise_signal(signal.SIGINT)
            count(self, values)

        monkeypatch.setattr(HistogramCounter, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            taken(net(), ["x", "r"], given, "exact", Watch(checkpoint=kept.append))
        monkeypatch.undo()
        assert [content(part) for part in kept] == [content(taken(net(), ["x", "r"], given[:3], "exact"))]

    @pytest.mark.parametrize("method", ["add", "histogram"])
    def test_a_sample_that_is_counted_in_part_is_not_kept(
        self, method: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept: list[Stats] = []
        monkeypatch.setattr(collector, "_SHARE", 0)
        plain = getattr(HistogramCounter, method)
        calls = [0]

        def fails(self: HistogramCounter, *arguments: np.ndarray) -> Any:
            calls[0] += 1
            if calls[0] == 6:  # the second tensor of the third sample
                raise MemoryError
            return plain(self, *arguments)

        monkeypatch.setattr(HistogramCounter, method, fails)
        with pytest.raises(MemoryError):
            taken(net(), ["x", "r"], samples(), "exact", Watch(checkpoint=kept.append, seconds=0))
        monkeypatch.undo()
        assert [part.samples for part in kept] == [1, 2]
        assert content(kept[-1]) == content(taken(net(), ["x", "r"], samples()[:2], "exact"))

    def test_nothing_done_nothing_kept(self) -> None:
        def broken() -> Iterator[Sample]:
            yield from samples(1, (1, 2, 8, 8))

        kept: list[Stats] = []
        with pytest.raises(UserError):
            taken(net(), ["x"], broken(), watch=Watch(checkpoint=kept.append))
        assert kept == []


def test_refusals() -> None:
    with pytest.raises(UserError, match="no tensor 'rr'") as caught:
        taken(net(), ["rr"], samples())
    assert "'r'" in caught.value.hint
    with pytest.raises(UserError, match="zero samples"):
        taken(net(), ["r"], [])
    for counting in COUNTINGS:
        with pytest.raises(UserError, match=r"does not run on calib/0\.npy"):
            taken(net(), ["r"], samples(shape=(1, 2, 8, 8)), counting)
    broken = net()
    broken.graph.node[0].op_type = "NoSuchOp"
    for counting in COUNTINGS:
        with pytest.raises(ort.RunError, match="NoSuchOp"):
            taken(broken, ["r"], samples(), counting)


def test_names_that_the_model_uses_already() -> None:
    model = net()
    for name in ("onnxq_probe_low0", "onnxq_shape_0"):
        for node in model.graph.node:
            node.input[:] = [name if value == "c" else value for value in node.input]
            node.output[:] = [name if value == "c" else value for value in node.output]
        found = taken(model, [name], samples(), "exact", channels={name: 1})
        expected = taken(net(), ["c"], samples(), "exact", channels={"c": 1})
        assert content(found) == content(Stats({name: expected.tensors["c"]}, expected.indices))
        model = net()


def test_external_data(tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    found = collect(model, Request(["c", "w"], "exact"), samples(), data_dir=tmp_path)
    assert content(found) == content(taken(net(), ["c", "w"], samples(), "exact"))


def test_threads_do_not_change_a_bit() -> None:
    given = samples(2, (1, 3, 200, 200))
    request = Request(["x", "y"], "exact", {"y": 1})
    found = [collect(relu(rank=4), request, given, threads=n) for n in (1, 2, 3)]
    assert len({content(stats) for stats in found}) == 1


# VmHWM, not ru_maxrss: the latter counts the parent that forked the process.
_PEAK = """
import sys
import numpy as np
from onnx import helper, numpy_helper
from onnxq.calib.collect import Request, collect
from onnxq.data.samples import Sample
from onnxq.run import ort
ort._MANY = int(sys.argv[2])
w = (np.random.default_rng(0).standard_normal((16, 16, 3, 3)) * 0.1).astype(np.float32)
nodes, tensors = [], ["x"]
for i in range(24):
    nodes.append(helper.make_node("Conv", [tensors[-1], "w"], [f"c{i}"], pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
    tensors.append(f"r{i}")
graph = helper.make_graph(
    nodes, "g",
    [helper.make_tensor_value_info("x", 1, [1, 16, 256, 256])],
    [helper.make_tensor_value_info(tensors[-1], 1, [1, 16, 256, 256])],
    [numpy_helper.from_array(w, "w")],
)
model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
x = Sample(0, "a", {"x": np.ones((1, 16, 256, 256), np.float32)})
collect(model, Request(tensors[: int(sys.argv[1])]), [x, x], threads=1)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's peak memory")
@pytest.mark.parametrize("many", ["100", "1"])
def test_tensors_are_freed_once_reduced(many: str) -> None:
    # 25 tensors of 4 MiB: 96 MiB more where they are all kept until the last node has run.
    peaks = [
        int(
            subprocess.run([sys.executable, "-c", _PEAK, count, many], capture_output=True, check=True).stdout
        )
        for count in ("1", "25")
    ]
    assert peaks[1] - peaks[0] < 24 * 1024  # KiB


class TestManyTensors:
    """Of many tensors the model is optimized without the probes, which changes no bit."""

    def check(
        self,
        model: onnx.ModelProto,
        names: Sequence[str],
        given: Sequence[Sample],
        data_dir: Path | None = None,
    ) -> None:
        """The statistics are those of a model that is loaded in one go; and it was not."""
        for counting in COUNTINGS:
            request = Request(names, counting, samples=100)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ort, "_MANY", 1 << 30)
                expected = collect(model, request, given, data_dir=data_dir)
                patch.setattr(ort, "_MANY", 1)
                at_once = Loads(patch).with_probes
                found = collect(model, request, given, data_dir=data_dir)
            assert content(found) == content(expected)
            assert at_once == []

    @pytest.mark.parametrize("inline", [0, 1 << 28])
    def test_inputs_constants_and_outputs(self, inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ort, "_INLINE", inline)
        monkeypatch.setattr("onnxq.calib.probes.SAMPLED", 512)
        self.check(net(), TENSORS, samples())

    def test_values_that_overflow(self) -> None:
        given = samples()
        given[3].feeds["x"][0, 0] = 1e37
        self.check(net(), TENSORS[2:6], given)

    def test_external_data(self, tmp_path: Path) -> None:
        onnx.save(net(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
        self.check(onnx.load(tmp_path / "m.onnx", load_external_data=False), TENSORS, samples(), tmp_path)

    @pytest.mark.parametrize("ir_version", [3, 8])
    def test_constants_that_are_inputs_too(self, ir_version: int) -> None:
        model = net()
        model.ir_version = ir_version
        model.opset_import[0].version = 11
        for name in ("one", "another"):  # equal ones are shared: no node reads one of them any more
            model.graph.initializer.append(numpy_helper.from_array(np.array([4, 1, 1]), name))
            model.graph.node.insert(0, helper.make_node("ConstantOfShape", [name], [f"filled {name}"]))
        model.graph.node.append(helper.make_node("Sum", ["y", "filled one", "filled another"], ["z"]))
        model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
        for tensor in model.graph.initializer:
            model.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
        self.check(model, ["c", "r", "y", "z"], samples())

    @pytest.mark.parametrize("kind", ["float16", "double"])
    def test_other_floats(self, kind: str) -> None:
        model = parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17]> g ({kind}[N, 8] x) => ({kind}[N, 8] y) {{
                h = Sigmoid (x)
                s = Softmax (h)
                m = MatMul (s, w)
                r = Relu (m)
                y = Add (r, x)
            }}"""
        )
        w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.dtype(kind))
        model.graph.initializer.append(numpy_helper.from_array(w, "w"))
        given = samples(3, (4, 8))
        given = [Sample(s.index, s.where, {"x": s.feeds["x"].astype(w.dtype)}) for s in given]
        self.check(model, ["x", "h", "s", "m", "r", "y"], given)

    def test_functions_and_bodies(self) -> None:
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
            g (float[N, 8] x, bool c) => (float[N, 8] y) <float two = {2.0}> {
                h = own.twice (x)
                i = If (c) <
                    then_branch = t () => (float[N, 8] a) { a = Relu (h) },
                    else_branch = e () => (float[N, 8] b) { b = Mul (h, two) }>
                y = own.twice (i)
            }
            <domain: "own", opset_import: ["" : 17]>
            twice (a) => (b) { b = Add (a, a) }"""
        )
        given = [
            Sample(s.index, s.where, {**s.feeds, "c": np.array(s.index % 2 == 0)}) for s in samples(4, (4, 8))
        ]
        self.check(model, ["x", "h", "i", "y"], given)

    def test_nodes_of_one_name(self) -> None:
        model = net()
        for node in model.graph.node:
            node.name = "same"
        self.check(model, TENSORS, samples())

    def test_a_model_that_is_not_saved_is_loaded_in_one_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = content(taken(net(), TENSORS, samples(), "exact"))
        monkeypatch.setattr(ort, "_MANY", 1)

        def full(*arguments: Any) -> Any:
            raise OSError("no space left on device")

        monkeypatch.setattr(ort, "optimized", full)
        assert content(taken(net(), TENSORS, samples(), "exact")) == expected
        broken = net()
        broken.graph.node[0].op_type = "NoSuchOp"
        monkeypatch.undo()
        monkeypatch.setattr(ort, "_MANY", 1)
        with pytest.raises(ort.RunError, match="NoSuchOp"):
            taken(broken, ["r"], samples())

    @pytest.mark.parametrize(("many", "seconds", "in_steps"), [(4, 0, True), (5, 0, False), (4, 1e-3, False)])
    def test_where_it_pays(
        self, many: int, seconds: float, in_steps: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where there are enough of them, and where the weights are not too large."""
        monkeypatch.setattr(ort, "_MANY", many)
        monkeypatch.setattr(ort, "_BYTE_SECONDS", seconds)
        loads = Loads(monkeypatch)
        taken(net(), ["c", "r", "s", "y"], samples())
        assert (loads.with_probes == []) == in_steps
