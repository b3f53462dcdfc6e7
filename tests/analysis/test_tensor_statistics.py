"""Statistics of activations against plain numpy on dumped tensors, and planted faults."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from said import is_said

import onnxq
from onnxq.analysis import tensor_pass
from onnxq.analysis.tensors import CodeGrid, TensorRow, TensorTable, TensorTally, Written
from onnxq.calib.stats_file import merge_files, read
from onnxq.emit.table_csv import table_csv
from onnxq.run import ort

CONVS = """<ir_version: 8, opset_import: ["" : 17]>
    net (TYPE[N, 4, 8, 8] x) => (TYPE[N, 8] y) {
        [c] a = Conv <pads = [1, 1, 1, 1]> (x, w) [r] b = Relu (a) [g] g = GlobalAveragePool (b)
        [f] h = Flatten (g) [l] y = MatMul (h, v) }"""
TOKENS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, T, 6] x) => (float[N, T, 6] y) {
        [p] a = MatMul (x, q) [t] b = Tanh (a) [s] y = Softmax (b) }"""
SPLIT = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 4, 5] x) => (float[N, 4, 5] y) {
        [sigmoid] a = Sigmoid (x) [double] d = Add (a, x) [negative] e = Neg (d) [y] y = Sub (e, x) }"""
RELATIVE = 1e-12  # of float64 sums in another order


def net(text: str, dtype: type = np.float32) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text.replace("TYPE", "float" if dtype == np.float32 else "float16"))
    random = np.random.default_rng(0)
    for name, shape in (("w", (8, 4, 3, 3)), ("v", (8, 8)), ("q", (6, 6))):
        if any(name in node.input for node in model.graph.node):
            values = random.standard_normal(shape).astype(dtype)
            model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def samples(*shape: int, count: int = 5, dtype: type = np.float32) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((1, *shape)).astype(dtype)} for _ in range(count)]


def dumped(model: onnx.ModelProto, data: list[dict[str, np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Every tensor of every sample, node by node."""
    names = [name for node in model.graph.node for name in node.output]
    outputs = {info.name for info in model.graph.output}
    more = onnx.GraphProto(output=[onnx.ValueInfoProto(name=n) for n in names if n not in outputs])
    session = ort.load(model, optimize=False, probes=more)
    found: dict[str, list[np.ndarray]] = {"x": [feeds["x"] for feeds in data], **{name: [] for name in names}}
    for feeds in data:
        for name, values in zip(names, session.run(feeds, names), strict=True):
            found[name].append(values)
    return found


def whole_rows(table: TensorTable) -> dict[str, TensorRow]:
    return {row.tensor: row for row in table.rows if row.channel is None}


def check(row: TensorRow, parts: list[np.ndarray]) -> None:
    """The figures of a row whose values are all finite."""
    values = np.concatenate([part.reshape(-1) for part in parts]).astype(np.float32)
    wide = values.astype(np.float64)
    assert (row.values, row.nan, row.inf) == (values.size, 0, 0)
    assert (row.min, row.max) == (values.min(), values.max())
    assert row.zeros == np.count_nonzero(values == 0) / values.size
    assert row.mean == pytest.approx(wide.mean(), rel=RELATIVE, abs=RELATIVE * np.abs(wide).mean())
    assert row.variance == pytest.approx(wide.var(), rel=1e-9, abs=RELATIVE * np.mean(wide**2))


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [(CONVS, (4, 8, 8), np.float32), (CONVS, (4, 8, 8), np.float16), (TOKENS, (3, 6), np.float32)],
    ids=["convs", "convs-float16", "tokens"],
)
def test_figures_are_those_of_numpy(text: str, shape: tuple[int, ...], dtype: type) -> None:
    model, data = net(text, dtype), samples(*shape, dtype=dtype)
    table, values = onnxq.statistics(model, data), dumped(model, data)
    rows = whole_rows(table)
    assert (table.kind, table.schema, table.source, table.samples) == ("statistics", 1, "data", 5)
    assert set(rows) == set(values)
    for name, parts in values.items():
        row = rows[name]
        check(row, parts)
        assert row.axis is not None
        assert parts[0].shape[row.axis] == {"x": shape[0]}.get(name, 8) if text == CONVS else 6
        channels = [one for one in table.rows if one.tensor == name and one.channel is not None]
        assert [one.channel for one in channels] == list(range(parts[0].shape[row.axis]))
        for one in channels:
            check(one, [part.take(one.channel, axis=row.axis) for part in parts])
        magnitudes = np.sort(np.abs(np.concatenate([p.reshape(-1) for p in parts])).astype(np.float64))
        exact = magnitudes[math.ceil(len(magnitudes) * 0.9999) - 1]
        assert row.p9999 is not None
        assert exact <= row.p9999 <= exact * (1 + 2**-10)
        assert row.histogram is not None
        counts, _ = np.histogram(magnitudes, row.histogram.edges)  # its last edge is in: nothing is on it
        assert row.histogram.counts == tuple(counts)
        below = np.count_nonzero((magnitudes < row.histogram.edges[0]) & (magnitudes > 0))
        assert (row.histogram.zeros, row.histogram.below) == (np.count_nonzero(magnitudes == 0), below)


