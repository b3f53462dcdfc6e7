"""`onnxq engine`: two engines, trtexec's files, which nodes are listed, and names of any kind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import Ran, run
from onnx import numpy_helper, parser
from said import is_said

import onnxq
from onnxq.cli.options import ChoiceFlags
from onnxq.cli.pages.engine import engine_page
from onnxq.pipeline.result import commands
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
    assert (alone.code, document["kind"], document["schema"]) == (0, "engine", 3)
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
    assert is_said(text, "as-planned", done=1, layers="1 layer")
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
    assert is_said(head, "kernels-time", time="1.75 ms")
    assert is_said(head, "as-planned", done=0, layers="1 layer")
    assert ("last" in nodes, "250 us" in nodes, "product" in nodes) == (True, True, False)
    document = onnxq.engine(place / "int8.onnx", profile_times=place / "times.json")
    page = engine_page(document, ChoiceFlags(["[p]*"]))
    assert [line.text.split()[0] for line in page.lines if "1.5 ms" in line.text] == ["product"]
    none = engine_page(document, ChoiceFlags(["[z]*"], ["Relu"]))
    assert any("[z]* and Relu" in line.text for line in none.lines)


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
    ran = run(place, "engine", "int8.onnx", "--against-fp16", "--json")
    verdict = ran.json()["verdict"]
    assert f"{verdict['merged']['int8']['kernels']} kernels for " in " ".join(ran.err.split())
    assert verdict["merged"]["int8"]["macs"]["int8"] == verdict["merged"]["fp16"]["macs"]["fp16"] / 2
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


# --- the engine drawn ---------------------------------------------------------------------------


def test_the_kernels_are_drawn(place: Path) -> None:
    """As nodes with what is merged into them, types and sizes on the arrows, and names as text alone."""
    pytest.importorskip("tensorrt_rtx")
    ran = run(place, "engine", "int8.onnx", "--dot", "all.dot", "--json")
    assert ran.code == 0, ran.err
    drawn = (place / "all.dot").read_text("utf-8")
    kernels = [kernel for kernel in ran.json()["reading"]["kernels"] if kernel["kind"] != "wait"]
    boxes = [line for line in drawn.splitlines() if re.match(r"  k\d+ \[", line)]
    assert len(boxes) == len(kernels) > 1
    (product,) = (line for line in boxes if "MatMul  product" in line)
    assert 'fillcolor="#b7e1a1"' in product
    assert re.search(r'  i\d+ -> k\d+ \[label="fp32 \[16, 64\], 4.1 kB"\];', drawn)
    assert re.search(r'  k\d+ -> k\d+ \[label="int8 .16, 64., 1.02 kB", color="#3a8f1d", pen', drawn)
    assert all(char.isprintable() or char == "\n" for char in drawn)
    assert "drawn: all.dot" in " ".join(ran.err.split())
    again = run(place, "engine", "int8.onnx", "--dot", "all.dot", "--match", "product")
    assert again.code == 0, again.err
    piece = (place / "all.dot").read_text("utf-8")
    assert 1 <= len(re.findall(r"^  k\d+ \[", piece, re.MULTILINE)) < len(kernels)
    assert "style=dashed" in piece


def _exported(place: Path, count: int, *, detailed: bool = True) -> tuple[str, ...]:
    """Files of trtexec of so many kernels, one after the other."""

    def tensor(number: int) -> dict[str, object]:
        return {"Name": f"t{number}", "Dimensions": [1, 64], "Datatype": "Half"}

    layers = [
        {
            "Name": f"k{number}", "LayerType": "gemm", "Metadata": "[ONNX Layer: product]",
            **({"Inputs": [tensor(number)], "Outputs": [tensor(number + 1)]} if detailed else {}),
        }
        for number in range(count)
    ]  # fmt: skip
    (place / "many.json").write_text(json.dumps({"Layers": layers, "Bindings": []}))
    times = [{"count": 10}, *({"name": f"k{number}", "averageMs": 0.25} for number in range(count))]
    (place / "many.times.json").write_text(json.dumps(times))
    return ("--layer-info", "many.json", "--profile-times", "many.times.json", "--dot", "many.dot")


def test_an_engine_of_trtexec_is_drawn_with_its_times(place: Path) -> None:
    ran = run(place, "engine", "int8.onnx", *_exported(place, 3))
    assert ran.code == 0, ran.err
    drawn = (place / "many.dot").read_text("utf-8")
    assert drawn.count("matmul fp16, 250 us") == 3
    assert '  k0 -> k1 [label="fp16 [1, 64], 128 B"];' in drawn
    assert '  k1 -> k2 [label="fp16 [1, 64], 128 B"];' in drawn
    assert drawn.count('fillcolor="#bcd9f5"') == 3
    assert run(place, "engine", "int8.onnx", *_exported(place, 3, detailed=False)).code == 0
    assert "  k0 -> k1 [style=dotted];" in (place / "many.dot").read_text("utf-8")


def test_what_is_too_large_to_be_drawn_names_the_flag(place: Path) -> None:
    (place / "many.dot").unlink(missing_ok=True)
    ran = run(place, "engine", "int8.onnx", *_exported(place, 2001))
    assert ran.code == 2
    text = " ".join(ran.err.split())
    assert "2001 kernels, " in text
    assert "--match" in text
    assert not (place / "many.dot").exists()
    assert run(place, "engine", "int8.onnx", *_exported(place, 2000)).code == 0
    ran = run(place, "engine", "int8.onnx", *_exported(place, 3), "--match", "nothing*")
    assert (ran.code, "no kernel fits 'nothing*'" in ran.err) == (2, True)
    (place / "mine.dot").write_text("mine")
    ran = run(place, "engine", "int8.onnx", *_exported(place, 3)[:-1], "mine.dot")
    assert (ran.code, (place / "mine.dot").read_text()) == (2, "mine")
