"""Plans as files: what is written comes back, what is edited is obeyed, and mistakes are named."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import weighted
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.options.config import LayerRule
from onnxq.pipeline import starting
from onnxq.quant.plan_file import PlanFile, RepairEntry, WeightEntry
from onnxq.quant.plan_reading import read_plan

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y) {
        [first] a = Conv (x, w1)  [relu] r = Relu (a)
        [second] b = Conv (r, w2)  [relu2] s = Relu (b)
        [pool] p = MaxPool <kernel_shape = [1, 1]> (r)
        [cat] k = Concat <axis = 1> (s, p)
        [third] c = Conv (k, w3)
        [depthwise] y = Conv <group = 16> (c, w4) }"""
PIXELS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 3, 16, 16] x) => (float[1, 16, 4, 4] y) {
        [first] a = Conv <strides = [4, 4]> (x, w)  [relu] r = Relu (a)  [second] y = Conv (r, v) }"""
WEIGHTS = {"w1": (16, 16, 1, 1), "w2": (16, 16, 1, 1), "w3": (16, 32, 1, 1), "w4": (16, 1, 1, 1)}
CORPUS = os.environ.get("ONNXQ_CORPUS")


@functools.cache
def net() -> onnx.ModelProto:
    return weighted(NET, **WEIGHTS)


@functools.cache
def data() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.standard_normal((1, 16, 8, 8)).astype(np.float32)} for _ in range(12)]


quantize = functools.partial(onnxq.quantize, prove="never", compile=False)
plan = functools.partial(onnxq.plan, prove="never")


@functools.cache
def written(method: Any = "minmax", *, measured: bool = True) -> dict[str, bytes]:
    return plan(net(), data() if measured else None, method=method).file.files("p.toml")


@functools.cache
def stated() -> dict[str, bytes]:
    """The same with edits, fitted values, and what stays float32."""
    file = plan(net(), data(), method="minmax").file
    assert file.body is not None
    scale = {"kind": "scale", "tensor": "b", "axis": 1, "factors": [1.0] * 16, "ratios": {"s": 1.0}}
    shift = {"kind": "shift", "tensor": "r", "by": 1.0, "tensors": ["r", "s"]}
    repair = RepairEntry(
        (scale, shift),
        biases={"third": np.ones(16, np.float32)},
        constants={"w4": np.ones((16, 1, 1, 1), np.float32)},
        codes={"w1": np.full((16, 16, 1, 1), 3, np.int8)},
    )
    body = replace(file.body, io="fp16", float32_io=("y",), float32={"depthwise": "I say so"})
    return replace(file, repair=repair, body=body).files("p.toml")


def put(folder: Path, files: dict[str, bytes], *edits: tuple[str, str]) -> Path:
    """The plan with some texts replaced, each of which is there once."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    path = folder / "p.toml"
    text = path.read_text("utf-8")
    for old, new in edits:
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    return path


def entry(kind: str, name: str) -> str:
    """The table of a thing in the plan as it is written, without comments."""
    tables = re.findall(r"^\[\[\w+\]\]\n(?:.+\n)+", written()["p.toml"].decode(), re.MULTILINE)
    key = "node" if kind == "layer" else "share" if kind == "group" else "name"
    (found,) = (t for t in tables if t.startswith(f"[[{kind}]]\n{key} =") and f'"{name}"' in t)
    return str(found)


def change(kind: str, name: str, pattern: str, new: str) -> tuple[str, str]:
    """An edit of one table."""
    old = entry(kind, name)
    edited, count = re.subn(pattern, new, old)
    assert count == 1, old
    return old, edited


def model_bytes(result: Any) -> bytes:
    return bytes(result.model.SerializeToString(deterministic=True))


def scales(result: Any) -> dict[str, float]:
    return dict(result.report["calibration"]["scales"])


def constant(result: Any, name: str) -> np.ndarray:
    (found,) = (t for t in result.model.graph.initializer if t.name == name)
    return onnx.numpy_helper.to_array(found)


def int8(result: Any) -> set[str]:
    return {layer["node"] for layer in result.report["plan"]["layers"] if layer["format"] == "int8"}


def notes(result: Any) -> str:
    return "\n".join(result.report["calibration"]["notes"])


