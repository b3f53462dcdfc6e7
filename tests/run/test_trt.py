import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from lowest import lowest
from onnx import TensorProto, helper, numpy_helper, parser
from said import is_said

import onnxq
from onnxq.base.errors import Fault, UserError
from onnxq.options.settings import Compilation
from onnxq.run import trt
from onnxq.targets import load_target

needs_compiler = pytest.mark.skipif(
    trt.installed() is None, reason="tensorrt-rtx is not installed: pip install 'onnxq[trt]'"
)
CORPUS = os.environ.get("ONNXQ_CORPUS")

HOSTILE = ["a, b]", "p, LayerType: kgen, Inputs: [", "][ONNX Layer: z]", "two\nName: lines", "~2c~"]


def save(path: Path, text: str) -> Path:
    onnx.save(parser.parse_model('<ir_version: 10, opset_import: ["" : 17]>' + text), path)
    return path


class Net:
    """A chain of layers on x, float[1, 32, 16, 16], that is quantized piece by piece."""

    def __init__(self, batch: int | str = 1) -> None:
        self.batch = batch
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)

    def constant(self, value: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def add(self, op: str, *inputs: str, name: str | None = None, **attributes: object) -> str:
        out = f"{op.lower()}_{len(self.nodes)}"
        name = out + "_node" if name is None else name
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=name, **attributes))
        return out

    def quantize(self, x: str) -> str:
        pair = self.constant(np.float32(0.05)), self.constant(np.int8(0))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *pair), *pair)

    def weights(self, *shape: int, int8: bool, axis: int = 0) -> str:
        if not int8:
            return self.constant(self.rng.standard_normal(shape).astype(np.float32))
        codes = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        channels = shape[axis]
        scale = self.constant(np.linspace(0.01, 0.02, channels, dtype=np.float32))
        zero = self.constant(np.zeros(channels, np.int8))
        return self.add("DequantizeLinear", codes, scale, zero, axis=axis)

    def conv(self, x: str, name: str, *, activation: bool = True, weights: bool = True) -> str:
        x = self.quantize(x) if activation else x
        w = self.weights(32, 32, 3, 3, int8=weights)
        return self.add("Conv", x, w, name=name, pads=[1, 1, 1, 1])

    def save(self, path: Path, output: str) -> Path:
        def value(name: str) -> onnx.ValueInfoProto:
            shape = [self.batch, 32, 16, 16]
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(self.nodes, "net", [value("x")], [value(output)], self.constants)
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
        return path


# --- compiling ------------------------------------------------------------------------------------


