"""`onnxq engine`: two engines, trtexec's files, which nodes are listed, and names of any kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import Ran, run
from onnx import numpy_helper, parser

import onnxq
from onnxq.cli.options import ChoiceFlags
from onnxq.cli.pages.engine import engine_page
from onnxq.emit.commands import commands
from onnxq.targets import load_target

HOSTILE = "[red]a[/], Int8 \x1b[31m\u202e"

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[16, 64] x) => (float[16, 64] y)
    <float s = {0.05}, int8 z = {0}, float ws = {0.01}> {
        [x_QuantizeLinear] xq = QuantizeLinear (x, s, z)
        [x_DequantizeLinear] xd = DequantizeLinear (xq, s, z)
        [w_DequantizeLinear] wd = DequantizeLinear (w, ws)
        [product] a = MatMul (xd, wd)  [named] b = Sigmoid (a)  [last] y = MatMul (b, v) }"""


def net(*, quantized: bool = True) -> onnx.ModelProto:
    model = parser.parse_model(NET)
    random = np.random.default_rng(0)
    held = {"w": random.integers(-127, 128, (64, 64)).astype(np.int8), "v": random.normal(size=(64, 64))}
    if not quantized:
        del model.graph.node[:3]
        model.graph.node[0].input[:] = ["x", "w"]
        held["w"] = random.normal(size=(64, 64))
    for name, values in held.items():
        values = values if values.dtype == np.int8 else values.astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    for node in model.graph.node:
        node.name = HOSTILE if node.name == "named" else node.name
    return model


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    onnx.save(net(), folder / "int8.onnx")
    onnx.save(net(quantized=False), folder / "plain.onnx")
    return folder


@pytest.fixture(scope="module")
def alone(place: Path) -> Ran:
    pytest.importorskip("tensorrt_rtx")
    return run(place, "engine", "int8.onnx", "--json")


@pytest.fixture(scope="module")
def both(place: Path) -> Ran:
    pytest.importorskip("tensorrt_rtx")
    return run(place, "engine", "int8.onnx", "--compare", "plain.onnx", "--json")


def test_the_document(alone: Ran) -> None:
    document = alone.json()
    assert (alone.code, document["kind"], document["schema"]) == (0, "engine", 2)
    nodes = {node["node"]: node for node in document["reading"]["nodes"]}
    assert nodes["product"]["planned"] == nodes["product"]["compiled"] == "int8"
    assert (nodes["last"]["planned"], nodes["last"]["compiled"]) == (None, "fp32")
    assert nodes["product"]["macs"] == nodes["last"]["macs"] == 16 * 64 * 64
    assert document["reading"]["totals"]["macs"] == {"int8": 65536, "fp32": 65536}
    assert document["traffic"]["kernels"] == document["reading"]["totals"]["kernels"]


def test_the_screen(alone: Ran) -> None:
    lines = alone.err.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(alone.err.split())
    assert "131 k multiply-accumulates: int8 50.0 %, fp32 50.0 %" in text
    assert "1 of 1 layer in the type of their Q/DQ pairs" in text
    assert "product int8 int8 matmul 65.5 k" in text
    (row,) = (line for line in lines if "[red]a[/], Int8 ?[31m?" in line)
    assert all(char.isprintable() for char in row)
    assert text.index("Multiplies") < text.index("Converts") < text.index("Nodes"), (
        "figures, the worst, nodes"
    )


def test_two_engines(both: Ran) -> None:
    document = both.json()
    assert (both.code, document["other"]["model"]) == (0, "plain.onnx")
    found = document["differences"]["nodes"][0]
    assert (found["node"], found["one"], found["other"]) == ("product", "int8", "fp32")
    assert (found["lost_by"], found["why"]) == ("other", "type")
    text = " ".join(both.err.split())
    assert "product int8 fp32 other type" in text
    assert "int8 MACs 65.5 k 0" in text
    assert max(map(len, both.err.splitlines())) <= 80


