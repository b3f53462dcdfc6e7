"""What an engine's reading says, against figures by hand and an independent reading of the compiler's log."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from engine_nets import CHANNELS, SIZE, Compiled, attention, compiled, convolutions, fp4_product, mx_product
from onnx import parser

from onnxq.base.plain import to_json
from onnxq.compiled.engine_difference import engine_difference
from onnxq.compiled.kernels import KINDS
from onnxq.compiled.reading import EngineReading, NodeInEngine, read
from onnxq.compiled.traffic import traffic
from onnxq.graph.model import Model
from onnxq.run import trt
from onnxq.run.engine_log import EngineLayer

pytestmark = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")

PIXELS = SIZE * SIZE
MACS = {
    "both": PIXELS * CHANNELS * CHANNELS * 9,
    "grouped": PIXELS * CHANNELS * (CHANNELS // 4) * 9,
    "half": PIXELS * CHANNELS * CHANNELS * 9,
    "up": PIXELS * CHANNELS * (CHANNELS // 2) * 4,
}


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(convolutions(), tmp_path_factory.mktemp("int8") / "net.onnx")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(convolutions(quantized=False), tmp_path_factory.mktemp("plain") / "net.onnx")


@pytest.fixture(scope="module")
def fp4(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(fp4_product(), tmp_path_factory.mktemp("fp4") / "net.onnx", sm=120)


@pytest.fixture(scope="module")
def mxfp8(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(mx_product(), tmp_path_factory.mktemp("mxfp8") / "net.onnx", sm=120)


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(attention(), tmp_path_factory.mktemp("fused") / "net.onnx")


def node(found: Compiled, name: str) -> NodeInEngine:
    (entry,) = (entry for entry in found.reading.nodes if entry.node == name)
    return entry


@pytest.mark.parametrize("net", ["int8", "plain", "fp4", "mxfp8", "fused"])
def test_kernels_and_bytes_are_those_of_the_log(net: str, request: pytest.FixtureRequest) -> None:
    found: Compiled = request.getfixturevalue(net)
    totals = found.reading.totals
    tensors = [tensor for line in found.lines for tensor in (*line.inputs, *line.outputs)]
    assert totals.kernels == len(found.lines) > 0
    assert totals.bytes_activations + totals.bytes_conversions == sum(size for size, *_ in tensors)
    assert totals.bytes_weights == sum(size for line in found.lines for size, *_ in line.constants)
    assert totals.constants == sum(size > 4 for line in found.lines for size, *_ in line.constants)
    moved = traffic(found.engine.layers)
    assert moved.moved_mb * 1e6 == pytest.approx(totals.bytes_activations + totals.bytes_conversions)
    assert sum(totals.kinds.values()) == totals.kernels
    assert set(totals.kinds) <= set(KINDS)
    assert totals.unknown_types == ()


def test_nodes_planned_and_compiled(int8: Compiled) -> None:
    facts = {
        name: (entry.planned, entry.half, entry.compiled, entry.macs, entry.kind)
        for name in MACS
        for entry in [node(int8, name)]
    }
    assert facts == {
        "both": ("int8", False, "int8", MACS["both"], "convolution"),
        "grouped": (None, False, "fp32", MACS["grouped"], "convolution"),
        "half": ("int8", True, "fp32", MACS["half"], "convolution"),
        "up": (None, False, "fp32", MACS["up"], "deconvolution"),
    }
    totals = int8.reading.totals
    assert (totals.planned, totals.as_planned, totals.half) == (1, 1, 1)
    assert (totals.int8_macs, totals.other_macs) == (MACS["both"], sum(MACS.values()) - MACS["both"])


def test_products_in_int8_are_those_whose_line_says_so(int8: Compiled) -> None:
    """The convolution of the log that reads Int8 and holds Int8."""
    (line,) = (
        line
        for line in int8.lines
        if line.kind == "correlation" and line.inputs[0][1] == "Int8" and line.constants[0][1] == "Int8"
    )
    assert node(int8, "both").kernel == line.name


def test_weights_that_are_dequantized_at_each_run(int8: Compiled) -> None:
    (made,) = int8.reading.runtime_weights
    (line,) = (line for line in int8.lines if not line.inputs and line.outputs)
    assert (made.kernel, made.inside, made.held, made.made) == (line.name, False, "int8", "fp32")
    assert made.bytes_written == line.outputs[0][0] == 4 * CHANNELS * CHANNELS * 9
    assert "wc_dq" in made.nodes
    assert int8.reading.totals.kinds["weights"] == 1


def test_kernels_that_only_quantize(int8: Compiled) -> None:
    """The one in front of the first convolution: float in, int8 out, nothing else."""
    (kernel,) = (kernel for kernel in int8.reading.kernels if kernel.kind == "quantize")
    (line,) = (line for line in int8.lines if line.outputs[0][1] == "Int8" and line.inputs[0][1] == "Float")
    assert kernel.name == line.name
    assert kernel.moved == line.inputs[0][0] + line.outputs[0][0]
    assert int8.reading.totals.quantize == 1
    weights = next(k for k in int8.reading.kernels if k.kind == "weights")
    reformats = [k.moved for k in int8.reading.kernels if k.kind == "reformat"]
    assert int8.reading.totals.bytes_conversions == kernel.moved + weights.moved + sum(reformats)


def test_a_plain_net_converts_nothing(plain: Compiled) -> None:
    totals = plain.reading.totals
    assert (totals.quantize, totals.dequantize, totals.runtime_weights, totals.planned) == (0, 0, 0, 0)
    assert dict(totals.macs) == {"fp32": sum(MACS.values())}


def test_four_bits(fp4: Compiled) -> None:
    product = node(fp4, "product")
    assert (product.planned, product.half, product.compiled, product.macs) == (
        "fp4",
        False,
        "fp4",
        32 * 64 * 128,
    )
    kernel = next(kernel for kernel in fp4.reading.kernels if kernel.is_product)
    assert kernel.inputs[0].dtype == "fp4"
    assert kernel.bytes_read == 32 * 128 // 2 + 4 * 32 * 2 * 4  # codes, and a scale for 16 of them, padded
    assert node(fp4, "x_q").kind == "quantize"


def test_exponents_as_scales_and_a_product_that_is_not_as_planned(mxfp8: Compiled) -> None:
    """Behind the Transpose the compiler does not know the weights as MXFP8: it multiplies in float."""
    product = node(mxfp8, "product")
    assert (product.planned, product.half, product.compiled, product.missed) == ("fp8", False, "fp32", True)
    scales = [t.dtype for kernel in mxfp8.reading.kernels for t in kernel.outputs if t.shape == (32, 4)]
    assert scales == ["e8m0"]
    (made,) = mxfp8.reading.runtime_weights
    assert (made.held, made.made) == ("fp8", "fp32")
    assert mxfp8.reading.totals.dequantize == 1


def test_fused_attention(fused: Compiled) -> None:
    totals = fused.reading.totals
    assert dict(totals.attention) == {"fp16": 2}
    assert dict(totals.macs) == {"fp16": 2 * (4 + 8) * 64 * 64 * 32}
    scores, softmax, mix = (node(fused, name) for name in ("scores", "softmax", "mix"))
    assert scores.kernel == softmax.kernel == mix.kernel
    assert (scores.macs, mix.macs) == (4 * 64 * 64 * 32,) * 2
    assert (scores.role, softmax.role) == ("own", "fused")


def test_attention_of_fewer_heads_of_keys_multiplies_as_much(fused: Compiled) -> None:
    """Two heads of keys and values for eight of queries, as the engine reads them: keys, values, queries."""
    (kernel,) = [kernel for kernel in fused.reading.kernels if "grouped" in kernel.nodes]
    assert sorted(math.prod(tensor.shape[:-2]) for tensor in kernel.inputs) == [2, 2, 8]
    assert kernel.macs == 2 * 8 * 64 * 64 * 32


def test_what_each_engine_lost(int8: Compiled, plain: Compiled) -> None:
    found = engine_difference(int8.reading, plain.reading)
    lost = {entry.node: (entry.lost_by, entry.why, entry.one, entry.other) for entry in found.nodes}
    assert lost["both"] == ("other", "type", "int8", "fp32")
    assert found.nodes[0].node == "both", "what multiplies in another type is first"
    figures = {entry.figure: (entry.one, entry.other, entry.less) for entry in found.figures}
    assert figures["runtime_weights"] == (1, 0, "other")
    assert figures["int8_macs"] == (MACS["both"], 0, "other")
    assert figures["kernels"][:2] == (int8.reading.totals.kernels, plain.reading.totals.kernels)
    assert found.same + len(found.nodes) == 5, "five nodes are no pairs"
    back = engine_difference(plain.reading, int8.reading)
    assert {entry.node: entry.lost_by for entry in back.nodes}["both"] == "one"


def test_an_engine_beside_itself(int8: Compiled) -> None:
    found = engine_difference(int8.reading, int8.reading)
    assert (found.nodes, {entry.less for entry in found.figures}) == ((), {""})


def test_it_is_plain_data(int8: Compiled) -> None:
    text = json.dumps(to_json(int8.reading), allow_nan=False)
    assert json.loads(text)["totals"]["kernels"] == len(int8.lines)
    assert all(field.name in json.loads(text) for field in dataclasses.fields(EngineReading))


def test_nodes_without_a_name_or_with_anothers() -> None:
    """An engine calls the one by its output, and both of the others by the name that they share."""
    text = """<ir_version: 8, opset_import: ["" : 17]> net (float[4] x) => (float[4] z, float[4] w) {
        y = Abs (x)  [twice] z = Relu (y)  [twice] w = Neg (y) }"""
    layer = EngineLayer("k", "kgen", "fp32", (), (), (), ("node_of_y", "twice"), "")
    found = read([layer], Model.open(parser.parse_model(text)))
    assert [(entry.op, entry.kernel) for entry in found.nodes] == [("Abs", "k"), ("Relu", "k"), ("Neg", "k")]
