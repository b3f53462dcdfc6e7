"""A plan that says which inputs of a sum are read quantized: placed exactly there, obeyed, written again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.compiled.kernels import kernels_of
from onnxq.compiled.reading import operators_of
from onnxq.graph.model import Model
from onnxq.pipeline.reporting import _said
from onnxq.run import trt
from onnxq.run.engine_log import EngineLayer, EngineTensor

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 32, 16, 16] x) => (float[1, 32, 16, 16] y) {
        [a] p = Conv <pads = [1, 1, 1, 1]> (x, w)  q = Relu (p)  [b] b = Conv <pads = [1, 1, 1, 1]> (q, v)
        [sum] s = Add (b, q)  r = Relu (s)  [c] c = Conv (r, u)  [lone] t = Add (c, x)
        [times] y = Mul (t, x) }"""
SAMPLES = [
    {"x": np.random.default_rng(seed).standard_normal((1, 32, 16, 16)).astype(np.float32)}
    for seed in range(12)
]
OPTIONS: dict[str, Any] = {"repair": "none", "samples": 8, "prove": "never"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the net, and with its plan as the rules have it."""
    folder, random = tmp_path_factory.mktemp("sums"), np.random.default_rng(0)
    model = onnx.parser.parse_model(NET)
    for name, shape in {"w": (32, 32, 3, 3), "v": (32, 32, 3, 3), "u": (32, 32, 1, 1)}.items():
        values = (random.standard_normal(shape) / 16).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, folder / "net.onnx")
    onnxq.plan(folder / "net.onnx", SAMPLES, **OPTIONS).save(folder / "plan.toml")
    return folder


def stated(place: Path, name: str, table: str) -> Path:
    """The plan of the rules with another table for a node, or one more."""
    text = (place / "plan.toml").read_text()
    table = f'[[layer]]\nnode = "{name}"\n{table}\n'
    other, count = re.subn(rf'\[\[layer\]\]\nnode = "{name}"\n(?:.+\n)+', table, text)
    file = place / f"{name}.toml"
    file.write_text(other if count else f"{text}\n{table}")
    return file


def read_of(result: onnxq.Result, node: str) -> set[int]:
    """The inputs that a node of the written model reads from a DequantizeLinear."""
    written = result.model.graph.node
    makers = {out: one for one in written for out in one.output}
    (found,) = (one for one in written if one.name == node)
    sources = [makers.get(name) for name in found.input]
    while any(one is not None and one.op_type == "Cast" for one in sources):
        sources = [makers.get(o.input[0]) if o is not None and o.op_type == "Cast" else o for o in sources]
    return {at for at, one in enumerate(sources) if one is not None and one.op_type == "DequantizeLinear"}


def test_the_pairs_are_where_the_plan_says(place: Path) -> None:
    before = onnxq.quantize(place / "net.onnx", SAMPLES, plan=place / "plan.toml", compile=False, **OPTIONS)
    assert (read_of(before, "sum"), read_of(before, "lone")) == ({1}, {1})
    for inputs in ((0, 1), (0,), (1,)):
        table = f'op = "Add"\nformat = "int8"\ninputs = {list(inputs)}'
        file = stated(place, "sum", table)
        made = onnxq.quantize(place / "net.onnx", SAMPLES, plan=file, compile=False, **OPTIONS)
        assert read_of(made, "sum") == set(inputs)
        assert read_of(made, "lone") == {1}
        assert read_of(made, "b") == read_of(made, "c") == {0, 1}


def test_a_range_that_is_stated_needs_no_data(place: Path) -> None:
    file = stated(place, "sum", 'op = "Add"\nformat = "int8"\ninputs = [0, 1]')
    with pytest.raises(UserError, match="'b'"):
        onnxq.quantize(place / "net.onnx", plan=file, compile=False)
    file.write_text(file.read_text() + '\n[[tensor]]\nname = "b"\namax = 5.5\n')
    made = onnxq.quantize(place / "net.onnx", plan=file, compile=False)
    assert made.report.calibration.thresholds["b"].amax == 5.5
    assert read_of(made, "sum") == {0, 1}


@pytest.mark.parametrize(
    ("node", "table", "words"),
    [
        ("times", 'format = "int8"\ninputs = [0]', "and no sum"),
        ("sum", 'format = "int8"\ninputs = [2]', "'sum' has no input 2"),
        ("a", 'format = "int8"\ninputs = [0]', "and no sum"),
    ],
)
def test_what_cannot_be_is_an_error_with_its_line(place: Path, node: str, table: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        onnxq.quantize(place / "net.onnx", SAMPLES, plan=stated(place, node, table), compile=False, **OPTIONS)
    assert re.search(r"line \d+: ", str(raised.value))


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_what_the_compiler_makes_nothing_of_is_told(place: Path) -> None:
    file = stated(place, "sum", 'op = "Add"\nformat = "int8"\ninputs = [0, 1]')
    made = onnxq.quantize(place / "net.onnx", SAMPLES, plan=file, **OPTIONS)
    told = [note for note in made.report.calibration.notes if "'sum'" in note]
    assert len(told) == 1
    assert is_said(told[0], "sum-in-plan", input=0, how="the compiler makes nothing of it")
    kernels = [kernel for kernel in made.report.engine.layers if "sum" in kernel.nodes]
    assert any("b_QuantizeLinear" in kernel.nodes for kernel in kernels)
    plain = onnxq.quantize(place / "net.onnx", SAMPLES, plan=place / "plan.toml", **OPTIONS)
    assert not any("quantized: " in note for note in plain.report.calibration.notes)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_a_pair_that_others_read_too_is_no_cost_of_the_sum(place: Path) -> None:
    """The kernel that quantizes `x` is the convolution's as well, and the sum reads its codes."""
    file = stated(place, "lone", 'op = "Add"\nformat = "int8"\ninputs = [1]')
    made = onnxq.quantize(place / "net.onnx", SAMPLES, plan=file, **OPTIONS)
    (kernel,) = (one for one in made.report.engine.layers if "lone" in one.nodes and one.inputs)
    assert "int8" in {tensor.dtype for tensor in kernel.inputs}
    assert not any("'lone'" in note for note in made.report.calibration.notes)


_APART = ("b_QuantizeLinear", "fp16_b", "int8_b")


def _layer(nodes: str, reads: str, writes: str) -> EngineLayer:
    tensors = [(EngineTensor(text, text.split("_")[0], (1, 32, 16, 16)),) for text in (reads, writes)]
    return EngineLayer(
        f"kernel of {nodes}", "kgen", None, tensors[0], (), tensors[1], tuple(nodes.split()), ""
    )


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((_APART, ("sum", "int8_b", "int8_s")), "only quantizes for it, and moves 24.6 kB"),
        ((_APART, ("sum", "fp16_b", "int8_s")), "the sum runs in float"),
        ((("b_QuantizeLinear sum", "fp16_b", "int8_s"),), "rounds itself what it reads (fp16)"),
        ((("b b_QuantizeLinear", "int8_q", "int8_b"), ("sum", "int8_b", "int8_s")), ""),
    ],
)
def test_what_is_told_of_kernels(place: Path, layers: tuple[tuple[str, str, str], ...], said: str) -> None:
    file = stated(place, "sum", 'op = "Add"\nformat = "int8"\ninputs = [0]')
    made = onnxq.quantize(place / "net.onnx", SAMPLES, plan=file, compile=False, **OPTIONS)
    model = Model.open(made.model)
    kernels = kernels_of([_layer(*layer) for layer in layers], operators_of(model))
    (node,) = (one for one in model.nodes if one.name == "sum")
    told = list(_said(node, 0, kernels, alone=True))
    assert [said in one for one in told] == [True] * bool(said)
