"""A run on the user's data makes no tensor that is larger than it may be: it is named before it is made."""

# ruff: noqa: E501

from __future__ import annotations

import re
import resource
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

import onnxq
from onnxq.base.errors import UserError
from onnxq.base.heap import uncollected
from onnxq.graph import tensor_sizes
from onnxq.graph.tensor_sizes import Outline
from onnxq.run import budget, ort

H = '<ir_version: 8, opset_import: ["" : 17]> g '
# Each makes a tensor of gigabytes in the middle, by another way; the node is called `big`.
GROWING = {
    "Tile of a constant": """(float[N, 4] x) => (float[N, 4] y) <float[2] k = {2, 1}, int64[1] r = {256000000}> {
        [big] t = Tile (k, r)  m = ReduceMax <keepdims = 0> (t)  y = Add (x, m) }""",
    "Expand by a computed shape": """(float[N, 4] x) => (float[N, 4] y) <int64[1] k = {400000000}, int64[1] o = {0}> {
        s = Shape (x)  z = Gather (s, o)  c = Concat <axis = 0> (k, z)  d = Slice (c, o, e)  u = Unsqueeze (x, o)
        f = ReduceMax <keepdims = 1> (x)  q = Squeeze (f)
        [big] t = Expand (q, d)  m = ReduceMax <keepdims = 0> (t)  y = Add (x, m) }""",
    "an outer sum": """(float[N, 4] x) => (float[N, 4] y) <int64[1] k = {40000}, int64[2] a = {-1, 1}, int64[2] b = {1, -1}> {
        f = ReduceMax <keepdims = 0> (x)  e = Expand (f, k)  c = Reshape (e, a)  r = Reshape (e, b)
        [big] t = Add (c, r)  m = ReduceMax <keepdims = 0> (t)  y = Add (x, m) }""",
    "a Resize": """(float[N, 4] x) => (float[N, 4] y) <float[2] s = {1, 600000000}> {
        [big] t = Resize <mode = "nearest"> (x, , s)  m = ReduceMax <axes = [1], keepdims = 1> (t)  y = Add (x, m) }""",
    "a pad": """(float[N, 4] x) => (float[N, 4] y) <int64[4] p = {0, 900000000, 0, 0}> {
        [big] t = Pad (x, p)  m = ReduceMax <axes = [1], keepdims = 1> (t)  y = Add (x, m) }""",
    "a branch": """(float[N, 4] x) => (float[N, 4] y) <int64[1] k = {900000000}, float[1] o = {1}, bool go = {1}> {
        m = If (go) <then_branch = a () => (float m1) { [big] t = Expand (o, k)  m1 = ReduceMax <keepdims = 0> (t) },
                     else_branch = b () => (float m2) { m2 = ReduceMax <keepdims = 0> (o) }>  y = Add (x, m) }""",
}  # fmt: skip


def made(name: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(H + GROWING[name])
    if name == "Expand by a computed shape":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "e"))
    return model


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def samples(count: int = 8) -> list[dict[str, np.ndarray]]:
    dice = np.random.default_rng(0)
    return [{"x": dice.standard_normal((2, 4)).astype(np.float32)} for _ in range(count)]


