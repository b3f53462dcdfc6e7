"""Reading and writing a model loses nothing that the file says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxq.base.errors import UserError
from onnxq.graph import load as loading
from onnxq.graph.fingerprint import fingerprint
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.run import ort

H = '<ir_version: 8, opset_import: ["" : 17]>\n'


def parse(text: str) -> onnx.ModelProto:
    """A model in ONNX text, its nodes named after their first outputs."""
    model = onnx.parser.parse_model(H + text)

    def name(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            node.name = node.name or f"n_{node.output[0]}"
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    name(attribute.g)

    name(model.graph)
    return model


def again(model: onnx.ModelProto) -> onnx.ModelProto:
    return Model.open(model).to_proto()


def test_everything_beside_the_connections_survives() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
        a = Mul (x, w)  y = Relu (a) }""")
    model.producer_name, model.producer_version, model.domain = "maker", "7", "org.example"
    model.model_version, model.doc_string = 3, "a model"
    model.metadata_props.add(key="author", value="me")
    model.graph.doc_string = "a graph"
    model.graph.metadata_props.add(key="g", value="1")
    model.graph.node[0].doc_string = "a node"
    model.graph.node[0].metadata_props.add(key="n", value="2")
    model.graph.input[0].doc_string = "an input"
    model.graph.input[0].metadata_props.add(key="i", value="3")
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.graph.input[0].type.denotation = "IMAGE"
    model.graph.initializer[0].doc_string = "a weight"
    model.graph.quantization_annotation.add(tensor_name="a").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="w"
    )
    info = model.graph.value_info.add()
    info.CopyFrom(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 4]))
    info.doc_string = "an inner tensor"
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("s", TensorProto.FLOAT, [1], [2.0]),
            helper.make_tensor("s_at", TensorProto.INT64, [1], [3]),
            [4],
        )
    )
    wanted = model.SerializeToString(deterministic=True)
    assert again(model).SerializeToString(deterministic=True) == wanted
    assert model.SerializeToString(deterministic=True) == wanted, "the source was modified"


def test_a_sparse_weight_is_read_and_kept() -> None:
    model = parse("g (float[4] x) => (float[4] y) { y = Add (x, w) }")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]),
            helper.make_tensor("w_at", TensorProto.INT64, [2], [0, 2]),
            [4],
        )
    )
    assert again(model) == model
    (out,) = ort.load(again(model)).run({"x": np.zeros(4, np.float32)})
    assert out.tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize("ir_version", [4, 8, 10, 11, 13])
def test_ir_version_is_the_source_s(ir_version: int) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    model.ir_version = ir_version
    assert again(model).ir_version == ir_version


def test_constants_of_ir_version_3_need_version_4() -> None:
    constant = "c = Constant <value = float[2] {1, 2}> ()"
    model = parse(f"g (float[2] x) => (float[2] y) {{ {constant}  y = Add (x, c) }}")
    model.ir_version = 3
    model.opset_import[0].version = 8
    onnx.checker.check_model(again(model))


def test_unknown_attribute_types_survive() -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    node = model.graph.node.add(op_type="Optional", name="maybe", output=["o"])
    node.attribute.append(
        helper.make_attribute("type", helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    )
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0]),
        helper.make_tensor("i", TensorProto.INT64, [1], [1]),
        [2],
    )
    custom = model.graph.node.add(op_type="Mine", domain="org.example", name="m", input=["x"], output=["z"])
    custom.attribute.append(helper.make_attribute("sparse", sparse))
    custom.attribute.append(helper.make_attribute("many", [sparse, sparse]))
    custom.attribute.append(helper.make_attribute("words", ["a", "b"]))
    model.opset_import.add(domain="org.example", version=1)
    assert again(model) == model