def spread_of(values: np.ndarray) -> np.ndarray:
    """How many magnitudes lie in each octave, by the exponent."""
    exponents = np.frexp(np.abs(values[np.isfinite(values) & (values != 0)]).astype(np.float64))[1]
    return np.bincount(exponents + 160, minlength=320)


@pytest.mark.parametrize("side", [4, 48], ids=["together", "one-by-one"])  # as channels are counted
def test_histograms_of_channels_are_those_of_numpy(side: int) -> None:
    """Of all where they are asked for, else of the worst two; below are those under the tensor's octaves."""
    parts = [feeds["x"] for feeds in samples(4, side, side)]
    for power, part in zip((-3, 20, 0, 5, -30), parts, strict=True):  # the octaves move up
        part *= np.float32(2.0**power)
        part[0, 1, 0] = 0.0
    parts[0][0, 2, 0, 0], parts[1][0, 2, 0, 1] = np.nan, -np.inf
    written = Written("x", "float32", "", "input", 1)

    def rows_of(some: list[np.ndarray], which: Literal["worst", "all"]) -> list[TensorRow]:
        tally = TensorTally(1)
        for part in some:
            tally.add(part)
        return tally.rows(written, histograms=which)

    whole, *channels = rows_of(parts, "all")
    assert whole.histogram is not None
    values = np.concatenate(parts)
    lowest = math.log2(whole.histogram.edges[-1]) - 24
    assert math.log2(whole.histogram.edges[0]) == lowest  # there are values below
    for channel, row in enumerate(channels):
        own, found = values[:, channel], row.histogram
        assert found is not None
        wanted, first = spread_of(own), round(math.log2(found.edges[0]))
        assert first >= lowest
        start = first + 1 + 160
        assert list(found.counts) == wanted[start : start + len(found.counts)].tolist()
        assert found.below == wanted[:start].sum() > 0
        assert found.zeros == np.count_nonzero(own == 0)
        assert wanted[start + len(found.counts) :].sum() == 0
    assert [row.histogram for row in rows_of(parts[::-1], "all")] == [
        row.histogram for row in (whole, *channels)
    ]
    some = rows_of(parts, "worst")[1:]
    tops = np.abs(np.where(np.isfinite(values), values, 0)).max((0, 2, 3))
    rest = max((place for place in range(4) if place != 2), key=lambda place: tops[place])
    assert [row.channel for row in some if row.histogram is not None] == sorted([2, rest])
    assert all(row.histogram == channels[row.channel or 0].histogram for row in some if row.histogram)


def test_rows_are_in_the_order_of_the_model(tmp_path: Path) -> None:
    """So that their least and greatest values are the curve of ranges along it."""
    model, data = net(CONVS), samples(4, 8, 8)
    table = onnxq.statistics(model, data)
    assert [row.tensor for row in table.rows if row.channel is None] == ["x", "a", "b", "g", "h", "y"]
    values = dumped(model, data)
    lines = list(csv.DictReader(io.StringIO(table_csv(TensorRow, table.rows))))
    curve = [
        (line["tensor"], float(line["min"]), float(line["max"])) for line in lines if not line["channel"]
    ]
    assert curve == [
        (name, min(part.min() for part in values[name]), max(part.max() for part in values[name]))
        for name in ("x", "a", "b", "g", "h", "y")
    ]