class TestRoundTrip:
    @pytest.mark.parametrize("method", ["auto", "minmax", "entropy"])
    def test_the_same_bytes_without_data(self, tmp_path: Path, method: Any) -> None:
        path = put(tmp_path, written(method))
        assert model_bytes(quantize(net(), plan=path)) == model_bytes(quantize(net(), data(), method=method))

    def test_measured_when_it_is_obeyed(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(measured=False))
        assert "\namax =" not in path.read_text().split("[[weight]]\n", 1)[0]
        assert model_bytes(quantize(net(), data(), plan=path)) == model_bytes(quantize(net(), data()))
        with pytest.raises(UserError, match="the plan has no amax of tensor 'x'") as caught:
            quantize(net(), plan=path)
        assert "--calib" in caught.value.hint

    def test_written_twice_it_is_the_same(self) -> None:
        again = plan(net(), data(), method="minmax").file.files("p.toml")
        assert again == written()

    def test_written_as_it_was_read(self, tmp_path: Path) -> None:
        files = written()
        found = read_plan(put(tmp_path, files))
        assert found.shapes == {"x": (1, 16, 8, 8)}
        comments = re.compile(rb"^#.*\n", re.MULTILINE)
        assert {
            n: comments.sub(b"", c) if n == "p.toml" else c for n, c in found.files("p.toml").items()
        } == {
            n: comments.sub(b"", c).replace(b"\n\n\n", b"\n\n") if n == "p.toml" else c
            for n, c in files.items()
        }

    @pytest.mark.parametrize(
        "values", [[0.1, 1e-45, np.finfo(np.float32).max, 0.0], np.float32(1) / np.arange(1, 400)]
    )
    def test_amax_of_weights_to_the_bit(self, tmp_path: Path, values: Any) -> None:
        amax = np.array(values, np.float32)
        file = PlanFile("m", "0", "tensorrt-11", {}, (), (), (), (WeightEntry('a"\n', 0, amax),))
        (found,) = read_plan(put(tmp_path, file.files("p.toml"))).weights
        assert found.name == 'a"\n'
        assert found.amax is not None
        assert found.amax.tobytes() == amax.tobytes()

    def test_of_statistics(self, tmp_path: Path) -> None:
        stats = tmp_path / "x.stats.npz"
        model = tmp_path / "net.onnx"
        onnx.save(net(), model)
        onnxq.calibrate(model, data(), stats)
        before = quantize(model, stats=stats, method="percentile", percentile=99.0)
        plan(model, stats=stats, method="percentile", percentile=99.0).save(tmp_path / "p.toml")
        assert model_bytes(quantize(model, plan=tmp_path / "p.toml")) == model_bytes(before)

    def test_ranges_of_weights_by_the_configuration(self, tmp_path: Path) -> None:
        layers = [LayerRule(op=("Conv",), of="weights", method="mse")]
        before = quantize(net(), data(), method="minmax", layers=layers)
        plan(net(), data(), method="minmax", layers=layers).save(tmp_path / "p.toml")
        assert model_bytes(quantize(net(), plan=tmp_path / "p.toml")) == model_bytes(before)
        assert model_bytes(before) != model_bytes(quantize(net(), data(), method="minmax"))

    def test_pixels_that_are_codes(self, tmp_path: Path) -> None:
        """A lattice with a centre and a factor for each channel, which repair keeps."""
        model = onnx.parser.parse_model(PIXELS)
        random = np.random.default_rng(0)
        for name, shape in {"w": (16, 3, 4, 4), "v": (16, 16, 1, 1)}.items():
            values = random.standard_normal(shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        mean, std = (
            np.array(one, np.float32).reshape(3, 1, 1) for one in ([0.48, 0.46, 0.41], [0.23, 0.22, 0.2])
        )
        pixels = [random.integers(0, 256, (1, 3, 16, 16)).astype(np.float32) for _ in range(24)]
        feeds = [{"x": (one / np.float32(255) - mean) / std} for one in pixels]
        options: dict[str, Any] = {"method": "minmax", "repair": "lattice", "body": "fp32"}
        planned = plan(model, feeds, **options)
        (edit,) = planned.file.repair.edits
        assert (edit["kind"], len(edit["centres"]), len(edit["factors"])) == ("lattice", 3, 3)
        path = put(tmp_path, planned.file.files("p.toml"))
        assert model_bytes(quantize(model, plan=path)) == model_bytes(quantize(model, feeds, **options))

    def test_one_of_an_earlier_version_is_obeyed(self) -> None:
        """A file that was written before, with an edit, fitted values and a body, and is not written anew."""
        path = Path(__file__).parent / "older" / "plan.toml"
        result = quantize(net(), plan=path)
        part, codes = result.report.repair, read_plan(path).repair.codes
        assert int8(result) == {"first", "second", "third"}
        assert scales(result)["r"] == pytest.approx(67.23805236816406 / 127, rel=1e-6)
        assert part is not None
        assert ([edit["kind"] for edit in part.edits], part.biases, part.codes) == (["shift"], 3, 3)
        assert (constant(result, "w1_int8") == codes["w1"]).all()
        assert result.model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16

    def test_verifies_with_data(self, tmp_path: Path) -> None:
        path = put(tmp_path, written())
        assert [entry["output"] for entry in quantize(net(), data(), plan=path).report["accuracy"]] == ["y"]
        assert quantize(net(), plan=path).report["accuracy"] == []

    @pytest.mark.skipif(not CORPUS, reason="ONNXQ_CORPUS names no folder of models")
    @pytest.mark.parametrize("name", ["yunet_120x160", "cifar10_pytorch_winml"])
    def test_real_models(self, tmp_path: Path, name: str) -> None:
        manifest = json.loads(Path(str(CORPUS), "manifest.json").read_text("utf-8"))
        (shapes,) = (e["run_shapes"] for e in manifest if e["name"] == name)
        random = np.random.default_rng(0)
        feeds = [
            {k: random.standard_normal(shape).astype(np.float32) for k, shape in shapes.items()}
            for _ in range(3)
        ]
        model = Path(str(CORPUS), "models", f"{name}.onnx")
        plan(model, feeds).save(tmp_path / "p.toml")
        after = quantize(model, plan=tmp_path / "p.toml")
        assert model_bytes(after) == model_bytes(quantize(model, feeds))


class TestEdits:
    def test_a_layer_into_float_is_as_by_flag(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(), change("layer", "second", '"int8"', '"float"'))
        flagged = quantize(net(), data(), method="minmax", keep_float=["second"])
        edited = quantize(net(), plan=path)
        assert int8(edited) == {"first", "third"}
        assert model_bytes(edited) == model_bytes(flagged)

    def test_any_node_may_be_added(self, tmp_path: Path) -> None:
        added = '[[layer]]\nnode = "pool"\nformat = "float"\nbecause = "I say so"\n'
        path = put(tmp_path, written(), (entry("layer", "pool"), added))
        result = quantize(net(), data(), plan=path)
        nodes = {node.name: node for node in result.model.graph.node}
        assert nodes["pool"].input[0] == "r"
        kept = {entry["node"]: entry["because"] for entry in result.report["plan"]["kept_float"]}
        assert kept["pool"] == "I say so"

    def test_a_layer_into_int8(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(), change("layer", "depthwise", '"float"', '"int8"'))
        result = quantize(net(), data(), plan=path)
        assert int8(result) == {"first", "second", "third", "depthwise"}
        assert constant(result, "w4_scale").shape == (16,)
        with pytest.raises(UserError, match="no amax of tensor 'c'"):
            quantize(net(), plan=path)

    def test_a_threshold(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(), change("tensor", "x", "amax = .*", "amax = 12.7"))
        before, after = scales(quantize(net(), data(), method="minmax")), scales(quantize(net(), plan=path))
        assert after.pop("x") == np.float32(0.1)
        assert before.pop("x") != np.float32(0.1)
        assert after == before

    def test_a_method_of_its_own(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(), change("tensor", "x", "amax = .*", "percentile = 90"))
        rule = LayerRule(match=("first",), method="percentile", percentile=90.0)
        by_layer = quantize(net(), data(), method="minmax", layers=[rule])
        assert scales(quantize(net(), data(), plan=path, method="minmax")) == scales(by_layer)

    def test_a_tensor_left_open_is_measured(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(), (entry("tensor", "x"), ""))
        assert model_bytes(quantize(net(), data(), plan=path, method="minmax")) == model_bytes(
            quantize(net(), data(), method="minmax")
        )

    def test_a_group_by_hand(self, tmp_path: Path) -> None:
        group = '[[group]]\nshare = ["x", "r"]\n'
        path = put(tmp_path, written(), (entry("group", "r"), group))
        before = scales(quantize(net(), data(), method="minmax"))
        after = scales(quantize(net(), data(), plan=path, method="minmax"))
        assert before["s"] == before["k"] == before["r"] != before["x"]
        assert after["x"] == after["r"] == max(before["x"], after["r"])

    def test_a_group_taken_apart(self, tmp_path: Path) -> None:
        path = put(tmp_path, written("minmax"), (entry("group", "r"), ""))
        found = scales(quantize(net(), data(), plan=path, method="minmax"))
        top = {name: np.abs(values).max() for name, values in floats("s", "r", "k").items()}
        for name in ("s", "r", "k"):
            assert found[name] == pytest.approx(top[name] / 127, rel=1e-6)

    @pytest.mark.parametrize(("amax", "scale"), [("2.54", [0.02] * 16), (str([1.27] * 16), [0.01] * 16)])
    def test_amax_of_weights(self, tmp_path: Path, amax: str, scale: list[float]) -> None:
        old = entry("weight", "w1")
        new = re.sub(r"amax = (\[[^]]*\]|.*)", f"amax = {amax}", old)
        result = quantize(net(), plan=put(tmp_path, written(), (old, new)))
        assert constant(result, "w1_scale").tolist() == np.array(scale, np.float32).tolist()
        values = onnx.numpy_helper.to_array(net().graph.initializer[0])
        codes = np.clip(np.rint(values / np.float32(scale[0])), -127, 127)
        assert (constant(result, "w1_int8") == codes).all()

    def test_one_scale_for_all_weights(self, tmp_path: Path) -> None:
        old = entry("weight", "w1")
        path = put(tmp_path, written(), (old, '[[weight]]\nname = "w1"\n'))
        values = onnx.numpy_helper.to_array(net().graph.initializer[0])
        scale = constant(quantize(net(), plan=path), "w1_scale")
        assert scale.shape == ()
        assert scale == np.abs(values).max() / np.float32(127)

    def test_what_changes_nothing_is_said(self, tmp_path: Path) -> None:
        path = put(tmp_path, written(), change("tensor", "x", '"x"', '"c"'))
        told = "named by the plan, and not read quantized: 'c'; an Add reads what inputs = [0, 1]"
        assert told in notes(quantize(net(), data(), plan=path))

    def test_a_method_that_nothing_uses_is_said(self, tmp_path: Path) -> None:
        found = quantize(net(), data(), plan=put(tmp_path, written()), method="entropy")
        assert is_said(notes(found), "method-not-used", method="entropy")


def floats(*names: str) -> dict[str, np.ndarray]:
    """What the float model computes on the samples that calibrate."""
    model = onnx.ModelProto()
    model.CopyFrom(net())
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    from onnxq.data.samples import InputSpec
    from onnxq.data.sources import open_source
    from onnxq.data.split import split

    source = open_source(data(), [InputSpec("x", np.dtype(np.float32), (1, 16, 8, 8))])
    parts = split(source, 512, 0, choose=False, seen=None)
    runs = [session.run(list(names), sample.feeds) for sample in parts.calibration()]
    return {name: np.concatenate([run[i] for run in runs]) for i, name in enumerate(names)}


def head(pattern: str, new: str) -> tuple[str, str]:
    """An edit of the lines before the tables."""
    (old,) = re.findall(rf"^{pattern}$", written()["p.toml"].decode(), re.MULTILINE)
    return old, new


def cut(mark: str) -> tuple[str, str]:
    """The plan ends behind a text."""
    text = stated()["p.toml"].decode()
    return mark + text.split(mark, 1)[1], mark


def edit(**values: Any) -> tuple[str, str]:
    """One more edit behind the others."""
    said = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return BIAS, f"[[edit]]\n{said}\n{BIAS}"


SHIFT = 'kind = "shift"\ntensor = "r"\n'
SCALE = 'kind = "scale"\ntensor = "b"\naxis = 1\n'
FACTORS = "factors = [\n" + "    1.0,\n" * 16 + "]"
TENSORS = 'tensors = [\n    "r",\n    "s",\n]'
BIAS, CONSTANT, CODES = '[[bias]]\nnode = "third"', '[[constant]]\nname = "w4"', '[[codes]]\nweight = "w1"'
FLOAT32 = '[[float32]]\nnode = "depthwise"'
LATTICE = {"kind": "lattice", "tensor": "x", "step": 0.01, "centres": [0.5], "factors": [], "axis": 1}
TENSOR_X = '[[tensor]]\nname = "x"\n'
WRONG = {
    "no TOML": (("[model]\n", "[model\n"), "is not TOML: "),
    "cut in a text": (cut('name = "dept'.replace("name", "node")), "is not TOML: Unterminated string"),
    "cut in a list": (cut("factors = [\n    1.0,"), "is not TOML: Invalid value"),
    "key twice": (("[model]\n", '[model]\nhash = "0"\n'), "is not TOML: Cannot overwrite a value"),
    "no version": (("version = 1\n", ""), "is no plan: it has no version"),
    "newer": (("version = 1\n", "version = 2\n"), "version is 2, not 1, the version of the format"),
    "unknown key": (("version = 1\n", 'version = 1\nmodell = ""\n'), "there is no key 'modell'", "'model'"),
    "key in a table": (
        change("layer", "first", "format =", "fromat ="),
        "there is no key 'fromat'",
        "did you mean 'format'",
    ),
    "node": (
        change("layer", "second", '"second"', '"secnd"'),
        "there is no node 'secnd'",
        "did you mean 'second'",
    ),
    "operator": (change("layer", "first", '"Conv"', '"Gemm"'), "node 'first' is a Conv, not a Gemm"),
    "format": (change("layer", "first", '"int8"', '"int4"'), "there is no format 'int4'", "'int8'"),
    "no format": (change("layer", "first", "format = .*\n", ""), "[[layer]] 1 has no format"),
    "twice": (change("layer", "second", '"second"', '"first"'), "[[layer]] 'first' is there twice"),
    "cannot be int8": (
        (entry("layer", "first"), '[[layer]]\nnode = "relu"\nformat = "int8"\n'),
        "node 'relu' cannot be int8: no rule quantizes this",
    ),
    "tensor": (change("tensor", "x", '"x"', '"xx"'), "there is no tensor 'xx'", "did you mean 'x'"),
    "constant": (change("tensor", "x", '"x"', '"w1"'), "'w1' is a constant, not an activation", "[[weight]]"),
    "negative": (change("tensor", "x", "amax = .*", "amax = -1"), "amax is -1, not a number from 0"),
    "NaN": (change("tensor", "x", "amax = .*", "amax = nan"), "amax is nan, not a number from 0"),
    "in quotes": (change("tensor", "x", "amax = .*", 'amax = "1"'), "amax is '1', not a number from 0"),
    "method": (
        change("tensor", "x", "amax = .*", 'method = "entrpy"'),
        "there is no method for single tensors 'entrpy'",
        "did you mean 'entropy'",
    ),
    "amax and method": (
        change("tensor", "x", "amax = ", 'method = "mse"\namax = '),
        "an amax and a method, which exclude",
    ),
    "parameter": (
        change("tensor", "x", "amax = .*", 'method = "mse"\nconstant = 0.5'),
        "constant is a parameter of method average, not of mse",
    ),
    "amax of what is moved": (
        change("tensor", "k", '"k"', '"k"\namax = 1'),
        "'k' only repeats values of its group",
        "take it out",
    ),
    "alone": (change("group", "r", r"share = \[[^]]*\]", 'share = ["r"]'), "not two names or more"),
    "group of unknown": (
        change("group", "r", r"share = \[[^]]*\]", 'share = ["r", "rr"]'),
        "there is no tensor 'rr'",
        "'r'",
    ),
    "group of weights": (
        change("group", "r", r"share = \[[^]]*\]", 'share = ["r", "w1"]'),
        "'w1' is a constant",
        "share no scales",
    ),
    "two groups": (
        (entry("group", "r"), entry("group", "r") + '[[group]]\nshare = ["x", "r"]\n'),
        "'r' is in two groups",
    ),
    "weight": (change("weight", "w2", '"w2"', '"v2"'), "there is no weight 'v2'", "'w2'"),
    "activation": (change("weight", "w2", '"w2"', '"x"'), "'x' is an activation, not a weight", "[[tensor]]"),
    "channels": (
        change("weight", "w2", r"amax = (\[[^]]*\]|.*)", "amax = [1, 2]"),
        "weight 'w2' is given 2 amax, and has one along axis 0, 16",
    ),
    "axis": (change("weight", "w2", "axis = 0", "axis = 4"), "has 4 dimensions, and no axis 4"),
    "long list": (
        change("weight", "w2", r"amax = (\[[^]]*\]|.*)", 'amax = "file"'),
        "the file of long lists has no amax",
    ),
    "target": (
        head('target = "tensorrt-11"', 'target = "tensorrt-10"'),
        "the plan is for tensorrt-10",
        "--target",
    ),
    "model": (head('hash = ".*"', 'hash = "0"'), "the plan is of another model", 'hash = "'),
    "input": (head('x = "1x16x8x8"', 'xx = "1x16x8x8"'), "there is no input 'xx'", "did you mean 'x'"),
    "dimensions": (
        head('x = "1x16x8x8"', 'x = "1x16"'),
        "profile of 'x': min 1x16 has rank 2, the input has rank 4",
    ),
    "inputs of int8": (
        change("layer", "first", "because", "inputs = [0]\nbecause"),
        "node 'first' is int8, and no sum: what it reads is not chosen",
    ),
    "inputs": (
        change("layer", "first", '"int8"', '"float"\ninputs = [0]'),
        "node 'first' cannot be float and read inputs [0] quantized",
    ),
    "two tables": (
        (entry("weight", "w1"), entry("weight", "w1") + '[[weight]]\nname = "w1"\n'),
        "one set of scales, and this is the second table of it",
    ),
    "zero": (
        change("weight", "w2", r"amax = (\[[^]]*\]|.*)", "amax = 0"),
        "weight 'w2' is given an amax of 0, and is not zero",
    ),
    "sizes": (head('x = "1x16x8x8"', 'x = "1,16"'), "x is '1,16', not sizes"),
    "other sizes": (
        head('x = "1x16x8x8"', 'x = "1x16x9x8"'),
        "has size 9 at dimension 2, which the model fixes",
    ),
    "no size": (head('x = "1x16x8x8"', f'x = "1x16x8x{2**63}"'), f"has size {2**63} at dimension 3"),
    "share": (("[shapes]", "[shares]\na = -0.5\n\n[shapes]"), "a is -0.5, not a number above 0, at most 1"),
    "share of nothing": (
        ("[shapes]", "[shares]\na = 0.5\n\n[shapes]"),
        "there is no deployment 'a'",
        '"a/INPUT" = "MIN:OPT:MAX"',
    ),
    "number as a name": (change("layer", "pool", '"pool"', "3"), "node is 3, not a string"),
    "form of no weights": (
        change("layer", "pool", "because", 'scales = "post-scale"\nbecause'),
        "node 'pool' has no weights",
    ),
    "infinite": (change("tensor", "x", "amax = .*", "amax = inf"), "amax is inf, not a number from 0"),
    "percentile": (change("tensor", "x", "amax = .*", "percentile = 101"), "percentile is 101"),
    "name twice in a group": (
        change("group", "r", r"share = \[[^]]*\]", 'share = ["r", "s", "r"]'),
        "not names that are there once",
    ),
    "negative weight": (
        change("weight", "w2", r"amax = (\[[^]]*\]|.*)", "amax = [1, -1]"),
        "amax[1] is -1, not a number from 0",
    ),
    "axis below 0": (
        change("weight", "w2", "axis = 0", "axis = -1"),
        "axis is -1, not a whole number from 0",
    ),
    "axis of inputs": (
        change("weight", "w2", "axis = 0", "axis = 1"),
        "a scale for each channel along 0, and none along axis 1",
    ),
    "weight twice": (
        (entry("weight", "w1"), entry("weight", "w1") + '\n[[weight]]\nname = "w1"\naxis = 0\n'),
        "[[weight]] 'w1' is there twice",
    ),
    "edit": ((SHIFT, SHIFT.replace("shift", "shfit")), "there is no kind of edit 'shfit'", "'shift'"),
    "edit as a number": ((SHIFT, 'kind = 3\ntensor = "r"\n'), "kind is 3, not a string"),
    "edit without a kind": ((SHIFT, 'tensor = "r"\n'), "[[edit]] 2 has no kind"),
    "edit of nothing": ((SHIFT, SHIFT.replace('"r"', '"rr"')), "there is no tensor 'rr'", "'r'"),
    "edit of a constant": ((SHIFT, SHIFT.replace('"r"', '"w1"')), "'w1' cannot be shifted"),
    "edit of an input": ((SHIFT, SHIFT.replace('"r"', '"x"')), "'x' cannot be shifted"),
    "edit of some of a group": (
        (TENSORS, 'tensors = ["r"]'),
        "'r' cannot be shifted: others share its scale",
    ),
    "edit twice": (edit(kind="shift", tensor="r", by=1.0, tensors=["r", "s"]), "cannot be shifted"),
    "edit with more": (("by = 1.0", "by = 1.0\nbuy = 1"), "Shift has no 'buy'"),
    "edit with less": (("by = 1.0\n", ""), "Shift lacks 'by'"),
    "shift by a text": (("by = 1.0", 'by = "1"'), "by: a number is expected, and this is '1'"),
    "shift by NaN": (("by = 1.0", "by = nan"), "a shift is positive"),
    "shift down": (("by = 1.0", "by = -1.0"), "a shift is positive"),
    "shift out of float32": (("by = 1.0", "by = 1e39"), "a shift is positive, and a float32"),
    "scale along no axis": ((SCALE, SCALE.replace("1", "7")), "'b' has no axis 7"),
    "scale along a text": ((SCALE, SCALE.replace("1", '"1"')), "axis: a whole number is expected"),
    "factors": ((FACTORS, "factors = [1.0]"), "'b' has other channels"),
    "factor 0": ((FACTORS, f"factors = {[0.0] * 16}"), "factors are positive"),
    "ratios": (("[edit.ratios]\ns = 1.0", "ratios = [1.0]"), "ratios: an object is expected"),
    "lattice of nothing": (edit(**LATTICE, readers=[]), "nothing reads it"),
    "lattice of others": (edit(**LATTICE, readers=["third"]), "its layers read another tensor"),
    "lattice of a constant": (
        edit(**{**LATTICE, "tensor": "w1"}, readers=["first"]),
        "'w1' cannot be read as codes",
    ),
    "centres": (
        edit(**{**LATTICE, "centres": [1.0, 2.0, 3.0]}, readers=["first"]),
        "'first' reads 16 channels, not 3",
    ),
    "lattice of some that read a pair": (
        edit(**{**LATTICE, "tensor": "r"}, readers=["second"]),
        "'r' has one pair for 'second', 'pool', and with this edit they read several tensors",
    ),
    "split of some that read a pair": (
        edit(kind="split", tensor="r", step=0.01, readers=["second"]),
        "'r' has one pair for 'second', 'pool', and with this edit they read several tensors",
    ),
    "split of an input": (
        edit(kind="split", tensor="x", step=0.01, readers=["first"]),
        "'x' cannot be computed twice: 'x' is an input",
    ),
    "bias": ((BIAS, BIAS.replace("third", "thrid")), "has nothing for [[bias]] 'thrid'"),
    "bias twice": ((BIAS, f"{BIAS}\n\n{BIAS}"), "[[bias]] 'third' is there twice"),
    "bias of a number": ((BIAS, "[[bias]]\nnode = 3"), "node is 3, not a string"),
    "bias by hand": ((BIAS, f"{BIAS}\nvalues = [1]"), "there is no key 'values'"),
    "one bias": ((BIAS, BIAS.replace("[[bias]]", "[bias]")), "bias is not a list of tables", "[[bias]]"),
    "constant that is not fitted": (
        (CONSTANT, CONSTANT.replace("w4", "w5")),
        "has nothing for [[constant]] 'w5'",
    ),
    "key of codes": ((CODES, CODES.replace("weight", "name")), "there is no key 'name'"),
    "codes along an axis": ((CODES, f"{CODES}\naxis = 3"), "there is no key 'axis'"),
    "no file of fitted values": (("repairs = ", "# repairs = "), "names no file of fitted values"),
    "another file": (('repairs = "p.', 'repairs = "q.'), "cannot read", "put it beside it again"),
    "no name of a file": (('repairs = "p.', 'repairs = "\\u0000'), "embedded null byte"),
    "body": (('[body]\ntype = "fp16"', '[body]\ntype = "int4"'), "there is no body 'int4'"),
    "no type": (('[body]\ntype = "fp16"', "[body]"), "[body] has no type"),
    "io": (('io = "fp16"', 'io = "bf16"'), "inputs and outputs are bf16, and the body is fp16"),
    "form": (('scales = "per-channel"', 'scales = "per-chanel"'), "there is no form of scales 'per-chanel'"),
    "settled as a text": (
        ("settled = true\nfloat32_io", 'settled = "true"\nfloat32_io'),
        "not true or false",
    ),
    "mask": (("settled = true\nfloat32_io", 'settled = true\nmasks = ["q"]\nfloat32_io'), "no tensor 'q'"),
    "input or output": (
        ('float32_io = [\n    "y",\n]', 'float32_io = ["q"]'),
        "there is no input or output 'q'",
    ),
    "float32": ((FLOAT32, FLOAT32.replace("dep", "de")), "there is no node 'dethwise'", "'depthwise'"),
    "float32 twice": ((FLOAT32, f"{FLOAT32}\n\n{FLOAT32}"), "[[float32]] 'depthwise' is there twice"),
    "no body": (("[body]\ntype", "[bdy]\ntype"), "there is no key 'bdy'", "did you mean 'body'"),
}


ELSEWHERE = {
    "no version": "# The quantization plan",
    "key twice": 'hash = "',
    "no file of fitted values": "[[bias]]",
}
"""The line that is named where it is not the edited one."""


class TestMistakes:
    def test_the_plan_without_one_is_obeyed(self, tmp_path: Path) -> None:
        result = quantize(net(), plan=put(tmp_path, stated()))
        part = result.report.repair
        assert part is not None
        assert ([edit["kind"] for edit in part.edits], part.biases, part.codes) == (["scale", "shift"], 2, 1)
        assert "depthwise" in {entry.node for entry in result.report.body.float32}

    @pytest.mark.parametrize("name", WRONG)
    def test_is_named_with_its_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """Before anything is measured: the line of the value, or that of its table."""
        change, *said = WRONG[name]
        path = put(tmp_path, stated(), change)  # type: ignore[arg-type]
        monkeypatch.delattr(starting, "Ranging")
        with pytest.raises(UserError) as caught:
            quantize(net(), data(), plan=path)
        text = f"{caught.value}\n{caught.value.hint}"
        assert type(caught.value) is UserError
        assert repr(str(path)) in text
        assert caught.value.hint
        for part in said:
            assert part in text
        found = re.search(r"line (\d+)", text)
        assert found
        before, after = stated()["p.toml"].decode().splitlines(), path.read_text("utf-8").splitlines()
        first = next(
            (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after) - 1
        )
        rest = zip(reversed(before[first:]), reversed(after[first:]), strict=False)
        last = len(after) - len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], rest)))
        begins = [i for i in range(first) if re.match(r"\[|\w+ = ", after[i])]
        tables = [i for i in begins if after[i].startswith("[")]
        line = int(found[1]) - 1
        if name in ELSEWHERE:
            assert after[line].startswith(ELSEWHERE[name])
        else:
            assert line in {*range(first, max(last, first + 1)), *begins[-1:], *tables[-1:]}

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="cannot read"):
            quantize(net(), plan=tmp_path / "p.toml")

    def test_long_lists_that_are_gone_or_others(self, tmp_path: Path) -> None:
        amax = np.arange(1, 40, dtype=np.float32)
        file = PlanFile("m", "0", "tensorrt-11", {}, (), (), (), (WeightEntry("w", 0, amax),))
        path = put(tmp_path, file.files("p.toml"))
        (beside,) = tmp_path.glob("p.*.npz")
        content = beside.read_bytes()
        other = PlanFile("m", "0", "tensorrt-11", {}, (), (), (), (WeightEntry("w", 0, amax + 1),))
        for damaged in (content[:-1], b"", next(iter(other.files("p.toml").values()))):
            beside.write_bytes(damaged)
            with pytest.raises(UserError, match="is another file than was written"):
                read_plan(path)
        beside.unlink()
        with pytest.raises(UserError, match="No such file"):
            read_plan(path)

    def test_an_edited_plan_is_not_replaced(self, tmp_path: Path) -> None:
        path = put(tmp_path, written())
        before = path.read_bytes()
        found = plan(net(), data(), method="minmax")
        with pytest.raises(UserError, match="may have been edited"):
            found.save(path)
        assert path.read_bytes() == before
        assert found.save(path, force=True)[-1] == path