SUB_BYTE = ("INT4", "UINT4", "FLOAT4E2M1")
SMALL = ("BFLOAT16", "FLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "BOOL", "STRING", "COMPLEX64")


@pytest.mark.parametrize("kind", [*SUB_BYTE, *SMALL])
@pytest.mark.parametrize("raw", [False, True])
def test_constants_of_every_type_survive_byte_for_byte(kind: str, raw: bool) -> None:
    data_type = TensorProto.DataType.Value(kind)
    if kind == "STRING":
        if raw:
            pytest.skip("strings have no raw form")
        tensor = helper.make_tensor("w", data_type, [3], [b"a", b"", "ü".encode()])
    elif raw and kind in SUB_BYTE:
        tensor = TensorProto(name="w", data_type=data_type, dims=[3], raw_data=b"\x21\x03")
    else:
        dtype = helper.tensor_dtype_to_np_dtype(data_type)
        values = np.array([1, 0, 2]).astype(dtype)
        tensor = numpy_helper.from_array(values, "w")
        if not raw:
            listed = values.tolist() if kind not in ("COMPLEX64", "BOOL") else values
            tensor = helper.make_tensor("w", data_type, [3], listed)
    model = parse("g (float[3] x) => (float[3] y) { y = Relu (x) }")
    model.ir_version = 11
    model.graph.initializer.append(tensor)
    model.graph.node.add(op_type="Identity", name="i", input=["w"], output=["v"])
    model.graph.output.append(helper.make_tensor_value_info("v", data_type, [3]))
    assert again(model) == model


def test_constant_nodes_become_initializers() -> None:
    model = parse("""g (float[2] x) => (float[2] y, float[2] k) {
        a = Constant <value_floats = [1.0, 2.0]> ()  b = Constant <value_int = 3> ()
        c = Constant <value = float[2] {5, 6}> ()  k = Constant <value_floats = [1.0, 2.0]> ()
        d = Cast <to = 1> (b)  e = Mul (x, a)  f = Add (e, c)  y = Mul (f, d) }""")
    result = again(model)
    assert [n.output[0] for n in result.graph.node if n.op_type == "Constant"] == ["k"], "an output stays"
    assert {t.name: numpy_helper.to_array(t).tolist() for t in result.graph.initializer} == {
        "a": [1.0, 2.0], "b": 3, "c": [5.0, 6.0],
    }  # fmt: skip
    x = {"x": np.array([1, 2], np.float32)}
    for one, other in zip(ort.load(model).run(x), ort.load(result).run(x), strict=True):
        np.testing.assert_array_equal(one, other)


# -- names and connections -------------------------------------------------------------------------


def test_duplicate_and_empty_node_names_are_made_unique() -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Relu (x)  b = Neg (a)  c = Exp (b)  y = Abs (c) }")
    for node, name in zip(model.graph.node, ("same", "same", "", "keep"), strict=True):
        node.name = name
    names = [node.name for node in again(model).graph.node]
    assert len(set(names)) == 4
    assert names[0] == "same"
    assert names[3] == "keep"
    assert all(names)


NESTED = """g (float[3] x, bool c, int64 n) => (float[3] y) <float[3] w = {1, 2, 3}> {
    a = Mul (x, w)
    t = If (c) <
        then_branch = b1 () => (float[3] p) <float[3] k = {4, 5, 6}> {
            q = If (c) <then_branch = c1 () => (float[3] r) { s = Add (a, w)  r = Mul (s, k) },
                        else_branch = c2 () => (float[3] r2) { r2 = Sub (x, w) }>
            p = Mul (q, k) },
        else_branch = b2 () => (float[3] p2) <float[3] k = {7, 8, 9}> { p2 = Add (a, k) }>
    u = Loop (n, c, t) <body = l (int64 i, bool going, float[3] v) => (bool more, float[3] v2) {
        more = Identity (going)  v1 = Mul (v, w)  v2 = Add (v1, a) }>
    z = Unsqueeze (u, zero)
    s2, ys = Scan (u, z) <num_scan_inputs = 1,
                          body = sc (float[3] st, float[3] e) => (float[3] st2, float[3] o) {
        st2 = Add (st, w)  o = Mul (e, a) }>
    y = Add (s2, u) }"""


def nested() -> onnx.ModelProto:
    model = parse(NESTED)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "zero"))
    return model


def test_bodies_with_outer_captures() -> None:
    model = nested()
    result = again(model)
    assert result.graph.node == model.graph.node
    assert again(result) == result
    for c in (True, False):
        feeds = {"x": np.array([1, -2, 3], np.float32), "c": np.array(c), "n": np.array(3)}
        for one, other in zip(ort.load(model).run(feeds), ort.load(result).run(feeds), strict=True):
            np.testing.assert_array_equal(one, other)