def test_codes_and_clipped_are_those_of_quantizelinear(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 4, 8] x) => (int8[N, 4, 8] c, uint8[N, 4, 8] d) <float s = {0.0123}, int8 z = {0},
            float t = {0.02}, uint8 u = {120}> {
            [q] c = QuantizeLinear (x, s, z) [m] y = Identity (x) [p] d = QuantizeLinear (y, t, u) }"""
    model, data = onnx.parser.parse_model(text), samples(4, 8, count=40)
    found = whole_rows(onnxq.statistics(model, data, integers=True))
    values = dumped(model, data)
    for name, codes, scale, zero in (("x", "c", 0.0123, 0), ("y", "d", 0.02, 120)):
        row, parts = found[name], np.concatenate(values[codes]).astype(np.int64)
        assert row.codes is not None
        assert row.first_code is not None
        expected = np.bincount(parts.reshape(-1) - row.first_code, minlength=256)
        assert row.codes == tuple(expected)
        raw = np.rint(np.concatenate(values["x"]) / np.float32(scale)) + zero
        limits = (-128, 127) if codes == "c" else (0, 255)
        assert row.clipped == np.count_nonzero((raw < limits[0]) | (raw > limits[1])) / raw.size > 0
        assert row.high == (limits[1] - zero) * np.float32(scale)


def test_a_tally_has_the_same_bits_in_any_order() -> None:
    parts = [values["x"] * 10**index for index, values in enumerate(samples(4, 8, count=7))]
    parts[3][0, 1, 2], parts[5][0, 2, :3] = np.nan, np.inf
    written, grid = Written("x", "float32", "", "input", 1), CodeGrid(0.5, 0, -128, 127)

    def tally(values: list[np.ndarray]) -> TensorTally:
        found = TensorTally(1, grid, codes=True)
        for one in values:
            found.add(one)
        return found

    whole = tally(parts).rows(written)
    for cut in (1, 4, 6):
        assert tally([*parts[cut:], *parts[:cut]]).rows(written) == whole
    assert tally(parts[::-1]).rows(written) == whole


def test_planted_channels_are_found() -> None:
    model = net(CONVS)
    weight = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[3], weight[5] = 0, weight[5] * 60
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    rows = onnxq.statistics(model, samples(4, 8, 8)).rows
    assert {row.channel for row in rows if row.tensor == "a" and row.state == "dead"} == {3}
    whole = next(row for row in rows if row.tensor == "a" and row.channel is None)
    assert (whole.dead, whole.constant, whole.top_channel) == (1, 0, 5)
    tops = {row.channel: max(abs(row.min or 0), abs(row.max or 0)) for row in rows if row.tensor == "a"}
    others = max(top for channel, top in tops.items() if channel not in (None, 5))
    assert whole.without_channel == others / tops[5] < 0.1


def test_constant_and_saturated_channels_are_found() -> None:
    bias = np.zeros((1, 4, 1), np.float32)
    bias[0, 1], bias[0, 2] = 1e9, 40
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 4, 5] x) => (float[N, 4, 5] y) <float low = {-6}, float high = {6}> {
            [m] m = Mul (x, k) [a] a = Add (m, b) [c] y = Clip (a, low, high) }"""
    model = onnx.parser.parse_model(text)
    scale = np.array([1, 0, 40, 1], np.float32).reshape(1, 4, 1)
    for name, values in (("b", bias), ("k", scale)):
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    data = samples(4, 5, count=20)
    for one in data:  # so that the axis of channels is known by its place
        one["x"] = np.ascontiguousarray(one["x"])
    tally = TensorTally(1)
    for values in dumped(model, data)["y"]:
        tally.add(values)
    rows = tally.rows(Written("y", "float32", "c", "Clip", 1))
    assert [row.state for row in rows] == ["", "", "constant", "saturated", ""]
    assert (rows[0].constant, rows[0].saturated, rows[0].dead) == (1, 1, 0)


def test_the_first_operator_that_makes_nan_is_named() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 4, 5] x) => (float[N, 4, 5] y) {
            [soft] a = Relu (x) [root] b = Sqrt (x) [after] c = Add (a, b) [log] d = Log (a)
            [y] y = Sub (c, d) }"""
    data = samples(4, 5, count=3)
    data[0]["x"] = np.abs(data[0]["x"])
    model = onnx.parser.parse_model(text)
    table = onnxq.statistics(model, data)
    assert [(one.node, one.what, one.sample, one.reads) for one in table.not_finite] == [
        ("root", "NaN", 1, "finite"),
        ("log", "infinite", 1, "finite"),
    ]
    assert table.not_finite[0].values == np.count_nonzero(data[1]["x"] < 0)
    rows, values = whole_rows(table), dumped(model, data)
    for name, parts in values.items():
        joined = np.concatenate(parts)
        assert (rows[name].nan, rows[name].inf) == (np.isnan(joined).sum(), np.isinf(joined).sum())
        finite = joined[np.isfinite(joined)]
        assert (rows[name].min, rows[name].max) == (finite.min(), finite.max())
        assert rows[name].mean == pytest.approx(finite.mean(dtype=np.float64), rel=RELATIVE)


def test_a_constant_that_is_not_finite_is_the_cause() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 4, 5] x) => (float[N, 4, 5] y) { [mask] y = Add (x, m) }"""
    model = onnx.parser.parse_model(text)
    mask = np.array([0, -np.inf, 0, 0, 0], np.float32)
    model.graph.initializer.append(numpy_helper.from_array(mask, "m"))
    (made,) = onnxq.statistics(model, samples(4, 5)).not_finite
    assert (made.node, made.what, made.reads) == ("mask", "infinite", "a constant that is not finite")


