"""A batch that is written into a model becomes dynamic once one is stated, or the node is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

import onnxq
from onnxq import UserError
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : %d]> net '
OF_ONE = {
    "reshape": "(float[1, 4, 4] x) => (float[1, 16] y) <int64[2] s = {1, 16}> { y = Reshape (x, s) }",
    "open behind": "(float[1, 4, 6] x) => (float[1, 8, 3] y) "
    "<int64[3] s = {1, -1, 3}> { y = Reshape (x, s) }",
    "flat": "(float[1, 4, 6] x) => (float[1, 24] y) <int64[2] s = {1, -1}> { y = Reshape (x, s) }",
    "named": "(float[N, 4, 4] x) => (float[N, 16] y) <int64[2] s = {1, 16}> { y = Reshape (x, s) }",
    "of sizes": "(float[1, 4, T] x) => (float[1, B] y) <int64[1] one = {1}, int64[1] all = {-1}> "
    "{ s = Concat <axis = 0> (one, all)  y = Reshape (x, s) }",
    "two open": "(float[1, 4, H, W] x) => (float[1, H, W, 4] y) <int64[1] one = {1}, int64[1] four = {4}> "
    "{ a = Shape <start = 2> (x)  s = Concat <axis = 0> (one, a, four)  y = Reshape (x, s) }",
    "heads": "(float[1, 6, 8] x) => (float[1, 6, 8] y) <int64[3] s = {6, 2, 4}, int64[3] r = {6, 1, 8}> "
    "{ a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Transpose <perm = [1, 0, 2]> (b) "
    "d = Softmax <axis = 1> (c)  e = Transpose <perm = [1, 0, 2]> (d)  f = Reshape (e, r) "
    "y = Transpose <perm = [1, 0, 2]> (f) }",
    "rows of all": "(float[1, 6, 8] x, float[8, 8] w) => (float[1, 6, 8] y) "
    "<int64[2] s = {6, 8}, int64[3] r = {6, 1, 8}> "
    "{ a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Gemm (b, w) "
    "d = Reshape (c, r)  y = Transpose <perm = [1, 0, 2]> (d) }",
    "attention": "(float[1, 6, 8] x, float[8, 8] w) => (float[1, 6, 8] y) <int64[3] s = {6, 2, 4}, "
    "int64[2] r = {6, 8}, int64[3] t = {6, 1, 8}> { a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s) "
    "c = Transpose <perm = [1, 0, 2]> (b)  d = Softmax <axis = 1> (c)  e = Transpose <perm = [1, 0, 2]> (d) "
    "f = Reshape (e, r)  g = Gemm (f, w)  h = Reshape (g, t)  y = Transpose <perm = [1, 0, 2]> (h) }",
    "joined and open": "(float[1, 6, 4] x) => (float[1, 6, 4] y) "
    "<int64[2] s = {6, -1}, int64[3] r = {1, 6, 4}> { a = Reshape (x, s)  b = Softmax (a) "
    "y = Reshape (b, r) }",
    "token": "(float[1, 4, 4] x) => (float[1, 5, 4] y) <float[1, 1, 4] c = {1., 2., 3., 4.}> "
    "{ y = Concat <axis = 1> (c, x) }",
    "expanded token": "(float[1, 4, 4] x) => (float[1, 5, 4] y) "
    "<float[1, 1, 4] c = {1., 2., 3., 4.}, int64[3] s = {1, 1, 4}> "
    "{ e = Expand (c, s)  y = Concat <axis = 1> (e, x) }",
    "only one": "(float[1, 4, 4] x) => (float[1, 4, 4] y) <int64 i = {0}, int64[1] o = {0}> "
    "{ a = Gather <axis = 0> (x, i)  b = Relu (a)  y = Unsqueeze (b, o) }",
    "whole slice": "(float[1, 4, 4] x) => (float[1, 2, 4] y) <int64[2] b = {0, 1}, int64[2] e = {1, 3}> "
    "{ y = Slice (x, b, e) }",
    "resized": "(float[1, 2, 4, 4] x) => (float[1, 2, 8, 8] y) <int64[4] s = {1, 2, 8, 8}> "
    "{ y = Resize (x, , , s) }",
    "grid": "(float[1, 1, 2, 2] x) => (float[1, 1, 1, 2] y) <float[1, 1, 2, 2] g = {0., 0.5, -1., 1.}> "
    "{ y = GridSample (x, g) }",
    "picked": "(float[1, 4] x) => (float[1, 2] y) <int64[1, 2] i = {3, 1}> "
    "{ y = GatherElements <axis = 1> (x, i) }",
    "states": "(float[1, 5, 2] x, float[1, 8, 2] w, float[1, 8, 2] r) => (float[1, 5, 2] y) "
    "<float[1, 1, 2] h = {0.5, -1.}, int64[1] o = {1}> { t = Transpose <perm = [1, 0, 2]> (x) "
    "a = LSTM <hidden_size = 2> (t, w, r, , , h, h)  b = Squeeze (a, o) "
    "y = Transpose <perm = [1, 0, 2]> (b) }",
    "held state": "(float[1, 5, 2] x, float[1, 1, 2] h, float[1, 2, 2] w, float[1, 2, 2] r) "
    "=> (float[1, 1, 2] y) { t = Transpose <perm = [1, 0, 2]> (x) "
    "q, y = RNN <hidden_size = 2> (t, w, r, , , h) }",
    "one of two states": "(float[1, 5, 2] x, float[2, 1, 2] h, float[1, 2, 2] w, float[1, 2, 2] r) "
    "=> (float[1, 1, 2] y) <int64[1] b = {1}, int64[1] e = {2}> { t = Transpose <perm = [1, 0, 2]> (x) "
    "s = Slice (h, b, e)  q, y = RNN <hidden_size = 2> (t, w, r, , , s) }",
}  # fmt: skip
OF_FOUR = {
    "rows alike": "(float[4, 2] x) => (float[4, 2] y) <float[4, 2] c = {1., 2., 1., 2., 1., 2., 1., 2.}> "
    "{ y = Add (x, c) }",
    "expand": "(float[4, 1, 2] x) => (float[4, 3, 2] y) <int64[3] s = {4, 3, 2}> { y = Expand (x, s) }",
    "reshape": "(float[4, 6] x) => (float[4, 2, 3] y) <int64[3] s = {4, 2, 3}> { y = Reshape (x, s) }",
}
KEPT = {
    "along": ("(float[1, 4] x) => (float[1, 4] y) { [k] y = Softmax <axis = 0> (x) }", "along the batch"),
    "lost": ("(float[1, 4] x) => (float[1, 1] y) { [k] y = ReduceMean (x) }", "gives [1, 1] whatever"),
    "rows": (
        "(float[4, 1] x) => (float[4, 1] y) <float[4, 1] c = {1., 2., 3., 4.}> { [k] y = Add (x, c) }",
        "other values for each of the 4 samples",
    ),
    "values": ("(float[1, 4] x) => (int64[2, M] y) { [k] y = NonZero (x) }", "not known before it runs"),
    "joined": ("(float[1, 4] x) => (float[2, 4] y) { [k] y = Concat <axis = 0> (x, x) }", "along the batch"),
    "summed up": (
        "(float[1, 4] x) => (float[1, 4] y) <int64 a = {0}> { [k] y = CumSum (x, a) }",
        "depend on the others",
    ),
}


def model_of(text: str, opset: int = 17) -> onnx.ModelProto:
    """The model, whose inputs that are weights are constants."""
    proto = onnx.parser.parse_model(HEAD % opset + text)
    generator = np.random.default_rng(0)
    for info in [one for one in proto.graph.input if one.name in "wr"]:
        dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        proto.graph.initializer.append(
            onnx.numpy_helper.from_array(generator.standard_normal(dims, np.float32), info.name)
        )
        proto.graph.input.remove(info)
    return proto


def feeds_of(proto: onnx.ModelProto, count: int, batch: int) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(1)
    sizes = {info.name: [dim.dim_value or (batch if axis == 0 else 3)
                         for axis, dim in enumerate(info.type.tensor_type.shape.dim)]
             for info in proto.graph.input}  # fmt: skip
    return [
        {name: generator.standard_normal(size, np.float32) for name, size in sizes.items()}
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", [*OF_ONE, *(f"of four: {one}" for one in OF_FOUR)])
def test_it_gives_what_single_runs_give(name: str) -> None:
    of, batch = (OF_FOUR, 4) if ": " in name else (OF_ONE, 1)
    proto = model_of(of[name.rpartition(": ")[2]])
    axes = {"x": 0, "h": 1}
    result = onnxq.sanitize(proto, batch=(1, 2, 8))
    was, now = ort.load(proto, optimize=False), ort.load(result.model, optimize=False)
    fed = feeds_of(proto, 3, batch)
    given = [was.run(one)[0] for one in fed]
    along = int(name in ("held state", "one of two states"))
    for count in (1, 2, 3):
        feeds = {key: np.concatenate([one[key] for one in fed[:count]], axes[key]) for key in fed[0]}
        made = now.run(feeds)[0]
        np.testing.assert_allclose(made, np.concatenate(given[:count], along), 1e-5, 1e-6)
    (change,) = [one for one in result.report.changes if one.rule == "dynamic_batch"]
    assert change.proof.verdict in ("exact", "close")
    if batch > 1:  # and in batches that are none of its own
        made = now.run({key: array[:1] for key, array in fed[0].items()})[0]
        np.testing.assert_allclose(made, given[0][:1], 1e-5, 1e-6)


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_is_named_with_its_node(name: str) -> None:
    text, why = KEPT[name]
    with pytest.raises(UserError, match="cannot be made dynamic: 'k'") as error:
        onnxq.sanitize(model_of(text), batch=(1, 2, 4))
    assert why in str(error.value)


def test_a_model_that_runs_in_batches_stays_as_it_is() -> None:
    proto = model_of("(float[N, 4, 4] x) => (float[N, 16] y) <int64[2] s = {-1, 16}> { y = Reshape (x, s) }")
    result = onnxq.sanitize(proto, batch=(1, 2, 4))
    assert not [one for one in result.report.changes if one.rule == "dynamic_batch"]


def test_the_repairs_say_it(tmp_path: Path) -> None:
    onnx.save(model_of("(float[1, 16] x, float[16, 16] w) => (float[1, 16] y) { y = MatMul (x, w) }"),
              tmp_path / "net.onnx")  # fmt: skip
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((32, 16), np.float32))
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "x.npz", "--batch", "1:4:8", "--no-engine")
    told = " ".join(ran.out.split())
    assert "batch 1 of the file, dynamic now: equal to single runs in batches of 1, 2, 5, 8" in told
    assert "Sizes batch 1 to 8, usually 4 (stated)" in told
