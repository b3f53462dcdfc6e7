"""What stays float32 before a body has run, and why; and that the body then computes what it should."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.body.bounds import bounds, needed
from onnxq.body.convert import to_half
from onnxq.body.emulate import Emulated
from onnxq.body.islands import Islands, islands
from onnxq.body.measured_body import MeasuredBody, settle
from onnxq.graph.model import Model
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RNG = np.random.default_rng(0)
Feeds = Mapping[str, np.ndarray]


def model_of(text: str, **constants: np.ndarray) -> Model:
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return Model.open(model)


def measured(model: Model, feeds: Feeds) -> dict[str, tuple[float, float]]:
    """The ranges that calibration would measure."""
    names = needed(model)
    probes = onnx.GraphProto(output=[onnx.ValueInfoProto(name=name) for name in names if name not in feeds])
    session = ort.load(model.to_proto(), optimize=False, probes=probes)
    values = {**feeds, **dict(zip(session.outputs, session.run(feeds), strict=True))}
    return {name: (float(values[name].min()), float(values[name].max())) for name in names}


def codes(found: Islands) -> dict[str, str]:
    return {name: why.code for name, why in found.stays.items()}


def settled(model: Model, feeds: Feeds, found: Islands) -> MeasuredBody:
    more = {"masks": found.masks.sources, "masked": found.masks.tensors}
    return settle(model, "fp16", found.stays, [feeds], **more)  # type: ignore[arg-type]


def test_what_is_measured_bounds_all() -> None:
    model = model_of("""g (float[N, 4] x, bool[N, 4] m) => (float[N, 4] y)
        <float lo = {-2}, float hi = {3}, float e = {9}> {
        a = Mul (x, e)  r = Relu (a)  t = Transpose <perm = [0, 1]> (r)  c = Clip (t, lo, hi)
        s = Sigmoid (a)  k = Cast <to = 1> (m)  w = Where (m, t, e)  p = Add (c, s)
        y = Concat <axis = 0> (p, k) }""")
    assert needed(model) == ("x", "a", "p")
    found = bounds(model, {"x": (-1, 2), "a": (-9, 18), "p": (0, 4)})
    names = {tensor.name: size for tensor, size in found.items()}
    assert names == {"x": 2, "a": 18, "r": 18, "t": 18, "c": 3, "s": 1, "k": 1, "w": 18, "p": 4, "y": 4}


def test_a_clip_with_an_infinite_bound_bounds_nothing() -> None:
    model = model_of("""g (float[4] x) => (float[4] a, float[4] b) {
        big = Mul (x, factor)  a = Clip (big, low, high)  b = Clip (big, low, end) }""",
        factor=np.float32([1e6]), low=np.float32(-5), high=np.float32(np.inf), end=np.float32(5),
    )  # fmt: skip
    assert set(needed(model)) >= {"x", "big", "a"}
    found = bounds(model, measured(model, {"x": np.float32([1, 2, 3, 4])}))
    named = {t.name: found[t] for node in model.nodes for t in node.outputs}
    assert named == {"big": 4e6, "a": 4e6, "b": 5.0}


def test_what_nobody_measured_is_bounded_by_weights_and_sums() -> None:
    """By the greatest sum of magnitudes of a channel; where that is much, it says nothing."""
    model = model_of("""g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float[2] b = {1, -3}> {
        a = Conv (x, w, b)  s = Add (a, x)  m = Mul (s, s)  y = Mul (m, m) }""",
        w=np.float32([[[[1]], [[-2]]], [[[0.5]], [[0.25]]]]),
    )  # fmt: skip
    found = bounds(model, {"x": (-2, 1)})
    names = {tensor.name: size for tensor, size in found.items()}
    assert names == {"x": 2, "a": 9, "s": 11, "m": 121}  # y: 14,641


def test_the_factors_of_a_gemm_and_the_side_of_a_weight_count_in_its_bound() -> None:
    model = model_of("""g (float[2, 3] x) => (float[2, 2] y, float[2, 3] z) {
        y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b)  z = MatMul (v, x) }""",
        w=np.float32([[1, -1], [2, 0], [0, 3]]), b=np.float32([1, -3]), v=np.float32([[1, -2], [0.5, 0]]),
    )  # fmt: skip
    found = bounds(model, {"x": (-2, 1)})
    names = {tensor.name: size for tensor, size in found.items()}
    assert names == {"x": 2, "y": 0.5 * 4 * 2 + 2 * 3, "z": 3 * 2}


def test_an_infinite_constant_bounds_nothing() -> None:
    model = model_of("g (float[4] x) => (float[4] y) { y = Mul (x, end) }", end=np.float32([np.inf, 1, 2, 3]))
    assert "y" not in {tensor.name for tensor in bounds(model, {"x": (-2, 1)})}


def test_activations_of_100000() -> None:
    model = model_of(
        """g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y) <float down = {1e-4}> {
        a = Conv (x, w)  b = Relu (a)  c = Conv (b, v)  d = Relu (c)  e = Conv (d, u)  f = Mul (e, down)
        y = Sigmoid (f) }""",
        w=RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
        v=(4e4 * RNG.standard_normal((4, 4, 1, 1))).astype(np.float32),
        u=(1e-2 * RNG.standard_normal((4, 4, 1, 1))).astype(np.float32),
    )
    feeds = {"x": RNG.standard_normal((1, 4, 8, 8)).astype(np.float32)}
    ranges = measured(model, feeds)
    assert ranges["c"][1] > 1e5
    found = islands(model, "fp16", ranges)
    assert set(found.stays) == {"c", "d", "e"}
    assert codes(found)["c"] == "range"
    assert "bfloat16 would hold it" in found.stays["c"]
    result = settled(model, feeds, found)
    assert (result.found, result.reached) == ((), True)
    assert result.sqnr_db > 55
    plain = to_half(model, "fp16", {}).model.to_proto()
    assert not np.isfinite(Emulated(plain).run(feeds)[0]).all()


def test_a_margin_for_what_calibration_did_not_see() -> None:
    model = model_of("g (float[N] x) => (float[N] y) { a = Neg (x)  y = Relu (a) }")
    assert codes(islands(model, "fp16", {"x": (-16000, 0)})) == {}
    found = islands(model, "fp16", {"x": (-17000, 0)})
    assert codes(found) == {"a": "range", "y": "range"}
    assert "4 times" in found.stays["a"]


def test_tensors_that_were_not_measured_stay() -> None:
    model = model_of("""g (float[N] x, float[N] z, bool c) => (float[N] y, float[N] u) {
        a = Neg (x)  b = Add (a, z)  y = Sigmoid (b)  d = Relu (a)
        u = If (c) <then_branch = t () => (float[N] p) { i = Div (d, d)  p = Tanh (i) },
                    else_branch = e () => (float[N] q) { j = Tanh (d)  q = Neg (j) }> }""")
    found = islands(model, "fp16", {"x": (-1, 1)})
    assert set(found.without_range) == {"z", "b", "i", "u"}
    assert {name for name, code in codes(found).items() if code == "no-range"} >= {"b", "y", "i", "p"}
    assert {"a", "d", "j"}.isdisjoint(found.stays)  # known by what they read
    assert codes(islands(model, "bf16", {})) == {}


def test_a_variance_over_100000_elements() -> None:
    model = model_of("""g (float[1, 100000] x) => (float[1, 100000] y)
        <float eps = {1e-5}, float two = {2}, float g = {0.5}> {
        m = ReduceMean <axes = [1]> (x)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean <axes = [1]> (s)
        e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g) }""")
    feeds = {"x": (30 + 0.1 * RNG.standard_normal((1, 100000))).astype(np.float32)}
    found = islands(model, "fp16", measured(model, feeds))
    assert codes(found) == dict.fromkeys(["m", "d", "s", "v", "e", "r", "n"], "normalization")
    result = settled(model, feeds, found)
    assert (result.reached, result.found) == (True, ())
    assert result.sqnr_db > 60
    assert settle(model, "fp16", {}, [feeds], rounds=0).sqnr_db < 40


@pytest.mark.parametrize(
    ("node", "terms"),
    [
        ("ReduceSum <keepdims = 0> (x)", 20000),
        ("ReduceMean <axes = [-1], keepdims = 0> (x)", 5000),
        ("ReduceL1 <axes = [0], keepdims = 0> (x)", 4),
        ("CumSum (x, one)", 5000),
    ],
)
def test_long_sums(node: str, terms: int) -> None:
    model = model_of(
        f"g (float[4, 5000] x) => (float y) <int64 one = {{1}}> {{ a = {node}  y = ReduceMax (a) }}"
    )
    ranges = dict.fromkeys(needed(model), (-1.0, 1.0))
    why = islands(model, "fp16", ranges).stays.get("a")
    assert (why is not None and why.code == "long-sum" and f"{terms:,} terms" in why) == (terms > 2048)


def test_a_mask_of_minus_1e9_in_attention() -> None:
    model = model_of("""g (float[2, 8, 16] q, float[2, 8, 16] k, int64[2, 1, 8] m) => (float[2, 8, 16] y)
        <float one = {1}, float low = {-1e9}> {
        f = Cast <to = 1> (m)  i = Sub (one, f)  j = Mul (i, low)
        t = Transpose <perm = [0, 2, 1]> (k)  s = MatMul (q, t)  a = Add (s, j)
        p = Softmax <axis = -1> (a)  y = MatMul (p, k) }""")
    feeds = {
        "q": RNG.standard_normal((2, 8, 16)).astype(np.float32),
        "k": RNG.standard_normal((2, 8, 16)).astype(np.float32),
        "m": (np.arange(8) < 5).astype(np.int64).reshape(1, 1, 8).repeat(2, 0),
    }
    found = islands(model, "fp16", measured(model, feeds))
    assert (found.masks.sources, found.masks.tensors) == ({"low"}, {"low", "j", "a"})
    assert codes(found) == {}
    result = settled(model, feeds, found)
    assert (result.reached, result.found, result.body.masks) == (True, (), ("low",))
    assert result.sqnr_db > 55


def test_two_masks_of_a_causal_attention() -> None:
    model = model_of(
        """g (float[1, 8, 16] q, bool[1, 1, 8] m) => (float[1, 8, 16] y)
        <int64[2] size = {8, 8}, float low = {-3.4028235e38}, float zero = {0}, int64 one = {1}> {
        c = ConstantOfShape <value = float[1] {-1e30}> (size)  u = Trilu <upper = 1> (c, one)
        w = Where (m, zero, low)  s = MatMul (q, t)  a = Add (s, u)  b = Add (a, w)  k = Max (b, low)
        p = Softmax <axis = -1> (k)  y = MatMul (p, q) }
        """,
        t=RNG.standard_normal((16, 8)).astype(np.float32),
    )
    feeds = {
        "q": RNG.standard_normal((1, 8, 16)).astype(np.float32),
        "m": (np.arange(8) < 6).reshape(1, 1, 8),
    }
    found = islands(model, "fp16", measured(model, feeds))
    assert found.masks.sources == {"c", "low"}
    assert codes(found) == {}
    result = settled(model, feeds, found)
    assert (result.reached, result.found) == (True, ())
    assert result.sqnr_db > 55


def test_a_mask_of_infinity() -> None:
    model = model_of(
        """g (float[1, 8, 16] q, bool[1, 1, 8] m) => (float[1, 8, 16] y) <float zero = {0}> {
        w = Where (m, zero, low)  s = MatMul (q, t)  a = Add (s, w)  p = Softmax <axis = -1> (a)
        y = MatMul (p, q) }""",
        t=RNG.standard_normal((16, 8)).astype(np.float32),
        low=np.array(-np.inf, np.float32),
    )
    feeds = {
        "q": RNG.standard_normal((1, 8, 16)).astype(np.float32),
        "m": (np.arange(8) < 6).reshape(1, 1, 8),
    }
    found = islands(model, "fp16", measured(model, feeds))
    assert (found.masks.sources, codes(found)) == ({"low"}, {})
    result = settled(model, feeds, found)
    assert (result.reached, result.found) == (True, ())
    assert result.sqnr_db > 55


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_a_mask_that_is_an_input(op: str) -> None:
    model = model_of(
        f"""g (float[1, 8, 16] q, float[1, 1, 8] m) => (float[1, 8, 16] y) {{
        s = MatMul (q, t)  a = {op} (s, m)  p = Softmax <axis = -1> (a)  y = MatMul (p, q) }}""",
        t=RNG.standard_normal((16, 8)).astype(np.float32),
    )
    mask = np.where(np.arange(8) < 5, 0, -1e9 if op == "Add" else 1e9).astype(np.float32).reshape(1, 1, 8)
    feeds = {"q": RNG.standard_normal((1, 8, 16)).astype(np.float32), "m": mask}
    found = islands(model, "fp16", measured(model, feeds))
    assert (found.masks.sources, codes(found)) == ({"m"}, {})
    result = settled(model, feeds, found)
    assert (result.reached, result.found) == (True, ())
    assert result.sqnr_db > 55
    assert len(result.body.casts) == 3
    assert found.float32_io == {"m": found.float32_io["m"]}  # whoever feeds float16 has no -1e9
    half = to_half(model, "fp16", found.stays, io=True, float32_io=found.float32_io, masks={"m"})
    assert set(half.interface) == {"q", "y"}


def test_a_number_like_a_mask_that_is_none() -> None:
    model = model_of("""g (float[N, 8] x, bool[N, 8] m) => (float[N, 8] y, float[N, 8] z)
        <float low = {-1e9}> {
        a = Where (m, x, low)  y = Softmax (a)  z = Neg (a) }""")
    found = islands(model, "fp16", {"x": (-1, 1)})
    assert found.masks.sources == set()
    assert codes(found) == {"a": "range", "y": "range", "z": "range"}


def test_positions_beyond_2048() -> None:
    model = model_of("""g (float[1, N, 4] x, int64[N] i) => (float[1, N, 4] y)
        <float w = {0.01}, int64[2] ends = {0, 2}> {
        p = Cast <to = 1> (i)  q = Mul (p, w)  r = Sin (q)  u = Unsqueeze (r, ends)  y = Add (x, u) }""")
    feeds = {"x": RNG.standard_normal((1, 5000, 4)).astype(np.float32), "i": np.arange(5000)}
    found = islands(model, "fp16", measured(model, feeds))
    assert codes(found) == dict.fromkeys("pqru", "position")
    assert "up to 4,999" in found.stays["p"]
    result = settled(model, feeds, found)
    assert (result.reached, result.found) == (True, ())
    assert result.sqnr_db > 65
    assert settle(model, "fp16", {}, [feeds], rounds=0).sqnr_db < 45
    few = {"x": feeds["x"][:, :100], "i": np.arange(100)}
    assert codes(islands(model, "fp16", measured(model, few))) == {}


def test_what_becomes_whole_numbers() -> None:
    model = model_of("""g (float[N] x, float[9] t) => (float[N] y, float[N] z) <float s = {0.3}> {
        h = Relu (x)  a = Mul (h, s)  b = Floor (a)  c = Cast <to = 7> (b)
        y = Gather (t, c)  z = Exp (h) }""")
    found = islands(model, "fp16", dict.fromkeys(needed(model), (0.0, 9.0)))
    assert codes(found) == {**dict.fromkeys("habc", "index"), "z": "power"}


def test_sizes_are_computed_in_float32_by_any_operator() -> None:
    """An area is soon beyond float16; what is computed of values stays only where it is cheap."""
    model = model_of(
        """g (float[1, 3, h, w] x) => (float[n, m] y, float[1, 3, h, w] z) <float one = {1}> {
            s = Shape <start = 2> (x)  f = Cast <to = 1> (s)  p = ReduceProd <keepdims = 1> (f)  e = Exp (p)
            r = Sqrt (p)  k = Softmax (r)  i = Cast <to = 7> (k)  j = Concat <axis = 0> (i, i)
            y = ConstantOfShape (j)
            t = Softmax (x)  q = Mul (t, one)  v = Cast <to = 7> (q)  u = Cast <to = 1> (v)
            z = Add (u, e) }"""
    )
    found = islands(model, "fp16", dict.fromkeys(needed(model), (-1.0, 1.0)))
    assert {name for name, code in codes(found).items() if code == "index"} == set("fprkiqv")


def test_few_casts() -> None:
    model = model_of("""g (float[N] x) => (float[N] y) <float one = {1}> {
        a = Exp (x)  b = Add (a, one)  c = Log (b)  y = Mul (c, x) }""")
    found = islands(model, "fp16", dict.fromkeys(needed(model), (0.0, 9.0)))
    assert codes(found) == {"a": "power", "b": "between", "c": "power"}
    assert len(to_half(model, "fp16", found.stays).casts) == 3
