"""Weights of layers against plain numpy, and planted faults."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import onnxq
from onnxq.analysis.figures import divergence, histogram_of
from onnxq.analysis.octaves import octaves
from onnxq.analysis.weights import WeightRow, WeightTable
from onnxq.base.errors import UserError
from onnxq.cli.pages.statistics import weights_page

TEXT = """<ir_version: 9, opset_import: ["" : 19]>
    net (float[N, 4, 8, 8] x) => (float[N, 6] y) {
        [conv] a = Conv (x, w) [g] g = GlobalAveragePool (a) [f] h = Flatten (g)
        [gemm] y = Gemm <transB = 1> (h, v) }"""
RELATIVE = 1e-12


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    found = {"w": random.standard_normal((8, 4, 3, 3)), "v": random.standard_normal((6, 8))}
    return {name: values.astype(np.float32) for name, values in found.items()}


def net(held: dict[str, np.ndarray]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in held.items())
    return model


def quantized(codes: dict[str, tuple[np.ndarray, np.ndarray]], **more: int) -> onnx.ModelProto:
    """The net with codes and scales; `v` is held transposed."""
    model = onnx.parser.parse_model(TEXT)
    nodes = []
    for name, (values, scales) in codes.items():
        axis = 0
        if name == "v":
            values, axis = values.T, 1
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), f"{name}_q"))
        model.graph.initializer.append(numpy_helper.from_array(scales, f"{name}_s"))
        out = f"{name}_d" if name == "v" else name
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s"], [out], axis=axis, **more)
        )
        if name == "v":
            nodes.append(helper.make_node("Transpose", ["v_d"], ["v"], perm=[1, 0]))
    nodes.extend(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def by_place(table: WeightTable) -> dict[tuple[str, int | None], WeightRow]:
    return {(row.layer, row.channel): row for row in table.rows}


def check(row: WeightRow, one: np.ndarray, other: np.ndarray, steps: np.ndarray) -> None:
    a, b = one.astype(np.float64), other.astype(np.float64)
    assert (row.values, row.min, row.max) == (one.size, one.min(), one.max())
    assert row.mean == pytest.approx(a.mean(), rel=RELATIVE, abs=1e-15)
    assert row.max_error == np.abs(a - b).max()
    assert row.max_steps == pytest.approx((np.abs(a - b) / steps).max(), rel=RELATIVE)
    assert row.cosine == pytest.approx((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()), rel=RELATIVE)
    level = 10 * math.log10((a * a).sum() / ((a - b) ** 2).sum())
    assert row.sqnr_db == pytest.approx(level, rel=1e-9)
    assert row.mse == pytest.approx(((a - b) ** 2).mean(), rel=RELATIVE)
    assert row.l1 == pytest.approx(np.abs(a - b).mean(), rel=RELATIVE)


def grid(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = np.abs(values.reshape(len(values), -1)).max(1)
    scales = (flat / np.float32(127)).astype(np.float32)
    spread = scales.reshape(-1, *[1] * (values.ndim - 1))
    return np.rint(values / spread).astype(np.int8), scales


@pytest.mark.parametrize("how", ["grid", "file"])
def test_figures_are_those_of_numpy(how: str) -> None:
    held = weights()
    codes = {name: grid(values) for name, values in held.items()}
    if how == "file":  # another rounding than onnxq's own
        codes = {
            n: (np.clip(c.astype(int) + (c % 2), -127, 127).astype(np.int8), s) for n, (c, s) in codes.items()
        }
    table = onnxq.weights(net(held), quantized(codes) if how == "file" else None)
    assert (table.kind, table.schema, table.compared, table.left) == ("weights", 2, how, ())
    rows = by_place(table)
    for layer, name in (("conv", "w"), ("gemm", "v")):
        one, (code, scales) = held[name], codes[name]
        steps = np.broadcast_to(scales.reshape(-1, *[1] * (one.ndim - 1)), one.shape)
        other = code * steps
        whole = rows[layer, None]
        check(whole, one, other, steps)
        assert whole.codes == len(np.unique(code))
        assert whole.kl == divergence(histogram_of(one), histogram_of(other))
        assert whole.metric is None
        assert whole.histogram_after == octaves(other)
        assert whole.histogram is not None
        assert sum(whole.histogram.counts) + whole.histogram.below + whole.histogram.zeros == one.size
        tops = np.abs(one.reshape(len(one), -1)).max(1).astype(np.float64)
        for channel in range(len(one)):
            row = rows[layer, channel]
            assert (row.gain, row.kl, row.histogram_after) == (None, None, None)
            check(row, one[channel], other[channel], steps[channel])
            assert row.scale == scales[channel]
            assert row.over_median == tops[channel] / np.median(np.delete(tops, channel))


def test_the_users_own_figure_and_the_histograms_of_both(tmp_path: Path) -> None:
    held = weights()
    other = quantized({name: grid(values) for name, values in held.items()})
    (tmp_path / "own.py").write_text("def worst(a, b):\n    return abs(a - b).max()\n")
    for metric in (f"{tmp_path / 'own.py'}:worst", lambda a, b: float(np.abs(a - b).max())):
        table = onnxq.weights(net(held), other, metric=metric)
        rows = by_place(table)
        assert rows["conv", None].metric == rows["conv", None].max_error
        assert rows["conv", 0].metric is None
    text = [line.text for line in weights_page(table, full=False).lines]
    assert any("metric" in line for line in text)
    spread = [line for line in text if "|" in line and "|w" not in line]
    assert len(spread) == 2 * 2
    with pytest.raises(UserError, match="not a number"):
        onnxq.weights(net(held), other, metric=lambda a, b: "far")


def test_an_int8_model_alone_shows_its_codes() -> None:
    held = weights()
    codes = {name: grid(values) for name, values in held.items()}
    table = onnxq.weights(quantized(codes))
    assert table.compared == ""
    row = by_place(table)["gemm", 2]
    values = codes["v"][0][2] * codes["v"][1][2]
    assert (row.dtype, row.min, row.max, row.scale) == ("int8", values.min(), values.max(), codes["v"][1][2])
    assert (row.cosine, row.sqnr_db, row.max_steps) == (None, None, None)
    assert row.codes == len(np.unique(codes["v"][0][2]))


def test_blocks_of_int4() -> None:
    """A scale for each 2 weights along the rows of a channel, in opset 21."""
    import ml_dtypes

    random = np.random.default_rng(3)
    scales = random.uniform(0.1, 1, (3, 6)).astype(np.float32)
    codes = random.integers(-8, 8, (6, 6))
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        net (float[N, 6] x) => (float[N, 6] y) { [m] y = MatMul (x, w) }"""
    )
    given = {"q": codes.astype(ml_dtypes.int4), "s": scales}
    model.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in given.items())
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=2)
    model.graph.node.insert(0, node)
    row = by_place(onnxq.weights(model))["m", 4]
    values = codes[:, 4].astype(np.float32) * np.repeat(scales[:, 4], 2)
    assert (row.dtype, row.min, row.max) == ("int4", values.min(), values.max())
    assert row.scale == scales[:, 4].max()