def test_one_weight_of_two_bodies_is_kept_once() -> None:
    opened = Model.open(nested())
    inner = [node for graph in opened.graphs() for node in graph.nodes if node.op in ("Add", "Sub")]
    read = {id(t) for node in inner for t in node.inputs if t.name == "w"}
    assert len(read) == 1
    assert [t.name for t in opened.to_proto().graph.initializer].count("w") == 1


def test_nodes_in_any_order() -> None:
    model = parse("""g (float[2] x, bool c) => (float[2] y) { b = Exp (x)
        d = If (c) <then_branch = b1 () => (float[2] o) { k = Neg (b)  o = Relu (k) },
                    else_branch = b2 () => (float[2] p) { p = Neg (x) }>
        y = Neg (d) }""")
    shuffled = onnx.ModelProto()
    shuffled.CopyFrom(model)
    del shuffled.graph.node[:]
    shuffled.graph.node.extend(reversed(model.graph.node))
    then = next(a.g for a in shuffled.graph.node[1].attribute if a.name == "then_branch")
    nodes = list(then.node)[::-1]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del then.node[:]
    then.node.extend(copies)
    before = shuffled.SerializeToString()
    assert again(shuffled).graph.node == model.graph.node
    assert shuffled.SerializeToString() == before
    assert Model.open(shuffled).outputs[0].shape == (2,)


def test_a_cycle_is_refused() -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Add (x, y)  y = Relu (a) }")
    with pytest.raises(UserError, match="cycle"):
        Model.open(model).sort()


def test_outputs_that_are_inputs_or_weights() -> None:
    model = parse(
        "g (float[2] x) => (float[2] x, float[2] w, float[2] y) <float[2] w = {1, 2}> { y = Relu (x) }"
    )
    result = again(model)
    assert result == model
    assert [o.name for o in result.graph.output] == ["x", "w", "y"]