@needs_compiler
def test_a_quantized_net_runs_in_int8(tmp_path):
    net = Net()
    y = net.add("Relu", net.conv("x", "first"), name="relu")
    y = net.add("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    model = net.save(tmp_path / "m.onnx", net.conv(y, "second"))
    engine = trt.compile_engine(model)

    assert engine.status == "compiled"
    assert engine.reason == ""
    assert engine.compiler == trt.installed()
    assert engine.sm == 89
    assert engine.plan_bytes > 1000
    assert engine.errors == ()
    assert engine.profiles == {}
    running = trt.int8_of(engine, ["first", "second", "relu", "absent"])
    assert running["first"].multiplies("int8")
    assert running["second"].multiplies("int8")
    assert running["first"] is not running["second"]
    assert running["relu"] is not None
    assert not running["relu"].multiplies("int8")
    assert running["absent"] is None
    assert json.loads(json.dumps(engine.to_dict())) == engine.to_dict()
    assert engine.to_dict()["layers"][0]["name"] == engine.layers[0].name


@needs_compiler
@pytest.mark.parametrize(("activation", "weights"), [(False, True), (True, False), (False, False)])
def test_a_half_quantized_convolution_is_not_int8(tmp_path, activation, weights):
    net = Net()
    y = net.conv("x", "conv", activation=activation, weights=weights)
    engine = trt.compile_engine(net.save(tmp_path / "m.onnx", net.add("Relu", y)))
    layer = trt.int8_of(engine, ["conv"])["conv"]
    assert layer.is_matrix
    assert layer.precision == "fp32"


@needs_compiler
@pytest.mark.parametrize(("activation", "weights"), [(True, True), (False, True), (True, False)])
def test_a_matrix_product_is_int8_only_with_both_factors(tmp_path, activation, weights):
    net = Net()
    x = net.quantize("x") if activation else "x"
    y = net.add("MatMul", x, net.weights(16, 16, int8=weights, axis=1), name="product")
    engine = trt.compile_engine(net.save(tmp_path / "m.onnx", y))
    layer = trt.int8_of(engine, ["product"])["product"]
    assert layer.is_matrix
    assert layer.precision == ("int8" if activation and weights else "fp32")


@needs_compiler
def test_names_that_look_like_the_log_do_not_mislead(tmp_path):
    net, y = Net(), "x"
    for name in HOSTILE:
        y = net.add("Relu", net.conv(y, name), name=name + "/relu")
    engine = trt.compile_engine(net.save(tmp_path / "m.onnx", y))
    assert engine.status == "compiled"
    running = trt.int8_of(engine, HOSTILE)
    assert all(layer.multiplies("int8") for layer in running.values())
    assert [layer.name for layer in running.values()] == [
        f"{name}_myl0_{2 * i + 1}" for i, name in enumerate(HOSTILE)
    ]
    assert all(name + "/relu" in {n for layer in engine.layers for n in layer.nodes} for name in HOSTILE)


@needs_compiler
def test_a_hostile_input_name_takes_a_profile(tmp_path):
    net = Net("N")
    model = onnx.load(net.save(tmp_path / "m.onnx", net.conv("x", "conv")))
    hostile = "x, { Name: [1"
    model.graph.input[0].name = hostile
    model.graph.node[0].input[0] = hostile
    onnx.save(model, tmp_path / "m.onnx")
    profile = ((1, 32, 16, 16), (2, 32, 16, 16), (4, 32, 16, 16))
    engine = trt.compile_engine(tmp_path / "m.onnx", profiles={hostile: profile})
    assert engine.status == "compiled"
    assert engine.profiles == {hostile: profile}
    assert hostile in {tensor.name for layer in engine.layers for tensor in layer.inputs}


@needs_compiler
def test_a_node_without_a_name_goes_by_its_output(tmp_path):
    net = Net()
    y = net.conv("x", "")
    engine = trt.compile_engine(net.save(tmp_path / "m.onnx", y))
    assert trt.int8_of(engine, [f"node_of_{y}"])[f"node_of_{y}"].multiplies("int8")


@needs_compiler
def test_a_dynamic_input_takes_a_profile(tmp_path):
    net = Net("N")
    model = net.save(tmp_path / "m.onnx", net.conv("x", "conv"))
    profile = ((1, 32, 16, 16), (4, 32, 16, 16), (8, 32, 16, 16))
    engine = trt.compile_engine(model, profiles={"x": profile})
    assert engine.status == "compiled"
    assert engine.profiles == {"x": profile}
    assert trt.int8_of(engine, ["conv"])["conv"].multiplies("int8")
    assert trt.compile_engine(model).profiles == {"x": ((1, 32, 16, 16),) * 3}
    with pytest.raises(UserError, match="no input 'y'") as caught:
        trt.compile_engine(model, profiles={"y": profile})
    assert "'x'" in caught.value.hint


@needs_compiler
def test_external_data_is_found_beside_the_model(tmp_path):
    net = Net()
    model = onnx.load(net.save(tmp_path / "m.onnx", net.conv("x", "conv")))
    big = tmp_path / "big.onnx"
    onnx.save(model, big, save_as_external_data=True, location="big.data", size_threshold=0)
    assert trt.compile_engine(big).status == "compiled"
    (tmp_path / "big.data").unlink()
    engine = trt.compile_engine(big)
    assert engine.status == "failed"
    assert "import initializer" in engine.reason


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
@pytest.mark.parametrize("name", [b"model.onnx", b"\xff.onnx"])
def test_a_path_that_is_not_utf8_is_compiled(tmp_path, name):
    """The compiler takes UTF-8 alone; weights beside the model are found all the same."""
    net = Net()
    model = onnx.load(net.save(tmp_path / "m.onnx", net.conv("x", "conv")))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    for old, new in (("m.onnx", os.fsdecode(name)), ("w.data", "w.data")):
        (tmp_path / old).rename(folder / new)
    assert trt.compile_engine(folder / os.fsdecode(name)).status == "compiled"


@needs_compiler
def test_an_unknown_compute_capability_names_those_that_exist(tmp_path):
    model = save(tmp_path / "m.onnx", "g (float[4] x) => (float[4] y) { y = Relu(x) }")
    with pytest.raises(UserError, match="sm 61") as caught:
        trt.compile_engine(model, sm=61)
    assert "89" in caught.value.hint


@needs_compiler
def test_what_the_parser_rejects_is_named(tmp_path):
    model = save(
        tmp_path / "m.onnx", "g (float[4] x) => (float[4] z) { [one] y = NoSuchOp(x) [two] z = NorThis(y) }"
    )
    engine = trt.compile_engine(model)
    assert engine.status == "failed"
    assert [(e.node, e.op) for e in engine.errors] == [("one", "NoSuchOp"), ("two", "NorThis")]
    assert "INVALID_NODE: " in engine.errors[0].message
    assert "Plugin not found" in engine.errors[0].message
    assert engine.reason.splitlines() == [str(error) for error in engine.errors]
    assert engine.reason.startswith("node 'one' (NoSuchOp): ")
    assert engine.layers == ()
    assert trt.check_parse(model) == list(engine.errors)


@needs_compiler
def test_an_error_that_names_nothing_is_that_of_the_node_which_is_not_ended(tmp_path):
    model = save(
        tmp_path / "m.onnx",
        "g (float[4, 4] x, int64[2, 4] i, float[2, 4] u) => (float[4, 4] z)"
        ' { [whole] y = ScatterElements(x, i, u) [odd] w = ScatterElements<reduction = "add">(y, i, u)'
        " [later] z = Relu(w) }",
    )
    proto = onnx.load(model)
    proto.graph.node[1].name = "a [b] c"
    onnx.save(proto, model)
    (error,) = trt.check_parse(model)
    assert (error.node, error.op) == ("a [b] c", "ScatterElements")
    assert str(error).startswith("node 'a [b] c' (ScatterElements): importScatterElements: ")


@needs_compiler
def test_what_the_parser_takes_and_the_compiler_does_not(tmp_path):
    model = save(
        tmp_path / "m.onnx",
        "g (float[1, 4000] x) => (float[1, 3900] v, int64[1, 3900] i)"
        " { k = Constant<value = int64[1] {3900}>() [top] v, i = TopK(x, k) }",
    )
    assert trt.check_parse(model) == []
    engine = trt.compile_engine(model)
    assert engine.status == "failed"
    assert engine.errors == ()
    assert "top" in engine.reason
    assert "3840" in engine.reason
    assert len(set(engine.warnings)) == len(engine.warnings)


@needs_compiler
@pytest.mark.parametrize("content", [b"", b"hello world, not a model"])
def test_a_file_that_is_no_model_fails(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert trt.compile_engine(path).status == "failed"
    (error,) = trt.check_parse(path)
    assert "no graph" in error.message


@needs_compiler
def test_nothing_imports_the_compiler_here(tmp_path):
    model = save(tmp_path / "m.onnx", "g (float[4] x) => (float[4] y) { y = Relu(x) }")
    program = (
        "import sys; from pathlib import Path; from onnxq.run import trt; "
        f"assert trt.compile_engine(Path({str(model)!r})).status == 'compiled'; "
        "assert 'tensorrt_rtx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@needs_compiler
@pytest.mark.skipif(CORPUS is None, reason="ONNXQ_CORPUS is not set")
@pytest.mark.parametrize(
    "name",
    [
        "mnist_cntk_ortie",
        "cifar10_pytorch_winml",
        "yunet_120x160",
        "magika_v3_3",
        "iris_mlp_winml",
        "tract_qlstm",
        "silero_vad_openvino_16k",
        "trt_polygraphy_residual_block",
        "osf_landmarks0",
    ],
)
def test_the_models_of_the_corpus_compile_or_fail_as_measured(name):
    (entry,) = (
        entry for entry in json.loads(Path(CORPUS, "manifest.json").read_text()) if entry["name"] == name
    )
    model = Path(CORPUS, "models", f"{name}.onnx")
    engine = trt.compile_engine(model)
    assert engine.status == ("compiled" if entry["tensorrt_rtx"]["builds"] else "failed")
    assert bool(engine.layers) == (engine.status == "compiled")
    assert (trt.check_parse(model) == []) == entry["tensorrt_rtx"]["parses"]
    matrices = [
        node.name or f"node_of_{node.output[0]}"
        for node in onnx.load(model).graph.node
        if node.op_type in ("Conv", "Gemm", "MatMul")
    ]
    if engine.status == "compiled":
        running = trt.int8_of(engine, matrices)
        assert None not in running.values()
        assert not any(layer.multiplies("int8") for layer in running.values())


# --- without the compiler, or with one that misbehaves --------------------------------------------


@pytest.fixture
def model(tmp_path):
    return save(tmp_path / "m.onnx", "g (float[4] x) => (float[4] y) { y = Relu(x) }")


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Puts a program in the place of the one that runs the compiler; `folder` is its scratch folder."""

    def install(program: str) -> None:
        path = tmp_path / "child.py"
        path.write_text(
            "import json, os, signal, sys, time\nfrom pathlib import Path\nfolder = Path(sys.argv[1]) / '0'\n"
            "folder.mkdir()\n"
            "def log(*entry):\n"
            "    with (folder / 'log.jsonl').open('a') as f: f.write(json.dumps(entry) + '\\n')\n"
            "def result(**fields): (folder / 'result.json').write_text(json.dumps(fields))\n" + program
        )
        monkeypatch.setattr(trt, "_CHILD", (sys.executable, str(path)))
        monkeypatch.setattr(trt, "installed", lambda: "tensorrt-rtx 0.0")

    return install


def test_without_the_compiler_the_engine_says_so(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    assert trt.installed() is None
    engine = trt.compile_engine(model)
    assert engine.status == "not-installed"
    assert "onnxq[trt]" in engine.reason
    profile = ((1,), (2,), (3,))
    assert trt.compile_engine(model, profiles={"x": profile}).profiles == {"x": profile}
    assert trt.check_parse(model) is None


def test_a_model_that_does_not_exist_is_the_users_error(tmp_path, child):
    child("raise SystemExit")
    with pytest.raises(UserError, match="no such file"):
        trt.compile_engine(tmp_path / "absent.onnx")


def test_a_crash_with_one_model_does_not_cost_the_one_before_it(model, child):
    child(
        "log('VERBOSE', 'Layers:\\n\\n')\nresult(plan_bytes=1)\n"
        "folder = folder.parent / '1'\nfolder.mkdir()\nlog('VERBOSE', 'second')\n"
        "os.kill(os.getpid(), signal.SIGSEGV)"
    )
    first, second = trt.compile_engines([model, model])
    assert (first.status, first.plan_bytes, first.reason) == ("compiled", 1, "")
    assert second.status == "failed"
    assert second.reason == "the compiler crashed (signal SIGSEGV)\nsecond"


def test_a_mistake_about_the_second_model_is_no_error(model, child):
    child(
        "log('VERBOSE', 'Layers:\\n\\n')\nresult(plan_bytes=1)\n"
        "folder = folder.parent / '1'\nfolder.mkdir()\nresult(user_error=['no such input', 'a hint'])\n"
    )
    first, second = trt.compile_engines([model, model])
    assert (first.status, second.status) == ("compiled", "failed")
    assert second.reason == "no such input"


def test_a_crash_of_the_compiler_is_a_finding(model, child):
    child(
        "for i in range(9): log('VERBOSE', f'step {i}')\n"
        "(folder / 'log.jsonl').open('a').write('[\"VERB')\n"
        "os.kill(os.getpid(), signal.SIGSEGV)"
    )
    engine = trt.compile_engine(model)
    assert engine.status == "failed"
    assert engine.reason.splitlines() == [
        "the compiler crashed (signal SIGSEGV)",
        *(f"step {i}" for i in range(4, 9)),
    ]
    (error,) = trt.check_parse(model)
    assert error.message.startswith("the compiler crashed (signal SIGSEGV)")


def test_an_exit_without_a_signal_is_a_finding_too(model, child):
    child("os._exit(7)")
    profile = ((1,), (2,), (3,))
    engine = trt.compile_engine(model, profiles={"x": profile})
    assert engine.reason == "the compiler crashed (exit code 7)"
    assert engine.profiles == {"x": profile}


def test_a_compiler_that_does_not_end_is_stopped(model, child, tmp_path):
    child(f"Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\ntime.sleep(60)")
    start = time.monotonic()
    engine = trt.compile_engine(model, timeout=1.0)
    assert time.monotonic() - start < 10
    assert engine.status == "failed"
    assert is_said(engine.reason, "compiler.late", seconds=1)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_interrupt_stops_the_compiler(model, child, tmp_path, monkeypatch):
    child(f"Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\ntime.sleep(60)")
    wait = subprocess.Popen.wait

    def interrupted(self, timeout=None):
        if timeout is None:
            return wait(self)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trt.compile_engine(model)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_library_that_does_not_load_is_a_finding(model, child):
    child("result(unloadable='libfoo.so: not found')")
    assert is_said(trt.compile_engine(model).reason, "compiler.not-loaded", error="libfoo.so: not found")


def test_a_python_error_in_the_child_is_our_fault(model, child):
    child("1 / 0")
    with pytest.raises(Fault, match="ZeroDivisionError"):
        trt.compile_engine(model)


@pytest.mark.parametrize(
    ("log", "said"), [("Layers:\\nName: new style\\n\\n", "new style"), ("all is well", "no list of layers")]
)
def test_a_list_of_layers_that_is_not_understood_is_said(model, child, log, said):
    child(f"log('VERBOSE', '{log}'); result(plan_bytes=1)")
    engine = trt.compile_engine(model)
    assert engine.status == "compiled"
    assert said in engine.unread
    assert is_said(engine.unread, "compiler.unread-layers", compiler="tensorrt-rtx 0.0")
    assert engine.layers == ()


def test_an_old_compiler_is_not_asked_and_the_model_not_blamed(model, monkeypatch):
    monkeypatch.setattr(trt, "_version", lambda: "1.4.0.76")
    assert (trt.installed(), trt.check_parse(model)) == (None, None)
    assert trt.compile_engine(model).status == "not-installed"
    with pytest.raises(UserError) as caught:
        onnxq.engine(model)
    told = f"{caught.value}; {caught.value.hint}"
    assert is_said(told, "compiler.old", version="1.4.0.76", oldest=trt.OLDEST)


def test_the_oldest_compiler_that_is_asked_is_the_oldest_that_is_installed():
    assert lowest()["tensorrt-rtx"].startswith(f"{trt.OLDEST}.")


@pytest.mark.parametrize("version", [trt.OLDEST, f"{trt.OLDEST}.1.116", "1.10.0", "2.0"])
def test_a_compiler_of_now_is_asked(monkeypatch, version):
    monkeypatch.setattr(trt, "_version", lambda: version)
    assert trt.installed() == f"tensorrt-rtx {version}"


@needs_compiler
def test_a_model_of_a_hub_s_cache_compiles(tmp_path):
    """Its name and that of its weights are links to files that are named by their hashes."""
    net = Net()
    net.rng = np.random.default_rng(0)
    net.add("MatMul", "x", net.constant(np.ones((64, 64), np.float32)), name="product")
    model = onnx.load(net.save(tmp_path / "m.onnx", net.nodes[-1].output[0]))
    for info in (model.graph.input[0], model.graph.output[0]):
        info.CopyFrom(helper.make_tensor_value_info(info.name, TensorProto.FLOAT, [32, 64]))
    blobs, names = tmp_path / "blobs", tmp_path / "snapshots"
    blobs.mkdir()
    names.mkdir()
    onnx.save(model, blobs / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    for name, blob in (("m.onnx", "0b"), ("m.data", "5e")):
        (blobs / name).rename(blobs / blob)
        (names / name).symlink_to(Path("..", "blobs", blob))
    assert trt.compile_engine(names / "m.onnx").status == "compiled"


def test_messages_are_kept_once_and_with_the_users_names(model, child):
    child(
        "for s in ('INFO', 'WARNING', 'WARNING', 'ERROR'): log(s, f'{s} in a~2c~ b')\nresult(plan_bytes=None)"
    )
    engine = trt.compile_engine(model)
    assert engine.warnings == ("WARNING in a, b", "ERROR in a, b")
    assert engine.reason == "ERROR in a, b"


def test_of_several_layers_of_a_node_the_one_that_is_not_int8_counts():
    def layer(name, kind, precision, *nodes):
        return trt.EngineLayer(name, kind, precision, (), (), (), nodes, "")

    layers = (
        layer("quantize", "kgen", "int8", "a", "b", "c"),
        layer("a1", "gemm", "int8", "a"),
        layer("a2", "gemm", "fp32", "a"),
        layer("b1", "correlation", "int8", "b"),
    )
    engine = trt.Engine("compiled", "", "compiler", 89, layers)
    names = {node: found and found.name for node, found in trt.int8_of(engine, "abcd").items()}
    assert names == {"a": "a2", "b": "b1", "c": "quantize", "d": None}


@needs_compiler
def test_a_float16_convolution_that_becomes_a_product_is_read(tmp_path):
    net = Net()
    net.rng = np.random.default_rng(0)
    weights = net.constant(net.rng.standard_normal((320, 960, 1, 1)).astype(np.float16))
    net.add("Conv", "x", weights, name="conv")
    model = onnx.load(net.save(tmp_path / "m.onnx", net.nodes[-1].output[0]))
    for info, shape in ((model.graph.input[0], [1, 960, 7, 7]), (model.graph.output[0], [1, 320, 7, 7])):
        info.CopyFrom(helper.make_tensor_value_info(info.name, TensorProto.FLOAT16, shape))
    onnx.save(model, tmp_path / "m.onnx")
    layer = trt.int8_of(trt.compile_engine(tmp_path / "m.onnx"), ["conv"])["conv"]
    assert layer.is_matrix
    assert layer.precision == "fp16"


@needs_compiler
@pytest.mark.parametrize("example", Compilation.EXAMPLES)
def test_the_example_of_the_help_is_one_that_it_compiles_for(example: str) -> None:
    trt.check_sm(Compilation(device=example.split()[1]).sm(load_target("rtx")))