def test_planted_rows_and_channels_are_found() -> None:
    held = weights()
    held["w"][3], held["w"][5] = 0, held["w"][5] * 30
    rows = onnxq.weights(net(held)).rows
    found = {(row.layer, row.channel): row.state for row in rows if row.state}
    assert found == {("conv", 3): "dead", ("conv", 5): "outlier"}
    whole = next(row for row in rows if row.layer == "conv")
    assert (whole.dead, whole.outliers) == (1, 1)
    drawn = [row.channel for row in rows if row.layer == "conv" and row.histogram is not None]
    assert drawn == [None, 5]  # the outlier; of all where that is asked for
    every = [row for row in onnxq.weights(net(held), histograms="all").rows if row.layer == "conv"]
    for row in every:
        own = held["w"] if row.channel is None else held["w"][row.channel]
        assert row.histogram is not None
        assert row.histogram.zeros == np.count_nonzero(own == 0)
        assert row.histogram.zeros + row.histogram.below + sum(row.histogram.counts) == own.size
        if row.histogram.counts:
            assert row.histogram.edges[-2] <= np.abs(own).max() < row.histogram.edges[-1]


def test_a_wrong_weight_is_the_worst() -> None:
    held = weights()
    codes = {name: grid(values) for name, values in held.items()}
    codes["v"][0][1, 3] = -codes["v"][0][1, 3]
    rows = by_place(onnxq.weights(net(held), quantized(codes)))
    assert (rows["gemm", 1].max_steps or 0) > 1
    assert all(
        (row.max_steps or 0) <= 0.501
        for place, row in rows.items()
        if place not in {("gemm", 1), ("gemm", None)}
    )


def test_a_factor_for_each_channel_is_named() -> None:
    held = weights()
    factors = np.array([1, 2, 0.5, 3, 1, 1, 10, 1], np.float32)
    folded = held["w"] * factors.reshape(-1, 1, 1, 1)
    rows = by_place(onnxq.weights(net(held), quantized({"w": grid(folded), "v": grid(held["v"])})))
    for channel, factor in enumerate(factors):
        gain = rows["conv", channel].gain
        assert gain == (None if factor == 1 else pytest.approx(factor, rel=1 / 127))
        assert (rows["conv", channel].sqnr_db or 0) > 35


def test_what_cannot_be_compared_is_said() -> None:
    held = weights()
    other = net({"w": held["w"][:, :, :2, :2], "v": held["v"]})
    del other.graph.node[-1]
    other.graph.output[0].name = "h"
    table = onnxq.weights(net(held), other)
    assert [(one.layer, one.why) for one in table.left] == [
        ("conv", "its weights are 8x4x3x3 here and 8x4x2x2 there"),
        ("gemm", "the other model has no layer of this name"),
    ]
    assert by_place(table)["gemm", None].cosine is None


def test_nan_in_weights_is_counted() -> None:
    held = weights()
    held["w"][1, 0, 0, 0], held["w"][2, 0, 0, :2] = np.nan, np.inf
    rows = by_place(onnxq.weights(net(held)))
    assert [rows["conv", channel].nonfinite for channel in (None, 0, 1, 2)] == [3, 0, 1, 2]
    assert rows["conv", 2].max == held["w"][2][np.isfinite(held["w"][2])].max()


def test_filters_and_refusals() -> None:
    model = net(weights())
    assert {row.layer for row in onnxq.weights(model, ops=["Gemm"]).rows} == {"gemm"}
    assert [row.layer for row in onnxq.weights(model, match=["co*"], channels=False).rows] == ["conv"]
    with pytest.raises(onnxq.UserError, match="no row fits"):
        onnxq.weights(model, match=["z"])
    with pytest.raises(onnxq.UserError, match="MatMul"):
        onnxq.weights(model, ops=["MatMul"])