def test_left_out_inputs_and_outputs() -> None:
    model = parse("""g (float[2, 3] x) => (float[2, 3] y) <float high = {0.5}> {
        a = Clip (x, , high)  v, i = TopK (a, k)  y = Clip (v) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.array([3]), "k"))
    model.graph.node[1].output[1] = ""
    assert again(model) == model
    clip, top, last = (Node(Model.open(model), n) for n in Model.open(model).graph.nodes)
    assert clip.inputs[1] is None
    assert clip.operands(5)[3:] == (None, None)
    assert last.operands(3)[1:] == (None, None)
    assert top.outputs[1].name == ""


def test_weights_that_are_inputs_become_constants_at_ir_3() -> None:
    model = parse("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }")
    model.ir_version = 3
    opened = Model.open(model)
    assert [tensor.name for tensor in opened.inputs] == ["x"]
    assert opened.to_proto().ir_version == 4
    assert opened.defaulted_inputs == []
    model.ir_version = 8
    assert Model.open(model).defaulted_inputs == ["w"]


def test_functions_are_inlined() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x) => (float[2] y) { a = local.twice (x)  y = Relu (a) }
        <opset_import: ["" : 17], domain: "local"> twice (p) => (q) { q = Add (p, p) }"""
    model = onnx.parser.parse_model(text)
    result = again(model)
    assert [node.op_type for node in result.graph.node] == ["Add", "Relu"]
    assert model == onnx.parser.parse_model(text)
    (out,) = ort.load(result).run({"x": np.array([1, 2], np.float32)})
    assert out.tolist() == [2, 4]


def test_a_function_keeps_the_attributes_that_it_has_by_default() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x, bool c) => (float[2] y, float[2] z, float[2] u) {
            y = local.leaks (x)  z = local.leaks <alpha = 0.25> (x)
            u = If (c) <then_branch = t () => (float[2] p) { p = local.leaks (x) },
                        else_branch = e () => (float[2] q) { q = Neg (x) }> }
        <opset_import: ["" : 17], domain: "local"> leaks <alpha> (p) => (q) {
            q = LeakyRelu <alpha: float = @alpha> (p) }""")
    function = model.functions[0]
    del function.attribute[:]
    function.attribute_proto.append(helper.make_attribute("alpha", 0.5))
    y, z, u = ort.load(again(model)).run({"x": np.float32([-1, 2]), "c": np.array(True)})
    assert (y.tolist(), z.tolist(), u.tolist()) == ([-0.5, 2], [-0.25, 2], [-0.5, 2])


def test_a_tensor_that_nothing_produces_is_named() -> None:
    with pytest.raises(UserError, match=r"'n_y'.*reads tensor 'nowhere'"):
        Model.open(parse("g (float[2] x) => (float[2] y) { y = Add (x, nowhere) }"))


def test_unused_weights_are_dropped_and_named() -> None:
    model = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Relu (x) }")
    opened = Model.open(model)
    assert opened.dropped == ["w"]
    assert not opened.to_proto().graph.initializer


# -- external data ---------------------------------------------------------------------------------


def external(folder: Path, location: str = "w.bin", offset: int = 0, shape: tuple[int, ...] = (4,)) -> Path:
    model = parse("g (float[4] x) => (float[4] y) { y = Mul (x, w) }")
    size = int(np.prod(shape)) * 4
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_external_data_is_read_from_the_model_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = external(tmp_path / "a", offset=4096)
    values = np.array([1, 2, 3, 4], np.float32)
    (tmp_path / "a" / "w.bin").write_bytes(b"\0" * 4096 + values.tobytes())
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    model = Model.open(Path("..") / "a" / "m.onnx")
    weight = Node(model, model.graph.nodes[0]).inputs[1]
    assert weight is not None
    np.testing.assert_array_equal(weight.constant, values)
    assert model.to_proto().graph.initializer[0].data_location == TensorProto.EXTERNAL
    assert model.to_proto() == onnx.load(path, load_external_data=False)


@pytest.mark.parametrize(
    "location", ["../w.bin", "/etc/passwd", "a/../../w.bin", "C:\\w.bin", "..\\w.bin", "", "link.bin"]
)
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    path = external(tmp_path / "m", location)
    (tmp_path / "m" / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(UserError, match=r"external data of tensor 'w'.*folder"):
        Model.open(path)


def hub(folder: Path) -> Path:
    """A model in a cache as model hubs have it: names are links to files that are named by their hashes."""
    (folder / "blobs").mkdir()
    (folder / "snapshots" / "1f").mkdir(parents=True)
    external(folder, "m.onnx_data").rename(folder / "blobs" / "0b")
    (folder / "blobs" / "5e").write_bytes(np.array([1, 2, 3, 4], np.float32).tobytes())
    for name, blob in (("m.onnx", "0b"), ("m.onnx_data", "5e")):
        (folder / "snapshots" / "1f" / name).symlink_to(Path("..", "..", "blobs", blob))
    return folder / "snapshots" / "1f" / "m.onnx"


def test_the_links_of_a_hub_s_cache_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = hub(tmp_path)
    monkeypatch.chdir(path.parent)
    for source in (path, Path("m.onnx")):
        for stripped in (False, True):
            model = Model.open(source, stripped=stripped)
            weight = Node(model, model.graph.nodes[0]).inputs[1]
            assert weight is not None
            np.testing.assert_array_equal(weight.constant, np.array([1, 2, 3, 4], np.float32))
        (given,) = ort.load(model.to_proto(), data_dir=model.data_dir).run({"x": np.ones(4, np.float32)})
        np.testing.assert_array_equal(given, [1, 2, 3, 4])
        assert fingerprint(source) == fingerprint(path)


def test_of_a_hub_s_cache_only_files_beside_the_model_s_own_are_read(tmp_path: Path) -> None:
    path = hub(tmp_path)
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    data = path.with_name("m.onnx_data")
    data.unlink()
    data.symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="a link out of the model's folder"):
        Model.open(path)
    with pytest.raises(UserError, match="a link out of the model's folder"):
        fingerprint(path)


def test_external_data_missing_or_short(tmp_path: Path) -> None:
    path = external(tmp_path)
    with pytest.raises(UserError, match="missing"):
        Model.open(path)
    (tmp_path / "w.bin").write_bytes(b"\0" * 15)
    with pytest.raises(UserError, match="too short"):
        Model.open(path)
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    Model.open(path)
    model = onnx.load(path, load_external_data=False)
    (length,) = [one for one in model.graph.initializer[0].external_data if one.key == "length"]
    length.value = "0"  # which is no length that is not stated
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="too short"):
        Model.open(path)


def test_loading_does_not_read_the_weights(tmp_path: Path) -> None:
    size = 400 << 20
    path = external(tmp_path, shape=(size // 4,))
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size)
    code = (
        "import resource, sys; from onnxq.graph.model import Model\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "model = Model.open(sys.argv[1]); model.to_proto(); model.infer_shapes()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    scale = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * scale < 40 << 20


# -- what is no model ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "no model file"),
        (b"", "is empty"),
        (b"not a model at all", "not an ONNX model"),
        (
            parse("g (float[2] x) => (float[2] y) { y = Relu (x) }").SerializeToString()[:-7],
            "truncated|not an",
        ),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "no graph"),
        (onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(name="g")).SerializeToString(), "no opset"),
    ],
)
def test_a_bad_file_is_the_user_s_error(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "m.onnx"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UserError, match=message):
        Model.open(path)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a file"):
        Model.open(tmp_path)


# -- real models -----------------------------------------------------------------------------------

CORPUS = os.environ.get("ONNXQ_CORPUS")
MODELS = sorted(Path(CORPUS, "models").glob("*.onnx")) if CORPUS else []


@pytest.mark.skipif(not MODELS, reason="ONNXQ_CORPUS is not set")
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_real_models_keep_everything(path: Path) -> None:
    source = onnx.load(path, load_external_data=False)
    opened = Model.open(path)
    result = opened.to_proto()
    weights = {t.name for t in source.graph.initializer}
    kept_inputs = [i.name for i in source.graph.input if i.name not in weights]
    assert [i.name for i in result.graph.input] == kept_inputs
    assert [o.name for o in result.graph.output] == [o.name for o in source.graph.output]
    assert result.metadata_props == source.metadata_props
    if source.functions:
        return
    nodes = {tuple(n.output): n for n in source.graph.node}
    outputs = {o.name for o in source.graph.output}
    lifted = {n.output[0] for n in source.graph.node if n.op_type == "Constant"} - outputs
    assert len(result.graph.node) >= len(source.graph.node) - len(lifted)
    for node in result.graph.node:
        was = nodes[tuple(node.output)]
        assert (node.op_type, list(node.input), node.domain) == (was.op_type, list(was.input), was.domain)
        assert {a.name for a in node.attribute} == {a.name for a in was.attribute}
        assert not was.name or node.name == was.name or node.name.startswith(was.name)
    by_name = {t.name: t for graph in loading.graphs(result.graph) for t in graph.initializer}
    assert set(by_name) >= weights - set(opened.dropped)
    for tensor in source.graph.initializer:
        if tensor.name in by_name:
            assert by_name[tensor.name] == tensor
    assert Model.open(result).to_proto() == result


RUN = [path for path in MODELS if path.stem in {
    "silero_vad", "gtcrn_simple", "yunet_120x160", "ppocr_cls_v2", "tract_qlstm", "light_densenet121",
    "sklearn_randomforest", "effnet_dxpre_winml",
}]  # fmt: skip


@pytest.mark.skipif(not MODELS, reason="ONNXQ_CORPUS is not set")
@pytest.mark.parametrize("path", RUN, ids=lambda p: p.stem)
def test_real_models_run_the_same(path: Path) -> None:
    before, after = ort.load(path), ort.load(Model.open(path).to_proto(), data_dir=path.parent)
    assert before.inputs == after.inputs
    feeds = {}
    for one in Model.open(path).inputs:
        if one.dtype is None or one.shape is None or one.dtype.kind == "O":
            pytest.skip("an input without a plain type")
        sizes = [dim if isinstance(dim, int) else 1 for dim in one.shape]
        feeds[one.name] = np.random.default_rng(0).random(sizes).astype(one.dtype)
    try:
        wanted = before.run(feeds)
    except ort.RunError as error:
        pytest.skip(f"it does not run with dynamic sizes of 1: {error}")
    for one, other in zip(wanted, after.run(feeds), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
