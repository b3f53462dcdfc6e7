"""What runs on made-up input takes no more memory than it may, whatever sizes stand in the model."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.rewrite.engine import rewrite
from onnxq.rewrite.whole import Differs, _verdict
from onnxq.rule import Close, op
from onnxq.rule.api import Rule
from onnxq.run.budget import largest

# Tensors of gigabytes: that nobody reads but a Shape, an input, one that a Tile makes.
MODELS = {
    "read by Shape": """g (float[1, 3, 8, 8] x) => (float y)
        <float[1, 1] k = {0.5}, int64[2] s = {65536, 32768}> {
        e = Expand (k, s)  h = Shape (e)  c = Cast <to = 1> (h)
        m = ReduceSum <keepdims = 0> (c)  y = Add (x, m) }""",
    "in front of what is replaced": """g (float[65536, 32768] x) => (float[65536, 32768] y) {
        a = Transpose <perm = [1, 0]> (x)  y = Transpose <perm = [1, 0]> (a) }""",
    "in the middle": """g (float[1, 4] x) => (float[1, 4] y) <int64[2] s = {1048576, 1024}> {
        t = Tile (x, s)  u = Identity (t)
        m = ReduceMax <axes = [0, 1], keepdims = 0> (u)  y = Add (x, m) }""",
}
RUN = """
import resource, sys
import onnx, onnx.parser, onnxq
resource.setrlimit(resource.RLIMIT_AS, (14 << 30, 14 << 30))
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>' + sys.argv[1])
del model.graph.output[0].type.tensor_type.shape.dim[:]
model.graph.output[0].type.tensor_type.ClearField("shape")
result = onnxq.sanitize(model)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere memory is not bounded")
@pytest.mark.parametrize("name", MODELS)
def test_sanitizing_takes_no_more_than_it_may(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, MODELS[name]], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) < 2600  # MiB: what is made up may take 2048


def test_the_tensor_that_is_too_large_is_named() -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> {MODELS["in front of what is replaced"]}'
    )
    report = onnxq.sanitize(model).report
    said = r"'x' alone takes 8.59 GB, and a made-up sample may take 500 MB \(largest raises that\)"
    assert any(re.search(said, one.why) for one in report.whole_model)


RESIZE = """<ir_version: 8, opset_import: ["" : 19]>
    g (float[1, 3, 64, 64] x) => (float[1, 3, H, W] y) <float[4] s = {1, 1, 4, 4}> {
        y = Resize <mode = "linear", antialias = 1> (x, , s) }"""


def test_an_output_that_is_too_large_in_double_precision_is_unproven_and_no_fault_of_the_rule() -> None:
    model = onnx.parser.parse_model(RESIZE)
    report = onnxq.sanitize(model, largest="3MB").report
    (change,) = report.changes
    assert (change.rule, change.proof.verdict) == ("resize_modes", "unproven")
    said = "'y' alone takes 1.57 MB in double precision, and a made-up sample may take 1.5 MB"
    assert said in change.proof.why
    assert report.rejected == ()
    assert [one.verdict for one in report.whole_model] == ["close"]  # which takes it part by part
    assert onnxq.sanitize(model).report.changes[0].proof.verdict == "close"


def grown(n: Node) -> Any:
    """Three times the original's output, and what is left of it."""
    x, sizes = n.inputs
    tiled = op.Tile(op.Unsqueeze(x, np.array([0])), op.Concat(np.array([3]), sizes, axis=0))
    return op.Gather(tiled, np.array(0), axis=0)


def test_a_replacement_that_wants_too_much_memory_is_no_fault_of_the_rule() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1000, 1000] x) => (float[4000, 1000] y)
        <int64[2] s = {4, 1}> { y = Tile (x, s) }"""
    rule = Rule("grown", grown, ("Tile",), "clean")
    with largest(10_000_000):
        report = rewrite(Model.open(onnx.parser.parse_model(text)), [rule], lambda _: True, limit=1)
    ((change,), rejected) = report.changes, report.rejected
    assert (change.proof.verdict, rejected) == ("unproven", [])
    assert (
        "the replacement: on made-up input it wants more memory than onnxq lets it have" in change.proof.why
    )


def test_of_sizes_that_are_free_those_that_are_not_too_large_prove() -> None:
    """The first ones, of 3, 1 and 2; of the larger ones nothing is said."""
    text = (
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 64] x) => (float[N, 64] y) { y = Abs (x) }"""
    )
    rule = Rule("negated", lambda n: Close(op.Abs(op.Neg(n.inputs[0]))), ("Abs",), "clean")
    for most, verdict in ((4_000, "close"), (400, "unproven")):
        model = Model.open(onnx.parser.parse_model(text))
        with largest(most):
            (change,) = rewrite(model, [rule], lambda _: True, limit=1).changes
        assert change.proof.verdict == verdict


@pytest.mark.parametrize("seed", range(8))
def test_outputs_are_compared_part_by_part(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts as a whole: how far they are off, and what is NaN or infinite elsewhere, in the last one."""
    dice = np.random.default_rng(seed)
    one = dice.standard_normal((7, 5)).astype(np.float32)
    one[dice.integers(0, 7), 2], one[3, dice.integers(0, 5)] = np.nan, np.inf
    other = np.where(dice.random((7, 5)) < 0.3, one * np.float32(1.01), one)
    codes = dice.integers(-128, 128, (7, 5)).astype(np.int8)
    pair = [one, codes], [other, codes // 2 * 2]
    whole = _verdict("fuse", *pair)
    monkeypatch.setattr("onnxq.rewrite.whole._PART", 4)
    parts = _verdict("fuse", *pair)
    assert (parts.verdict, parts.max_abs, parts.why) == ("close", whole.max_abs, whole.why)
    assert parts.sqnr_db == pytest.approx(whole.sqnr_db)
    assert _verdict("fuse", [one], [one.copy()]).verdict == "exact"
    other[6, 4] = np.nan
    with pytest.raises(Differs, match="NaN where"):
        _verdict("fuse", [one], [other])
    one[6, 4], other[6, 4] = 1, np.inf
    with pytest.raises(Differs, match="infinite where"):
        _verdict("fuse", [one], [other])


def test_sessions_keep_nothing_of_what_they_made_of_made_up_input() -> None:
    """Both sides of many changes are open at a time, and each once kept what its largest run had taken."""
    program = """
import resource
import numpy as np, onnx, onnx.parser
from onnxq.run import ort
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float y) '
    '<int64[1] k = {10000000}> { n = Neg (x)  e = Expand (n, k)  y = ReduceMax <keepdims = 0> (e) }')
with ort.made_up():
    sessions = [ort.load(model, optimize=False, threads=1) for _ in range(8)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for session in sessions:
        session.run({"x": np.ones(1, np.float32)})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-1000:]
    assert int(done.stdout) < 120  # of 8 tensors of 40 MB
