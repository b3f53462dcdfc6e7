"""A model that compiles does not become one that does not, and where it does, that is said first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest
from grid_nets import Net
from onnx.shape_inference import infer_shapes
from test_compiled import NETS
from test_own_pairs import half_quantized
from test_precisions import recast
from typer.testing import CliRunner

import onnxq
from onnxq.advice.worth import worth_of
from onnxq.checks.lint import confirmed_lint
from onnxq.cli.app import app
from onnxq.graph.model import Model
from onnxq.pipeline.searches import compile as compilation
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.wants import left_float
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt

RULES = load_rules()
COMPILED = trt.Engine("compiled", "", "a compiler", 89)


def failed(reason: str) -> trt.Engine:
    return trt.Engine("failed", reason, "a compiler", 89)


def chain(*names: str) -> onnx.ModelProto:
    """Convolutions with a pool behind the second."""
    net, x = Net(1, 16, 8, 8), "x"
    for number, name in enumerate(names):
        x = net.add("Relu", net.conv(x, 16, 16, 3, 3, seed=number, name=name))
        if number == 1:
            x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    return net.model(x)


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((1, 16, 8, 8), np.float32)} for _ in range(8)]


def quantized_nodes(model: onnx.ModelProto) -> set[str]:
    """The names of the nodes that read what a DequantizeLinear gives."""
    given = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    return {node.name for node in model.graph.node if given.intersection(node.input)}


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[set[str]]]:
    """Replaces the compiler by a function from a model to what comes of it."""

    def install(judge: Callable[[onnx.ModelProto], trt.Engine]) -> list[set[str]]:
        asked: list[set[str]] = []

        def compile_engine(path: Path, **_: object) -> trt.Engine:
            model = onnx.load(path)
            asked.append(quantized_nodes(model))
            return judge(model)

        def compile_engines(paths: list[Path], **given: object) -> list[trt.Engine]:
            """Plain float16 beside the first is not asked about."""
            return [compile_engine(paths[0], **given), *(COMPILED for _ in paths[1:])]

        monkeypatch.setattr(trt, "compile_engine", compile_engine)
        monkeypatch.setattr(trt, "compile_engines", compile_engines)
        monkeypatch.setattr(trt, "installed", lambda: "a compiler")
        return asked

    return install


def breaks_at(*nodes: str, words: str = "an internal error") -> Callable[[onnx.ModelProto], trt.Engine]:
    return lambda model: failed(words) if quantized_nodes(model).issuperset(nodes) else COMPILED


NAMES = [f"conv_{number}" for number in range(7)]


@pytest.mark.parametrize("node", [*NAMES, "pool"])
@pytest.mark.parametrize("words", ["an internal error", "no kernel for {node} (Conv)"])
def test_a_layer_that_breaks_the_build_is_left_in_float(compiler, node: str, words: str) -> None:
    words = words.format(node=node)
    asked = compiler(breaks_at(node, words=words))
    result = onnxq.quantize(chain(*NAMES), samples(), method="minmax", body="fp32", repair="none")
    idle = {"pool"} if node == "conv_2" else set[str]()  # it moves values to that alone
    assert len(asked) <= 3 + 1 + 4 + len(idle)  # a search in 8 nodes
    assert quantized_nodes(result.model) == {*NAMES, "pool"} - {node} - idle
    assert not [one for one in confirmed_lint(Model.open(result.model)) if one.check == "idle-pair"]
    onnx.checker.check_model(result.model, full_check=True)
    plan, engine = result.report["plan"], result.report["engine"]
    kept = {entry["node"]: entry["because"] for entry in plan["kept_float"]}
    assert kept == {node: compilation.KEPT_TO_COMPILE}
    assert {layer["node"] for layer in plan["layers"] if layer["format"] == "int8"} == set(NAMES) - {node}
    assert node not in {edge["node"] for site in plan["sites"] for edge in site["readers"]}
    assert engine["status"] == "compiled"
    assert not engine["regressed"]
    assert engine["regression"] == {"reason": words, "by": "quantization", "node": node}
    constants = {tensor.name for tensor in result.model.graph.initializer}
    read = {name for one in result.model.graph.node for name in one.input}
    assert constants <= read
    dequantizes = [one for one in result.model.graph.node if one.op_type == "DequantizeLinear"]
    assert all(read.intersection(one.output) for one in dequantizes)


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("name", NETS)
def test_what_is_taken_out_was_put_in(name: str, kind: str) -> None:
    proto = NETS[name]() if kind == "float32" else recast(NETS[name](), kind)
    twin = proto.graph.node.add()  # weights of two readers
    twin.CopyFrom(next(node for node in proto.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")))
    twin.name, twin.output[0] = "twin", "twin"
    proto.graph.output.add(name="twin")
    model = Model.open(proto)
    before = model.to_proto()
    plan = make_plan(model, RULES)
    ops = {node.name: node.op for node in model.graph.nodes}

    def without(*nodes: str) -> onnx.ModelProto:
        left = left_float(plan, dict.fromkeys(nodes, "why"), ops)
        return insert(model, left, dict.fromkeys(range(99), np.float32(0.05))).model.to_proto()

    whole = without(*plan.readers)
    assert whole.graph.node == before.graph.node
    constants = {tensor.name: tensor for tensor in before.graph.initializer}
    assert {tensor.name: tensor for tensor in whole.graph.initializer} == constants
    old = {node.name for node in before.graph.node}
    for node in plan.readers:
        rest = without(node)
        left = old & (quantized_nodes(rest) | _behind_casts(rest))
        assert left == left_float(plan, {node: "why"}, ops).readers
        assert left.isdisjoint(plan.with_partners([node]))
        ort.load(rest)


def _behind_casts(model: onnx.ModelProto) -> set[str]:
    """The nodes that read what a DequantizeLinear gives, cast."""
    given = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    cast = {n.output[0] for n in model.graph.node if n.op_type == "Cast" and given.intersection(n.input)}
    return {node.name for node in model.graph.node if cast.intersection(node.input)}


def test_the_accuracy_is_of_the_model_that_is_kept(compiler) -> None:
    nets, without = chain("a", "b"), {}
    for kept in ("a", "b"):
        compiler(lambda model: COMPILED)
        wanted = onnxq.quantize(
            nets, samples(), method="minmax", body="fp32", keep_float=[kept], repair="none"
        )
        compiler(breaks_at(kept))
        found = onnxq.quantize(nets, samples(), method="minmax", body="fp32", repair="none")
        assert found.report["accuracy"] == wanted.report["accuracy"]
        without[kept] = found.report["accuracy"]
    assert without["a"] != without["b"]


@pytest.mark.parametrize("words", ["both", "a kernel"])
def test_of_several_layers_that_break_it_each_is_found(compiler, words: str) -> None:
    bad = {"conv_1", "conv_4"}
    compiler(lambda model: failed(words) if quantized_nodes(model) & bad else COMPILED)
    result = onnxq.quantize(chain(*NAMES), samples(), method="minmax", body="fp32", repair="none")
    assert quantized_nodes(result.model) == {*NAMES, "pool"} - bad
    engine = result.report["engine"]
    assert engine["status"] == "compiled"
    assert engine["regression"] == {"reason": words, "by": "quantization", "node": "conv_1"}
    assert {one["node"]: one["code"] for one in result.report["plan"]["kept_float"]} == dict.fromkeys(
        bad, "does-not-compile"
    )


def halves(model: onnx.ModelProto) -> set[str]:
    """The names of the nodes that give float16."""
    given = {info.name: info.type.tensor_type.elem_type for info in infer_shapes(model).graph.value_info}
    return {node.name for node in model.graph.node if given.get(node.output[0]) == onnx.TensorProto.FLOAT16}


def test_nodes_of_the_body_are_found_by_bisection(compiler) -> None:
    """No words of the compiler help, no layer is to blame, and all else stays in half precision."""
    bad = {"conv_1", "conv_4"}
    asked = compiler(lambda model: failed("no words") if halves(model) & bad else COMPILED)
    result = onnxq.quantize(chain(*NAMES), samples(), method="minmax", repair="none")
    body = result.report["body"]
    assert {one["node"] for one in body["float32"] if one["code"] == "compiler"} == bad
    assert halves(result.model) & {*NAMES} == {*NAMES} - bad
    assert not result.report["plan"]["kept_float"]
    assert len(asked) <= 2 + 2 * (4 + 2) + 1  # it and a float32 body, 15 nodes twice, all layers in float
    assert any("'conv_1', 'conv_4'" in note and "no words" in note for note in body["notes"])


def test_nodes_alike_are_found_together(compiler) -> None:
    """Of a net of many blocks each would take a search of its own."""
    names = [f"block_{number}" for number in range(40)]
    bad = {name for name in names if 2 <= int(name[6:]) < 30}  # behind the pool; others read the last ones
    asked = compiler(lambda model: failed("no words") if halves(model) & bad else COMPILED)
    result = onnxq.quantize(chain(*names), samples(), method="minmax", repair="none")
    assert result.report["body"]["type"] == "fp16"
    assert halves(result.model).isdisjoint(bad)
    assert halves(result.model)
    assert len(asked) <= 2 + 2 * (7 + 2) + 1


def test_a_search_that_is_cut_says_so(compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_COMPILATIONS", 3)
    asked = compiler(lambda model: failed("no words") if "conv_5" in halves(model) else COMPILED)
    result = onnxq.quantize(chain(*NAMES), samples(), method="minmax", repair="none")
    assert len(asked) <= 2 + 3 + 1
    assert "conv_1" in halves(result.model)
    assert any("cut after 5 compilations" in note for note in result.report["body"]["notes"])


def test_what_only_both_together_mend(compiler) -> None:
    def judge(model: onnx.ModelProto) -> trt.Engine:
        quantized = quantized_nodes(model) | _behind_casts(model)
        return failed("x") if "conv_1" in halves(model) or "conv_4" in quantized else COMPILED

    compiler(judge)
    result = onnxq.quantize(chain(*NAMES), samples(), method="minmax", repair="none")
    assert result.report["engine"]["status"] == "compiled"
    assert [one["node"] for one in result.report["plan"]["kept_float"]] == ["conv_4"]
    assert halves(result.model) & {*NAMES} == {*NAMES} - {"conv_1"}


@pytest.mark.parametrize(("ratios", "kept"), [((0.9, 0.7, 1.3), 1), ((0.8, 0.8, 0.9), 0), ((None, None), 0)])
def test_what_moves_fewest_bytes_is_kept(ratios, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [compilation._Tried(ratio, COMPILED, (place,)) for place, ratio in enumerate(ratios)]
    engines = SimpleNamespace(compared=lambda engine, built: built)
    worth = lambda ratio: None if ratio is None else SimpleNamespace(ratio=ratio)  # noqa: E731
    monkeypatch.setattr(compilation, "worth_of", worth)
    assert compilation._cheapest(engines, found).back == (kept,)


def test_a_model_that_never_compiled_is_not_searched(compiler) -> None:
    asked = compiler(lambda model: failed("no importer"))
    engine = onnxq.quantize(chain("a"), samples(), method="minmax", body="fp32", repair="none").report[
        "engine"
    ]
    assert len(asked) == 2
    assert engine["status"] == "failed"
    assert not engine["regressed"]
    assert engine["regression"] is None


def test_a_model_that_compiles_is_compiled_once(compiler) -> None:
    asked = compiler(lambda model: COMPILED)
    onnxq.quantize(chain("a"), samples(), method="minmax", body="fp32", repair="none")
    assert len(asked) == 1


def with_identity() -> onnx.ModelProto:
    """A net of which repair takes a node."""
    proto = chain("a", "b")
    proto.graph.node.add(op_type="Identity", name="same", input=["relu4"], output=["z"])
    proto.graph.output[0].name = "z"
    del proto.graph.value_info[:]
    return infer_shapes(proto)


def breaks_repaired(model: onnx.ModelProto) -> trt.Engine:
    whole = any(node.op_type == "Identity" for node in model.graph.node)
    return COMPILED if whole else failed("something about 'b'")


def test_a_repair_that_breaks_it_is_told_apart(compiler) -> None:
    compiler(breaks_repaired)
    engine = onnxq.quantize(with_identity(), samples(), method="minmax", body="fp32").report["engine"]
    assert engine["regressed"]
    assert engine["regression"] == {"reason": "something about 'b'", "by": "repair", "node": "b"}


def test_the_original_is_compiled_with_what_is_stated_of_it(compiler) -> None:
    shapes: list[list[object]] = []

    def judge(model: onnx.ModelProto) -> trt.Engine:
        dims = model.graph.input[0].type.tensor_type.shape.dim
        shapes.append([dim.dim_param or dim.dim_value for dim in dims])
        return failed("no")

    compiler(judge)
    proto = chain("a")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    del proto.graph.value_info[:]
    proto.graph.output[0].type.ClearField("value")
    onnxq.quantize(proto, samples(), method="minmax", body="fp32", shapes={"x": [1, 16, 8, 8]}, repair="none")
    assert shapes == [[1, 16, 8, 8]] * 2


def test_a_compiler_that_fails_itself_costs_nothing(compiler) -> None:
    def judge(model: onnx.ModelProto) -> trt.Engine:
        raise onnxq.base.errors.Fault("the program that runs it failed")

    compiler(judge)
    engine = onnxq.quantize(chain("a"), samples(), method="minmax", body="fp32", repair="none").report[
        "engine"
    ]
    assert engine["status"] == "not-run"
    assert "failed" in engine["reason"]


def breaks_at_both(model: onnx.ModelProto) -> trt.Engine:
    return failed("it is bad") if quantized_nodes(model) & {"a", "b"} else COMPILED


@pytest.mark.parametrize(
    ("judge", "flags", "code", "says"),
    [
        (breaks_at("a"), [], 1, "left in float"),  # and the other layer does not run in int8
        (breaks_at("a"), ["--config", "zero.toml"], 0, "left in float"),
        (breaks_at("a"), ["--strict"], 1, "not run in it"),
        (breaks_at_both, [], 1, "nothing is quantized"),  # and it compiles
        (breaks_at_both, ["--config", "zero.toml"], 0, "left in float"),
        (breaks_at_both, ["--strict"], 1, "'a' and 1 more are left in float"),
        (breaks_repaired, [], 1, "and the original does"),
        (lambda model: failed("always"), ["--strict"], 1, "does not compile"),
        (breaks_at_both, ["--strict", "--no-engine"], 2, "--no-engine"),
        (breaks_at_both, ["--strict", "--target", "tensorrt-7"], 2, "TensorRT 7"),
    ],
)
def test_the_exit_code(
    compiler, judge, flags: list[str], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(judge)
    onnx.save(with_identity(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    Path("zero.toml").write_text("[engine]\nexit_zero = true\n")
    np.savez(tmp_path / "data.npz", x=np.concatenate([sample["x"] for sample in samples()]))
    output = tmp_path / "m.int8.onnx"
    arguments = [
        "quantize",
        tmp_path / "m.onnx",
        "--calib",
        tmp_path / "data.npz",
        "-o",
        output,
        "--body",
        "fp32",
        *flags,
    ]
    ran = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "110"})
    assert ran.exit_code == code, ran.output
    assert says in ran.output
    if says == "and the original does":
        lines = [line.strip() for line in ran.output.splitlines() if not line.startswith("onnxq:")]
        alarm = "Do not ship it: it does not compile, and the original does: something about 'b'"
        assert lines[:2] == [alarm, "at 'b'"]
    assert output.exists() == (code != 2)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_real_compiler_is_satisfied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxq.quant.insert.unify_scale_types", lambda model: [])
    rng = np.random.default_rng(0)
    data = [{"x": rng.standard_normal((1, 32, 64)).astype(np.float16)} for _ in range(4)]
    result = onnxq.quantize(half_quantized("some weights"), data, method="minmax", repair="none")
    engine = result.report["engine"]
    assert "lhs_scale" in engine["regression"]["reason"]
    assert engine["status"] == "compiled", engine["reason"]
    assert engine["int8"] == engine["planned"] == 2


def rotary() -> onnx.ModelProto:
    """Attention at a free number of places, each rotated by its own angles."""
    net = Net(1, "T", 64)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)

    def layer(x: str, name: str) -> str:
        weight = net.const((rng.standard_normal((64, 64)) / 8).astype(np.float32))
        return net.add("Add", net.add("MatMul", x, weight, name=name), net.const(np.ones(64, np.float32)))

    def turned(x: str) -> str:
        net.add("Split", x, net.const(np.array([8, 8])), outputs=2, name=f"{x}_split", axis=3)
        other = net.add("Concat", net.add("Neg", f"{x}_split_1"), f"{x}_split_0", axis=3)
        return net.add("Add", net.add("Mul", x, cos), net.add("Mul", other, sin))

    size = net.add("Gather", net.add("Shape", "x"), net.const(np.array(1)))
    places = net.add("Range", net.const(np.array(0)), size, net.const(np.array(1)))
    places = net.add("Unsqueeze", net.add("Cast", places, to=1), net.const(np.array([1])))
    turns = net.const((0.1 ** np.arange(8)).astype(np.float32)[None])
    angle = net.add("MatMul", places, turns)
    angle = net.add("Concat", angle, angle, axis=1)
    cos, sin = net.add("Cos", angle), net.add("Sin", angle)
    heads = net.const(np.array([0, -1, 4, 16]))
    q, k, v = (
        net.add("Transpose", net.add("Reshape", layer("x", name), heads), perm=[0, 2, 1, 3]) for name in "qkv"
    )
    keys = net.add("Transpose", turned(k), perm=[0, 1, 3, 2])
    weights = net.add("Softmax", net.add("MatMul", turned(q), keys), axis=-1)
    out = net.add("Transpose", net.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    return net.model(layer(net.add("Reshape", out, net.const(np.array([0, -1, 64]))), "o"))


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_real_compiler_has_one_layer_of_an_attention_in_float() -> None:
    """It refuses three int8 layers of one input whose biases are float16, and says so of an Add."""
    rng = np.random.default_rng(0)
    data = [{"x": rng.standard_normal((1, 48, 64), np.float32)} for _ in range(8)]
    report = onnxq.quantize(rotary(), data, method="minmax", repair="none", prove="never").report
    assert report.engine.status == "compiled"
    assert "Myelin" in report.engine.regression.reason
    assert [one.node for one in report.plan.kept_float if one.code == "does-not-compile"] == ["v"]
    assert report.body.type == "fp16"
    assert worth_of(report.verdict).ratio < 1