@pytest.mark.parametrize("name", GROWING)
def test_the_node_is_named_before_it_runs(name: str, tmp_path: Path) -> None:
    path = saved(made(name), tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for call in (
        lambda: onnxq.quantize(made(name), samples(), compile=False),
        lambda: onnxq.compare(path, path, samples()),
        lambda: onnxq.analyze(made(name), made(name), samples()),
    ):
        with pytest.raises(
            UserError, match=r"node 'big' makes 't' \(.* GB\), and a tensor may take 1 GB"
        ) as said:
            call()
        assert "largest" in said.value.hint
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


def test_what_is_stated_holds(tmp_path: Path) -> None:
    net = onnx.parser.parse_model(
        H
        + """(float[N, 4] x) => (float[N, 4] y) <int64[1] k = {5000000}> {
        f = ReduceMax <keepdims = 0> (x)  [big] t = Expand (f, k)  m = ReduceMax <keepdims = 0> (t)  y = Add (x, m) }"""
    )
    model = saved(net, tmp_path)
    assert onnxq.compare(model, model, samples(2))
    assert onnxq.compare(model, model, samples(2), largest="20MB")
    assert onnxq.compare(model, model, samples(2), runtime=onnxq.Runtime(largest=20_000_000))
    with pytest.raises(UserError, match=r"Expand node 'big' makes 't' .*may take 10 MB"):
        onnxq.compare(model, model, samples(2), largest="10MB")


@pytest.mark.parametrize("given", ["-1", "GB", "2XB", "0", "9e9", "1" * 40])
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(UserError, match="largest"):
        onnxq.Runtime(largest=given)


@pytest.mark.parametrize(
    ("given", "count"),
    [("2GB", 2 * 10**9), ("512MB", 512 * 10**6), ("1.5GiB", 3 << 29), ("7 kb", 7000), ("1000", 1000), ("3G", 3 * 10**9)],
)  # fmt: skip
def test_sizes_are_read(given: str, count: int) -> None:
    assert onnxq.Runtime(largest=given).largest_bytes == count


def test_on_the_command_line_nothing_is_lost(tmp_path: Path) -> None:
    saved(made("Tile of a constant"), tmp_path)
    np.savez(tmp_path / "x.npz", x=np.ones((6, 4), np.float32))
    (tmp_path / "q.onnx").write_bytes(b"kept")
    ran = run(tmp_path, *["quantize", "m.onnx", "--calib", "x.npz", "--no-engine", "-o", "q.onnx", "--force"])
    assert ran.code == 2
    assert "'big' makes 't'" in " ".join(ran.err.split())
    assert 'largest = "3GB"' in " ".join(ran.err.split())
    assert (tmp_path / "q.onnx").read_bytes() == b"kept"


def test_made_up_runs_skip_and_name_the_node() -> None:
    model = made("a pad")
    model.graph.node.add(op_type="Identity", input=["x"], output=["z"], name="gone")
    model.graph.node.add(op_type="Identity", input=["z"], output=["w"], name="gone2")
    model.graph.output.append(onnx.helper.make_tensor_value_info("w", 1, ["N", 4]))
    report = onnxq.sanitize(model).report
    assert any("'big' makes 't'" in one.why and "largest raises" in one.why for one in report.whole_model)


def test_what_inference_leaves_open_is_bounded_as_it_runs() -> None:
    """A Range of a length that is computed of values: nothing knows it before."""
    model = onnx.parser.parse_model(
        H
        + """(float[N, 4] x) => (float[N, 4] y) <float k = {3000000000}, float z = {0}, float o = {1}> {
        f = ReduceMax <keepdims = 0> (x)  a = Abs (f)  b = Max (a, o)  l = Mul (b, k)
        [big] t = Range (z, l, o)  m = ReduceMax <keepdims = 0> (t)  y = Add (x, m) }"""
    )
    program = f"""
import onnx, numpy as np, onnxq
model = onnx.ModelProto.FromString({model.SerializeToString()!r})
try:
    onnxq.quantize(model, [{{"x": np.ones((2, 4), np.float32)}}] * 4, compile=False)
except onnxq.UserError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert "Range" in done.stdout
    assert "big" in done.stdout
    assert "more memory than" in done.stdout


def test_large_samples_and_weights_may_make_more() -> None:
    """Attention of a picture of 1024 x 1024: its scores take more than 1 GB."""
    text = (
        H
        + "(float[16, 4096, 64] x) => (float[16, 64, 4096] y) { [big] y = Transpose <perm = [0, 2, 1]> (x) }"
    )
    own = budget.Budget(onnx.parser.parse_model(text))
    x = np.broadcast_to(np.float32(0), (16, 4096, 64))
    assert own._most({"x": x}) == 2 * budget.LARGEST
    assert own._most({}) == 2 * budget.LARGEST
    assert own._most({"x": np.zeros((1, 2, 2), np.float32)}) == budget.LARGEST + 64 * 16


def test_sizes_follow_values_of_small_inputs() -> None:
    outline = Outline(
        onnx.parser.parse_model(H + "(float[4] x, int64[1] n) => (float[M] y) { [big] y = Tile (x, n) }")
    )
    sizes = outline.sizes({"x": np.zeros(4, np.float32), "n": np.array([10**9])})
    assert (sizes.open, sizes.largest and sizes.largest.bytes) == (0, 16 * 10**9)
    assert outline.sizes({"x": np.zeros(4, np.float32)}).open == 1


# What a node takes although its tensor is small: texts, transforms of a length that is no power of two, products.
BESIDE = {
    "makes 'y' (100000, 6.4 MB)": "(float[100000] x) => (string[100000] y) { [big] y = Cast <to = 8> (x) }",
    "makes 'y' (1x10007x2, 80.1 kB; 1.31 MB meanwhile)":
        "(float[1, 10007, 1] x) => (float[1, 10007, 2] y) { [big] y = DFT <axis = 1> (x) }",
    "makes 'y' (1x1x109x109, 47.5 kB; 4 MB meanwhile)": """(float[1, 2, 100, 100] x, float[2, 1, 10, 10] w)
        => (float[1, 1, 109, 109] y) { [big] y = ConvTranspose (x, w) }""",
}  # fmt: skip


@pytest.mark.parametrize("said", BESIDE)
def test_what_a_node_takes_is_more_than_its_elements(said: str) -> None:
    session = ort.load(onnx.parser.parse_model(H + BESIDE[said]), optimize=False)
    x = {name: np.ones(shape, np.float32) for name, shape in session.input_shapes.items()}
    with budget.largest(1_000_000), pytest.raises(UserError, match=re.escape(f"node 'big' {said}, and")):
        session.run(x)
    with budget.largest(7_000_000):
        assert session.run(x)[0].shape[:1] == x["x"].shape[:1]


def test_a_transform_of_a_power_of_two_takes_what_it_makes() -> None:
    text = H + "(float[1, 16384, 1] x) => (float[1, 16384, 2] y) { [big] y = DFT <axis = 1> (x) }"
    with budget.largest(200_000):
        (y,) = ort.load(onnx.parser.parse_model(text)).run({"x": np.ones((1, 16384, 1), np.float32)})
    assert y[0, 0, 0] == 16384


def test_the_size_that_is_named_suffices_for_all_tensors() -> None:
    """Not for the first that is too large alone; nor for the last of those that came before, where it ran."""
    text = """(float[1] x) => (float[1] y) <int64[1] k = {300000000}, int64[1] l = {900000000}, int64[1] z = {0}> {
        a = Expand (x, k)  b = Expand (x, l)  c = Gather (a, z)  d = Gather (b, z)  y = Add (c, d) }"""
    own = budget.Budget(onnx.parser.parse_model(H + text))
    x = {"x": np.ones(1, np.float32)}
    with pytest.raises(UserError, match=r"makes 'a' .*1\.2 GB") as said:
        own.check(x)
    assert said.value.hint.endswith('largest = "4GB" under [runtime] of onnxq.toml')
    with budget.largest(4 * 10**9):
        own.check(x)
    asked = "Failed to allocate memory for requested buffer of size 3600000000"
    with budget.largest(10**9):
        assert own.short(x, asked).hint.endswith('largest = "5GB" under [runtime] of onnxq.toml')
        assert own.short(x, "bad_alloc").hint.endswith('largest = "2GB" under [runtime] of onnxq.toml')


def test_candidates_that_differ_in_values_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def infer(model: onnx.ModelProto) -> onnx.ModelProto:
        asked.append(1)
        return onnx.shape_inference.infer_shapes(model)

    monkeypatch.setattr(tensor_sizes, "infer", infer)
    text = H + "(float[2] x) => (float[M] y) <float[1] s = {%s}, float[2] w = {%s, 1}> "
    text += "{ [add] a = Add (x, w)  [big] y = Resize (a, , s) }"
    x, sizes = {"x": np.zeros(2, np.float32)}, []
    for scale, value in ((2, 7), (2, 8), (3, 8)):
        sizes.append(Outline(onnx.parser.parse_model(text % (scale, value))).sizes(x))
    assert [one.bytes for one in sizes] == [8 + 16, 8 + 16, 8 + 24]
    assert len(asked) == 2
    assert [one.tensor for one in sizes[0].rising] == ["a", "y"]


def test_of_a_loop_that_does_not_end_the_node_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(budget.SECONDS, "1")
    model = onnx.parser.parse_model(
        H
        + """(float[4] x) => (float[4] y) <bool go = {1}> { [round] y = Loop (, go, x) <body =
        b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity (c)  t = Neg (s) }> }"""
    )
    path = saved(model, tmp_path)
    with pytest.raises(UserError, match="did not end in 1 s: the model has a Loop, 'round'") as said:
        onnxq.compare(path, path, [{"x": np.ones(4, np.float32)}])
    assert budget.SECONDS in said.value.hint


def test_long_runs_without_a_loop_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(budget.SECONDS, "1")
    big = onnx.parser.parse_model(
        H
        + "(float[1500, 1500] x) => (float[1500, 1500] y) { "
        + "  ".join(f"v{k + 1} = MatMul (v{k}, v{k})" for k in range(60)).replace("(v0, v0)", "(x, x)")
        + "  y = Neg (v60) }"
    )
    session = ort.load(big, optimize=False)  # all it makes takes 550 MB
    with pytest.raises(UserError, match="did not end in 1 s"):
        session.run({"x": np.zeros((1500, 1500), np.float32)})


PEAK = """
import resource, sys
import numpy as np, onnx, onnxq
model = onnx.ModelProto.FromString(bytes.fromhex(sys.argv[1]))
onnxq.quantize(model, [{"x": np.ones((2, 4), np.float32)}] * 6, compile=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def peak(model: onnx.ModelProto) -> int:
    """MiB that quantizing a model takes."""
    command = [sys.executable, "-c", PEAK, model.SerializeToString().hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-1000:]
    return int(done.stdout.split()[-1])


def test_sessions_keep_nothing_of_what_is_large() -> None:
    """Many are open at a time, and each of them once kept what its largest run had taken."""
    model = made("Expand by a computed shape")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([100_000_000]), "k"))
    assert peak(model) < 1600  # two tensors of 400 MB, and a copy in half precision


