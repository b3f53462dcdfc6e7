"""The conversion to half precision: types that agree, few casts, and what stays float32 with its reason."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason
from onnxq.body.convert import HalfBody, to_half
from onnxq.graph.model import Model
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def body_of(text: str, opset: int = 17, **more: object) -> HalfBody:
    head = HEAD.replace("17", str(opset))
    stays = more.pop("stays", {})
    return to_half(Model.open(parser.parse_model(head + text)), "fp16", stays, **more)  # type: ignore[arg-type]


def loaded(body: HalfBody) -> ort.Session:
    """The body in onnxruntime, whose inference checks every type."""
    return ort.load(body.model.to_proto(), optimize=False, threads=1)


def kinds(body: HalfBody) -> dict[str, int]:
    """The element types that ONNX infers, by tensor."""
    graph = onnx.shape_inference.infer_shapes(body.model.to_proto(), strict_mode=True).graph
    found = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for info in (*graph.input, *graph.output, *graph.value_info):
        found[info.name] = info.type.tensor_type.elem_type
    return found


def constants(body: HalfBody) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in body.model.to_proto().graph.initializer}


FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def test_one_cast_in_and_one_out() -> None:
    body = body_of("""g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
        a = Mul (x, w)  b = Add (x, w)  c = Sub (a, b)  y = Relu (c) }""")
    assert [(cast.tensor, cast.to) for cast in body.casts] == [("y_fp16", "float32"), ("x", "float16")]
    types = kinds(body)
    assert [types[name] for name in ("x", "w", "a", "b", "c", "y")] == [FLOAT, HALF, HALF, HALF, HALF, FLOAT]
    assert (body.constants, dict(body.stays)) == (("w",), {})
    x = np.array([[0.1, 1.5, -7, 3.3]], np.float32)
    (got,) = loaded(body).run({"x": x})
    half, w = x.astype(np.float16), np.arange(1, 5, dtype=np.float16)
    assert np.array_equal(got, np.maximum((half * w) - (half + w), 0).astype(np.float32))


def test_the_model_itself_is_left_as_it_is() -> None:
    text = HEAD + """g (int64[N] x) => (float[N] y) { a = Cast <to = 1> (x)  y = Exp (a) }"""
    model = Model.open(parser.parse_model(text))
    before = model.to_proto()
    to_half(model, "fp16", {}, io=True)
    assert model.to_proto() == before


def test_inputs_and_outputs_too() -> None:
    body = body_of(
        "g (float[N] x, int64[N] i) => (float[N] y, float[N] z) { y = Exp (x)  z = Log (x) }",
        io=True,
        stays={"z": Reason("test", "it is asked for")},
    )
    assert body.interface == ("x", "y", "z")
    assert [(cast.tensor, cast.to) for cast in body.casts] == [("z_fp32", "float16"), ("x", "float32")]
    y, z = loaded(body).run({"x": np.ones(2, np.float16), "i": np.zeros(2, np.int64)})
    assert (y.dtype, z.dtype) == (np.float16, np.float16)
    assert list(body.stays) == ["z"]


def test_an_output_that_is_read_on() -> None:
    body = body_of("g (float[N] x) => (float[N] y, float[N] z) { y = Exp (x)  z = Relu (y) }")
    nodes = {node.output[0]: node for node in body.model.to_proto().graph.node}
    assert nodes["z_fp16"].input[0] == "y_fp16"  # not through float32 and back
    assert len(body.casts) == 3
    loaded(body)


def test_what_stays_reads_and_gives_float32() -> None:
    why = Reason("test", "it is asked for")
    body = body_of(
        """g (float[N] x) => (float[N] y) <float c = {2}> {
        a = Mul (x, c)  b = Pow (a, c)  d = Pow (b, c)  y = Add (d, a) }""",
        stays={"b": why, "d": why},
    )
    types = kinds(body)
    assert [types[name] for name in ("a", "b", "d")] == [HALF, FLOAT, FLOAT]
    assert (types["c"], types["c_fp16"]) == (FLOAT, HALF)  # once in each type, and no cast of it
    assert len(body.casts) == 4
    assert body.stays == {"b": why, "d": why}
    loaded(body)


@pytest.mark.parametrize(
    ("node", "want"),
    [
        ("Cast <to = 1> (i)", HALF),
        ("ConstantOfShape <value = float[1] {2.5}> (i)", HALF),
        ("ConstantOfShape (i)", HALF),
        ("ConstantOfShape <value = float[1] {-1e9}> (i)", FLOAT),
        ("RandomNormal <shape = [3]> ()", FLOAT),
        ("HannWindow (three)", FLOAT),
    ],
)
def test_types_that_a_node_states(node: str, want: int) -> None:
    body = body_of(f"""g (int64[3] i, float[3] x) => (float y) <int64 three = {{3}}> {{
        a = {node}  b = Mul (x, x)  c = ReduceSum <keepdims = 0> (a)
        d = ReduceSum <keepdims = 0> (b)  y = Add (c, d) }}""")
    types = kinds(body)
    assert (types["a"], types["b"]) == (want, HALF)
    loaded(body)


@pytest.mark.parametrize("stated", ["", "<dtype = 1>"])
def test_eye_like(stated: str) -> None:
    body = body_of(f"g (float[3, 3] x) => (float[3, 3] y) {{ a = EyeLike {stated} (x)  y = MatMul (a, x) }}")
    assert kinds(body)["a"] == HALF
    (got,) = loaded(body).run({"x": np.ones((3, 3), np.float32)})
    assert got.dtype == np.float32
    assert np.array_equal(got, np.ones((3, 3)))


def test_inputs_of_a_type_of_their_own() -> None:
    """The scales of a Resize, boxes of NonMaxSuppression: their type is float32."""
    body = body_of("""g (float[1, 2, 4, 4] x, float[1, 3, 4] b, float[1, 1, 3] s)
            => (float[1, 2, 8, 8] y, int64[K, 3] k)
        <float[4] scales = {1, 1, 2, 2}, float[8] roi = {0, 0, 0, 0, 1, 1, 1, 1}> {
        a = Relu (x)  y = Resize <mode = "linear"> (a, roi, scales)  k = NonMaxSuppression (b, s) }""")
    types = kinds(body)
    assert [types[name] for name in ("a", "scales", "roi", "y_fp16")] == [HALF, FLOAT, FLOAT, HALF]
    assert body.stays["k"].code == "operator"
    loaded(body)


def test_what_has_no_half_precision() -> None:
    body = body_of(
        """g (float[N] x, float n) => (float[M] y, float[N] z) <float o = {0}, float e = {1}> {
        r = Range (o, n, e)  y = Relu (r)  q = SequenceConstruct (x, x)  z = SequenceAt (q, k) }
        """.replace("float e = {1}", "float e = {1}, int64 k = {1}")
    )
    assert {name: why.code for name, why in body.stays.items()} == {"r": "operator", "q": "type", "z": "type"}
    loaded(body)


def test_operators_of_other_domains() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
        + """
        g (float[N] x) => (float[N] y) {
        a = Exp (x)  b = com.microsoft.Gelu (a)  c = Neg (b)  y = Exp (c) }"""
    )
    model = parser.parse_model(text)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("b", FLOAT, ["N"]))
    body = to_half(Model.open(model), "fp16", {})
    assert {name: why.code for name, why in body.stays.items()} == {"b": "domain"}
    assert "c" in body.halved
    loaded(body)


def test_constants_that_it_cannot_hold() -> None:
    body = body_of("""g (float[N] x) => (float[N] y)
        <float big = {1e6}, float tiny = {1e-12}, float less = {1e-5}, float small = {3e-8}> {
        a = Mul (x, big)  b = Add (a, tiny)  c = Div (b, small)  y = Add (c, less) }""")
    assert {name: why.code for name, why in body.stays.items()} == {
        "a": "constant",
        "b": "constant",
        "c": "constant",
    }
    assert "1e+06" in body.stays["a"]
    assert "65,504" in body.stays["a"]
    assert "y" in body.halved  # 1e-5 is off by 0.14 %


def test_a_bound_beyond_the_type_is_its_end() -> None:
    body = body_of(
        """g (float[N] x) => (float[N] y) <float zero, float top = {3.4028235e38}> {
        a = Clip (x, zero, top)  y = Max (a, top) }""".replace("float zero,", "float zero = {0},")
    )
    assert body.stays == {}
    assert constants(body)["top"] == np.float16(65504)


def test_masks_become_numbers_that_it_holds() -> None:
    text = """g (float[N] x, bool[N] m) => (float[N] y) <float low = {-3.4028235e38}> {
        a = Where (m, x, low)  y = Softmax (a) }"""
    assert body_of(text).stays["a"].code == "constant"
    body = body_of(text, masks=["low"])
    assert (body.stays, body.masks) == ({}, ("low",))
    (got,) = loaded(body).run({"x": np.array([1, 3, 2], np.float32), "m": np.array([True, False, True])})
    assert got[1] == 0
    assert got.sum() == pytest.approx(1, abs=1e-3)


def test_pairs_keep_float32_scales() -> None:
    body = body_of("""g (float[N, 4] x) => (float[N, 4] y)
        <float s = {0.5}, int8 z = {0}, int8[4, 4] q = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7},
         float[4] r = {1, 2, 3, 4}, int8[4] o = {0, 0, 0, 0}> {
        a = Relu (x)  b = QuantizeLinear (a, s, z)  c = DequantizeLinear (b, s, z)
        t = Transpose <perm = [0, 1]> (c)
        w = DequantizeLinear <axis = 1> (q, r, o)  d = MatMul (t, w)  y = Relu (d) }""")
    types = kinds(body)
    assert [types[name] for name in ("s", "r", "a", "c", "w", "d")] == [
        FLOAT,
        FLOAT,
        HALF,
        FLOAT,
        FLOAT,
        HALF,
    ]
    assert {why.code for why in body.stays.values()} == {"pairs"}
    assert len(body.casts) == 5
    loaded(body)


def test_what_moves_values_between_pairs_is_not_cast() -> None:
    body = body_of("""g (float[N, 4] x) => (float[4, N] y) <float s = {0.5}, int8 z = {0}> {
        b = QuantizeLinear (x, s, z)  c = DequantizeLinear (b, s, z)  t = Transpose <perm = [1, 0]> (c)
        e = QuantizeLinear (t, s, z)  y = DequantizeLinear (e, s, z) }""")
    assert (body.casts, body.stays["t"].code) == ((), "between")


def test_bodies_agree_with_their_graph() -> None:
    text = """g (float[N] x, bool c, int64 n) => (float[N] y, float[N] z, float[k, N] r)
        <float w = {3}, bool yes = {1}> {
        a = Exp (x)
        y = If (c) <then_branch = t () => (float[N] p) { i = Mul (a, w)  j = Neg (i)  p = Relu (j) },
                    else_branch = e () => (float[N] q) { h = Add (a, x)  q = Identity (h) }>
        b = Mul (a, a)
        z, r = Loop (n, yes, b) <body = l (int64 it, bool on, float[N] v) 
                => (bool off, float[N] u, float[N] s) {
            off = Identity (on)  k = Mul (v, a)  m = Sub (k, w)  s = Relu (m)  u = Neg (m) }> }"""
    body = body_of(text)
    types = {"c": np.array(True), "n": np.array(3), "x": np.array([0.25, -0.5], np.float32)}
    session = loaded(body)
    wanted = ort.load(parser.parse_model(HEAD + text), optimize=False)
    for condition in (True, False):
        feeds = {**types, "c": np.array(condition)}
        for got, want in zip(session.run(feeds), wanted.run(feeds), strict=True):
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=0.01)
    assert {"i", "j", "h", "k", "m", "u"} <= body.halved
    assert {cast.graph for cast in body.casts} == {"g", "t", "e", "l"}
    assert sum(cast.tensor == "x" for cast in body.casts) == 1  # read in the graph and in a branch


def test_marked_tensors_stay() -> None:
    model = Model.open(
        parser.parse_model(
            HEAD
            + """g (float[N] x) => (float[N] y) {
        a = Exp (x)  b = Neg (a)  y = Relu (b) }"""
        )
    )
    model.graph.tensors()["b"].float32_only = True
    body = to_half(model, "fp16", {})
    assert {name: why.code for name, why in body.stays.items()} == {"b": "float32-only", "y": "float32-only"}
    assert "a" in body.halved


def test_bfloat16() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 11]>'
        + """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] w = {1, 2, 3, 1e38}> { a = Conv (x, w)  y = Relu (a) }"""
    )
    body = to_half(Model.open(parser.parse_model(text)), "bf16", {})
    assert (body.halved, body.model.opset) == ({"a", "y"}, 13)
    (got,) = loaded(body).run({"x": np.ones((1, 2, 4, 4), np.float32)})
    assert got[0, 0, 0, 0] == 3


def test_one_type_of_half_precision() -> None:
    text = HEAD + "g (float16[N] x) => (float[N] y) { a = Neg (x)  b = Cast <to = 1> (a)  y = Exp (b) }"
    model = Model.open(parser.parse_model(text))
    with pytest.raises(UserError, match="'x' is float16") as caught:
        to_half(model, "bf16", {})
    assert "--body fp16" in caught.value.hint
    body = to_half(model, "fp16", {})
    assert (body.halved, len(body.casts)) == ({"b", "y"}, 1)


def test_what_the_compiler_refuses() -> None:
    text = (
        HEAD
        + """g (float[1, 2, 4, 4] x) => (float[1, 2, 5, 5] y) <float[2, 2, 2, 2] w> {
        a = Relu (x)  y = ConvTranspose (a, w) }"""
    )
    model = parser.parse_model(text.replace("w> {", f"w = {{{', '.join(['0.5'] * 16)}}}> {{"))
    assert to_half(Model.open(model), "bf16", {}).stays["y"].code == "compiler"
    assert to_half(Model.open(model), "fp16", {}).halved == {"a", "y"}
