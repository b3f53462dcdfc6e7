"""Behind operators that ONNX does not know: pairs are of the type that the tensors there have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.graph.model import Model
from onnxq.quant.placement import make_plan
from onnxq.rule import Quantize, place
from onnxq.run import ort, trt

pytestmark = pytest.mark.usefixtures("by_place")

S, D = 32, 64
KINDS = {
    "float32": (np.float32, TensorProto.FLOAT),
    "float16": (np.float16, TensorProto.FLOAT16),
    "bfloat16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
}
OF_ONNXRUNTIME = "com.microsoft"


class Net:
    """A product of x, an operator that ONNX does not know, and two products of what that gives."""

    def __init__(self, op: str, kind: str) -> None:
        self.dtype, self.elem_type = KINDS[kind]
        self.rng = np.random.default_rng(0)
        self.constants: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []
        first = self.product("x")
        y = getattr(self, op)(first)
        self.output = self.product(self.product(y))

    def const(self, values: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(values, f"k{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape: int) -> str:
        values = self.rng.standard_normal(shape) / np.sqrt(shape[0])
        return self.const(values.astype(np.float32).astype(self.dtype))

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs: object) -> str:
        outs = [f"t{len(self.nodes)}{'' if i == 0 else f'_{i}'}" for i in range(outputs)]
        node = helper.make_node(op, inputs, outs, f"{op}{len(self.nodes)}", domain=domain, **attrs)
        self.nodes.append(node)
        return outs[0]

    def product(self, x: str) -> str:
        return self.add("MatMul", x, self.weights(D, D))

    def attention(self, x: str) -> str:
        heads = {"num_heads": 4, "domain": OF_ONNXRUNTIME}
        return self.add("MultiHeadAttention", x, self.product("x"), self.product("x"), **heads)

    def grouped(self, x: str) -> str:
        past = self.const(np.zeros((1, 4, 0, 16), self.dtype))
        sizes = [self.const(np.array(values, np.int32)) for values in ([S - 1], S)]
        heads = {"num_heads": 4, "kv_num_heads": 4, "domain": OF_ONNXRUNTIME}
        operands = (x, self.product("x"), self.product("x"), past, past, *sizes)
        return self.add("GroupQueryAttention", *operands, outputs=3, **heads)

    def normalized(self, x: str) -> str:
        scale, bias = self.weights(D), self.weights(D)
        return self.add("SkipLayerNormalization", "x", x, scale, bias, domain=OF_ONNXRUNTIME)

    def fused_product(self, x: str) -> str:
        return self.add("FusedMatMul", x, self.weights(D, D), alpha=0.5, domain=OF_ONNXRUNTIME)

    def moved(self, x: str) -> str:
        y = self.add("Transpose", self.normalized(x), perm=[0, 2, 1])
        y = self.add("Reshape", y, self.const(np.array([0, 0, 0])))
        return self.add("Transpose", y, perm=[0, 2, 1])

    def custom(self, x: str) -> str:
        return self.add("Mine", x, domain="org.example")

    def model(self) -> onnx.ModelProto:
        ends = [
            [helper.make_tensor_value_info(name, self.elem_type, [1, S, D])] for name in ("x", self.output)
        ]
        graph = helper.make_graph(self.nodes, "net", *ends, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(OF_ONNXRUNTIME, 1)]
        opsets.append(helper.make_opsetid("org.example", 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def samples(self) -> list[dict[str, np.ndarray]]:
        return [{"x": self.rng.standard_normal((1, S, D)).astype(self.dtype)} for _ in range(4)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["attention", "grouped", "normalized", "fused_product", "moved"])
def test_pairs_behind_it_have_its_type(op: str, kind: str) -> None:
    net = Net(op, kind)
    skip = ["unfuse_matmul", "unfuse_layer_normalization"]  # that would make it ONNX's own
    result = onnxq.quantize(
        net.model(), net.samples(), method="minmax", compile=False, skip=skip, repair="none"
    )
    layers = {layer["node"]: layer["format"] == "int8" for layer in result.report["plan"]["layers"]}
    assert len(layers) == sum(node.op_type == "MatMul" for node in net.nodes)
    assert all(layers.values())
    (accuracy,) = result.report["accuracy"]
    assert accuracy["sqnr_db"] > 25
    if kind != "bfloat16":  # onnxruntime's operators have no kernels for that on a CPU
        assert ort.loads(result.model)
    again = onnxq.quantize(
        result.model, net.samples(), method="minmax", compile=False, skip=skip, repair="none"
    )
    assert again.report["plan"]["sites"] == []


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_behind_attention_run_in_int8(kind: str) -> None:
    net = Net("attention", kind)
    engine = onnxq.quantize(net.model(), net.samples(), method="minmax", repair="none").report["engine"]
    assert engine["status"] == "compiled", engine["reason"]
    assert engine["int8"] == engine["planned"] == 5


def test_what_nobody_computes_stays_in_float() -> None:
    net = Net("custom", "float16")
    plan = onnxq.quantize(net.model(), net.samples(), compile=False, repair="none").report["plan"]
    assert [layer["format"] for layer in plan["layers"]] == ["int8", "float", "float"]
    assert all("org.example.Mine" in entry["because"] for entry in plan["kept_float"])


def test_types_spread_along_type_variables_only() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "org.example" : 1]>
        g (float16[4, 4] x, bool[4, 4] b) => (y, z, n, l) <float16[4, 4] w = {%s}> {
            c = org.example.Mine (x)  t = Transpose (c)  r = Where (b, t, c)  y = MatMul (r, w)
            a, d = org.example.Two (x)  s = Softmax (a)  n = org.example.Mine (s)
            e = Cast <to = 1> (d)  z = Concat <axis = 0> (e, e)  l = Less (d, d) }"""
    model = Model.open(onnx.parser.parse_model(text % ", ".join("1" * 16)))
    types = {name: tensor.dtype for name, tensor in model.graph.tensors().items()}
    half, single = np.dtype(np.float16), np.dtype(np.float32)
    assert {types[name] for name in ("c", "t", "r", "y")} == {half}
    assert types["e"] == types["z"] == single
    assert types["l"] == np.dtype(bool)
    assert {types[name] for name in ("a", "d", "s", "n")} == {None}


def test_no_pair_is_placed_on_a_tensor_of_unknown_type() -> None:
    @place("Softmax")
    def everywhere(node: onnxq.rule.Node) -> list[Quantize]:
        return [Quantize(node, 0, because="a test")]

    text = """<ir_version: 8, opset_import: ["" : 17, "org.example" : 1]> g (float16[4, 4] x) => (y) {
        a = org.example.Mine (x)  s = Softmax (a)  y = org.example.Mine (s) }"""
    plan = make_plan(Model.open(onnx.parser.parse_model(text)), [everywhere])
    assert plan.sites == ()