def test_channels_that_vary_are_no_longer_told_apart() -> None:
    model = onnx.parser.parse_model(SPLIT.replace("4, 5", "4, C"))
    data = [{"x": np.ones((1, 4, size), np.float32)} for size in (3, 5, 3)]
    table = onnxq.statistics(model, data)
    assert {row.channel for row in table.rows} == {None}
    assert [row.values for row in table.rows] == [44] * len(table.rows)
    assert any("their number differs" in lack for lack in table.lacks)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its data, and statistics of all samples and of two shards."""
    folder = tmp_path_factory.mktemp("statistics")
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 32, 32] x) => (float[N, 32, 32] y) { [p] a = MatMul (x, w) [r] b = Relu (a)
            [q] y = MatMul (b, u) }"""
    )
    random = np.random.default_rng(2)
    for name in ("w", "u"):
        values = random.standard_normal((32, 32)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    onnx.save(model, folder / "net.onnx")
    data = random.standard_normal((9, 32, 32)).astype(np.float32)
    np.save(folder / "all.npy", data)
    for shard in ((1, 1), (1, 2), (2, 2)):
        onnxq.calibrate(
            folder / "net.onnx", folder / "all.npy", folder / f"{shard[0]}-{shard[1]}.stats.npz",
            shard=shard, samples=6, exact=True,
        )  # fmt: skip
    np.save(folder / "data.npy", data[read(folder / "1-1.stats.npz").stats.indices])
    return folder


def test_a_statistics_file_gives_what_it_holds(calibrated: Path) -> None:
    model = calibrated / "net.onnx"
    measured = whole_rows(onnxq.statistics(model, calibrated / "data.npy"))
    table = onnxq.statistics(model, stats=calibrated / "1-1.stats.npz")
    assert (table.source, table.not_finite) == ("file", ())
    assert is_said(table.lacks, "statistics-lack.channels")
    held = whole_rows(table)
    assert {"x", "b"} <= set(held)
    for name in ("x", "b"):
        one, other = held[name], measured[name]
        assert (one.min, one.max, one.values, one.counted) == (
            other.min, other.max, other.values, other.counted,
        )  # fmt: skip
        assert (one.zeros, one.p9999, one.histogram) == (other.zeros, other.p9999, other.histogram)
        assert one.mean == pytest.approx(other.mean, rel=1e-5, abs=1e-6)
        assert one.variance == pytest.approx(other.variance, rel=1e-5)
        assert (one.nan, one.top_channel, one.at_ends, one.codes) == (None, None, None, None)


def test_statistics_of_merged_shards_are_those_of_the_whole(calibrated: Path) -> None:
    parts = [read(calibrated / name) for name in ("2-2.stats.npz", "1-2.stats.npz")]
    merged = calibrated / "merged.stats.npz"
    onnxq.merge_stats([calibrated / "2-2.stats.npz", calibrated / "1-2.stats.npz"], merged, force=True)
    assert merge_files(parts).stats.samples == 6 > parts[0].stats.samples > 0
    whole, other = (
        onnxq.statistics(calibrated / "net.onnx", stats=path)
        for path in (calibrated / "1-1.stats.npz", merged)
    )
    assert dataclasses.asdict(whole) == dataclasses.asdict(other)


def test_scales_of_a_quantized_model_and_of_its_report(calibrated: Path) -> None:
    quantized = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 32, 32] x) => (float[N, 32, 32] y) <float s = {0.015}, int8 z = {0}> {
            [q] c = QuantizeLinear (x, s, z) [d] e = DequantizeLinear (c, s, z) [r] y = Relu (e) }"""
    )
    path = calibrated / "other.onnx"
    onnx.save(quantized, path)
    report = path.with_name("other.report.json")
    edits = '"repair": {"edits": [{"kind": "lattice", "tensor": "y", "step": 1}]}'
    report.write_text('{"calibration": {"scales": {"b": [0.25]}}}')
    with pytest.raises(
        onnxq.UserError, match=r"other\.report\.json' is no report.*: \.calibration\.scales\.b: "
    ):
        onnxq.statistics(calibrated / "net.onnx", against=path, stats=calibrated / "1-1.stats.npz")
    report.write_text('{"calibration": {"scales": {"b": 0.25, "x": 9, "a": null, "y": 0.5}}, ' + edits + "}")
    measured, held = (
        whole_rows(onnxq.statistics(calibrated / "net.onnx", against=path, **source))
        for source in ({"data": calibrated / "data.npy"}, {"stats": calibrated / "1-1.stats.npz"})
    )
    values = np.abs(np.load(calibrated / "data.npy"))
    scale = np.float32(0.015)
    assert measured["x"].scale == held["x"].scale == scale
    assert measured["b"].scale == 0.25
    assert measured["a"].scale is None
    assert measured["y"].scale is None, "its values are moved before they are quantized"
    low, high = (np.count_nonzero(values > 127.5 * float(scale) * (1 + slack)) for slack in (2**-10, 0))
    assert held["x"].clipped is not None
    assert low <= held["x"].clipped * values.size <= high
    assert low > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "neither data"),
        ({"data": [], "stats": "s"}, "both are given"),
        ({"stats": "s.npz", "integers": True}, "holds none"),
        ({"data": [], "samples": 0}, "at least 1"),
        ({"data": [], "ops": ["Conb"]}, "Conb"),
        ({"data": [], "match": ["no*"]}, "no row fits"),
        ({"stats": "absent.npz"}, "cannot read"),
    ],
)
def test_what_cannot_be_is_refused(options: dict, words: str) -> None:
    with pytest.raises(onnxq.UserError, match=words):
        onnxq.statistics(net(TOKENS), **options)


def test_filters_choose_rows() -> None:
    model, data = net(CONVS), samples(4, 8, 8, count=1)
    table = onnxq.statistics(model, data, ops=["Conv", "Relu"], match=["b", "c*"], channels=False)
    assert [row.tensor for row in table.rows] == ["a", "b"]


def test_bfloat16_and_double() -> None:
    import ml_dtypes

    text = """<ir_version: 9, opset_import: ["" : 19]>
        net (TYPE[N, 4, 8] x) => (TYPE[N, 4, 8] y) { [a] a = Exp (x) [y] y = Add (a, a) }"""
    half, wide = (onnx.parser.parse_model(text.replace("TYPE", name)) for name in ("bfloat16", "double"))
    values = samples(4, 8, count=1)[0]["x"].astype(ml_dtypes.bfloat16)
    found = whole_rows(onnxq.statistics(half, [{"x": values}]))
    expected = np.exp(values.astype(np.float32)).astype(ml_dtypes.bfloat16).astype(np.float32)
    check(found["a"], [expected])
    check(found["y"], [2 * expected])
    found = whole_rows(onnxq.statistics(wide, [{"x": np.full((1, 4, 8), 100.0)}]))
    assert (found["a"].max, found["a"].inf) == (float(np.finfo(np.float32).max), 0)


def test_groups_of_tensors_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = net(CONVS), samples(4, 8, 8)
    whole = onnxq.statistics(model, data)
    monkeypatch.setattr(tensor_pass, "_LEAVING", 3000)  # bytes: less than two of the tensors take
    assert dataclasses.asdict(onnxq.statistics(model, data)) == dataclasses.asdict(whole)


def test_samples_pass_by_one_at_a_time() -> None:
    """No sample is kept, and a tally does not grow with their number."""
    kept: list[weakref.ref[np.ndarray]] = []
    most = 0

    def given() -> Iterator[dict[str, np.ndarray]]:
        nonlocal most
        for values in samples(3, 6, count=40):
            array = values.pop("x") + 0
            kept.append(weakref.ref(array))
            most = max(most, sum(one() is not None for one in kept))
            yield {"x": array}

    assert onnxq.statistics(net(TOKENS), given()).samples == 40
    assert most <= 4


def test_bad_samples_are_left_out_and_listed() -> None:
    model, data = net(CONVS), samples(4, 8, 8, count=4)
    data[2]["x"][0, 0, 0, 0] = np.nan
    with pytest.raises(onnxq.UserError, match="has nan"):
        onnxq.statistics(model, data)
    table = onnxq.statistics(model, data, feeding={"skip_bad": True})
    assert table.samples == 3
    assert len(table.skipped) == 1