def test_no_more_than_two_sessions_of_a_model_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds what onnxruntime folds, and a part of its largest run; one that is done with goes at once."""
    born, open_ones, most = ort.Session.__init__, weakref.WeakSet[ort.Session](), []

    def counted(self: ort.Session, *given: Any) -> None:
        born(self, *given)
        open_ones.add(self)
        most.append(len(open_ones))

    monkeypatch.setattr(ort.Session, "__init__", counted)
    text = """(float[N, 4] x) => (float[N, 4] y) <int64[1] k = {8}> {
        f = ReduceMax <keepdims = 0> (x)  h = ConstantOfShape (k)  t = Add (h, f)  s = Sin (t)
        m = ReduceMax <keepdims = 0> (s)  y = Add (x, m) }"""
    with uncollected():
        onnxq.quantize(
            onnx.parser.parse_model(H + text), [{"x": np.ones((2, 4), np.float32)}] * 6, compile=False
        )
    assert max(most) == 2


def test_of_a_long_sum_that_is_probed_few_terms_are_in_memory() -> None:
    """Not all of them, although each is read by a probe, and all stand in front of the sum."""
    products = "  ".join(f"p{i} = Mul (t, c{i})" for i in range(16))
    sums = "  ".join(f"s{i + 1} = Add (s{i}, p{i})" for i in range(16))
    constants = ", ".join(f"float[1] c{i} = {{{i}}}" for i in range(16))
    text = f"""(float[N, 4] x) => (float[N, 4] y) <int64[1] k = {{10000000}}, {constants}> {{
        f = ReduceMax <keepdims = 0> (x)  t = Expand (f, k)  {products}  s0 = Neg (t)  {sums}
        m = ReduceMax <keepdims = 0> (s16)  y = Add (x, m) }}"""
    program = f"""
import resource
import numpy as np, onnx
from onnxq.calib.probes import Probe, ProbeGraph
from onnxq.run import ort
model = onnx.ModelProto.FromString({onnx.parser.parse_model(H + text).SerializeToString()!r})
probes = ProbeGraph(model, [Probe(name) for node in model.graph.node for name in node.output], 17).graph
sessions = [ort.load(model, optimize=optimize, probes=probes) for optimize in (False, True)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for session in sessions:
    session.run({{"x": np.ones((2, 4), np.float32)}})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-1000:]
    assert int(done.stdout) < 350  # of 17 tensors of 40 MB


def test_inference_holds_no_value_of_long_vectors() -> None:
    """ONNX's holds 33 bytes for each element of a vector that a Cast reads."""
    model = onnx.parser.parse_model(
        H
        + """(float[N, 4] x) => (float[N, 4] y) <float[1] k = {2}, int64[1] r = {100000000}> {
        t = Expand (k, r)  c = Cast <to = 10> (t)  d = Cast <to = 1> (c)
        m = ReduceMax <keepdims = 0> (d)  y = Add (x, m) }"""
    )
    assert peak(model) < 2600  # three tensors of up to 400 MB, twice