def test_files_of_trtexec_and_which_nodes(place: Path) -> None:
    """Their times, of the nodes that are asked for; no compiler is needed."""
    layers = [
        {"Name": "product", "LayerType": "gemm", "Metadata": "[ONNX Layer: product]"},
        {"Name": "k\x1b[2J", "LayerType": "PointWiseV2", "Metadata": "[ONNX Layer: last]"},
    ]
    (place / "layers.json").write_text(json.dumps({"Layers": layers, "Bindings": ["x"]}))
    times = [{"count": 10}, {"name": "product", "averageMs": 1.5}, {"name": "k\x1b[2J", "averageMs": 0.25}]
    (place / "times.json").write_text(json.dumps(times))
    flags = ("--layer-info", "layers.json", "--profile-times", "times.json", "--match", "l*", "--json")
    ran = run(place, "engine", "int8.onnx", *flags)
    assert (ran.code, ran.json()["engine"], len(ran.json()["reading"]["nodes"])) == (0, None, 6)
    assert "\x1b" not in ran.err
    head, _, nodes = " ".join(ran.err.split()).partition("Nodes")
    assert "1.75 ms a run, all kernels together, as measured" in head
    assert "0 of 1 layer in the type of their Q/DQ pairs; of 1 the file does not say it" in head
    assert ("last" in nodes, "250 us" in nodes, "product" in nodes) == (True, True, False)
    document = onnxq.engine(place / "int8.onnx", profile_times=place / "times.json")
    page = engine_page(document, ChoiceFlags(["[p]*"]))
    assert [line.text.split()[0] for line in page.lines if "1.5 ms" in line.text] == ["product"]
    none = engine_page(document, ChoiceFlags(["[z]*"], ["Relu"]))
    assert any("none is of [z]* and Relu" in line.text for line in none.lines)


def test_the_other_model_is_rejected(place: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    text = NET.replace("Sigmoid (a)", "Sigmoid (a) [odd] c = com.example.Odd (a)")
    model = parser.parse_model(text.replace('["" : 17]', '["" : 17, "com.example" : 1]'))
    model.graph.initializer.extend(net().graph.initializer[-2:])
    onnx.save(model, place / "odd.onnx")
    ran = run(place, "engine", "int8.onnx", "--compare", "odd.onnx", "--json")
    assert (ran.code, ran.json()["differences"]) == (1, None)
    assert "odd.onnx: " in ran.err
    assert "65.5 k" in ran.err, "the first engine is shown all the same"


@pytest.mark.parametrize("target", ["tensorrt-8.2", "tensorrt-8.5", "tensorrt-11", "tensorrt-rtx"])
def test_the_printed_line_exports_what_engine_reads(target: str) -> None:
    explains = load_target(target).explains
    line = commands(Path("a/net.onnx"), load_target(target).tool, {}, None, explain=explains)[0]
    exports = " --exportLayerInfo=net.layers.json --exportProfile=net.times.json"
    found = (exports in line, "--profilingVerbosity=detailed" in line, "--separateProfileRun" in line)
    assert found == (target != "tensorrt-8.2",) * 3


def test_whether_int8_is_worth_it(place: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    ran = run(place, "engine", "int8.onnx", "--against-fp16", "--gpu", "l4", "--json")
    verdict = ran.json()["verdict"]
    assert [one["gpu"] for one in verdict["merged"]["gpus"]] == ["L4"]
    assert f"no better than a constant: L4 {verdict['merged']['ratio']:.2f}" in " ".join(ran.err.split())
    assert verdict["merged"]["int8"]["macs"]["int8"] == verdict["merged"]["fp16"]["macs"]["fp16"] / 2
    assert run(place, "engine", "int8.onnx", "--gpu", "l4").code == 2  # of what is not asked for
    (place / "layers.json").write_text("{}")
    refused = run(place, "engine", "int8.onnx", "--against-fp16", "--layer-info", "layers.json")
    assert refused.code == 2
    assert "--against-fp16" in refused.err


def test_int8_is_judged_at_the_sizes_of_the_profile(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    model = net()
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, tmp_path / "net.onnx")
    profile = ((16, 64), (32, 64), (48, 64))
    document = onnxq.engine(tmp_path / "net.onnx", against_fp16=True, profiles={"x": profile})
    assert document.verdict is not None
    assert document.verdict.merged is not None
    assert document.verdict.merged.int8.macs == {"int8": 32 * 64 * 64, "fp32": 32 * 64 * 64}
